import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Client } from '../../src/client.js'
import type { ClientOptions } from '../../src/client-options.js'
import type { ClientEvents, Hold, HoldOptions } from '../../src/index.js'
import { fakeClient } from '../support/fake-client.js'
import { FakeClock, turn } from '../support/fake-clock.js'
import { FakePort, type Sent } from '../support/fake-port.js'

const LEASE_MS = 30_000
/** Every third of the lease. */
const PERIOD_MS = 10_000
/** When a hold is lost if nothing renews it, ms from the command that took it: 1 % and 2 ms before Redis ends it. */
const SURE_MS = 29_698

let clock: FakeClock
let port: FakePort
let client: Client
let lost: ClientEvents['lost'][0][]

function open(options: ClientOptions = {}): void {
  clock = new FakeClock()
  port = new FakePort(clock)
  client = fakeClient(clock, port, options)
  lost = []
  client.on('lost', (loss) => lost.push(loss))
}

beforeEach(() => open())

afterEach(async () => {
  port.fault = () => undefined
  await clock.until(client.close())
  assert.equal(clock.pending, 0, 'no timer is left after close()')
})

async function take(name: string, options: HoldOptions = {}): Promise<Hold> {
  return await clock.until(client.getLock(name).lock(options))
}

async function takeMany(count: number): Promise<Hold[]> {
  return await clock.until(Promise.all(Array.from({ length: count }, (_, n) => client.getLock(`lock:${n}`).lock())))
}

function renewals(): Sent[] {
  return port.sent.filter(({ name }) => name === 'lock/renew')
}

/** Which locks each renewal was about. */
function renewed(): (readonly string[])[] {
  return renewals().map(({ keys }) => keys)
}

describe('the watchdog', () => {
  it('renews a hold every third of its lease, for as long as it is held', async () => {
    const startedAt = clock.now()
    const hold = await take('a')
    await clock.advance(10 * LEASE_MS)
    hold.assertHeld()
    assert.deepEqual(
      renewals().map(({ at, keys, args }) => [at - startedAt, ...keys, ...args]),
      Array.from({ length: 30 }, (_, n) => [(n + 1) * PERIOD_MS, 'a', hold.holder, '30000']),
    )
    assert.equal(hold.remainingMs(), SURE_MS)
    assert.equal(port.redis.pttl('a'), LEASE_MS)
  })

  it('renews lockWatchdogBatchSize holds per script', async () => {
    open({ lockWatchdogBatchSize: 2 })
    const holds = await takeMany(5)
    await clock.advance(PERIOD_MS)
    assert.deepEqual(
      renewed().map((names) => names.length),
      [2, 2, 1],
    )
    await clock.until(Promise.all(holds.map((hold) => hold.unlock())))
  })

  it('renews at a fixed rate, however long the renewals take', async () => {
    port.fault = ({ name }) => (name === 'lock/renew' ? { requestMs: 700, replyMs: 800 } : undefined)
    const startedAt = clock.now()
    const hold = await take('a')
    await clock.advance(5 * PERIOD_MS)
    assert.deepEqual(
      renewals().map(({ at }) => at - startedAt),
      [1, 2, 3, 4, 5].map((n) => n * PERIOD_MS),
    )
    await clock.advance(1_500)
    // From when the renewal was sent, not from its answer.
    assert.equal(hold.remainingMs(), SURE_MS - 1_500)
  })

  it('uses one timer however many holds there are, and none without holds', async () => {
    assert.equal(clock.pending, 0)
    const holds = await takeMany(1_000)
    assert.deepEqual([clock.pending, clock.keepingAlive], [1, 0])
    await clock.advance(3 * PERIOD_MS)
    assert.equal(clock.pending, 1)
    for (const hold of holds) await hold.unlock()
    assert.equal(clock.pending, 0)
  })

  it('uses one timer through a thousand rounds of lock and unlock', async () => {
    for (let round = 0; round < 1_000; round++) {
      const hold = await take('a')
      assert.equal(clock.pending, 1)
      await hold.unlock()
    }
    assert.equal(clock.pending, 0)
    await clock.advance(LEASE_MS)
    assert.equal(renewals().length, 0)
  })

  it('renews up to 100 holds with one script', async () => {
    await takeMany(250)
    await clock.advance(PERIOD_MS)
    assert.deepEqual(
      renewed().map((keys) => keys.length),
      [100, 100, 50],
    )
    assert.equal(new Set(renewed().flat()).size, 250)
  })

  it('renews a re-entered lock once', async () => {
    const outer = await take('a')
    const inner = await clock.until(client.getLock('a').lock({ within: outer }))
    await clock.advance(PERIOD_MS)
    assert.deepEqual(renewed(), [['a']])
    assert.equal(inner.remainingMs(), SURE_MS)
    assert.equal(outer.remainingMs(), SURE_MS)
  })

  it('renews with lockWatchdogTimeoutMs', async () => {
    open({ lockWatchdogTimeoutMs: 900 })
    const hold = await take('a')
    await clock.advance(300)
    assert.deepEqual(
      renewals().map(({ args }) => args),
      [[hold.holder, '900']],
    )
  })

  it('renews a lease at once if its grant took long to arrive', async () => {
    open({ commandTimeoutMs: 10_000 })
    await take('other')
    port.once('lock/acquire', { replyMs: 9_000 })
    const hold = await take('a')
    await turn()
    assert.deepEqual(renewed(), [['a']])
    assert.equal(hold.remainingMs(), SURE_MS)
  })

  it('keeps renewing after SCRIPT FLUSH', async () => {
    const hold = await take('a')
    port.redis.forgetScripts()
    await clock.advance(2 * LEASE_MS)
    hold.assertHeld()
    assert.equal(lost.length, 0)
  })
})

