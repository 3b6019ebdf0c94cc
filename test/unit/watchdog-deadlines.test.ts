/** When a hold is lost: deadlines, leases, maxHoldMs; and the reports of long holds and waits. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { ClientEvents } from '../../src/index.js'
import { turn } from '../support/fakes/fake-clock.js'
import { LEASE_MS, PERIOD_MS, SURE_MS, WatchdogFixture } from '../support/fakes/watchdog-fixture.js'

let fixture: WatchdogFixture

beforeEach(() => {
  fixture = new WatchdogFixture()
})

afterEach(() => fixture.close())

describe('a hold', () => {
  it('a hold is lost at its deadline although Redis never replies', async () => {
    const hold = await fixture.take('a')
    const takenAt = fixture.clock.now()
    fixture.port.fault = () => ({ lost: 'request' })
    await fixture.clock.advance(SURE_MS - 1)
    hold.assertHeld()
    assert.equal(hold.signal.aborted, false)
    await fixture.clock.advance(1)
    assert.equal(fixture.clock.now() - takenAt, SURE_MS)
    assert.equal(hold.signal.aborted, true)
    assert.deepEqual(
      fixture.lost.map(({ hold, error }) => [hold.lockName, error.code, error.reason]),
      [['a', 'LOCK_LEASE_LOST', 'expired']],
    )
    assert.equal(hold.signal.reason, fixture.lost[0]?.error)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST' })
    assert.equal(fixture.clock.pending, 1, 'only the command in flight: nothing watches any more')
    await fixture.clock.advance(10_000)
    assert.equal(fixture.clock.pending, 0)
  })

  it('a hold is not renewed before its time because a long hold is reported', async () => {
    await fixture.take('a', { warnAfterMs: 1_000 })
    await fixture.clock.advance(PERIOD_MS - 1)
    assert.deepEqual(fixture.renewed(), [])
    await fixture.clock.advance(1)
    assert.deepEqual(fixture.renewed(), [['a']])
  })

  it('a hold is lost when a renewal finds no holder in Redis, and no other hold is', async () => {
    const [first, second, third] = await fixture.takeMany(3)
    fixture.port.redis.delete('lock:1')
    await fixture.clock.advance(PERIOD_MS)
    assert.deepEqual(
      fixture.lost.map(({ hold, error }) => [hold, error.reason]),
      [[second, 'gone']],
    )
    first?.assertHeld()
    third?.assertHeld()
    await fixture.clock.advance(PERIOD_MS)
    assert.deepEqual(fixture.renewed()[1], ['lock:0', 'lock:2'])
  })

  it('a hold with a lease of its own is not renewed, and is lost on time', async () => {
    const hold = await fixture.take('a', { leaseTimeMs: 5_000 })
    await fixture.take('b')
    await fixture.clock.advance(5_000 - 52 - 1)
    hold.assertHeld()
    assert.equal(hold.remainingMs(), 1)
    await fixture.clock.advance(1)
    assert.deepEqual(
      fixture.lost.map(({ hold, error }) => [hold.lockName, error.reason]),
      [['a', 'expired']],
    )
    await fixture.clock.advance(PERIOD_MS)
    assert.deepEqual(fixture.renewed(), [['b']])
  })

  it('a hold keeps a lease longer than that of the watchdog, along with a renewed hold', async () => {
    const outer = await fixture.take('a')
    const inner = await fixture.clock.until(fixture.client.getLock('a').lock({ within: outer, leaseTimeMs: 600_000 }))
    await fixture.clock.advance(3 * PERIOD_MS)
    assert.equal(fixture.port.redis.pttl('a'), 600_000 - 3 * PERIOD_MS, 'a renewal does not shorten it')
    assert.equal(inner.remainingMs(), 600_000 - 6_002 - 3 * PERIOD_MS)
    await inner.unlock()
    assert(fixture.port.redis.pttl('a') >= outer.remainingMs())
    await outer.unlock()
  })

  it('a hold with a shorter lease than the enclosing hold ends alone', async () => {
    const outer = await fixture.take('a')
    const inner = await fixture.clock.until(fixture.client.getLock('a').lock({ within: outer, leaseTimeMs: 1_000 }))
    await fixture.clock.advance(1_000)
    assert.deepEqual(
      fixture.lost.map(({ hold }) => hold),
      [inner],
    )
    outer.assertHeld()
    assert.equal(outer.count, 1)
  })

  it('a hold is lost in the first turn after a pause, before any timer fires', async () => {
    const hold = await fixture.take('a')
    const leased = await fixture.take('b', { leaseTimeMs: 5_000 })
    fixture.clock.block(31_000)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    assert.equal(leased.remainingMs(), 0)
    assert.equal(leased.signal.aborted, true)
    assert.equal(fixture.lost.length, 2)
  })

  it('a hold that has expired is ended by a late tick, not renewed; others are renewed', async () => {
    const first = await fixture.take('first')
    await fixture.clock.advance(8_000)
    const second = await fixture.take('second')
    fixture.clock.block(SURE_MS - 8_000)
    await fixture.clock.advance(0)
    assert.deepEqual(
      fixture.lost.map(({ hold }) => hold),
      [first],
    )
    assert.deepEqual(fixture.renewed(), [['second']])
    second.assertHeld()
    assert.equal(second.remainingMs(), SURE_MS)
  })

  it('a hold is not revived by a renewal whose reply arrives after its deadline', async () => {
    const hold = await fixture.take('a')
    fixture.port.fault = ({ name }) => (name === 'lock/renew' ? { replyMs: 25_000 } : undefined)
    await fixture.clock.advance(SURE_MS)
    assert.equal(fixture.lost.length, 1)
    await fixture.clock.advance(10_000)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST' })
    assert.equal(hold.remainingMs(), 0)
    await assert.rejects(fixture.clock.until(hold.unlock()), { code: 'LOCK_LEASE_LOST' })
    await turn()
    assert.deepEqual(fixture.port.redis.keys, [], 'what the renewal kept is freed for others')
    await fixture.clock.advance(25_000)
  })

  it('a hold that was lost is not lost again', async () => {
    const hold = await fixture.take('a')
    fixture.port.redis.flush()
    await fixture.clock.advance(PERIOD_MS)
    fixture.clock.block(LEASE_MS)
    fixture.port.reconnect()
    await fixture.clock.advance(LEASE_MS)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    assert.equal(await hold.isHeld(), false)
    assert.equal(fixture.lost.length, 1)
  })
})

describe('maxHoldMs', () => {
  it('maxHoldMs ends a hold that is renewed, and then its renewal', async () => {
    const hold = await fixture.take('a', { maxHoldMs: 45_000 })
    await fixture.clock.advance(44_999)
    hold.assertHeld()
    await fixture.clock.advance(1)
    assert.deepEqual(
      fixture.lost.map(({ hold, error }) => [hold.lockName, error.reason]),
      [['a', 'maxHold']],
    )
    await fixture.clock.advance(LEASE_MS)
    assert.equal(fixture.renewals().length, 4)
    assert.deepEqual(fixture.port.redis.keys, [])
  })

  it('maxHoldMs of the client is the default', async () => {
    fixture = new WatchdogFixture({ maxHoldMs: 1_000 })
    const hold = await fixture.take('a')
    const longer = await fixture.take('b', { maxHoldMs: 2_000 })
    await fixture.clock.advance(1_000)
    assert.equal(hold.signal.aborted, true)
    longer.assertHeld()
  })

  it('maxHoldMs ends a hold with a longer lease, too; a shorter lease ends first', async () => {
    await fixture.take('long', { leaseTimeMs: 60_000, maxHoldMs: 5_000 })
    await fixture.take('short', { leaseTimeMs: 2_000, maxHoldMs: 5_000 })
    await fixture.clock.advance(5_000)
    assert.deepEqual(
      fixture.lost.map(({ hold, error }) => [hold.lockName, error.reason]),
      [
        ['short', 'expired'],
        ['long', 'maxHold'],
      ],
    )
  })

  it('maxHoldMs is the reason if the lease ends at the same moment', async () => {
    const hold = await fixture.take('a', { leaseTimeMs: 1_000, maxHoldMs: 1_000 - 12 })
    await fixture.clock.advance(1_000)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'maxHold' })
  })
})

describe('warnAfterMs', () => {
  it('warnAfterMs reports a long hold once', async () => {
    const reported: [string, string | undefined, number][] = []
    fixture.client.on('longHold', ({ hold, heldMs }) => reported.push([hold.lockName, hold.label, heldMs]))
    const hold = await fixture.take('a', { warnAfterMs: 12_345, label: 'nightly' })
    await fixture.clock.advance(12_344)
    assert.deepEqual(reported, [])
    await fixture.clock.advance(60_000)
    assert.deepEqual(reported, [['a', 'nightly', 12_345]])
    hold.assertHeld()
  })

  it('warnAfterMs reports a long wait once, and no wait that ended before', async () => {
    const reported: ClientEvents['longWait'][0][] = []
    fixture.client.on('longWait', (wait) => reported.push(wait))
    const hold = await fixture.take('a')
    const brief = fixture.client.getLock('a').tryLock({ warnAfterMs: 2_000, waitTimeMs: 1_000 })
    const long = fixture.client.getLock('a').lock({ warnAfterMs: 2_000, label: 'nightly' })
    assert.equal(await fixture.clock.until(brief), null)
    await fixture.clock.advance(10_000)
    const [{ heldBy, holders, position, ...report }, ...more] = reported as [ClientEvents['longWait'][0]]
    assert.deepEqual([report, more], [{ lockName: 'a', label: 'nightly', waitedMs: 2_000 }, []])
    assert.match(heldBy ?? '', /^held by this client, taken [\d.]+ s ago$/)
    assert.deepEqual([holders.map(({ heldMs }) => heldMs), position], [[2_000], undefined])
    await hold.unlock()
    await fixture.clock.until(long)
  })

  it('warnAfterMs of the client is the default; a listener that throws costs no renewal', async () => {
    fixture = new WatchdogFixture({ warnAfterMs: PERIOD_MS })
    const warnings: Error[] = []
    const onWarning = (warning: Error): void => void warnings.push(warning)
    process.on('warning', onWarning)
    fixture.client.on('longHold', () => {
      throw new Error('a bug of the user')
    })
    const hold = await fixture.take('a')
    await fixture.clock.advance(2 * LEASE_MS)
    hold.assertHeld()
    process.off('warning', onWarning)
    assert.deepEqual(
      warnings.map(({ message }) => message),
      ['a bug of the user'],
    )
  })
})
