/** When a hold is lost: deadlines, leases, maxHoldMs; and the reports of long holds and waits. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { ClientEvents } from '../../src/index.js'
import { turn } from '../support/fakes/fake-clock.js'
import { LEASE_MS, PERIOD_MS, SURE_MS, WatchdogBench } from '../support/fakes/watchdog-bench.js'

let bench: WatchdogBench

beforeEach(() => {
  bench = new WatchdogBench()
})

afterEach(() => bench.close())

describe('a hold', () => {
  it('is lost at its deadline although Redis never replies', async () => {
    const hold = await bench.take('a')
    const takenAt = bench.clock.now()
    bench.port.fault = () => ({ lost: 'request' })
    await bench.clock.advance(SURE_MS - 1)
    hold.assertHeld()
    assert.equal(hold.signal.aborted, false)
    await bench.clock.advance(1)
    assert.equal(bench.clock.now() - takenAt, SURE_MS)
    assert.equal(hold.signal.aborted, true)
    assert.deepEqual(
      bench.lost.map(({ hold, error }) => [hold.lockName, error.code, error.reason]),
      [['a', 'LOCK_LEASE_LOST', 'expired']],
    )
    assert.equal(hold.signal.reason, bench.lost[0]?.error)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST' })
    assert.equal(bench.clock.pending, 1, 'only the command in flight: nothing watches any more')
    await bench.clock.advance(10_000)
  })

  it('is not renewed before its time because a long hold is reported', async () => {
    await bench.take('a', { warnAfterMs: 1_000 })
    await bench.clock.advance(PERIOD_MS - 1)
    assert.deepEqual(bench.renewed(), [])
    await bench.clock.advance(1)
    assert.deepEqual(bench.renewed(), [['a']])
  })

  it('is lost when a renewal finds no holder in Redis, and no other hold is', async () => {
    const [first, second, third] = await bench.takeMany(3)
    bench.port.redis.delete('lock:1')
    await bench.clock.advance(PERIOD_MS)
    assert.deepEqual(
      bench.lost.map(({ hold, error }) => [hold, error.reason]),
      [[second, 'gone']],
    )
    first?.assertHeld()
    third?.assertHeld()
    await bench.clock.advance(PERIOD_MS)
    assert.deepEqual(bench.renewed()[1], ['lock:0', 'lock:2'])
  })

  it('with a lease of its own is not renewed, and is lost on time', async () => {
    const hold = await bench.take('a', { leaseTimeMs: 5_000 })
    await bench.take('b')
    await bench.clock.advance(5_000 - 52 - 1)
    hold.assertHeld()
    assert.equal(hold.remainingMs(), 1)
    await bench.clock.advance(1)
    assert.deepEqual(
      bench.lost.map(({ hold, error }) => [hold.lockName, error.reason]),
      [['a', 'expired']],
    )
    await bench.clock.advance(PERIOD_MS)
    assert.deepEqual(bench.renewed(), [['b']])
  })

  it('keeps a lease longer than that of the watchdog, along with a renewed hold', async () => {
    const outer = await bench.take('a')
    const inner = await bench.clock.until(bench.client.getLock('a').lock({ within: outer, leaseTimeMs: 600_000 }))
    await bench.clock.advance(3 * PERIOD_MS)
    assert.equal(bench.port.redis.pttl('a'), 600_000 - 3 * PERIOD_MS, 'a renewal does not shorten it')
    assert.equal(inner.remainingMs(), 600_000 - 6_002 - 3 * PERIOD_MS)
    await inner.unlock()
    assert(bench.port.redis.pttl('a') >= outer.remainingMs())
    await outer.unlock()
  })

  it('with a shorter lease than the enclosing hold ends alone', async () => {
    const outer = await bench.take('a')
    const inner = await bench.clock.until(bench.client.getLock('a').lock({ within: outer, leaseTimeMs: 1_000 }))
    await bench.clock.advance(1_000)
    assert.deepEqual(
      bench.lost.map(({ hold }) => hold),
      [inner],
    )
    outer.assertHeld()
    assert.equal(outer.count, 1)
  })

  it('is lost in the first turn after a pause, before any timer fires', async () => {
    const hold = await bench.take('a')
    const leased = await bench.take('b', { leaseTimeMs: 5_000 })
    bench.clock.block(31_000)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    assert.equal(leased.remainingMs(), 0)
    assert.equal(leased.signal.aborted, true)
    assert.equal(bench.lost.length, 2)
  })

  it('that has expired is ended by a late tick, not renewed; others are renewed', async () => {
    const first = await bench.take('first')
    await bench.clock.advance(8_000)
    const second = await bench.take('second')
    bench.clock.block(SURE_MS - 8_000)
    await bench.clock.advance(0)
    assert.deepEqual(
      bench.lost.map(({ hold }) => hold),
      [first],
    )
    assert.deepEqual(bench.renewed(), [['second']])
    second.assertHeld()
    assert.equal(second.remainingMs(), SURE_MS)
  })

  it('is not revived by a renewal whose reply arrives after its deadline', async () => {
    const hold = await bench.take('a')
    bench.port.fault = ({ name }) => (name === 'lock/renew' ? { replyMs: 25_000 } : undefined)
    await bench.clock.advance(SURE_MS)
    assert.equal(bench.lost.length, 1)
    await bench.clock.advance(10_000)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST' })
    assert.equal(hold.remainingMs(), 0)
    await assert.rejects(bench.clock.until(hold.unlock()), { code: 'LOCK_LEASE_LOST' })
    await turn()
    assert.deepEqual(bench.port.redis.keys, [], 'what the renewal kept is freed for others')
    await bench.clock.advance(25_000)
  })

  it('that was lost is not lost again', async () => {
    const hold = await bench.take('a')
    bench.port.redis.flush()
    await bench.clock.advance(PERIOD_MS)
    bench.clock.block(LEASE_MS)
    bench.port.reconnect()
    await bench.clock.advance(LEASE_MS)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    assert.equal(await hold.isHeld(), false)
    assert.equal(bench.lost.length, 1)
  })
})

describe('maxHoldMs', () => {
  it('ends a hold that is renewed, and then its renewal', async () => {
    const hold = await bench.take('a', { maxHoldMs: 45_000 })
    await bench.clock.advance(44_999)
    hold.assertHeld()
    await bench.clock.advance(1)
    assert.deepEqual(
      bench.lost.map(({ hold, error }) => [hold.lockName, error.reason]),
      [['a', 'maxHold']],
    )
    await bench.clock.advance(LEASE_MS)
    assert.equal(bench.renewals().length, 4)
    assert.deepEqual(bench.port.redis.keys, [])
  })

  it('of the client is the default', async () => {
    bench = new WatchdogBench({ maxHoldMs: 1_000 })
    const hold = await bench.take('a')
    const longer = await bench.take('b', { maxHoldMs: 2_000 })
    await bench.clock.advance(1_000)
    assert.equal(hold.signal.aborted, true)
    longer.assertHeld()
  })

  it('ends a hold with a longer lease, too; a shorter lease ends first', async () => {
    await bench.take('long', { leaseTimeMs: 60_000, maxHoldMs: 5_000 })
    await bench.take('short', { leaseTimeMs: 2_000, maxHoldMs: 5_000 })
    await bench.clock.advance(5_000)
    assert.deepEqual(
      bench.lost.map(({ hold, error }) => [hold.lockName, error.reason]),
      [
        ['short', 'expired'],
        ['long', 'maxHold'],
      ],
    )
  })

  it('is the reason if the lease ends at the same moment', async () => {
    const hold = await bench.take('a', { leaseTimeMs: 1_000, maxHoldMs: 1_000 - 12 })
    await bench.clock.advance(1_000)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'maxHold' })
  })
})

describe('warnAfterMs', () => {
  it('reports a long hold once', async () => {
    const reported: [string, string | undefined, number][] = []
    bench.client.on('longHold', ({ hold, heldMs }) => reported.push([hold.lockName, hold.label, heldMs]))
    const hold = await bench.take('a', { warnAfterMs: 12_345, label: 'nightly' })
    await bench.clock.advance(12_344)
    assert.deepEqual(reported, [])
    await bench.clock.advance(60_000)
    assert.deepEqual(reported, [['a', 'nightly', 12_345]])
    hold.assertHeld()
  })

  it('reports a long wait once, and no wait that ended before', async () => {
    const reported: ClientEvents['longWait'][0][] = []
    bench.client.on('longWait', (wait) => reported.push(wait))
    const hold = await bench.take('a')
    const brief = bench.client.getLock('a').tryLock({ warnAfterMs: 2_000, waitTimeMs: 1_000 })
    const long = bench.client.getLock('a').lock({ warnAfterMs: 2_000, label: 'nightly' })
    assert.equal(await bench.clock.until(brief), null)
    await bench.clock.advance(10_000)
    const [{ heldBy, holders, position, ...report }, ...more] = reported as [ClientEvents['longWait'][0]]
    assert.deepEqual([report, more], [{ lockName: 'a', label: 'nightly', waitedMs: 2_000 }, []])
    assert.match(heldBy ?? '', /^held by this client, taken [\d.]+ s ago$/)
    assert.deepEqual([holders.map(({ heldMs }) => heldMs), position], [[2_000], undefined])
    await hold.unlock()
    await bench.clock.until(long)
  })

  it('of the client is the default; a listener that throws costs no renewal', async () => {
    bench = new WatchdogBench({ warnAfterMs: PERIOD_MS })
    const warnings: Error[] = []
    const onWarning = (warning: Error): void => void warnings.push(warning)
    process.on('warning', onWarning)
    bench.client.on('longHold', () => {
      throw new Error('a bug of the user')
    })
    const hold = await bench.take('a')
    await bench.clock.advance(2 * LEASE_MS)
    hold.assertHeld()
    process.off('warning', onWarning)
    assert.deepEqual(
      warnings.map(({ message }) => message),
      ['a bug of the user'],
    )
  })
})
