/** A lock inside another one of the same name: what is the same lock, what joins it, and what would wait for itself. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { getMultiLock, getRedLock, type Lock, type SelfDeadlockError } from '../../src/index.js'
import { ClientBench } from '../support/client-bench.js'
import { turn } from '../support/fake-clock.js'

let bench: ClientBench

beforeEach(() => {
  bench = new ClientBench({})
})

afterEach(() => bench.close())

describe('a SelfDeadlockError', () => {
  /** Takes `inner` inside `outer`. */
  async function deadlockOf(outer: Lock, inner: Lock): Promise<SelfDeadlockError> {
    const refundTheOrder = async (): Promise<unknown> =>
      await outer.withLock(() =>
        inner.lock().then(
          () => assert.fail('it would wait for itself'),
          (error: unknown) => error,
        ),
      )
    return (await refundTheOrder()) as SelfDeadlockError
  }

  it('has the frames of the call that took the lock, and none from inside it', async () => {
    const lock = bench.client.getNonReentrantLock('a')
    const { code, holdStack = '' } = await deadlockOf(lock, lock)
    assert.equal(code, 'LOCK_SELF_DEADLOCK')
    const frames = holdStack.split('\n')
    assert.match(frames[0] ?? '', /^ +at \S*withLock /)
    assert(frames.some((frame) => /^ +at async refundTheOrder .*lock-nesting\.test/.test(frame)))
  })

  it('has none for a hold that could be re-entered, whose stack would cost time and is seldom wanted', async () => {
    const [plain, string] = [bench.client.getLock('a'), bench.client.getStringLock('b')]
    for (const [outer, inner] of [
      [plain, bench.client.getFencedLock('a')],
      [string, bench.client.getLock('b')],
    ] as const) {
      const { code, holdStack } = await deadlockOf(outer, inner as Lock)
      assert.deepEqual([code, holdStack], ['LOCK_SELF_DEADLOCK', undefined])
    }
  })
})

describe('the sides of a read-write lock', () => {
  it('are two locks to their owner, who holds and releases each by itself', async () => {
    const lock = bench.client.getReadWriteLock('rw')
    const [reads, writes] = [lock.readLock(), lock.writeLock()]
    await bench.client.runInScope(async () => {
      await writes.lock()
      assert.deepEqual([await writes.getHoldCount(), await reads.getHoldCount()], [1, 0])
      await assert.rejects(reads.unlock(), { code: 'LOCK_NOT_HELD' })
      await reads.lock()
      await writes.unlock()
      assert.deepEqual([await writes.getHoldCount(), await reads.getHoldCount()], [0, 1])
      await reads.unlock()
    })
  })

  it('do not keep a write from being handed off once its own reads have ended', async () => {
    const lock = bench.client.getReadWriteLock('rw')
    const hold = await lock.writeLock().lock()
    for (let round = 0; round < 2; round++) await (await lock.readLock().lock({ within: hold })).unlock()
    const next = lock.writeLock().lock()
    await turn()
    assert.deepEqual(await bench.commandsOf(() => hold.unlock()), [])
    await (await next).unlock()
  })
})

describe('a red lock', () => {
  it('of read locks inside a write of its own does not wait behind a caller who waits for that write', async () => {
    const locks = ['a', 'b', 'c'].map((name) => bench.client.getReadWriteLock(name))
    const reads = getRedLock(...locks.map((lock) => lock.readLock()))
    const order: string[] = []
    const writing = getMultiLock(...locks.map((lock) => lock.writeLock())).withLock(async () => {
      await bench.pause(100)
      await reads.withLock(() => order.push('inside'))
    })
    await turn()
    const outside = reads.withLock(() => order.push('outside'))
    await bench.clock.until(Promise.all([writing, outside]))
    assert.deepEqual(order, ['inside', 'outside'])
  })
})
