/** `runInScope`: one owner for a call chain. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setUpLab } from '../support/lab.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

describe('a scope', () => {
  const lab = setUpLab()

  it('makes its call chain one owner, so that Java code ports line by line', async () => {
    const client = await lab.connect()
    const lock = client.getLock('a')
    await client.runInScope(async () => {
      assert.equal(await lock.isHeldByCurrentOwner(), false)
      assert.equal(await lock.getHoldCount(), 0)
      const hold = await lock.lock()
      try {
        const again = await lock.lock()
        assert.equal(again.holder, hold.holder)
        assert.equal(await lock.getHoldCount(), 2)
        await lock.unlock()
        assert.equal(await lock.isHeldByCurrentOwner(), true)
        assert.equal((await client.getLock('b').lock()).ownerId, hold.ownerId, 'one owner for all its locks')
        await client.getLock('b').unlock()
      } finally {
        await lock.unlock()
      }
      assert.equal(await lock.isHeldByCurrentOwner(), false)
      await assert.rejects(lock.unlock(), { code: 'LOCK_NOT_HELD' })
    })
  })

  it('excludes other scopes', async () => {
    const client = await lab.connect()
    const lock = client.getLock('a')
    let inside = 0
    await Promise.all(
      Array.from({ length: 5 }, () =>
        client.runInScope(async () => {
          await lock.lock()
          assert.equal(++inside, 1)
          await sleep(2)
          inside--
          await lock.unlock()
        }),
      ),
    )
  })

  it('re-enters the hold of withLock around it', async () => {
    const client = await lab.connect()
    const lock = client.getLock('a')
    await lock.withLock(async (outer) => {
      await client.runInScope(async () => {
        const inner = await lock.lock()
        assert.equal(inner.holder, outer.holder)
        await lock.unlock()
        outer.assertHeld()
      })
    })
  })

  it('treats two acquisitions at the same time as siblings', async () => {
    const client = await lab.connect()
    const lock = client.getLock('a')
    await client.runInScope(async () => {
      const taken = await Promise.all([lock.tryLock(), lock.tryLock(), lock.tryLock()])
      const holds = taken.filter((hold) => hold !== null)
      assert.equal(holds.length, 1)
      await holds[0]?.unlock()
    })
  })

  it('lets tasks that wait at the same time for a lock of somebody else have it one after the other', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const foreign = await other.getLock('a').lock()
    let inside = 0
    await client.runInScope(async () => {
      const task = async (): Promise<void> => {
        const hold = await client.getLock('a').lock({ waitTimeMs: 3_000 })
        assert.equal(++inside, 1)
        await sleep(5)
        inside--
        await hold.unlock()
      }
      const tasks = [task(), task(), task()]
      await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === 1)
      await foreign.unlock()
      await Promise.all(tasks)
    })
  })

  it('uses a new owner after a hold was lost, so that a late release of the old one frees nothing', async () => {
    const client = await lab.connect()
    const lock = client.getLock('a')
    await client.runInScope(async () => {
      const first = await lock.lock({ leaseTimeMs: 60 })
      await waitUntil(() => first.signal.aborted)
      await assert.rejects(first.unlock(), { code: 'LOCK_LEASE_LOST' })
      const second = await lock.lock()
      assert.notEqual(second.ownerId, first.ownerId)
      await sleep(300)
      assert.equal(await second.isHeld(), true)
      await lock.unlock()
    })
  })

  it('keeps a task out while another one is inside withLock(), and leaves that hold alone', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const lock = client.getLock('a')
    await client.runInScope(async () => {
      const body = lock.withLock(async (hold) => {
        await sleep(150)
        hold.assertHeld()
        assert.equal(await hold.isHeld(), true)
      })
      await waitUntil(() => lock.isLocked())
      assert.equal(await lock.tryLock(), null)
      assert.deepEqual(await lock.tryWithLock(() => assert.fail('must not run')), { ran: false })
      assert.equal(await other.getLock('a').tryLock(), null)
      await body
    })
  })

  it('leaves a newer hold alone when an older one that was lost is unlocked', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const lock = client.getLock('a')
    await client.runInScope(async () => {
      const old = await lock.lock({ leaseTimeMs: 60 })
      await sleep(80)
      const fresh = await lock.lock()
      await assert.rejects(old.unlock(), { code: 'LOCK_LEASE_LOST' })
      await sleep(100)
      assert.equal(await other.getLock('a').tryLock(), null)
      assert.equal(await fresh.isHeld(), true)
      await fresh.unlock()
    })
  })

  it('leaves a hold alone after an aborted attempt and the release of another lock', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const foreign = await other.getLock('a').lock()
    await client.runInScope(async () => {
      const b = await client.getLock('b').lock()
      const controller = new AbortController()
      const aborted = client.getLock('a').tryLock({ signal: controller.signal })
      controller.abort()
      await assert.rejects(aborted)
      await b.unlock()
      await foreign.unlock()
      const a = await client.getLock('a').lock()
      await sleep(300)
      assert.equal(await a.isHeld(), true)
      await a.unlock()
    })
  })

  it('does not take a handed over lock again after the release of another one', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    await client.runInScope(async () => {
      const b = await client.getLock('b').lock()
      const holder = (await client.getLock('a').lock()).handOver()
      await b.unlock()
      assert.equal(await client.getLock('a').tryLock(), null)
      await (await other.adopt('a', holder)).unlock()
    })
  })

  it('does not take a lock again beside the one to whom it was handed over', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    await client.runInScope(async () => {
      const hold = await client.getLock('a').lock()
      const holder = hold.handOver()
      assert.equal(await client.getLock('a').tryLock(), null)
      await (await other.adopt('a', holder)).unlock()
    })
  })

  it('outside any scope or hold the calls of the current owner throw, and say what to do', async () => {
    const client = await lab.connect()
    const lock = client.getLock('a')
    const hold = await lock.lock()
    const calls: Promise<unknown>[] = [lock.unlock(), lock.isHeldByCurrentOwner(), lock.getHoldCount()]
    for (const call of calls) {
      const outcome = await settlesWithin(call, 1_000)
      assert(outcome.status === 'rejected')
      assert.equal(outcome.reason.code, 'LOCK_NOT_HELD')
      assert.match(outcome.reason.message, /runInScope/)
    }
    await hold.unlock()
  })
})
