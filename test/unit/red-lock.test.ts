/** The vote of a red lock, to the turn of the event loop: which replies decide it, and what becomes of late ones. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type Hold, type Lock, QuorumError } from '../../src/index.js'
import { RedLockFixture } from '../support/fakes/red-lock-fixture.js'

let fixture: RedLockFixture

beforeEach(() => {
  fixture = new RedLockFixture()
})

afterEach(() => fixture.close())

describe('a red lock of three servers', () => {
  it('a majority of which one lock was lost before the last grant arrived is no majority, nor a loss of the red lock', async () => {
    const { clock, clients, ports, red } = fixture
    const lost: string[] = []
    clients[0].on('lost', ({ hold }) => lost.push(hold.lockName))
    ports[1].once('lock/acquire', { replyMs: 100 })
    fixture.take(2)
    const outcome = red.tryLock()
    await clock.advance(50)
    assert.deepEqual(fixture.keys, [['a'], ['a'], ['a']])
    await clients[0].getLock('a').forceUnlock()
    assert.equal(await clock.until(outcome), null)
    assert.deepEqual(lost, ['a'])
    fixture.free(2)
  })

  it('a lock that was lost while the others are asked is replaced by that of the last server', async () => {
    const { clock, clients, ports, red } = fixture
    ports[1].once('lock/acquire', { replyMs: 100 })
    ports[2].once('lock/acquire', { replyMs: 150 })
    const outcome = red.tryLock()
    await clock.advance(50)
    await clients[0].getLock('a').forceUnlock()
    const hold = await clock.until(outcome)
    assert.deepEqual(fixture.keys, [[], ['a'], ['a']])
    assert(hold)
    hold.assertHeld()
    await hold.unlock()
  })

  it('a majority is granted as soon as it is complete', async () => {
    fixture.ports[2].once('lock/acquire', { replyMs: 500 })
    const hold = await fixture.red.tryLock()
    assert.equal(hold?.signal.aborted, false)
    await fixture.clock.advance(500)
    await hold?.unlock()
  })

  it('a grant that arrives after the majority joins it, is not needed for it, and does not make up for two losses', async () => {
    const { clock, clients, ports, red } = fixture
    const lost: string[] = []
    clients[0].on('lost', ({ hold }) => lost.push(hold.lockName))
    ports[2].once('lock/acquire', { replyMs: 500 })
    const hold = (await red.tryLock()) as Hold
    const { signal } = hold
    await clock.advance(500)
    assert.deepEqual(fixture.keys, [['a'], ['a'], ['a']])
    await clients[0].getLock('a').forceUnlock()
    assert.deepEqual(lost, ['a'])
    hold.assertHeld()
    await clients[1].getLock('a').forceUnlock()
    assert.equal(signal.aborted, true)
    assert.deepEqual(lost, ['a', red.name])
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', lockName: red.name })
    await assert.rejects(hold.unlock(), { reason: 'forced' })
  })

  for (const where of ['withLock', 'a scope'] as const) {
    it(`a grant that arrives after the majority is re-entered like the others, in ${where}`, async () => {
      const { clients, clock, ports, red } = fixture
      const counts = async () => await Promise.all(clients.map((client) => client.getLock('a').getHoldCount()))
      const nest = async () => {
        await clock.advance(500)
        assert.deepEqual(await counts(), [1, 1, 1])
        const inner = await red.lock()
        await clock.advance(1)
        assert.deepEqual(await counts(), [2, 2, 2])
        await inner.unlock()
        assert.deepEqual(await counts(), [1, 1, 1])
      }
      ports[2].once('lock/acquire', { replyMs: 500 })
      if (where === 'withLock') return await clock.until(red.withLock(nest))
      const [one, two, three] = clients
      const inScopes = (fn: () => Promise<void>) =>
        one.runInScope(async () => await two.runInScope(async () => await three.runInScope(fn)))
      await inScopes(async () => {
        await red.lock()
        await nest()
        await red.unlock()
      })
    })
  }

  it('a grant that arrives after the release is released', async () => {
    fixture.ports[2].once('lock/acquire', { replyMs: 500 })
    const hold = await fixture.red.tryLock()
    await hold?.unlock()
    assert.deepEqual(fixture.keys, [[], [], ['a']])
    await fixture.clock.advance(500)
    assert.deepEqual(fixture.keys, [[], [], []])
  })

  it('a hold is extended if a majority is, and else fails with the first error', async () => {
    const { clock, ports, red } = fixture
    const hold = (await red.tryLock({ leaseTimeMs: 10_000 })) as Hold
    ports[0].once('lock/renew', { errorReply: 'NOPERM first' })
    await clock.until(hold.extend(20_000))
    assert(hold.remainingMs() > 15_000)
    for (const [index, port] of ports.slice(0, 2).entries()) port.once('lock/renew', { errorReply: `NOPERM ${index}` })
    await assert.rejects(clock.until(hold.extend(30_000)), /NOPERM 0/)
    hold.assertHeld()
    await hold.unlock()
  })

  it('a red lock of three servers lasts as long as the lease of the majority, and not of the longest', async () => {
    const { clock, ports, red } = fixture
    const hold = (await red.tryLock({ leaseTimeMs: 10_000 })) as Hold
    const leftMs = hold.remainingMs()
    ports[0].once('lock/renew', {})
    for (const port of ports.slice(1)) port.once('lock/renew', { errorReply: 'NOPERM' })
    await assert.rejects(clock.until(hold.extend(60_000)))
    assert.equal(hold.remainingMs(), leftMs)
    await clock.advance(leftMs - 1)
    hold.assertHeld()
    await clock.advance(1)
    assert.throws(() => hold.assertHeld(), { reason: 'expired' })
    await assert.rejects(hold.unlock(), { reason: 'expired' })
    await clock.advance(60_000)
  })

  it('a red lock inside a majority of its own locks is a deadlock; inside a minority it is not', async () => {
    const { clock } = fixture
    const [first, second] = fixture.clients.map((client) => client.getNonReentrantLock('a')) as [Lock, Lock]
    const inside = fixture.redOf((client) => client.getNonReentrantLock('a'))
    await first.withLock(async () => {
      const hold = await clock.until(inside.lock())
      assert.equal(await second.isLocked(), true)
      await hold.unlock()
      await second.withLock(async () => await assert.rejects(inside.lock(), { code: 'LOCK_SELF_DEADLOCK' }))
    })
  })
})

describe('a round of a red lock', () => {
  it('a round of a red lock waits for slow servers as long as they make the majority', async () => {
    const { clock, ports, red } = fixture
    for (const port of ports.slice(1)) port.once('lock/acquire', { replyMs: 500 })
    const startedAt = clock.now()
    const hold = await clock.until(red.tryLock())
    assert(hold)
    hold.assertHeld()
    assert.equal(clock.now() - startedAt, 500)
    await hold.unlock()
  })

  it('a round of a red lock is not lost with the first refusal, as the others may still grant it', async () => {
    const { clock, ports, red } = fixture
    fixture.take(0)
    for (const port of ports.slice(1)) port.once('lock/acquire', { replyMs: 100 })
    const hold = await clock.until(red.tryLock())
    assert(hold)
    hold.assertHeld()
    await hold.unlock()
    fixture.free(0)
  })

  for (const [title, waitTimeMs] of [
    ['a single try', 0],
    ['a wait', 10_000],
  ] as const) {
    it(`a round of ${title} gives the last server 200 ms and twice the time of the others`, async () => {
      const { clock, ports, red } = fixture
      fixture.take(0)
      for (const [index, replyMs] of [100, 100, 499].entries()) ports[index]?.once('lock/acquire', { replyMs })
      const startedAt = clock.now()
      const hold = await clock.until(red.tryLock({ waitTimeMs }))
      assert.equal(clock.now() - startedAt, 499)
      assert.equal(ports[0].count('lock/acquire'), 1, 'in the first round')
      await hold?.unlock()
      fixture.free(0)
    })
  }

  it('a round of a red lock ends without a server that takes longer; its late grant is released', async () => {
    const { clock, ports, red } = fixture
    fixture.take(0)
    for (const [index, replyMs] of [100, 100, 501].entries()) ports[index]?.once('lock/acquire', { replyMs })
    const startedAt = clock.now()
    assert.equal(await clock.until(red.tryLock()), null)
    assert.equal(clock.now() - startedAt, 500)
    assert.deepEqual(fixture.keys, [['a'], [], ['a']])
    await clock.advance(1)
    assert.deepEqual(fixture.keys, [['a'], [], []])
    fixture.free(0)
  })

  it('a round of a red lock ends after a tenth of the lease, or a shorter command timeout', async () => {
    const { clock, ports, red } = fixture
    for (const [leaseTimeMs, limitMs] of [
      [10_000, 1_000],
      [undefined, 2_000],
      [60_000, 3_000],
    ] as const) {
      for (const port of ports.slice(1)) port.once('lock/acquire', { lost: 'request' })
      const startedAt = clock.now()
      const error = await clock.until(red.tryLock({ leaseTimeMs }).catch((reason: unknown) => reason))
      assert(error instanceof QuorumError)
      assert.equal(clock.now() - startedAt, limitMs)
      assert.match(error.message, /red lock of "a", "a", "a"/)
      assert.deepEqual(
        error.errors.map(({ index, lockName, error }) => [index, lockName, (error as { code?: string }).code]),
        [1, 2].map((index) => [index, 'a', 'LOCK_OUTCOME_UNKNOWN']),
      )
      await clock.advance(60_000)
    }
  })

  it('a round of a red lock lists the errors in the order of the locks, whichever came first', async () => {
    const { clock, ports, red } = fixture
    ports[1].once('lock/acquire', { errorReply: 'NOPERM second', replyMs: 50 })
    ports[2].once('lock/acquire', { errorReply: 'NOPERM third' })
    const error = await clock.until(red.tryLock().catch((reason: unknown) => reason))
    assert(error instanceof QuorumError)
    assert.deepEqual(
      error.errors.map(({ index, error }) => [index, (error as Error).message]),
      [
        [1, 'NOPERM second'],
        [2, 'NOPERM third'],
      ],
    )
    assert.deepEqual(fixture.keys, [[], [], []], 'what the first server had granted is released')
  })

  it('a red-lock round refuses if a minority failed; it is an error if a silent server decides', async () => {
    const { clock, ports, red } = fixture
    fixture.take(0)
    ports[1].once('lock/acquire', { errorReply: 'NOPERM' })
    assert.equal(await clock.until(red.tryLock()), null)
    fixture.free(0)
    ports[0].once('lock/acquire', { replyMs: 100 })
    ports[1].once('lock/acquire', { errorReply: 'NOPERM', replyMs: 100 })
    ports[2].once('lock/acquire', { lost: 'request' })
    const startedAt = clock.now()
    const error = await clock.until(red.tryLock().catch((reason: unknown) => reason))
    assert(error instanceof QuorumError)
    assert.equal(clock.now() - startedAt, 500)
    const silent = error.errors[1]?.error as Error
    assert.match((silent.cause as Error).message, /no reply within 500 ms/)
    await clock.advance(60_000)
  })
})
