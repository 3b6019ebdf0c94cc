/** The holds of one owner: re-entries, scopes, and holds that are handed over. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { ClientBench } from '../support/fakes/client-bench.js'
import { turn } from '../support/fakes/fake-clock.js'

const COMMAND_TIMEOUT_MS = 3_000
const NO_REPLY = { code: 'LOCK_OUTCOME_UNKNOWN', lockName: 'a' }

let bench: ClientBench

beforeEach(() => {
  bench = new ClientBench({ commandTimeoutMs: COMMAND_TIMEOUT_MS })
})

afterEach(() => bench.close())

describe('re-entries', () => {
  it('at the same time count each, and the last release in any order frees the lock', async () => {
    const outer = await bench.lock.lock()
    bench.port.fault = () => ({ requestMs: 5, replyMs: 5 })
    const inner = await bench.clock.until(Promise.all([1, 2, 3].map(() => bench.lock.lock({ within: outer }))))
    assert.equal(outer.count, 4)
    assert.equal(bench.countInRedis(outer), 4)
    await bench.clock.until(Promise.all([outer.unlock(), inner[1]?.unlock()]))
    assert.equal(bench.countInRedis(outer), 2)
    await bench.clock.until(Promise.all([inner[0]?.unlock(), inner[2]?.unlock()]))
    assert.deepEqual(bench.redis.keys, [])
  })

  it('of two reads inside one write, requested at the same time, are one owner with two holds', async () => {
    const lock = bench.client.getReadWriteLock('rw')
    await lock.writeLock().withLock(async () => {
      const holds = await bench.clock.until(Promise.all([1, 2].map(() => lock.readLock().tryLock())))
      assert.deepEqual(
        holds.map((hold) => hold?.count),
        [2, 2],
      )
      assert.equal(holds[0]?.holder, holds[1]?.holder)
      await bench.clock.until(Promise.all(holds.map((hold) => hold?.unlock())))
    })
  })

  it('and releases at the same time leave the right count', async () => {
    const outer = await bench.lock.lock()
    let inner = await bench.lock.lock({ within: outer })
    bench.port.fault = () => ({ requestMs: 5, replyMs: 5 })
    for (let round = 0; round < 5; round++) {
      const [next] = await bench.clock.until(Promise.all([bench.lock.lock({ within: outer }), inner.unlock()]))
      assert.deepEqual([outer.count, bench.countInRedis(outer)], [2, 2])
      inner = next
    }
    await bench.clock.until(Promise.all([inner.unlock(), outer.unlock()]))
  })

  it('whose reply was lost count once', async () => {
    const outer = await bench.lock.lock()
    bench.port.once('lock/reenter', { lost: 'reply' })
    bench.port.once('lock/reenter', { resentMs: 10 })
    const inner = await bench.clock.until(bench.lock.lock({ within: outer }))
    assert.equal(bench.countInRedis(outer), 2)
    await inner.unlock()
    assert.equal(bench.countInRedis(outer), 1)
    await outer.unlock()
  })

  it('whose release got no reply have ended, and the outer hold goes on', async () => {
    const outer = await bench.lock.lock()
    const inner = await bench.lock.lock({ within: outer })
    bench.port.once('lock/release-one', { lost: 'request' })
    await bench.clock.until(inner.unlock())
    assert.throws(() => inner.assertHeld(), { code: 'LOCK_NOT_HELD' })
    bench.assertSafe(outer)
    assert.deepEqual(bench.lost, [])
    await outer.unlock()
    assert.deepEqual(bench.redis.keys, [])
  })

  it('that were aborted in flight count for nothing', async () => {
    const outer = await bench.lock.lock()
    bench.port.once('lock/reenter', { requestMs: 100, replyMs: 100 })
    const controller = new AbortController()
    const taking = bench.lock.lock({ within: outer, signal: controller.signal })
    await turn()
    controller.abort('enough')
    await assert.rejects(taking, (reason) => reason === 'enough')
    await bench.clock.advance(300)
    assert.equal(outer.count, 1)
    assert.equal(bench.countInRedis(outer), 1)
    await outer.unlock()
  })

  it('fail when the lock is gone, and the outer hold is lost with them', async () => {
    const outer = await bench.lock.lock()
    bench.redis.flush()
    await assert.rejects(bench.clock.until(bench.lock.lock({ within: outer })), {
      code: 'LOCK_LEASE_LOST',
      reason: 'gone',
    })
    assert.equal(outer.signal.aborted, true)
  })

  it('whose reply arrives after their own lease have failed, and the outer hold goes on', async () => {
    const outer = await bench.lock.lock()
    bench.port.once('lock/reenter', { replyMs: 600 })
    await assert.rejects(bench.clock.until(bench.lock.tryLock({ within: outer, leaseTimeMs: 500 })), {
      code: 'LOCK_LEASE_LOST',
      reason: 'expired',
    })
    bench.assertSafe(outer)
    assert.equal(outer.count, 1)
    await outer.unlock()
  })

  it('fail if the last hold is released before it is their turn', async () => {
    const outer = await bench.lock.lock()
    const inner = await bench.lock.lock({ within: outer })
    bench.port.once('lock/release-one', { replyMs: 10 })
    const steps = [inner.unlock(), outer.unlock()]
    const again = assert.rejects(bench.lock.lock({ within: outer }), { code: 'LOCK_NOT_HELD' })
    await bench.clock.advance(10)
    await Promise.all([...steps, again])
    assert.equal(bench.port.count('lock/reenter'), 1)
  })

  it('that are released twice behind another command count once', async () => {
    const outer = await bench.lock.lock()
    const inner = await bench.lock.lock({ within: outer })
    bench.port.once('lock/reenter', { replyMs: 10 })
    const third = bench.lock.lock({ within: outer })
    const released = Promise.all([inner.unlock(), inner.unlock()])
    await bench.clock.advance(10)
    await released
    assert.deepEqual([outer.count, bench.countInRedis(outer)], [2, 2])
    await (await third).unlock()
    await outer.unlock()
  })

  it('keep their leases while a renewal overtakes them', async () => {
    const outer = await bench.lock.lock()
    await bench.clock.advance(9_950)
    bench.port.once('lock/reenter', { requestMs: 20, replyMs: 100 })
    const taking = bench.lock.lock({ within: outer, leaseTimeMs: 600_000 })
    await bench.clock.advance(60)
    assert.equal(bench.port.count('lock/renew'), 1)
    const inner = await bench.clock.until(taking)
    assert(bench.redis.pttl('a') >= inner.remainingMs())
    await inner.unlock()
    await outer.unlock()
  })
})

describe('the hold count', () => {
  it('is that of Redis, and no less than there are holds', async () => {
    await bench.client.runInScope(async () => {
      const { holder } = await bench.lock.lock()
      await bench.lock.lock()
      bench.redis.set('a', holder, 1, 30_000) // by a late copy of an earlier command
      assert.equal(await bench.lock.getHoldCount(), 2)
      bench.redis.set('a', holder, 3, 30_000)
      assert.equal(await bench.lock.getHoldCount(), 3)
      await bench.lock.unlock()
      await bench.lock.unlock()
    })
  })

  it('is 0 if the lock was released while Redis was asked', async () => {
    await bench.client.runInScope(async () => {
      const hold = await bench.lock.lock()
      bench.port.once('lock/inspect', { replyMs: 10 })
      const asking = bench.lock.getHoldCount()
      await hold.unlock()
      assert.equal(await bench.clock.until(asking), 0)
    })
  })

  it('says nothing of a hold that was released while Redis was asked: it is not held, and another one of its owner is', async () => {
    const outer = await bench.lock.lock()
    const inner = await bench.lock.lock({ within: outer })
    bench.port.once('lock/inspect', { replyMs: 10 })
    const asking = inner.isHeld()
    await inner.unlock()
    assert.equal(await bench.clock.until(asking), false)
    assert.equal(await outer.isHeld(), true)
    await outer.unlock()
  })
})

describe('a lock of several values', () => {
  const values = (...some: string[]) => bench.client.getFasterMultiLock('a', some)

  it('of which one was lost frees the others at once', async () => {
    const hold = await values('x', 'y').lock()
    await bench.other.getFasterMultiLock('a', ['x']).forceUnlock()
    assert.deepEqual(bench.redis.keys, ['a'])
    assert.equal(await hold.isHeld(), false)
    await turn()
    assert.deepEqual(bench.redis.keys, [])
  })

  it('that is taken again while Redis is asked about the previous hold stays held', async () => {
    await bench.client.runInScope(async () => {
      const first = await values('x').lock()
      bench.port.once('faster-multi-lock/inspect', { requestMs: 5, replyMs: 20 })
      const asking = values('x').getHoldCount()
      await first.unlock()
      await bench.clock.advance(6)
      const second = await values('x').lock()
      assert.equal(await bench.clock.until(asking), 0)
      await turn()
      assert.equal(await second.isHeld(), true)
      await second.unlock()
    })
  })

  it('is released once when its client closes', async () => {
    await values('x', 'y').lock()
    await bench.clock.until(bench.client.close())
    assert.equal(bench.port.count('faster-multi-lock/release'), 1)
  })
})

describe('a lease', () => {
  it('that a re-entry was granted is not cut by a renewal that was sent before and had to be repeated', async () => {
    bench.redis.forgetScripts()
    const outer = await bench.lock.lock({ leaseTimeMs: 5_000 })
    await (await bench.clock.until(bench.lock.lock({ within: outer }))).unlock()
    await bench.clock.advance(4_000)
    bench.port.fault = () => ({ requestMs: 5, replyMs: 5 })
    bench.port.reconnect() // checks all holds, by a script that Redis does not know yet
    await bench.clock.advance(2)
    const inner = await bench.clock.until(bench.lock.lock({ within: outer, leaseTimeMs: 60_000 }))
    assert.equal(bench.port.count('lock/renew'), 2)
    await bench.clock.advance(2_000)
    bench.assertSafe(inner)
    await bench.clock.until(inner.unlock())
  })
})

describe('a scope', () => {
  it('takes what it holds together as one owner, and again as another one', async () => {
    await bench.client.runInScope(async () => {
      const [first, beside] = [await bench.lock.lock(), await bench.client.getLock('b').lock()]
      assert.equal(beside.ownerId, first.ownerId)
      await first.unlock()
      const second = await bench.lock.lock()
      assert.notEqual(second.ownerId, first.ownerId)
      await bench.lock.unlock()
      await beside.unlock()
    })
  })

  it('that polls for a lock stays the same owner', async () => {
    const other = await bench.other.getLock('a').lock()
    await bench.client.runInScope(async () => {
      for (let n = 0; n < 3; n++) assert.equal(await bench.lock.tryLock(), null)
      const holders = bench.port.sent.filter(({ name }) => name === 'lock/acquire').map(({ args }) => args[1])
      assert.deepEqual([holders.length, new Set(holders).size], [3, 1])
    })
    await other.unlock()
  })

  it('takes it as another owner while a release of the first may still be on its way', async () => {
    await bench.client.runInScope(async () => {
      await bench.lock.lock()
      bench.port.once('lock/release-queued', { requestMs: 10_000, failsWith: 'Connection is closed' })
      await bench.clock.until(bench.lock.unlock())
      const second = await bench.lock.lock()
      await bench.clock.advance(11_000)
      bench.assertSafe(second)
      await bench.lock.unlock()
    })
  })

  it('takes it as another owner after a release that is unknown', async () => {
    await bench.client.runInScope(async () => {
      await bench.lock.lock({ leaseTimeMs: 10_000 })
      bench.port.fault = () => ({ lost: 'request' })
      await assert.rejects(bench.clock.until(bench.lock.unlock()), NO_REPLY)
      bench.port.fault = () => undefined
      const second = await bench.clock.until(bench.lock.lock())
      await bench.clock.advance(10_000)
      bench.assertSafe(second)
      await bench.lock.unlock()
    })
  })

  it('keeps its lease although an attempt of an earlier hold arrives late', async () => {
    await bench.client.runInScope(async () => {
      bench.port.once('lock/acquire', { requestMs: 8_000 })
      await bench.clock.until(bench.lock.lock({ leaseTimeMs: 5_000 }))
      await bench.lock.unlock()
      const second = await bench.lock.lock({ leaseTimeMs: 60_000 })
      await bench.clock.advance(20_000)
      bench.assertSafe(second)
      await bench.lock.unlock()
    })
  })

  it('takes it as another owner after a hold was lost, which may be released later', async () => {
    await bench.client.runInScope(async () => {
      const first = await bench.lock.lock({ leaseTimeMs: 1_000 })
      await bench.clock.advance(1_001) // in Redis a key still exists at its deadline
      const second = await bench.lock.lock()
      await assert.rejects(first.unlock(), { code: 'LOCK_LEASE_LOST' })
      await turn()
      bench.assertSafe(second)
      await bench.lock.unlock()
    })
  })

  it('does not take it beside the one it was handed over to', async () => {
    await bench.client.runInScope(async () => {
      const holder = (await bench.lock.lock()).handOver()
      assert.equal(await bench.lock.tryLock(), null)
      const adopted = await bench.other.adopt('a', holder)
      assert.equal(await bench.lock.tryLock(), null)
      await adopted.unlock()
    })
  })

  it('re-enters what a withLock in it still holds, or waits for it; it never takes it a second time', async () => {
    await bench.client.runInScope(async () => {
      const outer = await bench.lock.lock()
      const body = bench.lock.withLock(async (hold) => {
        await bench.pause(100)
        bench.assertSafe(hold)
      })
      await turn()
      await outer.unlock()
      const again = await bench.lock.tryLock()
      await again?.unlock()
      await bench.clock.until(body)
    })
  })

  it('has siblings that take the same lock at the same time exclude each other', async () => {
    await bench.client.runInScope(async () => {
      const taken = await bench.clock.until(
        Promise.all([bench.lock.tryLock(), bench.lock.tryLock(), bench.lock.tryLock()]),
      )
      assert.equal(taken.filter((hold) => hold !== null).length, 1)
      await bench.lock.unlock()
    })
  })
})

describe('adopt()', () => {
  it('continues a hold that was handed over, without a moment in which the lock is free', async () => {
    const hold = await bench.lock.lock()
    const holder = hold.handOver()
    const adopted = await bench.other.adopt('a', holder)
    assert.equal(await bench.lock.tryLock(), null)
    bench.assertSafe(adopted)
    await bench.clock.advance(60_000)
    bench.assertSafe(adopted)
    await adopted.unlock()
  })

  it('without a reply frees what it may have taken over', async () => {
    const holder = (await bench.other.getLock('a').lock()).handOver()
    bench.port.once('lock/adopt', { lost: 'reply' })
    await assert.rejects(bench.clock.until(bench.client.adopt('a', holder)), NO_REPLY)
    await turn()
    assert.deepEqual(bench.redis.keys, [])
  })

  it('succeeds once', async () => {
    const holder = (await bench.lock.lock()).handOver()
    const [first, second] = await Promise.allSettled([bench.client.adopt('a', holder), bench.other.adopt('a', holder)])
    assert(first.status === 'fulfilled' && second.status === 'rejected')
    assert.equal(second.reason.code, 'LOCK_NOT_HELD')
    await first.value.unlock()
  })
})