describe('a renewal that fails', () => {
  it('affects no other batch, and is retried within the period', async () => {
    const holds = await takeMany(250)
    const at = clock.now() + PERIOD_MS
    port.once('lock/renew', { errorReply: 'BUSY Redis is busy running a script' })
    await clock.advance(PERIOD_MS + 1_000)
    assert.deepEqual(
      renewed().map((keys) => keys.length),
      [100, 100, 50, 100],
    )
    assert((renewals().at(-1)?.at ?? 0) - at <= 50, 'it is repeated soon')
    assert.deepEqual(renewed()[3], renewed()[0])
    for (const hold of holds) assert(hold.remainingMs() > SURE_MS - 1_100)
  })

  it('is retried with growing pauses, and again by the next tick', async () => {
    const hold = await take('a')
    const startedAt = clock.now()
    port.fault = () => ({ lost: 'request', failsWith: 'Connection is closed' })
    await clock.advance(2 * PERIOD_MS + 5_000)
    const times = renewals().map(({ at }) => at - startedAt)
    const first = times.filter((at) => at < 2 * PERIOD_MS)
    const pauses = first.slice(1).map((at, index) => at - (first[index] ?? 0))
    assert(pauses.length >= 10 && pauses.length <= 22, `pauses of ${pauses.join(', ')} ms`)
    for (const [index, pause] of pauses.entries()) assert(pause >= (pauses[index - 1] ?? 25) && pause <= 1_000)
    assert(times.includes(2 * PERIOD_MS), 'the next tick asks, too')
    assert.equal(lost.length, 0)
    port.fault = () => undefined
    await clock.advance(PERIOD_MS)
    hold.assertHeld()
  })

  for (const error of [
    'LOADING Redis is loading the dataset in memory',
    "READONLY You can't write against a read only replica.",
    'CLUSTERDOWN The cluster is down',
    'ERR something that nobody thought of',
  ]) {
    it(`loses no hold when Redis replies ${error.split(' ')[0]} for less than the lease`, async () => {
      const hold = await take('a')
      port.fault = () => ({ errorReply: error })
      await clock.advance(2 * PERIOD_MS)
      port.fault = () => undefined
      await clock.advance(PERIOD_MS)
      hold.assertHeld()
      assert.equal(lost.length, 0)
    })
  }

  it('because of a lost reply counts as not done, and is retried', async () => {
    const hold = await take('a')
    port.once('lock/renew', { lost: 'reply' })
    await clock.advance(PERIOD_MS + 4_000)
    assert.equal(renewals().length, 2)
    assert(hold.remainingMs() > SURE_MS - 4_000)
  })

  it('is not retried for leases that were released meanwhile', async () => {
    const [first, second] = await takeMany(2)
    port.once('lock/renew', { lost: 'request', failsWith: 'Connection is closed' })
    await clock.advance(PERIOD_MS)
    await first?.unlock()
    await clock.advance(1_000)
    assert.deepEqual(renewed(), [['lock:0', 'lock:1'], ['lock:1']])
    await second?.unlock()
  })
})

