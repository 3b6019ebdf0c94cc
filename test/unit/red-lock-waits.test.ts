/** A wait for a red lock: when its rounds are repeated, who goes first, and how it ends. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Client, Hold, LockOptions } from '../../src/index.js'
import { turn } from '../support/fakes/fake-clock.js'
import { RedLockFixture } from '../support/fakes/red-lock-fixture.js'

const LOADING = { errorReply: 'LOADING Redis is loading the dataset in memory' }

let fixture: RedLockFixture

beforeEach(() => {
  fixture = new RedLockFixture()
})

afterEach(() => fixture.close())

/** When the rounds so far began, ms after `since`: all of them ask the last server. */
function roundsSince(since: number): number[] {
  return fixture.ports[2].sent.filter(({ name }) => name === 'lock/acquire').map(({ at }) => at - since)
}

describe('a wait for a red lock', () => {
  it('a wait for a red lock lasts until a majority is free; without a wait it is tried once', async () => {
    const { clock, red } = fixture
    for (const index of [0, 1]) fixture.take(index, 5_000)
    assert.equal(await clock.until(red.tryLock()), null)
    assert.deepEqual(fixture.keys, [['a'], ['a'], []])
    const startedAt = clock.now()
    await assert.rejects(clock.until(red.lock({ waitTimeMs: 1_000 })), { code: 'LOCK_WAIT_TIMEOUT', waitTimeMs: 1_000 })
    assert.equal(clock.now() - startedAt, 1_000)
    const hold = await clock.until(red.lock())
    assert(clock.now() - startedAt >= 5_000 && clock.now() - startedAt < 5_500, `${clock.now() - startedAt} ms`)
    await hold.unlock()
  })

  it('a wait for a red lock makes random pauses of 20 to 120 ms, so two callers do not split votes', async () => {
    const { clock, red } = fixture
    for (const index of [0, 1]) fixture.take(index)
    for (const [fraction, pauseMs] of [
      [0, 20],
      [0.5, 70],
      [0.99, 119],
    ] as const) {
      fixture.fraction = fraction
      const startedAt = clock.now()
      await assert.rejects(clock.until(red.lock({ waitTimeMs: 300 })), { code: 'LOCK_WAIT_TIMEOUT' })
      assert.deepEqual(roundsSince(startedAt).filter((at) => at > 0 && at < 300)[0], pauseMs)
    }
    for (const index of [0, 1]) fixture.free(index)
  })

  for (const [tookMs, waitTimeMs] of [
    [0, 150],
    [0, 200],
    [100, 300],
  ] as const) {
    it(`a wait for a red lock of ${waitTimeMs} ms ends in time: a server is silent, others took ${tookMs} ms`, async () => {
      const { clock, ports, red } = fixture
      ports[0].once('lock/acquire', { replyMs: tookMs })
      ports[1].once('lock/acquire', { errorReply: 'NOPERM', replyMs: tookMs })
      ports[2].once('lock/acquire', { lost: 'request' })
      const startedAt = clock.now()
      await assert.rejects(clock.until(red.lock({ waitTimeMs })), { code: 'LOCK_WAIT_TIMEOUT' })
      assert.equal(clock.now() - startedAt, waitTimeMs)
      await clock.advance(60_000)
    })
  }

  for (const [title, fault] of [
    ['are not ready', LOADING],
    ['are silent', { lost: 'request' }],
  ] as const) {
    it(`a wait for a red lock continues while most servers ${title}, and ends once they are back`, async () => {
      const { clock, ports, red } = fixture
      for (const port of ports.slice(1)) port.fault = ({ name }) => (name === 'lock/acquire' ? fault : undefined)
      const waiting = red.lock({ waitTimeMs: 20_000 })
      await clock.advance(5_000)
      for (const port of ports) port.fault = () => undefined
      const hold = await clock.until(waiting)
      hold.assertHeld()
      await hold.unlock()
      await clock.advance(60_000)
    })
  }

  it('a wait for a red lock continues while one server is not ready and another refuses for good', async () => {
    const { clock, ports, red } = fixture
    ports[0].fault = ({ name }) => (name === 'lock/acquire' ? { errorReply: 'NOPERM' } : undefined)
    ports[1].once('lock/acquire', LOADING)
    const hold = await clock.until(red.lock({ waitTimeMs: 5_000 }))
    assert.deepEqual(fixture.keys, [[], ['a'], ['a']])
    await hold.unlock()
  })

  it('a wait for a red lock ends at once if most servers refuse for good', async () => {
    const { clock, ports, red } = fixture
    for (const port of ports.slice(1)) port.once('lock/acquire', { errorReply: 'NOPERM' })
    const startedAt = clock.now()
    await assert.rejects(clock.until(red.lock()), { code: 'LOCK_QUORUM' })
    assert.equal(clock.now(), startedAt)
  })
})

