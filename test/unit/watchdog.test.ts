/** When holds are renewed, and what a failed renewal does. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { getMultiLock } from '../../src/index.js'
import { slotOf } from '../../src/wire/slots.js'
import { turn } from '../support/fakes/fake-clock.js'
import { LEASE_MS, PERIOD_MS, SURE_MS, WatchdogBench } from '../support/fakes/watchdog-bench.js'

let bench: WatchdogBench

beforeEach(() => {
  bench = new WatchdogBench()
})

afterEach(() => bench.close())

describe('the watchdog', () => {
  it('renews a hold every third of its lease, for as long as it is held', async () => {
    const startedAt = bench.clock.now()
    const hold = await bench.take('a')
    await bench.clock.advance(10 * LEASE_MS)
    hold.assertHeld()
    assert.deepEqual(
      bench.renewals().map(({ at, keys, args }) => [at - startedAt, ...keys, ...args]),
      Array.from({ length: 30 }, (_, n) => [(n + 1) * PERIOD_MS, 'a', hold.holder, '30000']),
    )
    assert.equal(hold.remainingMs(), SURE_MS)
    assert.equal(bench.port.redis.pttl('a'), LEASE_MS)
  })

  it('renews lockWatchdogBatchSize holds per script', async () => {
    bench = new WatchdogBench({ lockWatchdogBatchSize: 2 })
    const holds = await bench.takeMany(5)
    await bench.clock.advance(PERIOD_MS)
    assert.deepEqual(
      bench.renewed().map((names) => names.length),
      [2, 2, 1],
    )
    await bench.clock.until(Promise.all(holds.map((hold) => hold.unlock())))
  })

  it('renews at a fixed rate, however long the renewals take', async () => {
    bench.port.fault = ({ name }) => (name === 'lock/renew' ? { requestMs: 700, replyMs: 800 } : undefined)
    const startedAt = bench.clock.now()
    const hold = await bench.take('a')
    await bench.clock.advance(5 * PERIOD_MS)
    assert.deepEqual(
      bench.renewals().map(({ at }) => at - startedAt),
      [1, 2, 3, 4, 5].map((n) => n * PERIOD_MS),
    )
    await bench.clock.advance(1_500)
    // From when the renewal was sent, not from its reply.
    assert.equal(hold.remainingMs(), SURE_MS - 1_500)
  })

  it('renews a hold that was taken later along with the others', async () => {
    await bench.take('a')
    await bench.clock.advance(4_000)
    await bench.take('b')
    await bench.clock.advance(PERIOD_MS - 4_000)
    assert.deepEqual(bench.renewed(), [['a', 'b']])
  })

  it('does not renew a hold with a lease of its own, however long that is', async () => {
    await bench.take('leased', { leaseTimeMs: 60_000 })
    await bench.take('a')
    await bench.clock.advance(PERIOD_MS)
    assert.deepEqual(bench.renewed(), [['a']])
  })

  it('renews at once after a pause of the process, and skips what it missed', async () => {
    const startedAt = bench.clock.now()
    const hold = await bench.take('a')
    await bench.clock.advance(PERIOD_MS)
    bench.clock.block(25_000)
    await bench.clock.advance(15_000)
    assert.deepEqual(
      bench.renewals().map(({ at }) => at - startedAt),
      [10_000, 35_000, 40_000, 50_000],
    )
    hold.assertHeld()
  })

  it('renews 500 holds per turn of the event loop, and new locks wait until all are sent', async () => {
    const holds = await bench.takeMany(1_000)
    bench.clock.block(PERIOD_MS)
    assert(await bench.clock.step())
    assert.equal(bench.renewed().flat().length, 500)
    assert.equal(bench.clock.keepingAlive, 0)
    const taking = bench.client.getLock('new').lock()
    await holds[700]?.unlock()
    const acquired = bench.port.count('lock/acquire')
    assert(await bench.clock.step())
    assert.deepEqual(
      bench.renewed().map(({ length }) => length),
      [100, 100, 100, 100, 100, 100, 100, 100, 100, 99],
    )
    assert.equal(new Set(bench.renewed().flat()).size, 999)
    assert.equal(bench.port.count('lock/acquire'), acquired + 1)
    await bench.clock.until(taking)
  })

  it('uses one timer however many holds there are, and none without holds', async (t) => {
    assert.equal(bench.clock.pending, 0)
    const after = t.mock.method(bench.clock, 'after')
    const holds = await bench.takeMany(1_000)
    assert.equal(after.mock.calls.filter(({ arguments: [, , keepAlive] }) => keepAlive === false).length, 1)
    assert.deepEqual([bench.clock.pending, bench.clock.keepingAlive], [1, 0])
    await bench.clock.advance(3 * PERIOD_MS)
    assert.equal(bench.clock.pending, 1)
    for (const hold of holds) await hold.unlock()
    assert.equal(bench.clock.pending, 0)
  })

  it('uses one timer through a thousand rounds of lock and unlock', async () => {
    for (let round = 0; round < 1_000; round++) {
      const hold = await bench.take('a')
      assert.equal(bench.clock.pending, 1)
      await hold.unlock()
    }
    assert.equal(bench.clock.pending, 0)
    await bench.clock.advance(LEASE_MS)
    assert.equal(bench.renewals().length, 0)
  })

  it('renews up to 100 holds with one script', async () => {
    await bench.takeMany(250)
    await bench.clock.advance(PERIOD_MS)
    assert.deepEqual(
      bench.renewed().map((keys) => keys.length),
      [100, 100, 50],
    )
    assert.equal(new Set(bench.renewed().flat()).size, 250)
  })

  it('renews a re-entered lock once', async () => {
    const outer = await bench.take('a')
    const inner = await bench.clock.until(bench.client.getLock('a').lock({ within: outer }))
    await bench.clock.advance(PERIOD_MS)
    assert.deepEqual(bench.renewed(), [['a']])
    assert.equal(inner.remainingMs(), SURE_MS)
    assert.equal(outer.remainingMs(), SURE_MS)
  })

  it('renews with lockWatchdogTimeoutMs', async () => {
    bench = new WatchdogBench({ lockWatchdogTimeoutMs: 900 })
    const hold = await bench.take('a')
    await bench.clock.advance(300)
    assert.deepEqual(
      bench.renewals().map(({ args }) => args),
      [[hold.holder, '900']],
    )
  })

  it('renews a lease at once if its grant took long to arrive', async () => {
    bench = new WatchdogBench({ commandTimeoutMs: 10_000 })
    await bench.take('other')
    bench.port.once('lock/acquire', { replyMs: 9_000 })
    const hold = await bench.take('a')
    await turn()
    assert.deepEqual(bench.renewed(), [['a']])
    assert.equal(hold.remainingMs(), SURE_MS)
  })

  it('renews leases that one late reply granted at once, by one command', async () => {
    bench = new WatchdogBench({ commandTimeoutMs: 10_000 })
    bench.port.once('lock/acquire-all', { replyMs: 9_000 })
    const both = getMultiLock(bench.client.getLock('a'), bench.client.getLock('b'))
    const hold = await bench.clock.until(both.lock())
    await turn()
    assert.deepEqual(bench.renewed(), [['a', 'b']])
    assert.equal(hold.remainingMs(), SURE_MS)
  })

  it('keeps renewing after SCRIPT FLUSH', async () => {
    const hold = await bench.take('a')
    bench.port.redis.forgetScripts()
    await bench.clock.advance(2 * LEASE_MS)
    hold.assertHeld()
    assert.equal(bench.lost.length, 0)
  })
})

describe('a renewal that fails', () => {
  it('affects no other batch, and is retried within the period', async () => {
    const holds = await bench.takeMany(250)
    const at = bench.clock.now() + PERIOD_MS
    bench.port.once('lock/renew', { errorReply: 'BUSY Redis is busy running a script' })
    await bench.clock.advance(PERIOD_MS + 1_000)
    assert.deepEqual(
      bench.renewed().map((keys) => keys.length),
      [100, 100, 50, 100],
    )
    assert((bench.renewals().at(-1)?.at ?? 0) - at <= 50, 'it is repeated soon')
    assert.deepEqual(bench.renewed()[3], bench.renewed()[0])
    for (const hold of holds) assert(hold.remainingMs() > SURE_MS - 1_100)
  })

  it('is retried with growing pauses, and again by the next tick', async () => {
    const hold = await bench.take('a')
    const startedAt = bench.clock.now()
    bench.port.fault = () => ({ lost: 'request', failsWith: 'Connection is closed' })
    await bench.clock.advance(2 * PERIOD_MS + 5_000)
    const times = bench.renewals().map(({ at }) => at - startedAt)
    const first = times.filter((at) => at < 2 * PERIOD_MS)
    const pauses = first.slice(1).map((at, index) => at - (first[index] ?? 0))
    assert(pauses.length >= 10 && pauses.length <= 22, `pauses of ${pauses.join(', ')} ms`)
    for (const [index, pause] of pauses.entries()) assert(pause >= (pauses[index - 1] ?? 25) && pause <= 1_000)
    assert(times.includes(2 * PERIOD_MS), 'the next tick renews, too')
    assert.equal(bench.clock.keepingAlive, 0)
    assert.equal(bench.lost.length, 0)
    bench.port.fault = () => undefined
    await bench.clock.advance(PERIOD_MS)
    hold.assertHeld()
  })

  it('is retried often enough for a short lease', async () => {
    bench = new WatchdogBench({ lockWatchdogTimeoutMs: 3_000 })
    const hold = await bench.take('a')
    bench.port.fault = () => ({ lost: 'request', failsWith: 'Connection is closed' })
    await bench.clock.advance(1_900)
    bench.port.fault = () => undefined
    await bench.clock.advance(90)
    assert(hold.remainingMs() > 2_900, 'it was renewed before the next tick')
  })

  for (const [error, warnings] of [
    ['LOADING Redis is loading the dataset in memory', []],
    ["READONLY You can't write against a read only replica.", []],
    ['CLUSTERDOWN The cluster is down', []],
    ['CROSSSLOT Keys in request do not hash to the same slot', ['RENEWAL_REFUSED']],
    ['ERR something that nobody thought of', ['RENEWAL_REFUSED']],
  ] as const) {
    it(`loses no hold when Redis replies ${error.split(' ')[0]} for less than the lease`, async () => {
      const warned: unknown[] = []
      bench.client.on('warning', (warning) => warned.push((warning as { code?: string }).code))
      const hold = await bench.take('a')
      bench.port.fault = () => ({ errorReply: error })
      await bench.clock.advance(2 * PERIOD_MS)
      bench.port.fault = () => undefined
      await bench.clock.advance(PERIOD_MS)
      hold.assertHeld()
      assert.equal(bench.lost.length, 0)
      assert.deepEqual(warned, warnings)
    })
  }

  for (const errorReply of [
    'CROSSSLOT Keys in request do not hash to the same slot',
    'ERR eval/evalsha command keys must be in same slot',
  ]) {
    it(`because keys of different slots are refused in one command is made by slot: ${errorReply}`, async () => {
      const warned: unknown[] = []
      bench.client.on('warning', (warning) => warned.push((warning as { code?: string }).code))
      for (const name of ['a{1}', 'b{2}', 'c{1}']) await bench.take(name)
      bench.port.fault = ({ name, keys }) =>
        name === 'lock/renew' && new Set(keys.map(slotOf)).size > 1 ? { errorReply } : undefined
      await bench.clock.advance(PERIOD_MS)
      const bySlot = [['a{1}', 'c{1}'], ['b{2}']]
      assert.deepEqual(bench.renewed(), [['a{1}', 'b{2}', 'c{1}'], ...bySlot])
      await bench.clock.advance(PERIOD_MS)
      assert.deepEqual(bench.renewed().slice(3), bySlot)
      assert.deepEqual(warned, ['CROSSSLOT_REFUSED'])
      assert.equal(bench.lost.length, 0)
    })
  }

  it('because of a lost reply counts as not done, and is retried', async () => {
    const hold = await bench.take('a')
    bench.port.once('lock/renew', { lost: 'reply' })
    await bench.clock.advance(PERIOD_MS + 4_000)
    assert.equal(bench.renewals().length, 2)
    assert(hold.remainingMs() > SURE_MS - 4_000)
  })

  it('is not retried for leases that were released meanwhile', async () => {
    const [first, second] = await bench.takeMany(2)
    bench.port.once('lock/renew', { lost: 'request', failsWith: 'Connection is closed' })
    await bench.clock.advance(PERIOD_MS)
    await first?.unlock()
    await bench.clock.advance(1_000)
    assert.deepEqual(bench.renewed(), [['lock:0', 'lock:1'], ['lock:1']])
    await second?.unlock()
  })
})

describe('a release', () => {
  it('is not mistaken for a loss when a renewal in flight finds no lock', async () => {
    const hold = await bench.take('a')
    bench.port.once('lock/renew', { requestMs: 500, replyMs: 500 })
    await bench.clock.advance(PERIOD_MS)
    await hold.unlock()
    await bench.clock.advance(1_000)
    assert.equal(bench.lost.length, 0)
    assert.equal(hold.signal.aborted, false)
    assert.deepEqual(bench.port.redis.keys, [])
  })

  it('is not undone by a renewal in flight that succeeded before it', async () => {
    const hold = await bench.take('a')
    bench.port.once('lock/renew', { replyMs: 500 })
    await bench.clock.advance(PERIOD_MS)
    await hold.unlock()
    await bench.clock.advance(1_000)
    assert.equal(hold.remainingMs(), 0)
    await bench.clock.advance(2 * PERIOD_MS)
    assert.equal(bench.renewals().length, 1)
  })

  it('stops renewals before it is sent, whatever its outcome', async () => {
    const hold = await bench.take('a')
    await bench.clock.advance(PERIOD_MS - 1_000)
    bench.port.fault = ({ name }) => (name === 'lock/release-queued' ? { lost: 'request' } : undefined)
    const released = assert.rejects(hold.unlock(), { code: 'LOCK_OUTCOME_UNKNOWN' })
    await bench.clock.advance(2 * LEASE_MS)
    await released
    assert.equal(bench.renewals().length, 0)
    assert.deepEqual(bench.port.redis.keys, [], 'the lease has ended it')
    assert.equal(bench.lost.length, 0)
  })

  it('of one of two holds leaves the other renewed', async () => {
    const outer = await bench.take('a')
    const inner = await bench.clock.until(bench.client.getLock('a').lock({ within: outer }))
    await inner.unlock()
    await bench.clock.advance(2 * LEASE_MS)
    outer.assertHeld()
    assert.equal(bench.lost.length, 0)
  })
})

describe('a reconnect', () => {
  it('checks every lease at once', async () => {
    const renewedHold = await bench.take('a')
    const leased = await bench.take('b', { leaseTimeMs: 20_000 })
    await bench.clock.advance(1_000)
    bench.port.reconnect()
    await turn()
    assert.deepEqual(bench.renewed(), [['a', 'b']])
    assert.equal(renewedHold.remainingMs(), SURE_MS)
    assert.equal(leased.remainingMs(), 20_000 - 202 - 1_000)
    assert.equal(bench.port.redis.pttl('b'), 19_000, 'a lease of its own is not prolonged')
    assert.equal(bench.lost.length, 0)
  })

  it('to a server that lost its data loses the holds at once', async () => {
    const holds = [...(await bench.takeMany(150)), await bench.take('leased', { leaseTimeMs: 20_000 })]
    bench.port.redis.flush()
    bench.port.reconnect()
    await turn()
    assert.equal(bench.lost.length, 151)
    assert(bench.lost.every(({ error }) => error.reason === 'gone'))
    assert(holds.every((hold) => hold.signal.aborted))
    assert.equal(bench.clock.pending, 0)
  })

  it('sends nothing if nothing is held', async () => {
    const hold = await bench.take('a')
    await hold.unlock()
    bench.port.reconnect()
    await turn()
    assert.equal(bench.renewals().length, 0)
  })

  it('ends expired holds before it checks the others', async () => {
    await bench.take('over')
    bench.clock.block(LEASE_MS)
    const kept = await bench.take('kept')
    bench.port.reconnect()
    await turn()
    assert.deepEqual(bench.renewed(), [['kept']])
    kept.assertHeld()
    assert.equal(bench.lost.length, 1)
  })
})
