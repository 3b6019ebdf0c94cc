/** How a multi-lock waits: it keeps what it has for a moment only, and nobody else waits long for what it cannot use. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { getMultiLock, type Lock, type MultiLock } from '../../src/index.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { fakeClient } from '../support/fakes/fake-client.js'
import { turn } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'

/** Of the first wait with something in hand, with a random number in the middle. */
const PATIENCE_MS = 75

describe('a multi-lock that waits', () => {
  let fixture: ClientFixture
  let multi: MultiLock
  /** Locks of another process. */
  let a: Lock
  let b: Lock

  beforeEach(() => {
    fixture = new ClientFixture({})
    // Of two kinds, so that no single command takes both.
    multi = getMultiLock(fixture.client.getFairLock('b'), fixture.client.getLock('a'))
    a = fixture.other.getLock('a')
    b = fixture.other.getFairLock('b')
  })

  afterEach(() => fixture.close())

  const taken = (): string[] => fixture.redis.keys.filter((name) => name.length === 1).sort()

  /**
   * For how long a multi-lock keeps what it has while another process has the last of its locks, round after round, ms.
   * @param others  locks of that process on the same, in the order in which they are taken
   */
  async function patience(waiting: MultiLock, others: readonly Lock[], rounds: number): Promise<number[]> {
    const [first, last] = [others[0], others.at(-1)] as [Lock, Lock]
    let other = await last.lock()
    const taking = waiting.lock()
    const kept: number[] = []
    for (;;) {
      await turn()
      const startedAt = fixture.clock.now()
      while (await first.isLocked()) await fixture.clock.step()
      kept.push(fixture.clock.now() - startedAt)
      if (kept.length === rounds) break
      const rival = await first.lock()
      await other.unlock() // it gets the last one, must wait for the first, and gives the last one back
      await fixture.clock.advance(10)
      other = await last.lock()
      await rival.unlock() // it gets the first one, and waits for the last
    }
    await other.unlock()
    await (await fixture.clock.until(taking)).unlock()
    return kept
  }

  it('a multi-lock that waits keeps what it has for a moment while it waits for later ones', async () => {
    const other = await b.lock()
    const taking = multi.lock()
    await fixture.clock.advance(PATIENCE_MS - 1)
    assert.deepEqual(taken(), ['a', 'b'])
    await fixture.clock.advance(1)
    assert.deepEqual(taken(), ['b'], 'others can have it')
    await other.unlock()
    const hold = await fixture.clock.until(taking)
    assert.deepEqual(taken(), ['a', 'b'])
    await hold.unlock()
  })

  it('a multi-lock that takes long is reported with what others hold, not with what it has', async () => {
    const reports: (string | undefined)[] = []
    fixture.client.on('longWait', ({ heldBy }) => reports.push(heldBy))
    const other = await b.lock()
    const taking = multi.lock({ warnAfterMs: 20 })
    await fixture.clock.advance(PATIENCE_MS - 1)
    assert.deepEqual(taken(), ['a', 'b'])
    assert.match(reports[0] ?? '', /^"b" is held by/)
    await other.unlock()
    await (await fixture.clock.until(taking)).unlock()
    assert.equal(reports.length, 1)
  })

  it('a multi-lock that waits in vain says which of its locks is held', async () => {
    const other = await b.lock()
    const waiting = fixture.clock.until(multi.lock({ waitTimeMs: 50 }))
    await assert.rejects(waiting, { code: 'LOCK_WAIT_TIMEOUT', heldBy: /^"b" is held by/ })
    await other.unlock()
  })

  it('a multi-lock that waits a minute is reported once, as a whole', async () => {
    const reports: string[] = []
    fixture.client.on('longWait', ({ lockName }) => reports.push(lockName))
    const other = await b.lock()
    const taking = multi.lock()
    await fixture.clock.advance(59_999)
    assert.deepEqual(reports, [])
    await fixture.clock.advance(60_000)
    assert.deepEqual(reports, ['multi-lock of "b", "a"'])
    await other.unlock()
    await (await fixture.clock.until(taking)).unlock()
  })

  it('a multi-lock that is only tried is not reported, however late the reply is', async () => {
    const { client, port } = fixture.connect({ commandTimeoutMs: 120_000, lockWatchdogTimeoutMs: 600_000 })
    const reports: unknown[] = []
    client.on('longWait', (report) => reports.push(report))
    port.once('lock/acquire-all', { replyMs: 100_000 })
    const hold = await fixture.clock.until(getMultiLock(client.getLock('x'), client.getLock('y')).tryLock())
    await hold?.unlock()
    assert.deepEqual(reports, [])
  })

  it('a multi-lock gives way at once to what comes earlier in the order, and has its turn later', async () => {
    const [other, later] = [await b.lock(), a]
    const taking = multi.lock()
    await fixture.clock.advance(500)
    const first = await later.lock()
    await other.unlock()
    await fixture.clock.advance(5)
    assert.deepEqual(taken(), ['a'], 'it had b for an instant')
    const second = await b.tryLock()
    assert(second)
    await second.unlock()
    await first.unlock()
    await (await fixture.clock.until(taking)).unlock()
  })

  it('a multi-lock keeps what it has twice as long the next time, without a limit in a shared order', async () => {
    const expected = [1, 2, 4, 8, 16, 32].map((times) => times * PATIENCE_MS)
    assert.deepEqual(await patience(multi, [a, b], expected.length), expected)
    const { client } = fixture.connect({})
    const values = ['1', '2'].map((value) => fixture.client.getFasterMultiLock('g', [value]))
    const mixed = getMultiLock(...values, client.getLock('h'))
    const others = [fixture.other.getFasterMultiLock('g', ['1', '2']), fixture.other.getLock('h')]
    assert.deepEqual(await patience(mixed, others, expected.length), expected)
  })

  it('a multi-lock keeps what it has for a second at most without a shared order', async () => {
    const there = fakeClient(fixture.clock, new FakePort(fixture.clock))
    const mixed = getMultiLock(fixture.client.getLock('a'), there.getLock('a'), fixture.client.getFairLock('b'))
    const expected = [...[1, 2, 4, 8].map((times) => times * PATIENCE_MS), 750, 750]
    assert.deepEqual(await patience(mixed, [a, b], expected.length), expected)
    const hold = await fixture.clock.until(mixed.lock())
    assert.deepEqual(
      hold.members.map(({ holder }) => holder.split(':')[0]),
      [fixture.client.id, there.id, fixture.client.id],
      'in the order in which they were given',
    )
    await hold.unlock()
    await fixture.clock.until(there.close())
  })

  it('a multi-lock waits in the queue of a fair lock as any other caller does', async () => {
    const other = await b.lock()
    const waiting = [fixture.client.getFairLock('b').lock(), multi.lock()]
    await turn()
    const requests = fixture.port.sent.filter(({ name }) => name === 'fair-lock/acquire')
    const terms = requests.map(({ args: [, , ...withoutHolder] }) => withoutHolder.join())
    assert(terms.length >= waiting.length)
    assert.equal(new Set(terms).size, 1, terms.join('\n'))
    await other.unlock()
    for (const each of waiting) await (await fixture.clock.until(each)).unlock()
  })

  it('a multi-lock begins to lose patience when it has something', async () => {
    const [first, last] = [await a.lock(), await b.lock()]
    const taking = multi.lock()
    await fixture.clock.advance(500)
    await first.unlock()
    await fixture.clock.advance(PATIENCE_MS - 1)
    assert.deepEqual(taken(), ['a', 'b'])
    await fixture.clock.advance(1)
    assert.deepEqual(taken(), ['b'])
    await last.unlock()
    await (await fixture.clock.until(taking)).unlock()
  })

  it('a multi-lock ends with nothing in hand when its wait time is over', async () => {
    const other = await b.lock()
    for (const waitTimeMs of [50, 0]) {
      const startedAt = fixture.clock.now()
      assert.equal(await fixture.clock.until(multi.tryLock({ waitTimeMs })), null)
      assert.equal(fixture.clock.now() - startedAt, waitTimeMs)
      assert.deepEqual(taken(), ['b'])
    }
    await other.unlock()
  })

  it('a multi-lock ends at once at an abort, with its reason, and soon has nothing in hand', async () => {
    const other = await b.lock()
    for (const reason of ['enough', null]) {
      const abort = new AbortController()
      const taking = multi.lock({ signal: abort.signal })
      await fixture.clock.advance(10)
      fixture.port.fault = ({ name }) => (name.startsWith('lock/release') ? { requestMs: 1_000 } : undefined)
      abort.abort(reason)
      const startedAt = fixture.clock.now()
      await assert.rejects(fixture.clock.until(taking), (thrown) => thrown === reason)
      assert.equal(fixture.clock.now(), startedAt)
      assert.deepEqual(taken(), ['a', 'b'])
      await fixture.clock.advance(1_000)
      assert.deepEqual(taken(), ['b'])
      await assert.rejects(multi.lock({ signal: abort.signal }), (thrown) => thrown === reason)
    }
    await other.unlock()
  })

  it('a multi-lock ends with the error of one of its locks when the others are free again', async () => {
    fixture.port.once('fair-lock/acquire', { errorReply: 'NOPERM no permissions' })
    fixture.port.fault = ({ name }) => (name.startsWith('lock/release') ? { requestMs: 1_000 } : undefined)
    await assert.rejects(fixture.clock.until(multi.lock()), /NOPERM/)
    assert.deepEqual(taken(), [])
  })

  it('a multi-lock renews what it has with the lease that the caller asked for, and no longer', async () => {
    const other = await b.lock()
    const slow = getMultiLock(fixture.client.getLock('a'), fixture.client.getFairLock('b'))
    const taking = slow.lock({ leaseTimeMs: 30, waitTimeMs: 60_000 })
    for (let ms = 5; ms < PATIENCE_MS; ms += 5) {
      await fixture.clock.advance(5)
      const leftMs = fixture.redis.pttl('a')
      assert(leftMs > 15 && leftMs <= 30, `${leftMs} ms are left after ${ms}`)
    }
    await other.unlock()
    const hold = await fixture.clock.until(taking)
    assert(hold.remainingMs() > 25)
    await hold.unlock()
  })
})
