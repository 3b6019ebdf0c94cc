/** The holds of one owner: re-entries, scopes, and holds that are handed over. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'

const COMMAND_TIMEOUT_MS = 3_000
const NO_REPLY = { code: 'LOCK_OUTCOME_UNKNOWN', lockName: 'a' }

let fixture: ClientFixture

beforeEach(() => {
  fixture = new ClientFixture({ commandTimeoutMs: COMMAND_TIMEOUT_MS })
})

afterEach(() => fixture.close())

describe('re-entries', () => {
  it('re-entries at the same time count each, and the last release in any order frees the lock', async () => {
    const outer = await fixture.lock.lock()
    fixture.port.fault = () => ({ requestMs: 5, replyMs: 5 })
    const inner = await fixture.clock.until(Promise.all([1, 2, 3].map(() => fixture.lock.lock({ within: outer }))))
    assert.equal(outer.count, 4)
    assert.equal(fixture.countInRedis(outer), 4)
    await fixture.clock.until(Promise.all([outer.unlock(), inner[1]?.unlock()]))
    assert.equal(fixture.countInRedis(outer), 2)
    await fixture.clock.until(Promise.all([inner[0]?.unlock(), inner[2]?.unlock()]))
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('two re-entries into reads of one write at the same time are one owner with two holds', async () => {
    const lock = fixture.client.getReadWriteLock('rw')
    await lock.writeLock().withLock(async () => {
      const holds = await fixture.clock.until(Promise.all([1, 2].map(() => lock.readLock().tryLock())))
      assert.deepEqual(
        holds.map((hold) => hold?.count),
        [2, 2],
      )
      assert.equal(holds[0]?.holder, holds[1]?.holder)
      await fixture.clock.until(Promise.all(holds.map((hold) => hold?.unlock())))
    })
  })

  it('re-entries and releases at the same time leave the right count', async () => {
    const outer = await fixture.lock.lock()
    let inner = await fixture.lock.lock({ within: outer })
    fixture.port.fault = () => ({ requestMs: 5, replyMs: 5 })
    for (let round = 0; round < 5; round++) {
      const [next] = await fixture.clock.until(Promise.all([fixture.lock.lock({ within: outer }), inner.unlock()]))
      assert.deepEqual([outer.count, fixture.countInRedis(outer)], [2, 2])
      inner = next
    }
    await fixture.clock.until(Promise.all([inner.unlock(), outer.unlock()]))
  })

  it('re-entries whose reply was lost count once', async () => {
    const outer = await fixture.lock.lock()
    fixture.port.once('lock/reenter', { lost: 'reply' })
    fixture.port.once('lock/reenter', { resentMs: 10 })
    const inner = await fixture.clock.until(fixture.lock.lock({ within: outer }))
    assert.equal(fixture.countInRedis(outer), 2)
    await inner.unlock()
    assert.equal(fixture.countInRedis(outer), 1)
    await outer.unlock()
  })

  it('re-entries whose release got no reply have ended, and the outer hold goes on', async () => {
    const outer = await fixture.lock.lock()
    const inner = await fixture.lock.lock({ within: outer })
    fixture.port.once('lock/release-one', { lost: 'request' })
    await fixture.clock.until(inner.unlock())
    assert.throws(() => inner.assertHeld(), { code: 'LOCK_NOT_HELD' })
    fixture.assertSafe(outer)
    assert.deepEqual(fixture.lost, [])
    await outer.unlock()
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('re-entries that were aborted in flight count for nothing', async () => {
    const outer = await fixture.lock.lock()
    fixture.port.once('lock/reenter', { requestMs: 100, replyMs: 100 })
    const controller = new AbortController()
    const taking = fixture.lock.lock({ within: outer, signal: controller.signal })
    await turn()
    controller.abort('enough')
    await assert.rejects(taking, (reason) => reason === 'enough')
    await fixture.clock.advance(300)
    assert.equal(outer.count, 1)
    assert.equal(fixture.countInRedis(outer), 1)
    await outer.unlock()
  })

  it('re-entries fail when the lock is gone, and the outer hold is lost with them', async () => {
    const outer = await fixture.lock.lock()
    fixture.redis.flush()
    await assert.rejects(fixture.clock.until(fixture.lock.lock({ within: outer })), {
      code: 'LOCK_LEASE_LOST',
      reason: 'gone',
    })
    assert.equal(outer.signal.aborted, true)
  })

  it('re-entries whose reply arrives after their own lease have failed, and the outer hold goes on', async () => {
    const outer = await fixture.lock.lock()
    fixture.port.once('lock/reenter', { replyMs: 600 })
    await assert.rejects(fixture.clock.until(fixture.lock.tryLock({ within: outer, leaseTimeMs: 500 })), {
      code: 'LOCK_LEASE_LOST',
      reason: 'expired',
    })
    fixture.assertSafe(outer)
    assert.equal(outer.count, 1)
    await outer.unlock()
  })

  it('re-entries fail if the last hold is released before it is their turn', async () => {
    const outer = await fixture.lock.lock()
    const inner = await fixture.lock.lock({ within: outer })
    fixture.port.once('lock/release-one', { replyMs: 10 })
    const steps = [inner.unlock(), outer.unlock()]
    const again = assert.rejects(fixture.lock.lock({ within: outer }), { code: 'LOCK_NOT_HELD' })
    await fixture.clock.advance(10)
    await Promise.all([...steps, again])
    assert.equal(fixture.port.count('lock/reenter'), 1)
  })

  it('re-entries that are released twice behind another command count once', async () => {
    const outer = await fixture.lock.lock()
    const inner = await fixture.lock.lock({ within: outer })
    fixture.port.once('lock/reenter', { replyMs: 10 })
    const third = fixture.lock.lock({ within: outer })
    const released = Promise.all([inner.unlock(), inner.unlock()])
    await fixture.clock.advance(10)
    await released
    assert.deepEqual([outer.count, fixture.countInRedis(outer)], [2, 2])
    await (await third).unlock()
    await outer.unlock()
  })

  it('re-entries keep their leases while a renewal overtakes them', async () => {
    const outer = await fixture.lock.lock()
    await fixture.clock.advance(9_950)
    fixture.port.once('lock/reenter', { requestMs: 20, replyMs: 100 })
    const taking = fixture.lock.lock({ within: outer, leaseTimeMs: 600_000 })
    await fixture.clock.advance(60)
    assert.equal(fixture.port.count('lock/renew'), 1)
    const inner = await fixture.clock.until(taking)
    assert(fixture.redis.pttl('a') >= inner.remainingMs())
    await inner.unlock()
    await outer.unlock()
  })
})

describe('the hold count', () => {
  it('the hold count is that of Redis, and no less than there are holds', async () => {
    await fixture.client.runInScope(async () => {
      const { holder } = await fixture.lock.lock()
      await fixture.lock.lock()
      fixture.redis.set('a', holder, 1, 30_000) // by a late copy of an earlier command
      assert.equal(await fixture.lock.getHoldCount(), 2)
      fixture.redis.set('a', holder, 3, 30_000)
      assert.equal(await fixture.lock.getHoldCount(), 3)
      await fixture.lock.unlock()
      await fixture.lock.unlock()
    })
  })

  it('the hold count is 0 if the lock was released while Redis was asked', async () => {
    await fixture.client.runInScope(async () => {
      const hold = await fixture.lock.lock()
      fixture.port.once('lock/inspect', { replyMs: 10 })
      const asking = fixture.lock.getHoldCount()
      await hold.unlock()
      assert.equal(await fixture.clock.until(asking), 0)
    })
  })

  it('a hold that was released while Redis was asked for the count is not held, but another one is', async () => {
    const outer = await fixture.lock.lock()
    const inner = await fixture.lock.lock({ within: outer })
    fixture.port.once('lock/inspect', { replyMs: 10 })
    const asking = inner.isHeld()
    await inner.unlock()
    assert.equal(await fixture.clock.until(asking), false)
    assert.equal(await outer.isHeld(), true)
    await outer.unlock()
  })
})

describe('a lock of several values', () => {
  const values = (...some: string[]) => fixture.client.getFasterMultiLock('a', some)

  it('a lock of several values of which one was lost frees the others at once', async () => {
    const hold = await values('x', 'y').lock()
    await fixture.other.getFasterMultiLock('a', ['x']).forceUnlock()
    assert.deepEqual(fixture.redis.keys, ['a'])
    assert.equal(await hold.isHeld(), false)
    await turn()
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('a lock of several values taken again while Redis is asked about the previous hold stays held', async () => {
    await fixture.client.runInScope(async () => {
      const first = await values('x').lock()
      fixture.port.once('faster-multi-lock/inspect', { requestMs: 5, replyMs: 20 })
      const asking = values('x').getHoldCount()
      await first.unlock()
      await fixture.clock.advance(6)
      const second = await values('x').lock()
      assert.equal(await fixture.clock.until(asking), 0)
      await turn()
      assert.equal(await second.isHeld(), true)
      await second.unlock()
    })
  })

  it('a lock of several values is released once when its client closes', async () => {
    await values('x', 'y').lock()
    await fixture.clock.until(fixture.client.close())
    assert.equal(fixture.port.count('faster-multi-lock/release'), 1)
  })
})

describe('a lease', () => {
  it('a lease granted to a re-entry is not cut by a renewal sent before that had to be repeated', async () => {
    fixture.redis.forgetScripts()
    const outer = await fixture.lock.lock({ leaseTimeMs: 5_000 })
    await (await fixture.clock.until(fixture.lock.lock({ within: outer }))).unlock()
    await fixture.clock.advance(4_000)
    fixture.port.fault = () => ({ requestMs: 5, replyMs: 5 })
    fixture.port.reconnect() // checks all holds, by a script that Redis does not know yet
    await fixture.clock.advance(2)
    const inner = await fixture.clock.until(fixture.lock.lock({ within: outer, leaseTimeMs: 60_000 }))
    assert.equal(fixture.port.count('lock/renew'), 2)
    await fixture.clock.advance(2_000)
    fixture.assertSafe(inner)
    await fixture.clock.until(inner.unlock())
  })
})

describe('a scope', () => {
  it('a scope takes locks that it holds together as one owner, and again as another one', async () => {
    await fixture.client.runInScope(async () => {
      const [first, beside] = [await fixture.lock.lock(), await fixture.client.getLock('b').lock()]
      assert.equal(beside.ownerId, first.ownerId)
      await first.unlock()
      const second = await fixture.lock.lock()
      assert.notEqual(second.ownerId, first.ownerId)
      await fixture.lock.unlock()
      await beside.unlock()
    })
  })

  it('a scope that polls for a lock stays the same owner', async () => {
    const other = await fixture.other.getLock('a').lock()
    await fixture.client.runInScope(async () => {
      for (let n = 0; n < 3; n++) assert.equal(await fixture.lock.tryLock(), null)
      const holders = fixture.port.sent.filter(({ name }) => name === 'lock/acquire').map(({ args }) => args[1])
      assert.deepEqual([holders.length, new Set(holders).size], [3, 1])
    })
    await other.unlock()
  })

  it('a scope takes a lock as another owner while a release of the first may be on its way', async () => {
    await fixture.client.runInScope(async () => {
      await fixture.lock.lock()
      fixture.port.once('lock/release-queued', { requestMs: 10_000, failsWith: 'Connection is closed' })
      await fixture.clock.until(fixture.lock.unlock())
      const second = await fixture.lock.lock()
      await fixture.clock.advance(11_000)
      fixture.assertSafe(second)
      await fixture.lock.unlock()
    })
  })

  it('a scope takes a lock as another owner after a release that is unknown', async () => {
    await fixture.client.runInScope(async () => {
      await fixture.lock.lock({ leaseTimeMs: 10_000 })
      fixture.port.fault = () => ({ lost: 'request' })
      await assert.rejects(fixture.clock.until(fixture.lock.unlock()), NO_REPLY)
      fixture.port.fault = () => undefined
      const second = await fixture.clock.until(fixture.lock.lock())
      await fixture.clock.advance(10_000)
      fixture.assertSafe(second)
      await fixture.lock.unlock()
    })
  })

  it('a scope keeps its lease although an attempt of an earlier hold arrives late', async () => {
    await fixture.client.runInScope(async () => {
      fixture.port.once('lock/acquire', { requestMs: 8_000 })
      await fixture.clock.until(fixture.lock.lock({ leaseTimeMs: 5_000 }))
      await fixture.lock.unlock()
      const second = await fixture.lock.lock({ leaseTimeMs: 60_000 })
      await fixture.clock.advance(20_000)
      fixture.assertSafe(second)
      await fixture.lock.unlock()
    })
  })

  it('a scope takes a lock as another owner after a loss, which may be released later', async () => {
    await fixture.client.runInScope(async () => {
      const first = await fixture.lock.lock({ leaseTimeMs: 1_000 })
      await fixture.clock.advance(1_001) // in Redis a key still exists at its deadline
      const second = await fixture.lock.lock()
      await assert.rejects(first.unlock(), { code: 'LOCK_LEASE_LOST' })
      await turn()
      fixture.assertSafe(second)
      await fixture.lock.unlock()
    })
  })

  it('a scope does not take a lock beside the one it was handed over to', async () => {
    await fixture.client.runInScope(async () => {
      const holder = (await fixture.lock.lock()).handOver()
      assert.equal(await fixture.lock.tryLock(), null)
      const adopted = await fixture.other.adopt('a', holder)
      assert.equal(await fixture.lock.tryLock(), null)
      await adopted.unlock()
    })
  })

  it('a scope re-enters what a withLock in it holds or waits for, and never takes it a second time', async () => {
    await fixture.client.runInScope(async () => {
      const outer = await fixture.lock.lock()
      const body = fixture.lock.withLock(async (hold) => {
        await fixture.pause(100)
        fixture.assertSafe(hold)
      })
      await turn()
      await outer.unlock()
      const again = await fixture.lock.tryLock()
      await again?.unlock()
      await fixture.clock.until(body)
    })
  })

  it('siblings in a scope that take the same lock at the same time exclude each other', async () => {
    await fixture.client.runInScope(async () => {
      const taken = await fixture.clock.until(
        Promise.all([fixture.lock.tryLock(), fixture.lock.tryLock(), fixture.lock.tryLock()]),
      )
      assert.equal(taken.filter((hold) => hold !== null).length, 1)
      await fixture.lock.unlock()
    })
  })
})

describe('adopt()', () => {
  it('adopt() continues a handed-over hold, without a moment in which the lock is free', async () => {
    const hold = await fixture.lock.lock()
    const holder = hold.handOver()
    const adopted = await fixture.other.adopt('a', holder)
    assert.equal(await fixture.lock.tryLock(), null)
    fixture.assertSafe(adopted)
    await fixture.clock.advance(60_000)
    fixture.assertSafe(adopted)
    await adopted.unlock()
  })

  it('adopt() without a reply frees what it may have taken over', async () => {
    const holder = (await fixture.other.getLock('a').lock()).handOver()
    fixture.port.once('lock/adopt', { lost: 'reply' })
    await assert.rejects(fixture.clock.until(fixture.client.adopt('a', holder)), NO_REPLY)
    await turn()
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('adopt() succeeds once', async () => {
    const holder = (await fixture.lock.lock()).handOver()
    const [first, second] = await Promise.allSettled([
      fixture.client.adopt('a', holder),
      fixture.other.adopt('a', holder),
    ])
    assert(first.status === 'fulfilled' && second.status === 'rejected')
    assert.equal(second.reason.code, 'LOCK_NOT_HELD')
    await first.value.unlock()
  })
})
