/** What Redis says about a lock: its holders, what is left of the lease, and what else may have its name. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { ClientBench } from '../support/fakes/client-bench.js'

const WRONG_TYPE = 'WRONGTYPE Operation against a key holding the wrong kind of value'

let bench: ClientBench

beforeEach(() => {
  bench = new ClientBench({})
})

afterEach(() => bench.close())

describe('what is left of a lease', () => {
  it('is 0 of a free lock, and Infinity if its expiry was removed', async () => {
    assert.equal(await bench.lock.remainingLeaseMs(), 0)
    bench.redis.set('a', 'somebody:1', 1, 1)
    assert.equal(await bench.lock.remainingLeaseMs(), 1)
    bench.redis.delete('a')
    bench.redis.execute(['HSET', 'a', 'somebody:1', '1'])
    assert.equal(await bench.lock.remainingLeaseMs(), Number.POSITIVE_INFINITY)
    bench.redis.delete('a')
  })
})

describe('isHeld()', () => {
  it('is about the holder of the hold: false while another owner has the lock', async () => {
    const hold = await bench.lock.lock()
    bench.redis.delete('a')
    const other = await bench.other.getLock('a').lock()
    assert.equal(await hold.isHeld(), false)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    await other.unlock()
  })
})

describe('each side of a read-write lock', () => {
  it('has its own holders and lease', async () => {
    const lock = bench.client.getReadWriteLock('rw')
    const [reads, writes] = [lock.readLock(), lock.writeLock()]
    const writer = await writes.lock()
    assert.deepEqual(await writes.getHolders(), [{ holder: writer.holder, holdCount: 1 }])
    assert.equal(await writes.isLocked(), true)
    assert.deepEqual([await reads.isLocked(), await reads.remainingLeaseMs()], [false, 0])
    const reader = await reads.lock({ within: writer })
    assert.deepEqual(await reads.getHolders(), [{ holder: reader.holder, holdCount: 1 }])
    assert.deepEqual(await writes.getHolders(), [{ holder: writer.holder, holdCount: 1 }])
    await writer.unlock()
    assert.deepEqual([await writes.isLocked(), await writes.remainingLeaseMs()], [false, 0])
    assert.equal(await reads.remainingLeaseMs(), 30_000)
    await reader.unlock()
  })
})

describe('a name that something else has', () => {
  it('is an error that tells what is there', async () => {
    for (const [found, command] of [
      ['string', ['SET', 'a', 'x']],
      ['list', ['RPUSH', 'a', 'x']],
      ['zset', ['ZADD', 'a', '1', 'x']],
    ] as const) {
      bench.redis.execute(command)
      await assert.rejects(bench.lock.lock(), { code: 'LOCK_WRONG_TYPE', lockName: 'a', found })
      bench.redis.delete('a')
    }
  })

  it('is an error without that if it is gone by then, or Redis does not tell', async () => {
    bench.port.once('lock/acquire', { errorReply: WRONG_TYPE })
    await assert.rejects(bench.lock.lock(), { code: 'LOCK_WRONG_TYPE', found: undefined, message: /something else/ })
    bench.port.once('lock/acquire', { errorReply: WRONG_TYPE })
    bench.port.once('TYPE', { lost: 'reply' })
    await assert.rejects(bench.clock.until(bench.lock.lock()), { code: 'LOCK_WRONG_TYPE', found: undefined })
  })
})