describe('the callers of one client that wait for a red lock', () => {
  it('callers of one client that wait for a red lock ask one after the other', async () => {
    const { clock, red } = fixture
    for (const index of [0, 1]) fixture.take(index)
    const startedAt = clock.now()
    const waits = [red.lock(), red.lock(), red.lock()]
    await clock.advance(700)
    assert(roundsSince(startedAt).length <= 11, `${roundsSince(startedAt).length} rounds in 700 ms`)
    for (const index of [0, 1]) fixture.free(index)
    for (const waiting of waits) await (await clock.until(waiting)).unlock()
  })

  it('callers of one client that wait for a red lock do not keep another one from trying once', async () => {
    const { clock, red } = fixture
    for (const index of [0, 1]) fixture.take(index)
    const waiting = red.lock()
    await turn()
    for (const index of [0, 1]) fixture.free(index)
    const hold = (await red.tryLock()) as Hold
    hold.assertHeld()
    await hold.unlock()
    await (await clock.until(waiting)).unlock()
  })

  for (const [title, lockOf] of [
    ['re-enters it', (client: Client) => client.getLock('a')],
    ['takes the others', (client: Client) => client.getNonReentrantLock('a')],
  ] as const) {
    it(`callers that wait for a red lock go after one inside one of its locks already, and ${title}`, async () => {
      const { clock, clients, ports } = fixture
      const red = fixture.redOf(lockOf)
      ports[2].redis.set('a', 'somebody:1', 1, 600_000)
      let goOn = (): void => {}
      const isRefused = new Promise<void>((resolve) => {
        goOn = resolve
      })
      const inside = lockOf(clients[0]).withLock(async () => {
        await isRefused
        await (await red.lock()).unlock()
        return clock.now()
      })
      await turn()
      const waiting = red.lock()
      await turn()
      fixture.free(2)
      const startedAt = clock.now()
      goOn()
      assert.equal(await clock.until(inside), startedAt)
      await (await clock.until(waiting)).unlock()
    })
  }
})

describe('a long wait for a red lock', () => {
  /** Waits for a red lock that others have until they lose it `freeAfterMs` later, and returns what was reported. */
  async function reported(options: LockOptions, freeAfterMs: number): Promise<(string | undefined)[]> {
    const { clock, clients, ports, red } = fixture
    const reports: (string | undefined)[] = []
    clients[0].on('longWait', ({ lockName, heldBy }) => reports.push(lockName === red.name ? heldBy : lockName))
    for (const port of ports) port.fault = ({ name }) => (name === 'lock/acquire' ? { replyMs: 1_000 } : undefined)
    for (const index of [0, 1]) fixture.take(index, freeAfterMs)
    const hold = await clock.until(red.lock(options))
    await clock.advance(120_000)
    await hold.unlock()
    return reports
  }

  it('a long wait for a red lock is reported after a minute, with who has the first of its locks', async () => {
    assert.deepEqual(await reported({}, 50_000), [])
    const [heldBy, ...more] = await reported({}, 62_000)
    assert.match(heldBy ?? '', /^"a" is held by .*somebody:1/)
    assert.deepEqual(more, [])
  })

  it('a long wait for a red lock is reported after warnAfterMs, and not once it is over', async () => {
    assert.deepEqual(await reported({ warnAfterMs: 4_000 }, 1_000), [])
    assert.equal((await reported({ warnAfterMs: 4_000 }, 8_000)).length, 1)
  })

  it('a single try of a red lock is no long wait, however slow the servers are', async () => {
    const slow = new RedLockFixture({ commandTimeoutMs: 120_000 })
    const reports: string[] = []
    slow.clients[0].on('longWait', ({ lockName }) => reports.push(lockName))
    for (const port of slow.ports) port.once('lock/acquire', { replyMs: 70_000 })
    const hold = await slow.clock.until(slow.red.tryLock({ leaseTimeMs: 1_200_000 }))
    assert(hold)
    hold.assertHeld()
    await hold.unlock()
    assert.deepEqual(reports, [])
    await slow.close()
  })
})
