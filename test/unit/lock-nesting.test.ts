/** A lock inside another one of the same name: what is the same lock, what joins it, and what would wait for itself. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type BaseLock, getMultiLock, getRedLock, type Lock, type SelfDeadlockError } from '../../src/index.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'

let fixture: ClientFixture

beforeEach(() => {
  fixture = new ClientFixture({})
})

afterEach(() => fixture.close())

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

  it('a SelfDeadlockError has the frames of the call that took the lock, and none from inside it', async () => {
    const lock = fixture.client.getNonReentrantLock('a')
    const { code, holdStack = '' } = await deadlockOf(lock, lock)
    assert.equal(code, 'LOCK_SELF_DEADLOCK')
    const frames = holdStack.split('\n')
    assert.match(frames[0] ?? '', /^ +at \S*withLock /)
    assert(frames.some((frame) => /^ +at async refundTheOrder .*lock-nesting\.test/.test(frame)))
  })

  it('a SelfDeadlockError has no frames of a hold that could be re-entered, as a stack costs time', async () => {
    const [plain, string] = [fixture.client.getLock('a'), fixture.client.getStringLock('b')]
    for (const [outer, inner] of [
      [plain, fixture.client.getFencedLock('a')],
      [string, fixture.client.getLock('b')],
    ] as const) {
      const { code, holdStack } = await deadlockOf(outer, inner as Lock)
      assert.deepEqual([code, holdStack], ['LOCK_SELF_DEADLOCK', undefined])
    }
  })
})

describe('a try that would wait for its own call chain', () => {
  const cells = () => fixture.client.getReadWriteLock('a')
  const nonReentrant = () => fixture.client.getNonReentrantLock('a')
  const values = (...of: string[]) => fixture.client.getFasterMultiLock('a', of)
  const other = () => fixture.client.getLock('b')
  const table: readonly [title: string, outer: () => BaseLock, inner: () => BaseLock][] = [
    ['a write inside its own read', () => cells().readLock(), () => cells().writeLock()],
    ['a non-reentrant lock inside itself', nonReentrant, nonReentrant],
    [
      'a non-reentrant fair lock inside itself',
      () => fixture.client.getNonReentrantFairLock('a'),
      () => fixture.client.getNonReentrantFairLock('a'),
    ],
    ['some values inside others that they share', () => values('x', 'y'), () => values('y', 'z')],
    ['a string lock inside a plain lock of that name', () => fixture.lock, () => fixture.client.getStringLock('a')],
    ['a plain lock inside a fair lock of that name', () => fixture.client.getFairLock('a'), () => fixture.lock],
    ['a multi-lock inside one of its locks', nonReentrant, () => getMultiLock(nonReentrant(), other())],
    ['a lock inside a multi-lock of it', () => getMultiLock(nonReentrant(), other()), nonReentrant],
    [
      'a red lock inside most of its locks',
      () => getMultiLock(nonReentrant(), other()),
      () => getRedLock(nonReentrant(), fixture.client.getFairLock('b'), fixture.client.getLock('c')),
    ],
  ]
  for (const [title, outer, inner] of table) {
    it(`a try that would wait for its own call chain is refused at once, without a command: ${title}`, async () => {
      await outer().withLock(async () => {
        const before = fixture.port.sent.length
        for (const waitTimeMs of [undefined, 0, 60_000]) {
          assert.equal(await inner().tryLock({ waitTimeMs }), null)
          assert.deepEqual(await inner().tryWithLock({ waitTimeMs }, () => assert.fail('must not run')), { ran: false })
        }
        await assert.rejects(inner().lock(), { code: 'LOCK_SELF_DEADLOCK' })
        assert.equal(fixture.port.sent.length, before)
      })
      assert.notEqual(await inner().tryWithLock(() => {}), { ran: false })
    })
  }

  it("a red lock's try counts a lock in its call chain's way as refused, not as a failed server", async () => {
    const locks = [nonReentrant(), other(), fixture.other.getLock('c')]
    fixture.redis.set('b', 'somebody:1', 1, 60_000)
    await nonReentrant().withLock(async () => {
      fixture.otherPort.fault = () => ({ lost: 'request' })
      assert.equal(await fixture.clock.until(getRedLock(...locks).tryLock()), null)
      fixture.otherPort.fault = () => undefined
    })
    fixture.redis.delete('b')
    await fixture.clock.advance(60_000)
  })
})

describe('a lock inside another', () => {
  it('a lock inside another is re-entered at once if it is the same, although others wait for it', async () => {
    const holding = fixture.lock.withLock(async () => {
      await fixture.pause(100)
      assert.equal(await fixture.lock.withLock({ waitTimeMs: 50 }, (inner) => inner.count), 2)
    })
    await turn()
    const outside = fixture.lock.withLock(({ count }) => count)
    await fixture.clock.until(holding)
    assert.equal(await fixture.clock.until(outside), 1)
  })

  it('a lock inside another is not re-entered through a hold of another lock or of another client', async () => {
    const hold = await fixture.lock.lock()
    for (const lock of [fixture.client.getLock('b'), fixture.other.getLock('a')]) {
      await assert.rejects(lock.lock({ within: hold }), { code: 'LOCK_CONFIG', path: 'within', lockName: lock.name })
    }
    await hold.unlock()
    await assert.rejects(fixture.lock.lock({ within: hold }), { code: 'LOCK_NOT_HELD' })
  })

  it('a lock inside another is taken if it is on other values of the same group', async () => {
    const [one, two] = ['1', '2'].map((value) => fixture.client.getFasterMultiLock('group', [value])) as [Lock, Lock]
    const holders = await one.withLock((outer) => two.withLock((inner) => [outer.holder, inner.holder]))
    assert.equal(new Set(holders).size, 2)
  })

  it('a lock inside another that is never granted, as each waits for the other, is an error', async () => {
    const [a, b] = [fixture.lock, fixture.client.getLock('b')]
    const nested = (outer: Lock, inner: Lock, waitTimeMs: number): Promise<void> =>
      outer.withLock(async () => {
        await fixture.pause(10)
        await inner.withLock({ waitTimeMs }, () => {})
      })
    const both = Promise.allSettled([nested(a, b, 1_000), nested(b, a, 2_000)])
    const [first, second] = await fixture.clock.until(both)
    assert(first.status === 'rejected' && second.status === 'fulfilled')
    assert.match(first.reason.heldBy, /deadlock: the holder waits for "a", which this call chain holds/)
  })
})

describe('the sides of a read-write lock', () => {
  it('the sides of a read-write lock are two locks to their owner, released each by itself', async () => {
    const lock = fixture.client.getReadWriteLock('rw')
    const [reads, writes] = [lock.readLock(), lock.writeLock()]
    await fixture.client.runInScope(async () => {
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

  it('the sides of a read-write lock do not keep a write from being handed off after its reads', async () => {
    const lock = fixture.client.getReadWriteLock('rw')
    const hold = await lock.writeLock().lock()
    for (let round = 0; round < 2; round++) await (await lock.readLock().lock({ within: hold })).unlock()
    const next = lock.writeLock().lock()
    await turn()
    assert.deepEqual(await fixture.commandsOf(() => hold.unlock()), [])
    await (await next).unlock()
  })
})

describe('a call about the current owner', () => {
  it('a call about the current owner is an error outside any hold or scope, and names the fix', async () => {
    const { lock } = fixture
    for (const [call, name, instead] of [
      [() => lock.unlock(), 'unlock', 'hold.unlock()'],
      [() => lock.isHeldByCurrentOwner(), 'isHeldByCurrentOwner', 'hold.isHeld()'],
      [() => lock.getHoldCount(), 'getHoldCount', 'hold.count'],
    ] as const) {
      await assert.rejects(call, {
        code: 'LOCK_NOT_HELD',
        lockName: 'a',
        message:
          `${name}() on lock "a" needs a current owner, and this call is inside no hold and no scope: ` +
          `use ${instead} of the hold that lock() returned, or run the code with client.runInScope()`,
      })
    }
  })
})

describe('a red lock', () => {
  it('a red lock inside a hold of its own does not wait behind a caller who waits for that hold', async () => {
    const plain = ['a', 'b', 'c'].map((name) => fixture.client.getLock(name))
    const cells = ['x', 'y', 'z'].map((name) => fixture.client.getReadWriteLock(name))
    for (const [outer, inner] of [
      [plain, plain],
      [cells.map((lock) => lock.writeLock()), cells.map((lock) => lock.readLock())],
    ] as const) {
      const red = getRedLock(...inner)
      const order: string[] = []
      const holding = getMultiLock(...outer).withLock(async () => {
        await fixture.pause(100)
        await red.withLock(() => order.push('inside'))
      })
      await turn()
      const outside = red.withLock(() => order.push('outside'))
      await fixture.clock.until(Promise.all([holding, outside]))
      assert.deepEqual(order, ['inside', 'outside'])
    }
  })
})
