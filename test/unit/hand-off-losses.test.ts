/** A client that is closed, and a lock that is lost, during a run of hand-offs. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Hold, LeaseLostError } from '../../src/index.js'
import { CHANNEL, ClientFixture, handOffsOf } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'

const LEASE_MS = 3_000

let fixture: ClientFixture

beforeEach(() => {
  fixture = new ClientFixture({ lockWatchdogTimeoutMs: LEASE_MS })
})

afterEach(() => fixture.close())

describe('a client that is closed during a run', () => {
  it('a client closed during a run rejects its waiters, and releases its holds when the drain ends', async () => {
    const [hold, waiting] = await fixture.heldAndWaitedFor(3)
    await hold.unlock()
    const handedOff = (await waiting[0]) as Hold
    const closed = fixture.client.close({ drainMs: 500 })
    for (const waiter of waiting.slice(1)) await assert.rejects(waiter, { code: 'LOCK_CLIENT_CLOSED' })
    handedOff.assertHeld()
    await handedOff.unlock()
    await fixture.clock.until(closed)
    assert.deepEqual(fixture.redis.keys, [])
    assert.deepEqual(fixture.lost, [])
  })

  it('a client closed in the turn of a hand-off lets the new holder go on until the drain ends', async () => {
    const [hold, waiting] = await fixture.heldAndWaitedFor(2)
    const released = hold.unlock()
    const closed = fixture.client.close({ drainMs: 500 })
    const handedOff = (await waiting[0]) as Hold
    handedOff.assertHeld()
    await assert.rejects(waiting[1] as Promise<Hold>, { code: 'LOCK_CLIENT_CLOSED' })
    await released
    await fixture.clock.until(closed)
    assert.equal((handedOff.signal.reason as LeaseLostError).reason, 'closed')
    assert.equal(hold.signal.aborted, false)
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('a client closed while it yields to other clients leaves no timer', async () => {
    await fixture.clock.until(fixture.client.close())
    const { client: closing } = fixture.connect({ maxHandOffs: 0 })
    await fixture.otherPort.subscribe(CHANNEL, () => {})
    const hold = await closing.getLock('a').lock()
    const waiter = closing.getLock('a').lock()
    await turn()
    await hold.unlock()
    const closed = closing.close()
    await assert.rejects(waiter, { code: 'LOCK_CLIENT_CLOSED' })
    await fixture.clock.until(closed)
    await fixture.otherPort.unsubscribe(CHANNEL)
  })
})

describe('a lock that is lost during a run', () => {
  it("a lock lost by this client's forceUnlock() is reported to its holder, and granted to the next", async () => {
    const [stale, waiting] = await fixture.heldAndWaitedFor(2)
    await stale.unlock()
    const hold = (await waiting[0]) as Hold
    const forced = fixture.lock.forceUnlock()
    await forced
    assert.equal((hold.signal.reason as LeaseLostError).reason, 'forced')
    assert.equal(stale.signal.aborted, false)
    const next = await fixture.clock.until(waiting[1] as Promise<Hold>, 100)
    assert.notEqual(next.holder, hold.holder)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
    assert.equal(await next.isHeld(), true)
    await next.unlock()
    assert.equal(fixture.lost.length, 1)
  })

  it('a lock lost by forceUnlock() in flight is not handed off', async () => {
    const [hold, waiting] = await fixture.heldAndWaitedFor(1)
    fixture.port.once('lock/inspect', { requestMs: 10, replyMs: 10 })
    const forced = fixture.lock.forceUnlock()
    await turn()
    assert.deepEqual(await fixture.commandsOf(() => hold.unlock()), ['lock/release', 'lock/acquire'])
    const next = (await waiting[0]) as Hold
    await fixture.clock.until(forced)
    await next.unlock().catch(() => {})
  })

  it("a lock lost by another client's forceUnlock() is reported at the next renewal, then granted", async () => {
    const [stale, waiting] = await fixture.heldAndWaitedFor(2)
    await stale.unlock()
    const hold = (await waiting[0]) as Hold
    await fixture.other.getLock('a').forceUnlock()
    await turn()
    const next = await fixture.clock.until(waiting[1] as Promise<Hold>, 100)
    assert.notEqual(next.holder, hold.holder)
    await fixture.clock.advance(LEASE_MS / 3)
    assert.equal((hold.signal.reason as LeaseLostError).reason, 'gone')
    next.assertHeld()
    await next.unlock()
  })

  it('a lock lost by DEL is reported at the next renewal, and the next waiter gets it in one poll', async () => {
    const [stale, waiting] = await fixture.heldAndWaitedFor(2)
    await stale.unlock()
    const hold = (await waiting[0]) as Hold
    fixture.redis.flush()
    const startedAt = fixture.clock.now()
    await fixture.clock.advance(LEASE_MS / 3)
    assert.equal((hold.signal.reason as LeaseLostError).reason, 'gone')
    const next = await fixture.clock.until(waiting[1] as Promise<Hold>)
    assert(fixture.clock.now() - startedAt <= 5_100, `after ${fixture.clock.now() - startedAt} ms`)
    await next.unlock()
  })

  it('a lock lost by DEL after an earlier grant is taken by the next waiter within one poll', async () => {
    const held = await fixture.other.getLock('a').lock()
    const waiting = Array.from({ length: 4 }, () => fixture.lock.lock())
    await turn()
    await held.unlock()
    await (await waiting[0])?.unlock() // granted by Redis while the wait queue is subscribed
    const hold = (await waiting[1]) as Hold
    assert.equal(handOffsOf(hold), 1)
    fixture.redis.flush()
    const startedAt = fixture.clock.now()
    const next = await fixture.clock.until(waiting[2] as Promise<Hold>)
    assert(fixture.clock.now() - startedAt <= 5_100, `after ${fixture.clock.now() - startedAt} ms`)
    await next.unlock()
    await (await fixture.clock.until(waiting[3] as Promise<Hold>)).unlock()
  })

  it('a lock lost while Redis is silent ends at its deadline; later waiters are served after that', async () => {
    const [stale, waiting] = await fixture.heldAndWaitedFor(3)
    await fixture.clock.advance(10)
    await stale.unlock()
    const hold = (await waiting[0]) as Hold
    assert.equal(handOffsOf(hold), 1)
    const leftMs = hold.remainingMs()
    fixture.port.fault = () => ({ lost: 'request' })
    await fixture.clock.advance(leftMs - 1)
    hold.assertHeld()
    await fixture.clock.advance(1)
    assert.equal((hold.signal.reason as LeaseLostError).reason, 'expired')
    assert.deepEqual([stale.signal.aborted, fixture.lost.length], [false, 1])
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    fixture.port.fault = () => undefined
    const next = await fixture.clock.until(waiting[1] as Promise<Hold>, 10_000)
    assert.notEqual(next.holder, hold.holder)
    await next.unlock()
    await (await fixture.clock.until(waiting[2] as Promise<Hold>, 100)).unlock()
  })

  it('a lock lost and granted to another caller of this client is not handed off by the lost hold', async () => {
    const [hold, waiting] = await fixture.heldAndWaitedFor(2)
    fixture.redis.flush()
    fixture.redis.publish(CHANNEL, '0')
    const next = (await fixture.clock.until(waiting[0] as Promise<Hold>, 100)) as Hold
    assert.notEqual(next.holder, hold.holder)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    let isServed = false
    void waiting[1]?.then(() => {
      isServed = true
    })
    await fixture.clock.advance(100)
    assert.equal(isServed, false, 'two callers of one client would hold it')
    await next.unlock()
    await (await fixture.clock.until(waiting[1] as Promise<Hold>, 100)).unlock()
  })

  it('a lock lost by maxHoldMs during its release counts as released in time', async () => {
    const now = fixture.clock.now.bind(fixture.clock)
    let reads = 0
    for (let late = 2; late <= 10; late++) {
      const hold = await fixture.lock.lock({ maxHoldMs: 150 })
      const waiting = fixture.lock.lock()
      await turn()
      reads = 0
      fixture.clock.now = () => now() + (++reads >= late ? 200 : 0)
      const released = hold.unlock()
      fixture.clock.now = now
      await released
      await (await waiting).unlock()
    }
    assert.equal(fixture.lost.length, 0)
  })

  it('a lock lost in a pause of the process is reported in the first turn, and not handed off', async () => {
    const [hold, waiting] = await fixture.heldAndWaitedFor(1)
    fixture.clock.block(LEASE_MS)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    const next = await fixture.clock.until(waiting[0] as Promise<Hold>, 1_000)
    assert.notEqual(next.holder, hold.holder)
    await next.unlock()
  })
})
