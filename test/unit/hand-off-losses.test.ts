/** A client that is closed, and a lock that is lost, during a run of hand-offs. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Hold, LeaseLostError } from '../../src/index.js'
import { CHANNEL, ClientBench, handOffsOf } from '../support/fakes/client-bench.js'
import { turn } from '../support/fakes/fake-clock.js'

const LEASE_MS = 3_000

let bench: ClientBench

beforeEach(() => {
  bench = new ClientBench({ lockWatchdogTimeoutMs: LEASE_MS })
})

afterEach(() => bench.close())

describe('a client that is closed during a run', () => {
  it('rejects its waiters, and releases its holds at the end of the drain', async () => {
    const [hold, waiting] = await bench.heldAndWaitedFor(3)
    await hold.unlock()
    const handedOff = (await waiting[0]) as Hold
    const closed = bench.client.close({ drainMs: 500 })
    for (const waiter of waiting.slice(1)) await assert.rejects(waiter, { code: 'LOCK_CLIENT_CLOSED' })
    handedOff.assertHeld()
    await handedOff.unlock()
    await bench.clock.until(closed)
    assert.deepEqual(bench.redis.keys, [])
    assert.deepEqual(bench.lost, [])
  })

  it('in the turn of a hand-off lets the new holder keep the lock until the drain ends', async () => {
    const [hold, waiting] = await bench.heldAndWaitedFor(2)
    const released = hold.unlock()
    const closed = bench.client.close({ drainMs: 500 })
    const handedOff = (await waiting[0]) as Hold
    handedOff.assertHeld()
    await assert.rejects(waiting[1] as Promise<Hold>, { code: 'LOCK_CLIENT_CLOSED' })
    await released
    await bench.clock.until(closed)
    assert.equal((handedOff.signal.reason as LeaseLostError).reason, 'closed')
    assert.equal(hold.signal.aborted, false)
    assert.deepEqual(bench.redis.keys, [])
  })

  it('while it yields to other clients leaves no timer', async () => {
    await bench.clock.until(bench.client.close())
    const { client: closing } = bench.connect({ maxHandOffs: 0 })
    await bench.otherPort.subscribe(CHANNEL, () => {})
    const hold = await closing.getLock('a').lock()
    const waiter = closing.getLock('a').lock()
    await turn()
    await hold.unlock()
    const closed = closing.close()
    await assert.rejects(waiter, { code: 'LOCK_CLIENT_CLOSED' })
    await bench.clock.until(closed)
    await bench.otherPort.unsubscribe(CHANNEL)
  })
})

describe('a lock that is lost during a run', () => {
  it('by forceUnlock() of this client is reported to the present holder, and Redis grants it to the next waiter', async () => {
    const [stale, waiting] = await bench.heldAndWaitedFor(2)
    await stale.unlock()
    const hold = (await waiting[0]) as Hold
    const forced = bench.lock.forceUnlock()
    await forced
    assert.equal((hold.signal.reason as LeaseLostError).reason, 'forced')
    assert.equal(stale.signal.aborted, false)
    const next = await bench.clock.until(waiting[1] as Promise<Hold>, 100)
    assert.notEqual(next.holder, hold.holder)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
    assert.equal(await next.isHeld(), true)
    await next.unlock()
    assert.equal(bench.lost.length, 1)
  })

  it('by forceUnlock() in flight is not handed off', async () => {
    const [hold, waiting] = await bench.heldAndWaitedFor(1)
    bench.port.once('lock/inspect', { requestMs: 10, replyMs: 10 })
    const forced = bench.lock.forceUnlock()
    await turn()
    assert.deepEqual(await bench.commandsOf(() => hold.unlock()), ['lock/release', 'lock/acquire'])
    const next = (await waiting[0]) as Hold
    await bench.clock.until(forced)
    await next.unlock().catch(() => {})
  })

  it('by forceUnlock() of another client is reported at the next renewal, and Redis grants it to the next waiter', async () => {
    const [stale, waiting] = await bench.heldAndWaitedFor(2)
    await stale.unlock()
    const hold = (await waiting[0]) as Hold
    await bench.other.getLock('a').forceUnlock()
    await turn()
    const next = await bench.clock.until(waiting[1] as Promise<Hold>, 100)
    assert.notEqual(next.holder, hold.holder)
    await bench.clock.advance(LEASE_MS / 3)
    assert.equal((hold.signal.reason as LeaseLostError).reason, 'gone')
    next.assertHeld()
    await next.unlock()
  })

  it('by DEL is reported to the present holder at the next renewal, and the next waiter gets it within one poll', async () => {
    const [stale, waiting] = await bench.heldAndWaitedFor(2)
    await stale.unlock()
    const hold = (await waiting[0]) as Hold
    bench.redis.flush()
    const startedAt = bench.clock.now()
    await bench.clock.advance(LEASE_MS / 3)
    assert.equal((hold.signal.reason as LeaseLostError).reason, 'gone')
    const next = await bench.clock.until(waiting[1] as Promise<Hold>)
    assert(bench.clock.now() - startedAt <= 5_100, `after ${bench.clock.now() - startedAt} ms`)
    await next.unlock()
  })

  it('by DEL after an earlier grant to the wait queue is taken by the next waiter within one poll', async () => {
    const held = await bench.other.getLock('a').lock()
    const waiting = Array.from({ length: 4 }, () => bench.lock.lock())
    await turn()
    await held.unlock()
    await (await waiting[0])?.unlock() // granted by Redis while the wait queue is subscribed
    const hold = (await waiting[1]) as Hold
    assert.equal(handOffsOf(hold), 1)
    bench.redis.flush()
    const startedAt = bench.clock.now()
    const next = await bench.clock.until(waiting[2] as Promise<Hold>)
    assert(bench.clock.now() - startedAt <= 5_100, `after ${bench.clock.now() - startedAt} ms`)
    await next.unlock()
    await (await bench.clock.until(waiting[3] as Promise<Hold>)).unlock()
  })

  it('while Redis is silent ends at its deadline, and later waiters are served when Redis is back', async () => {
    const [stale, waiting] = await bench.heldAndWaitedFor(3)
    await bench.clock.advance(10)
    await stale.unlock()
    const hold = (await waiting[0]) as Hold
    assert.equal(handOffsOf(hold), 1)
    const leftMs = hold.remainingMs()
    bench.port.fault = () => ({ lost: 'request' })
    await bench.clock.advance(leftMs - 1)
    hold.assertHeld()
    await bench.clock.advance(1)
    assert.equal((hold.signal.reason as LeaseLostError).reason, 'expired')
    assert.deepEqual([stale.signal.aborted, bench.lost.length], [false, 1])
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    bench.port.fault = () => undefined
    const next = await bench.clock.until(waiting[1] as Promise<Hold>, 10_000)
    assert.notEqual(next.holder, hold.holder)
    await next.unlock()
    await (await bench.clock.until(waiting[2] as Promise<Hold>, 100)).unlock()
  })

  it('and granted to another caller of this client is not handed off by the hold that was lost', async () => {
    const [hold, waiting] = await bench.heldAndWaitedFor(2)
    bench.redis.flush()
    bench.redis.publish(CHANNEL, '0')
    const next = (await bench.clock.until(waiting[0] as Promise<Hold>, 100)) as Hold
    assert.notEqual(next.holder, hold.holder)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    let isServed = false
    void waiting[1]?.then(() => {
      isServed = true
    })
    await bench.clock.advance(100)
    assert.equal(isServed, false, 'two callers of one client would hold it')
    await next.unlock()
    await (await bench.clock.until(waiting[1] as Promise<Hold>, 100)).unlock()
  })

  it('by maxHoldMs during its release counts as released in time, whenever the clock is read', async () => {
    const now = bench.clock.now.bind(bench.clock)
    let reads = 0
    for (let late = 2; late <= 10; late++) {
      const hold = await bench.lock.lock({ maxHoldMs: 150 })
      const waiting = bench.lock.lock()
      await turn()
      reads = 0
      bench.clock.now = () => now() + (++reads >= late ? 200 : 0)
      const released = hold.unlock()
      bench.clock.now = now
      await released
      await (await waiting).unlock()
    }
    assert.equal(bench.lost.length, 0)
  })

  it('in a pause of the process is reported in the first turn, and not handed off', async () => {
    const [hold, waiting] = await bench.heldAndWaitedFor(1)
    bench.clock.block(LEASE_MS)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    const next = await bench.clock.until(waiting[0] as Promise<Hold>, 1_000)
    assert.notEqual(next.holder, hold.holder)
    await next.unlock()
  })
})