describe('a hold', () => {
  it('is lost at its deadline although Redis never replies', async () => {
    const hold = await take('a')
    const takenAt = clock.now()
    port.fault = () => ({ lost: 'request' })
    await clock.advance(SURE_MS - 1)
    hold.assertHeld()
    assert.equal(hold.signal.aborted, false)
    await clock.advance(1)
    assert.equal(clock.now() - takenAt, SURE_MS)
    assert.equal(hold.signal.aborted, true)
    assert.deepEqual(
      lost.map(({ hold, error }) => [hold.lockName, error.code, error.reason]),
      [['a', 'LOCK_LEASE_LOST', 'expired']],
    )
    assert.equal(hold.signal.reason, lost[0]?.error)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST' })
    assert.equal(clock.pending, 1, 'only the command in flight: nothing watches any more')
    await clock.advance(10_000)
  })

  it('is lost when a renewal finds no holder in Redis, and no other hold is', async () => {
    const [first, second, third] = await takeMany(3)
    port.redis.delete('lock:1')
    await clock.advance(PERIOD_MS)
    assert.deepEqual(
      lost.map(({ hold, error }) => [hold, error.reason]),
      [[second, 'gone']],
    )
    first?.assertHeld()
    third?.assertHeld()
    await clock.advance(PERIOD_MS)
    assert.deepEqual(renewed()[1], ['lock:0', 'lock:2'])
  })

  it('with a lease of its own is not renewed, and is lost on time', async () => {
    const hold = await take('a', { leaseTimeMs: 5_000 })
    await take('b')
    await clock.advance(5_000 - 52 - 1)
    hold.assertHeld()
    assert.equal(hold.remainingMs(), 1)
    await clock.advance(1)
    assert.deepEqual(
      lost.map(({ hold, error }) => [hold.lockName, error.reason]),
      [['a', 'expired']],
    )
    await clock.advance(PERIOD_MS)
    assert.deepEqual(renewed(), [['b']])
  })

  it('keeps a lease longer than that of the watchdog, along with a renewed hold', async () => {
    const outer = await take('a')
    const inner = await clock.until(client.getLock('a').lock({ within: outer, leaseTimeMs: 600_000 }))
    await clock.advance(3 * PERIOD_MS)
    assert.equal(port.redis.pttl('a'), 600_000 - 3 * PERIOD_MS, 'a renewal does not shorten it')
    assert.equal(inner.remainingMs(), 600_000 - 6_002 - 3 * PERIOD_MS)
    await inner.unlock()
    assert(port.redis.pttl('a') >= outer.remainingMs())
    await outer.unlock()
  })

  it('with a shorter lease than the enclosing hold ends alone', async () => {
    const outer = await take('a')
    const inner = await clock.until(client.getLock('a').lock({ within: outer, leaseTimeMs: 1_000 }))
    await clock.advance(1_000)
    assert.deepEqual(
      lost.map(({ hold }) => hold),
      [inner],
    )
    outer.assertHeld()
    assert.equal(outer.count, 1)
  })

  it('is lost in the first turn after a pause, before any timer fires', async () => {
    const hold = await take('a')
    const leased = await take('b', { leaseTimeMs: 5_000 })
    clock.block(31_000)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    assert.equal(leased.remainingMs(), 0)
    assert.equal(leased.signal.aborted, true)
    assert.equal(lost.length, 2)
  })

  it('that has expired is ended by a late tick, not renewed; others are renewed', async () => {
    const first = await take('first')
    await clock.advance(8_000)
    const second = await take('second')
    clock.block(SURE_MS - 8_000)
    await clock.advance(0)
    assert.deepEqual(
      lost.map(({ hold }) => hold),
      [first],
    )
    assert.deepEqual(renewed(), [['second']])
    second.assertHeld()
    assert.equal(second.remainingMs(), SURE_MS)
  })

  it('is not revived by a renewal whose reply arrives after its deadline', async () => {
    const hold = await take('a')
    port.fault = ({ name }) => (name === 'lock/renew' ? { replyMs: 25_000 } : undefined)
    await clock.advance(SURE_MS)
    assert.equal(lost.length, 1)
    await clock.advance(10_000)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST' })
    assert.equal(hold.remainingMs(), 0)
    await assert.rejects(clock.until(hold.unlock()), { code: 'LOCK_LEASE_LOST' })
    await turn()
    assert.deepEqual(port.redis.keys, [], 'what the renewal kept is freed for others')
    await clock.advance(25_000)
  })

  it('that was lost is not lost again', async () => {
    const hold = await take('a')
    port.redis.flush()
    await clock.advance(PERIOD_MS)
    clock.block(LEASE_MS)
    port.reconnect()
    await clock.advance(LEASE_MS)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    assert.equal(await hold.isHeld(), false)
    assert.equal(lost.length, 1)
  })
})

