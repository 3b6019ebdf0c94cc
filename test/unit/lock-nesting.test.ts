/** A lock inside another one of the same name: what is the same lock, what joins it, and what would wait for itself. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type BaseLock, getMultiLock, getRedLock, type Lock, type SelfDeadlockError } from '../../src/index.js'
import { ClientBench } from '../support/fakes/client-bench.js'
import { turn } from '../support/fakes/fake-clock.js'

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

describe('a try that would wait for its own call chain', () => {
  const cells = () => bench.client.getReadWriteLock('a')
  const nonReentrant = () => bench.client.getNonReentrantLock('a')
  const values = (...of: string[]) => bench.client.getFasterMultiLock('a', of)
  const other = () => bench.client.getLock('b')
  const table: readonly [title: string, outer: () => BaseLock, inner: () => BaseLock][] = [
    ['a write inside its own read', () => cells().readLock(), () => cells().writeLock()],
    ['a non-reentrant lock inside itself', nonReentrant, nonReentrant],
    [
      'a non-reentrant fair lock inside itself',
      () => bench.client.getNonReentrantFairLock('a'),
      () => bench.client.getNonReentrantFairLock('a'),
    ],
    ['some values inside others that they share', () => values('x', 'y'), () => values('y', 'z')],
    ['a string lock inside a plain lock of that name', () => bench.lock, () => bench.client.getStringLock('a')],
    ['a plain lock inside a fair lock of that name', () => bench.client.getFairLock('a'), () => bench.lock],
    ['a multi-lock inside one of its locks', nonReentrant, () => getMultiLock(nonReentrant(), other())],
    ['a lock inside a multi-lock of it', () => getMultiLock(nonReentrant(), other()), nonReentrant],
    [
      'a red lock inside most of its locks',
      () => getMultiLock(nonReentrant(), other()),
      () => getRedLock(nonReentrant(), bench.client.getFairLock('b'), bench.client.getLock('c')),
    ],
  ]
  for (const [title, outer, inner] of table) {
    it(`is refused at once, without a command: ${title}`, async () => {
      await outer().withLock(async () => {
        const before = bench.port.sent.length
        for (const waitTimeMs of [undefined, 0, 60_000]) {
          assert.equal(await inner().tryLock({ waitTimeMs }), null)
          assert.deepEqual(await inner().tryWithLock({ waitTimeMs }, () => assert.fail('must not run')), { ran: false })
        }
        await assert.rejects(inner().lock(), { code: 'LOCK_SELF_DEADLOCK' })
        assert.equal(bench.port.sent.length, before)
      })
      assert.notEqual(await inner().tryWithLock(() => {}), { ran: false })
    })
  }

  it('of a red lock counts a lock that its call chain has in its way as refused, not as a server that failed', async () => {
    const locks = [nonReentrant(), other(), bench.other.getLock('c')]
    bench.redis.set('b', 'somebody:1', 1, 60_000)
    await nonReentrant().withLock(async () => {
      bench.otherPort.fault = () => ({ lost: 'request' })
      assert.equal(await bench.clock.until(getRedLock(...locks).tryLock()), null)
      bench.otherPort.fault = () => undefined
    })
    bench.redis.delete('b')
    await bench.clock.advance(60_000)
  })
})

describe('a lock inside another', () => {
  it('is re-entered at once if it is the same, although others wait for it', async () => {
    const holding = bench.lock.withLock(async () => {
      await bench.pause(100)
      assert.equal(await bench.lock.withLock({ waitTimeMs: 50 }, (inner) => inner.count), 2)
    })
    await turn()
    const outside = bench.lock.withLock(({ count }) => count)
    await bench.clock.until(holding)
    assert.equal(await bench.clock.until(outside), 1)
  })

  it('is not re-entered through a hold of another lock or of another client', async () => {
    const hold = await bench.lock.lock()
    for (const lock of [bench.client.getLock('b'), bench.other.getLock('a')]) {
      await assert.rejects(lock.lock({ within: hold }), { code: 'LOCK_CONFIG', path: 'within', lockName: lock.name })
    }
    await hold.unlock()
    await assert.rejects(bench.lock.lock({ within: hold }), { code: 'LOCK_NOT_HELD' })
  })

  it('is taken if it is on other values of the same group', async () => {
    const [one, two] = ['1', '2'].map((value) => bench.client.getFasterMultiLock('group', [value])) as [Lock, Lock]
    const holders = await one.withLock((outer) => two.withLock((inner) => [outer.holder, inner.holder]))
    assert.equal(new Set(holders).size, 2)
  })

  it('that is never granted, as each holder waits for the other, is an error that says so', async () => {
    const [a, b] = [bench.lock, bench.client.getLock('b')]
    const nested = (outer: Lock, inner: Lock, waitTimeMs: number): Promise<void> =>
      outer.withLock(async () => {
        await bench.pause(10)
        await inner.withLock({ waitTimeMs }, () => {})
      })
    const both = Promise.allSettled([nested(a, b, 1_000), nested(b, a, 2_000)])
    const [first, second] = await bench.clock.until(both)
    assert(first.status === 'rejected' && second.status === 'fulfilled')
    assert.match(first.reason.heldBy, /deadlock: the holder waits for "a", which this call chain holds/)
  })
})

describe('the sides of a read-write lock', () => {
  it('are two locks to their owner, who holds and releases each by itself', async () => {
    const lock = bench.client.getReadWriteLock('rw')
    const [reads, writes] = [lock.readLock(), lock.writeLock()]
    await bench.client.runInScope(async () => {
      await writes.lock()
      assert.deepEqual([await writes.getHoldCount(), await reads.getHoldCount()], [1, 0])
      assert.deepEqual([await writes.isHeldByCurrentOwner(), await reads.isHeldByCurrentOwner()], [true, false])
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

describe('a call about the current owner', () => {
  it('is an error outside any hold or scope, which names the fix', async () => {
    const { lock } = bench
    for (const call of [() => lock.unlock(), () => lock.isHeldByCurrentOwner(), () => lock.getHoldCount()]) {
      await assert.rejects(call, { code: 'LOCK_NOT_HELD', lockName: 'a', message: /needs a current owner.*runInScope/ })
    }
  })
})

describe('a red lock', () => {
  it('inside a hold of its own, or its read locks inside a write, does not wait behind a caller who waits for that hold', async () => {
    const plain = ['a', 'b', 'c'].map((name) => bench.client.getLock(name))
    const cells = ['x', 'y', 'z'].map((name) => bench.client.getReadWriteLock(name))
    for (const [outer, inner] of [
      [plain, plain],
      [cells.map((lock) => lock.writeLock()), cells.map((lock) => lock.readLock())],
    ] as const) {
      const red = getRedLock(...inner)
      const order: string[] = []
      const holding = getMultiLock(...outer).withLock(async () => {
        await bench.pause(100)
        await red.withLock(() => order.push('inside'))
      })
      await turn()
      const outside = red.withLock(() => order.push('outside'))
      await bench.clock.until(Promise.all([holding, outside]))
      assert.deepEqual(order, ['inside', 'outside'])
    }
  })
})
