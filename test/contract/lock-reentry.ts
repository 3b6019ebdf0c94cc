/** Exclusion, and what an owner that holds a lock may do with it again: for every kind of lock. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { BaseLock, Client, Hold, Lock, SelfDeadlockError } from '../../src/index.js'
import { countCommands } from '../support/command-stats.js'
import type { AnyFixture } from '../support/fixture.js'
import type { Kind, KindFixture } from '../support/kinds.js'
import { mostInside } from '../support/most-inside.js'
import { sleep, waitUntil } from '../support/wait-until.js'

export function exclusionContract(kind: Kind, fixture: AnyFixture, kindFixture: KindFixture): void {
  if (kind.isShared) {
    it('a shared lock admits many holders at once, and its rival when the last one has left', async () => {
      const [one, two] = [await fixture.connect(), await fixture.connect()]
      const lock = kindFixture.lock(one)
      let inside = 0
      const together = (): Promise<unknown> => waitUntil(() => inside === 4, { message: 'all four are inside' })
      const bodies = [lock, lock, kindFixture.lock(one), kindFixture.lock(two)].map((each) =>
        each.withLock(async () => {
          inside++
          await together()
        }),
      )
      await Promise.all(bodies)

      const holds = [await lock.lock(), await lock.lock(), await kindFixture.lock(two).lock()]
      const [part] = kindFixture.parts(two)
      const holders = (await part?.getHolders())?.toSorted((a, b) => (a.holder < b.holder ? -1 : 1))
      assert.deepEqual(
        holders,
        holds.map(({ holder }) => ({ holder, holdCount: 1 })).toSorted((a, b) => (a.holder < b.holder ? -1 : 1)),
      )
      const rival = kindFixture.rival(two).lock()
      for (const hold of holds) {
        assert.equal(await kindFixture.rival(one).tryLock(), null)
        await hold.unlock()
      }
      await (await rival).unlock()
    })

    it('waiting for the rival of a shared lock inside its own hold is a SelfDeadlockError, and a try is refused', async () => {
      const client = await fixture.connect()
      await kindFixture.lock(client).withLock(async (hold) => {
        await assert.rejects(kindFixture.rival(client).lock(), { code: 'LOCK_SELF_DEADLOCK', lockName: 'a' })
        await expectRefused(kindFixture.rival(client))
        assert.equal(await hold.isHeld(), true)
      })
    })
    return
  }

  it('siblings of one Promise.all exclude each other, on one lock object and on two', async () => {
    const client = await fixture.connect()
    const lock = kindFixture.lock(client)
    assert.equal(await mostInside([lock, lock, lock]), 1)
    assert.equal(await mostInside([kindFixture.lock(client), kindFixture.lock(client), kindFixture.lock(client)]), 1)
  })

  it('a read-modify-write of two clients and many tasks stays exact', async () => {
    const { admin } = fixture.server
    const clients = [await fixture.connect(), await fixture.connect()] as const
    await admin.set('stock', 100)
    const sell = async (index: number): Promise<void> => {
      await kindFixture.lock(clients[index % 2] as Client).withLock(async () => {
        const stock = Number(await admin.get('stock'))
        await null
        await admin.set('stock', stock - 1)
      })
    }
    await Promise.all(Array.from({ length: 100 }, (_, index) => sell(index)))
    assert.equal(await admin.get('stock'), '0')
    await admin.del('stock')
  })

  it('scopes exclude each other', async () => {
    const client = await fixture.connect()
    const lock = kindFixture.lock(client)
    let inside = 0
    await Promise.all(
      Array.from({ length: 5 }, () =>
        client.runInScope(async () => {
          const hold = await lock.lock()
          assert.equal(++inside, 1)
          await sleep(2)
          inside--
          await hold.unlock()
        }),
      ),
    )
  })
}

/** Fails unless each way to try a lock is refused, at once: a longer wait would let the test run out of time. */
async function expectRefused(lock: BaseLock): Promise<void> {
  for (const waitTimeMs of [undefined, 0, 600_000]) {
    assert.equal(await lock.tryLock({ waitTimeMs }), null)
    assert.deepEqual(await lock.tryWithLock({ waitTimeMs }, () => assert.fail('must not run')), { ran: false })
  }
}