describe('a release', () => {
  it('is not mistaken for a loss when a renewal in flight finds no lock', async () => {
    const hold = await take('a')
    port.once('lock/renew', { requestMs: 500, replyMs: 500 })
    await clock.advance(PERIOD_MS)
    await hold.unlock()
    await clock.advance(1_000)
    assert.equal(lost.length, 0)
    assert.equal(hold.signal.aborted, false)
    assert.deepEqual(port.redis.keys, [])
  })

  it('is not undone by a renewal in flight that succeeded before it', async () => {
    const hold = await take('a')
    port.once('lock/renew', { replyMs: 500 })
    await clock.advance(PERIOD_MS)
    await hold.unlock()
    await clock.advance(1_000)
    assert.equal(hold.remainingMs(), 0)
    await clock.advance(2 * PERIOD_MS)
    assert.equal(renewals().length, 1)
  })

  it('stops renewals before it is sent, whatever its outcome', async () => {
    const hold = await take('a')
    await clock.advance(PERIOD_MS - 1_000)
    port.fault = ({ name }) => (name === 'lock/release-queued' ? { lost: 'request' } : undefined)
    const released = assert.rejects(hold.unlock(), { code: 'LOCK_OUTCOME_UNKNOWN' })
    await clock.advance(2 * LEASE_MS)
    await released
    assert.equal(renewals().length, 0)
    assert.deepEqual(port.redis.keys, [], 'the lease has ended it')
    assert.equal(lost.length, 0)
  })

  it('of one of two holds leaves the other renewed', async () => {
    const outer = await take('a')
    const inner = await clock.until(client.getLock('a').lock({ within: outer }))
    await inner.unlock()
    await clock.advance(2 * LEASE_MS)
    outer.assertHeld()
    assert.equal(lost.length, 0)
  })
})

describe('maxHoldMs', () => {
  it('ends a hold that is renewed, and then its renewal', async () => {
    const hold = await take('a', { maxHoldMs: 45_000 })
    await clock.advance(44_999)
    hold.assertHeld()
    await clock.advance(1)
    assert.deepEqual(
      lost.map(({ hold, error }) => [hold.lockName, error.reason]),
      [['a', 'maxHold']],
    )
    await clock.advance(LEASE_MS)
    assert.equal(renewals().length, 4)
    assert.deepEqual(port.redis.keys, [])
  })

  it('of the client is the default', async () => {
    open({ maxHoldMs: 1_000 })
    const hold = await take('a')
    const longer = await take('b', { maxHoldMs: 2_000 })
    await clock.advance(1_000)
    assert.equal(hold.signal.aborted, true)
    longer.assertHeld()
  })

  it('ends a hold with a longer lease, too; a shorter lease ends first', async () => {
    await take('long', { leaseTimeMs: 60_000, maxHoldMs: 5_000 })
    await take('short', { leaseTimeMs: 2_000, maxHoldMs: 5_000 })
    await clock.advance(5_000)
    assert.deepEqual(
      lost.map(({ hold, error }) => [hold.lockName, error.reason]),
      [
        ['short', 'expired'],
        ['long', 'maxHold'],
      ],
    )
  })
})

