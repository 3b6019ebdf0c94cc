/** `runInScope`: one owner for a call chain. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setUpFixture } from '../support/fixture.js'
import { listening } from '../support/subscribers.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

describe('a scope', () => {
  const fixture = setUpFixture()

  it('a scope makes its call chain one owner, as in Java code', async () => {
    const client = await fixture.connect()
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

  it('scopes exclude each other', async () => {
    const client = await fixture.connect()
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

  it('a scope inside withLock() re-enters its hold', async () => {
    const client = await fixture.connect()
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

  it('two concurrent acquisitions in one scope exclude each other', async () => {
    const client = await fixture.connect()
    const lock = client.getLock('a')
    await client.runInScope(async () => {
      const taken = await Promise.all([lock.tryLock(), lock.tryLock(), lock.tryLock()])
      const holds = taken.filter((hold) => hold !== null)
      assert.equal(holds.length, 1)
      await holds[0]?.unlock()
    })
  })

  it('concurrent tasks of one scope that wait for a foreign lock get it one after the other', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
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
      await listening(fixture)
      await foreign.unlock()
      await Promise.all(tasks)
    })
  })

  it('a scope uses a new owner after a lost hold, so that a late release of the old one frees nothing', async () => {
    const client = await fixture.connect()
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

  it('a scope keeps a task out while another is inside withLock(), and does not affect that hold', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
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

  it('unlocking an older lost hold in a scope does not affect a newer one', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
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

  it('an aborted attempt and the release of another lock do not affect a hold of the scope', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
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

  it('a scope does not acquire a transferred lock again after releasing another one', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    await client.runInScope(async () => {
      const b = await client.getLock('b').lock()
      const holder = (await client.getLock('a').lock()).handOver()
      await b.unlock()
      assert.equal(await client.getLock('a').tryLock(), null)
      await (await other.adopt('a', holder)).unlock()
    })
  })

  it('a scope does not acquire a transferred lock again while the new holder has it', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    await client.runInScope(async () => {
      const hold = await client.getLock('a').lock()
      const holder = hold.handOver()
      assert.equal(await client.getLock('a').tryLock(), null)
      await (await other.adopt('a', holder)).unlock()
    })
  })

  it('calls of the current owner outside any scope or hold throw and name the fix', async () => {
    const client = await fixture.connect()
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
