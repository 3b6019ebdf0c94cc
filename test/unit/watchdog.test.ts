/** When holds are renewed, and what a failed renewal does. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { getMultiLock } from '../../src/index.js'
import { slotOf } from '../../src/wire/slots.js'
import { turn } from '../support/fakes/fake-clock.js'
import { LEASE_MS, PERIOD_MS, SURE_MS, WatchdogFixture } from '../support/fakes/watchdog-fixture.js'

let fixture: WatchdogFixture

beforeEach(() => {
  fixture = new WatchdogFixture()
})

afterEach(() => fixture.close())

describe('the watchdog', () => {
  it('the watchdog renews a hold every third of its lease, for as long as it is held', async () => {
    const startedAt = fixture.clock.now()
    const hold = await fixture.take('a')
    await fixture.clock.advance(10 * LEASE_MS)
    hold.assertHeld()
    assert.deepEqual(
      fixture.renewals().map(({ at, keys, args }) => [at - startedAt, ...keys, ...args]),
      Array.from({ length: 30 }, (_, n) => [(n + 1) * PERIOD_MS, 'a', hold.holder, '30000']),
    )
    assert.equal(hold.remainingMs(), SURE_MS)
    assert.equal(fixture.port.redis.pttl('a'), LEASE_MS)
  })

  it('the watchdog renews lockWatchdogBatchSize holds per script', async () => {
    fixture = new WatchdogFixture({ lockWatchdogBatchSize: 2 })
    const holds = await fixture.takeMany(5)
    await fixture.clock.advance(PERIOD_MS)
    assert.deepEqual(
      fixture.renewed().map((names) => names.length),
      [2, 2, 1],
    )
    await fixture.clock.until(Promise.all(holds.map((hold) => hold.unlock())))
  })

  it('the watchdog renews at a fixed rate, however long the renewals take', async () => {
    fixture.port.fault = ({ name }) => (name === 'lock/renew' ? { requestMs: 700, replyMs: 800 } : undefined)
    const startedAt = fixture.clock.now()
    const hold = await fixture.take('a')
    await fixture.clock.advance(5 * PERIOD_MS)
    assert.deepEqual(
      fixture.renewals().map(({ at }) => at - startedAt),
      [1, 2, 3, 4, 5].map((n) => n * PERIOD_MS),
    )
    await fixture.clock.advance(1_500)
    // From when the renewal was sent, not from its reply.
    assert.equal(hold.remainingMs(), SURE_MS - 1_500)
  })

  it('the watchdog renews a hold that was taken later along with the others', async () => {
    await fixture.take('a')
    await fixture.clock.advance(4_000)
    await fixture.take('b')
    await fixture.clock.advance(PERIOD_MS - 4_000)
    assert.deepEqual(fixture.renewed(), [['a', 'b']])
  })

  it('the watchdog does not renew a hold with a lease of its own, however long that is', async () => {
    await fixture.take('leased', { leaseTimeMs: 60_000 })
    await fixture.take('a')
    await fixture.clock.advance(PERIOD_MS)
    assert.deepEqual(fixture.renewed(), [['a']])
  })

  it('the watchdog renews at once after a pause of the process, and skips what it missed', async () => {
    const startedAt = fixture.clock.now()
    const hold = await fixture.take('a')
    await fixture.clock.advance(PERIOD_MS)
    fixture.clock.block(25_000)
    await fixture.clock.advance(15_000)
    assert.deepEqual(
      fixture.renewals().map(({ at }) => at - startedAt),
      [10_000, 35_000, 40_000, 50_000],
    )
    hold.assertHeld()
  })

  it('the watchdog renews 500 holds per turn of the event loop, and new locks wait until all are sent', async () => {
    const holds = await fixture.takeMany(1_000)
    fixture.clock.block(PERIOD_MS)
    while (fixture.renewed().length === 0) assert(await fixture.clock.step())
    assert.equal(fixture.renewed().flat().length, 500)
    assert.equal(fixture.clock.keepingAlive, 0)
    const taking = fixture.client.getLock('new').lock()
    await holds[700]?.unlock()
    const acquired = fixture.port.count('lock/acquire')
    while (fixture.renewed().length === 5) {
      assert.equal(fixture.port.count('lock/acquire'), acquired)
      assert(await fixture.clock.step())
    }
    assert.deepEqual(
      fixture.renewed().map(({ length }) => length),
      [100, 100, 100, 100, 100, 100, 100, 100, 100, 99],
    )
    assert.equal(new Set(fixture.renewed().flat()).size, 999)
    assert.equal(fixture.port.count('lock/acquire'), acquired + 1)
    await fixture.clock.until(taking)
  })

  it('the watchdog and all commands use a timer each however many holds there are, and none without holds', async (t) => {
    assert.equal(fixture.clock.pending, 0)
    const after = t.mock.method(fixture.clock, 'after')
    const holds = await fixture.takeMany(1_000)
    assert.equal(after.mock.calls.filter(({ arguments: [, , keepAlive] }) => keepAlive === false).length, 2)
    assert.deepEqual([fixture.clock.pending, fixture.clock.keepingAlive], [2, 0])
    await fixture.clock.advance(3 * PERIOD_MS + 5_000)
    assert.equal(fixture.clock.pending, 1)
    for (const hold of holds) await hold.unlock()
    await fixture.clock.advance(PERIOD_MS)
    assert.equal(fixture.clock.pending, 0)
  })

  it('a thousand rounds of lock and unlock arm two timers, and close() stops both', async (t) => {
    const after = t.mock.method(fixture.clock, 'after')
    for (let round = 0; round < 1_000; round++) await (await fixture.take('a')).unlock()
    assert.equal(after.mock.callCount(), 2)
    assert.equal(fixture.clock.keepingAlive, 0)
    await fixture.clock.advance(LEASE_MS)
    assert.equal(fixture.renewals().length, 0)
    assert.equal(fixture.clock.pending, 0)
    await (await fixture.take('a')).unlock()
    await fixture.clock.until(fixture.client.close())
    assert.equal(fixture.clock.pending, 0)
  })

  it('the watchdog renews up to 100 holds with one script', async () => {
    await fixture.takeMany(250)
    await fixture.clock.advance(PERIOD_MS)
    assert.deepEqual(
      fixture.renewed().map((keys) => keys.length),
      [100, 100, 50],
    )
    assert.equal(new Set(fixture.renewed().flat()).size, 250)
  })

  it('the watchdog renews a re-entered lock once', async () => {
    const outer = await fixture.take('a')
    const inner = await fixture.clock.until(fixture.client.getLock('a').lock({ within: outer }))
    await fixture.clock.advance(PERIOD_MS)
    assert.deepEqual(fixture.renewed(), [['a']])
    assert.equal(inner.remainingMs(), SURE_MS)
    assert.equal(outer.remainingMs(), SURE_MS)
  })

  it('the watchdog renews with lockWatchdogTimeoutMs', async () => {
    fixture = new WatchdogFixture({ lockWatchdogTimeoutMs: 900 })
    const hold = await fixture.take('a')
    await fixture.clock.advance(300)
    assert.deepEqual(
      fixture.renewals().map(({ args }) => args),
      [[hold.holder, '900']],
    )
  })

  it('the watchdog renews a lease at once if its grant took long to arrive', async () => {
    fixture = new WatchdogFixture({ commandTimeoutMs: 10_000 })
    await fixture.take('other')
    fixture.port.once('lock/acquire', { replyMs: 9_000 })
    const hold = await fixture.take('a')
    await turn()
    assert.deepEqual(fixture.renewed(), [['a']])
    assert.equal(hold.remainingMs(), SURE_MS)
  })

  it('the watchdog renews leases that one late reply granted at once, by one command', async () => {
    fixture = new WatchdogFixture({ commandTimeoutMs: 10_000 })
    fixture.port.once('lock/acquire-all', { replyMs: 9_000 })
    const both = getMultiLock(fixture.client.getLock('a'), fixture.client.getLock('b'))
    const hold = await fixture.clock.until(both.lock())
    await turn()
    assert.deepEqual(fixture.renewed(), [['a', 'b']])
    assert.equal(hold.remainingMs(), SURE_MS)
  })

  it('the watchdog keeps renewing after SCRIPT FLUSH', async () => {
    const hold = await fixture.take('a')
    fixture.port.redis.forgetScripts()
    await fixture.clock.advance(2 * LEASE_MS)
    hold.assertHeld()
    assert.equal(fixture.lost.length, 0)
  })
})

describe('a renewal that fails', () => {
  it('a renewal that fails affects no other batch, and is retried within the period', async () => {
    const holds = await fixture.takeMany(250)
    const at = fixture.clock.now() + PERIOD_MS
    fixture.port.once('lock/renew', { errorReply: 'BUSY Redis is busy running a script' })
    await fixture.clock.advance(PERIOD_MS + 1_000)
    assert.deepEqual(
      fixture.renewed().map((keys) => keys.length),
      [100, 100, 50, 100],
    )
    assert((fixture.renewals().at(-1)?.at ?? 0) - at <= 50, 'it is repeated soon')
    assert.deepEqual(fixture.renewed()[3], fixture.renewed()[0])
    for (const hold of holds) assert(hold.remainingMs() > SURE_MS - 1_100)
  })

  it('a renewal that fails is retried with growing pauses, and again by the next tick', async () => {
    const hold = await fixture.take('a')
    const startedAt = fixture.clock.now()
    fixture.port.fault = () => ({ lost: 'request', failsWith: 'Connection is closed' })
    await fixture.clock.advance(2 * PERIOD_MS + 5_000)
    const times = fixture.renewals().map(({ at }) => at - startedAt)
    const first = times.filter((at) => at < 2 * PERIOD_MS)
    const pauses = first.slice(1).map((at, index) => at - (first[index] ?? 0))
    assert(pauses.length >= 10 && pauses.length <= 22, `pauses of ${pauses.join(', ')} ms`)
    for (const [index, pause] of pauses.entries()) assert(pause >= (pauses[index - 1] ?? 25) && pause <= 1_000)
    assert(times.includes(2 * PERIOD_MS), 'the next tick renews, too')
    assert.equal(fixture.clock.keepingAlive, 0)
    assert.equal(fixture.lost.length, 0)
    fixture.port.fault = () => undefined
    await fixture.clock.advance(PERIOD_MS)
    hold.assertHeld()
  })

  it('a renewal that fails is retried often enough for a short lease', async () => {
    fixture = new WatchdogFixture({ lockWatchdogTimeoutMs: 3_000 })
    const hold = await fixture.take('a')
    fixture.port.fault = () => ({ lost: 'request', failsWith: 'Connection is closed' })
    await fixture.clock.advance(1_900)
    fixture.port.fault = () => undefined
    await fixture.clock.advance(90)
    assert(hold.remainingMs() > 2_900, 'it was renewed before the next tick')
  })

  for (const [error, warnings] of [
    ['LOADING Redis is loading the dataset in memory', []],
    ["READONLY You can't write against a read only replica.", []],
    ['CLUSTERDOWN The cluster is down', []],
    ['CROSSSLOT Keys in request do not hash to the same slot', ['RENEWAL_REFUSED']],
    ['ERR something that nobody thought of', ['RENEWAL_REFUSED']],
  ] as const) {
    it(`a failed renewal loses no hold when Redis replies ${error.split(' ')[0]} for less than the lease`, async () => {
      const warned: unknown[] = []
      fixture.client.on('warning', (warning) => warned.push((warning as { code?: string }).code))
      const hold = await fixture.take('a')
      fixture.port.fault = () => ({ errorReply: error })
      await fixture.clock.advance(2 * PERIOD_MS)
      fixture.port.fault = () => undefined
      await fixture.clock.advance(PERIOD_MS)
      hold.assertHeld()
      assert.equal(fixture.lost.length, 0)
      assert.deepEqual(warned, warnings)
    })
  }

  for (const errorReply of [
    'CROSSSLOT Keys in request do not hash to the same slot',
    'ERR eval/evalsha command keys must be in same slot',
  ]) {
    it(`a renewal refused for keys of different slots in one command is made by slot: ${errorReply}`, async () => {
      const warned: unknown[] = []
      fixture.client.on('warning', (warning) => warned.push((warning as { code?: string }).code))
      for (const name of ['a{1}', 'b{2}', 'c{1}']) await fixture.take(name)
      fixture.port.fault = ({ name, keys }) =>
        name === 'lock/renew' && new Set(keys.map(slotOf)).size > 1 ? { errorReply } : undefined
      await fixture.clock.advance(PERIOD_MS)
      const bySlot = [['a{1}', 'c{1}'], ['b{2}']]
      assert.deepEqual(fixture.renewed(), [['a{1}', 'b{2}', 'c{1}'], ...bySlot])
      await fixture.clock.advance(PERIOD_MS)
      assert.deepEqual(fixture.renewed().slice(3), bySlot)
      assert.deepEqual(warned, ['CROSSSLOT_REFUSED'])
      assert.equal(fixture.lost.length, 0)
    })
  }

  it('a renewal that fails because of a lost reply counts as not done, and is retried', async () => {
    const hold = await fixture.take('a')
    fixture.port.once('lock/renew', { lost: 'reply' })
    await fixture.clock.advance(PERIOD_MS + 4_000)
    assert.equal(fixture.renewals().length, 2)
    assert(hold.remainingMs() > SURE_MS - 4_000)
  })

  it('a renewal that fails is not retried for leases that were released meanwhile', async () => {
    const [first, second] = await fixture.takeMany(2)
    fixture.port.once('lock/renew', { lost: 'request', failsWith: 'Connection is closed' })
    await fixture.clock.advance(PERIOD_MS)
    await first?.unlock()
    await fixture.clock.advance(1_000)
    assert.deepEqual(fixture.renewed(), [['lock:0', 'lock:1'], ['lock:1']])
    await second?.unlock()
  })
})

describe('a release', () => {
  it('a release is not mistaken for a loss when a renewal in flight finds no lock', async () => {
    const hold = await fixture.take('a')
    fixture.port.once('lock/renew', { requestMs: 500, replyMs: 500 })
    await fixture.clock.advance(PERIOD_MS)
    await hold.unlock()
    await fixture.clock.advance(1_000)
    assert.equal(fixture.lost.length, 0)
    assert.equal(hold.signal.aborted, false)
    assert.deepEqual(fixture.port.redis.keys, [])
  })

  it('a release is not undone by a renewal in flight that succeeded before it', async () => {
    const hold = await fixture.take('a')
    fixture.port.once('lock/renew', { replyMs: 500 })
    await fixture.clock.advance(PERIOD_MS)
    await hold.unlock()
    await fixture.clock.advance(1_000)
    assert.equal(hold.remainingMs(), 0)
    await fixture.clock.advance(2 * PERIOD_MS)
    assert.equal(fixture.renewals().length, 1)
  })

  it('a release stops renewals before it is sent, whatever its outcome', async () => {
    const hold = await fixture.take('a')
    await fixture.clock.advance(PERIOD_MS - 1_000)
    fixture.port.fault = ({ name }) => (name === 'lock/release-queued' ? { lost: 'request' } : undefined)
    const released = assert.rejects(hold.unlock(), { code: 'LOCK_OUTCOME_UNKNOWN' })
    await fixture.clock.advance(2 * LEASE_MS)
    await released
    assert.equal(fixture.renewals().length, 0)
    assert.deepEqual(fixture.port.redis.keys, [], 'the lease has ended it')
    assert.equal(fixture.lost.length, 0)
  })

  it('a release of one of two holds leaves the other renewed', async () => {
    const outer = await fixture.take('a')
    const inner = await fixture.clock.until(fixture.client.getLock('a').lock({ within: outer }))
    await inner.unlock()
    await fixture.clock.advance(2 * LEASE_MS)
    outer.assertHeld()
    assert.equal(fixture.lost.length, 0)
  })
})

describe('a reconnect', () => {
  it('a reconnect checks every lease at once', async () => {
    const renewedHold = await fixture.take('a')
    const leased = await fixture.take('b', { leaseTimeMs: 20_000 })
    await fixture.clock.advance(1_000)
    fixture.port.reconnect()
    await turn()
    assert.deepEqual(fixture.renewed(), [['a', 'b']])
    assert.equal(renewedHold.remainingMs(), SURE_MS)
    assert.equal(leased.remainingMs(), 20_000 - 202 - 1_000)
    assert.equal(fixture.port.redis.pttl('b'), 19_000, 'a lease of its own is not prolonged')
    assert.equal(fixture.lost.length, 0)
  })

  it('a reconnect to a server that lost its data loses the holds at once', async () => {
    const holds = [...(await fixture.takeMany(150)), await fixture.take('leased', { leaseTimeMs: 20_000 })]
    fixture.port.redis.flush()
    fixture.port.reconnect()
    await turn()
    assert.equal(fixture.lost.length, 151)
    assert(fixture.lost.every(({ error }) => error.reason === 'gone'))
    assert(holds.every((hold) => hold.signal.aborted))
    await fixture.clock.advance(PERIOD_MS)
    assert.equal(fixture.clock.pending, 0)
  })

  it('a reconnect sends nothing if nothing is held', async () => {
    const hold = await fixture.take('a')
    await hold.unlock()
    fixture.port.reconnect()
    await turn()
    assert.equal(fixture.renewals().length, 0)
  })

  it('a reconnect ends expired holds before it checks the others', async () => {
    await fixture.take('over')
    fixture.clock.block(LEASE_MS)
    const kept = await fixture.take('kept')
    fixture.port.reconnect()
    await turn()
    assert.deepEqual(fixture.renewed(), [['kept']])
    kept.assertHeld()
    assert.equal(fixture.lost.length, 1)
  })
})