describe('warnAfterMs', () => {
  it('reports a long hold once', async () => {
    const reported: [string, string | undefined, number][] = []
    client.on('longHold', ({ hold, heldMs }) => reported.push([hold.lockName, hold.label, heldMs]))
    const hold = await take('a', { warnAfterMs: 12_345, label: 'nightly' })
    await clock.advance(12_344)
    assert.deepEqual(reported, [])
    await clock.advance(60_000)
    assert.deepEqual(reported, [['a', 'nightly', 12_345]])
    hold.assertHeld()
  })

  it('reports a long wait once, and no wait that ended before', async () => {
    const reported: ClientEvents['longWait'][0][] = []
    client.on('longWait', (wait) => reported.push(wait))
    const hold = await take('a')
    const brief = client.getLock('a').tryLock({ warnAfterMs: 2_000, waitTimeMs: 1_000 })
    const long = client.getLock('a').lock({ warnAfterMs: 2_000, label: 'nightly' })
    assert.equal(await clock.until(brief), null)
    await clock.advance(10_000)
    const [{ heldBy, ...report }, ...more] = reported as [ClientEvents['longWait'][0]]
    assert.deepEqual([report, more], [{ lockName: 'a', label: 'nightly', waitedMs: 2_000 }, []])
    assert.match(heldBy ?? '', /^held by this client, taken [\d.]+ s ago$/)
    await hold.unlock()
    await clock.until(long)
  })

  it('of the client is the default; a listener that throws costs no renewal', async () => {
    open({ warnAfterMs: PERIOD_MS })
    const warnings: Error[] = []
    const onWarning = (warning: Error): void => void warnings.push(warning)
    process.on('warning', onWarning)
    client.on('longHold', () => {
      throw new Error('a bug of the user')
    })
    const hold = await take('a')
    await clock.advance(2 * LEASE_MS)
    hold.assertHeld()
    process.off('warning', onWarning)
    assert.deepEqual(
      warnings.map(({ message }) => message),
      ['a bug of the user'],
    )
  })
})

describe('a reconnect', () => {
  it('checks every lease at once', async () => {
    const renewedHold = await take('a')
    const leased = await take('b', { leaseTimeMs: 20_000 })
    await clock.advance(1_000)
    port.reconnect()
    await turn()
    assert.deepEqual(renewed(), [['a', 'b']])
    assert.equal(renewedHold.remainingMs(), SURE_MS)
    assert.equal(leased.remainingMs(), 20_000 - 202 - 1_000)
    assert.equal(port.redis.pttl('b'), 19_000, 'a lease of its own is not prolonged')
    assert.equal(lost.length, 0)
  })

  it('to a server that lost its data loses the holds at once', async () => {
    const holds = [...(await takeMany(150)), await take('leased', { leaseTimeMs: 20_000 })]
    port.redis.flush()
    port.reconnect()
    await turn()
    assert.equal(lost.length, 151)
    assert(lost.every(({ error }) => error.reason === 'gone'))
    assert(holds.every((hold) => hold.signal.aborted))
    assert.equal(clock.pending, 0)
  })

  it('sends nothing if nothing is held', async () => {
    const hold = await take('a')
    await hold.unlock()
    port.reconnect()
    await turn()
    assert.equal(renewals().length, 0)
  })

  it('ends expired holds before it checks the others', async () => {
    await take('over')
    clock.block(LEASE_MS)
    const kept = await take('kept')
    port.reconnect()
    await turn()
    assert.deepEqual(renewed(), [['kept']])
    kept.assertHeld()
    assert.equal(lost.length, 1)
  })
})