export function reentryContract(kind: Kind, fixture: AnyFixture, kindFixture: KindFixture): void {
  it('calls of the current owner outside any scope or hold throw and name the fix', async () => {
    const client = await fixture.connect()
    const hold = await kindFixture.lock(client).lock()
    for (const part of kindFixture.parts(client)) {
      for (const call of ['isHeldByCurrentOwner', 'getHoldCount'] as const) {
        await assert.rejects(part[call](), { code: 'LOCK_NOT_HELD', message: new RegExp(`^${call}\\(.*runInScope`) })
      }
    }
    for (const lock of [kindFixture.lock(client), ...kindFixture.parts(client)]) {
      await assert.rejects(lock.unlock(), { code: 'LOCK_NOT_HELD', message: /^unlock\(.*runInScope/ })
    }
    await hold.unlock()
  })

  it('unlock() in a scope, or inside withLock, releases what the current owner took last', async () => {
    const client = await fixture.connect()
    await client.runInScope(async () => {
      const lock = kindFixture.lock(client)
      await lock.lock()
      assert.equal(await kindFixture.isFree(), false)
      await kindFixture.lock(client).unlock()
      assert.equal(await kindFixture.isFree(), true)
      await assert.rejects(lock.unlock(), { code: 'LOCK_NOT_HELD', message: /by the current owner/ })
    })
    await kindFixture.lock(client).withLock(async () => {
      await kindFixture.lock(client).unlock()
      assert.equal(await kindFixture.isFree(), true)
    })
  })

  if (!kind.isReentrant) {
    it('acquiring a non-reentrant lock inside its own hold is a SelfDeadlockError at once, and a try is refused', async () => {
      const client = await fixture.connect()
      const lock = kindFixture.lock(client)
      await lock.withLock(async (hold) => await expectDeadlock(client, hold))
      assert.equal(await kindFixture.isFree(), true)
      await client.runInScope(async () => {
        const hold = await lock.lock()
        await expectDeadlock(client, hold)
        await hold.unlock()
      })
      assert.equal(await kindFixture.isFree(), true)
    })

    async function expectDeadlock(client: Client, hold: Hold): Promise<void> {
      const lock = kindFixture.lock(client)
      const count = await countCommands(fixture.server, async () => {
        for (const call of [
          () => lock.lock(),
          () => lock.lock({ waitTimeMs: 60_000 }),
          () => lock.withLock(() => assert.fail('must not run')),
          () => lock.lock({ within: hold }),
        ]) {
          await assert.rejects(call, (error: SelfDeadlockError) => {
            assert.deepEqual([error.code, error.lockName], ['LOCK_SELF_DEADLOCK', 'a'])
            assert.match(error.holdStack ?? '', /contract\/lock-reentry\./, 'where it was taken')
            assert.match(error.stack ?? '', /contract\/lock-reentry\./, 'where it was requested')
            return true
          })
        }
        await expectRefused(lock)
        assert.equal(await lock.tryLock({ within: hold }), null)
      })
      assert.equal(count.total, 0)
      assert.equal(await hold.isHeld(), true)
    }

    it('the call chain of a scope holds a non-reentrant lock, as in Java code', async () => {
      const client = await fixture.connect()
      await client.runInScope(async () => {
        const lock = kindFixture.parts(client)[0] as Lock
        assert.equal(await lock.isHeldByCurrentOwner(), false)
        await lock.lock()
        assert.equal(await lock.isHeldByCurrentOwner(), true)
        assert.equal(await lock.getHoldCount(), 1)
        await lock.unlock()
        assert.equal(await lock.isHeldByCurrentOwner(), false)
        await assert.rejects(lock.unlock(), { code: 'LOCK_NOT_HELD' })
      })
    })
    return
  }

  it('the call chain of withLock re-enters through any lock object of the name', async () => {
    const client = await fixture.connect()
    await kindFixture.lock(client).withLock(async (outer) => {
      await sleep(1)
      await kindFixture.lock(client).withLock(async (inner) => {
        assert.equal(inner.holder, outer.holder)
        await kindFixture.expectCount(2)
        for (const part of kindFixture.parts(client)) assert.equal(await part.getHoldCount(), 2)
      })
      await kindFixture.expectCount(1)
      for (const part of kindFixture.parts(client)) assert.equal(await part.getHoldCount(), 1)
      outer.assertHeld()
      assert.equal(await outer.isHeld(), true)
    })
    assert.equal(await kindFixture.isFree(), true)
  })

  it('a hold is re-entered while others wait for it', async () => {
    const client = await fixture.connect()
    let othersWait: () => void = () => {}
    const theyWait = new Promise<void>((resolve) => {
      othersWait = resolve // perhaps before the body begins: of several locks the first is taken before
    })
    const body = kindFixture.lock(client).withLock(async (outer) => {
      await theyWait
      const inner = await kindFixture.lock(client).tryLock({ waitTimeMs: 2_000 })
      assert.equal(inner?.holder, outer.holder)
      await inner?.unlock()
    })
    await waitUntil(async () => !(await kindFixture.isFree()))
    const waiters = [kindFixture.rival(client).withLock(() => {}), kindFixture.rival(client).withLock(() => {})]
    await kindFixture.somebodyWaits()
    othersWait()
    await Promise.all([body, ...waiters])
  })

  it('inner and outer holds may end in either order, and the other one stays held', async () => {
    const client = await fixture.connect()
    await client.runInScope(async () => {
      for (const [first, last] of [
        [0, 1],
        [1, 0],
      ] as const) {
        const holds = [await kindFixture.lock(client).lock(), await kindFixture.lock(client).lock()]
        await holds[first]?.unlock()
        assert.equal(await holds[last]?.isHeld(), true)
        await kindFixture.expectCount(1)
        await holds[last]?.unlock()
        assert.equal(await kindFixture.isFree(), true)
      }
    })
  })

  it('the outer hold has the lease of a nested one that was released, and lock.unlock() ends both', async () => {
    const client = await fixture.connect()
    await client.runInScope(async () => {
      const outer = await kindFixture.lock(client).lock({ leaseTimeMs: 5_000 })
      await (await kindFixture.lock(client).lock({ leaseTimeMs: 60_000 })).unlock()
      const believedMs = outer.remainingMs()
      const left = await Promise.all(kindFixture.parts(client).map((part) => part.remainingLeaseMs()))
      assert(believedMs > 5_000 && left.every((ms) => ms > 5_000), `${believedMs} ms, in Redis ${left.join(' and ')}`)
      for (const part of kindFixture.parts(client)) await part.unlock()
      assert.equal(await kindFixture.isFree(), true)
    })
  })

  it('the call chain of a scope is one owner, as in Java code', async () => {
    const client = await fixture.connect()
    const lock = kindFixture.lock(client)
    const parts = kindFixture.parts(client)
    await client.runInScope(async () => {
      for (const part of parts) {
        assert.equal(await part.isHeldByCurrentOwner(), false)
        assert.equal(await part.getHoldCount(), 0)
      }
      const hold = await lock.lock()
      const again = await lock.lock()
      assert.equal(again.holder, hold.holder)
      for (const part of parts) assert.equal(await part.getHoldCount(), 2)
      await release(again)
      for (const part of parts) {
        assert.equal(await part.isHeldByCurrentOwner(), true)
        assert.equal(await part.getHoldCount(), 1)
      }
      await release(hold)
      assert.equal(await kindFixture.isFree(), true)
      for (const part of parts) {
        assert.equal(await part.isHeldByCurrentOwner(), false)
        await assert.rejects(part.unlock(), { code: 'LOCK_NOT_HELD' })
      }
    })

    async function release(hold: Hold): Promise<void> {
      if (kind.isJoint) await hold.unlock()
      else await parts[0]?.unlock()
    }
  })

  if (kind.isJoint) {
    it('a joint lock refuses `within`, because it has no hold of its own to re-enter', async () => {
      const client = await fixture.connect()
      const hold = await kindFixture.lock(client).lock()
      await assert.rejects(kindFixture.lock(client).lock({ within: hold }), { code: 'LOCK_CONFIG', path: 'within' })
      await hold.unlock()
    })
    return
  }

  it('`within` re-enters where the call chain does not reach, and refuses a hold that does not fit', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await kindFixture.lock(client).lock()
    const again = await kindFixture.lock(client).lock({ within: hold })
    assert.deepEqual([again.holder, again.count, hold.count], [hold.holder, 2, 2])
    await kindFixture.expectCount(2)
    await again.unlock()
    const misfit = { code: 'LOCK_CONFIG', path: 'within' }
    await assert.rejects(kindFixture.lock(client, 'b').lock({ within: hold }), misfit)
    await assert.rejects(kindFixture.lock(other).lock({ within: hold }), misfit)
    await hold.unlock()
    await assert.rejects(kindFixture.lock(client).lock({ within: hold }), { code: 'LOCK_NOT_HELD' })
  })

  it('an inner hold has its own lease, whose end does not end the outer hold', async () => {
    const client = await fixture.connect()
    await kindFixture.lock(client).withLock(async (outer) => {
      const inner = await kindFixture.lock(client).lock({ leaseTimeMs: 150 })
      await waitUntil(() => inner.signal.aborted)
      outer.assertHeld()
      assert.equal(outer.count, 1)
      assert.equal(await outer.isHeld(), true)
      await assert.rejects(inner.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
      assert.equal(await outer.isHeld(), true)
    })
    assert.equal(await kindFixture.isFree(), true)
  })
}
