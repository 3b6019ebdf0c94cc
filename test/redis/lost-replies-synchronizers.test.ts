/**
 * Commands of semaphores and latches whose request or reply is lost.
 *
 * Each test shows that a known defect of Redisson’s RedissonSemaphore, RedissonPermitExpirableSemaphore and RedissonCountDownLatch
 * does not occur here.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Client } from '../../src/index.js'
import { semaphoreAcquire } from '../../src/lua/generated.js'
import { generationKey } from '../../src/wire/keys.js'
import { drivers, setUpFixture } from '../support/fixture.js'
import { listening } from '../support/subscribers.js'
import { repliesForgotten, requestOf, STORED_REPLIES } from '../support/synchronizers.js'
import { settlesWithin, waitUntil } from '../support/wait-until.js'

for (const driver of drivers) {
  describe(`a command of a synchronizer whose reply is lost, through ${driver.name} with its default settings`, () => {
    const fixture = setUpFixture(driver, [], { keysThatStay: STORED_REPLIES })

    /** Redis knows the scripts from here on, so that the faults find the requests. */
    async function warmUp(client: Client): Promise<void> {
      const semaphore = client.getSemaphore('a')
      await semaphore.trySetPermits(5)
      await semaphore.withPermit(() => {})
      await semaphore.addPermits(1)
      await semaphore.drainPermits()
      await semaphore.delete()
      const permits = client.getPermitExpirableSemaphore('p')
      await permits.setPermits(5)
      await permits.withPermit(() => {})
      const latch = client.getCountDownLatch('l')
      await latch.trySetCount(1)
      await latch.countDown()
    }

    it('a command that is repeated after its request or reply was lost counts once', async () => {
      fixture.onEnd(() => fixture.server.admin.del('a', 'p', 'l'))
      const { client, proxy } = await fixture.connectThroughProxy()
      await warmUp(client)
      const { admin } = fixture.server
      const [semaphore, permits] = [client.getSemaphore('a'), client.getPermitExpirableSemaphore('p')]
      const latch = client.getCountDownLatch('l')
      const ways = [proxy.dropNextReply.bind(proxy), proxy.dropNextRequest.bind(proxy)]
      const steps: readonly [
        script: string,
        operation: () => Promise<unknown>,
        key: string,
        before: number,
        after: number,
      ][] = [
        ['semaphore/acquire', () => semaphore.acquire({ permits: 2 }), 'a', 5, 3],
        ['semaphore/release', () => semaphore.release(2), 'a', 3, 5],
        ['semaphore/release', () => semaphore.releaseIfExists(2), 'a', 3, 5],
        ['semaphore/add-permits', () => semaphore.addPermits(2), 'a', 3, 5],
        ['semaphore/add-permits', () => semaphore.reducePermits(2), 'a', 3, 1],
        ['permit/set-permits', () => permits.setPermits(7), 'p', 5, 7],
        ['latch/count-down', () => latch.countDown(), 'l', 3, 2],
      ]
      for (const [script, operation, key, before, after] of steps) {
        for (const drop of ways) {
          await admin.set(key, before)
          drop(requestOf(script))
          await operation()
          await proxy.dropped
          assert.equal(await admin.get(key), String(after), script)
        }
      }
    })

    it('the result is that of the first copy of a repeated request', async () => {
      fixture.onEnd(() => fixture.server.admin.del('a', 'p', 'l'))
      const { client, proxy } = await fixture.connectThroughProxy()
      await warmUp(client)
      const { admin } = fixture.server
      const [semaphore, latch] = [client.getSemaphore('a'), client.getCountDownLatch('l')]
      await admin.del('a', 'l')

      proxy.dropNextReply(requestOf('semaphore/set-permits'))
      assert.equal(await semaphore.trySetPermits(3), true)
      await proxy.dropped
      assert.equal(await admin.get('a'), '3')

      proxy.dropNextReply(requestOf('semaphore/drain-permits'))
      assert.equal(await semaphore.drainPermits(), 3)
      await proxy.dropped
      assert.equal(await admin.get('a'), '0')

      proxy.dropNextReply(requestOf('latch/set-count'))
      assert.equal(await latch.trySetCount(1), true)
      await proxy.dropped
      assert.equal(await admin.get('l'), '1')

      // It opens at the first copy, and a new count that was set meanwhile is left alone.
      proxy.dropNextReply(requestOf('latch/count-down'))
      const counted = latch.countDown()
      await proxy.dropped
      await admin.set('l', 1)
      await counted
      assert.equal(await admin.get('l'), '1')
    })

    it('a copy of an acquire that arrives after its caller has gone takes nothing', async () => {
      fixture.onEnd(() => fixture.server.admin.del('a', 'p'))
      const { client, proxy } = await fixture.connectThroughProxy()
      await warmUp(client)
      const { admin } = fixture.server
      const semaphore = client.getSemaphore('a')
      await repliesForgotten(fixture)
      const abort = new AbortController()
      proxy.dropNextReply(requestOf('semaphore/acquire'))
      const waiting = settlesWithin(semaphore.acquire({ signal: abort.signal }), 10_000)
      await proxy.dropped
      await listening(fixture)
      abort.abort()
      assert.equal((await waiting).status, 'rejected')
      const receipts = `holdfast_idempotency:{a}:${client.id}`
      const [operation] = await waitUntil(async () => {
        const [field] = Object.entries(await admin.hgetall(receipts))
        return field
      })
      await semaphore.availablePermits() // behind an attempt that was in flight at the abort, on the same connection
      await admin.set('a', 1)
      const copy = semaphoreAcquire('a', receipts, generationKey('a'), 1, operation, Date.now())
      assert.equal(await admin.eval(copy.script.text, copy.keys.length, ...copy.keys, ...copy.args), 0)
      assert.equal(await admin.get('a'), '1')
    })

    it('a permit with a lease is acquired once and released once despite lost replies', async () => {
      fixture.onEnd(() => fixture.server.admin.del('a', 'p'))
      const { client, proxy } = await fixture.connectThroughProxy()
      await warmUp(client)
      const permits = client.getPermitExpirableSemaphore('p')
      const numbers = async () => [await permits.availablePermits(), await permits.acquiredPermits()]
      for (const drop of [proxy.dropNextReply.bind(proxy), proxy.dropNextRequest.bind(proxy)]) {
        drop(requestOf('permit/acquire'))
        const permit = await permits.acquire({ permits: 2 })
        await proxy.dropped
        permit.assertHeld()
        assert.deepEqual(await numbers(), [3, 2])
        drop(requestOf('permit/release'))
        await permit.unlock()
        await proxy.dropped
        assert.deepEqual(await numbers(), [5, 0])

        const [known, others] = [await permits.acquire(), await permits.acquire({ permits: 2 })]
        await permits.release(known.permitIds) // Redis knows the script
        drop(requestOf('permit/release-all'))
        await permits.release(others.permitIds)
        await proxy.dropped
        assert.deepEqual(await numbers(), [5, 0])
        for (const hold of [known, others]) await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
      }
    })

    it('a count-down with a lost reply is neither lost nor doubled, for waiters too', async () => {
      const { client, proxy } = await fixture.connectThroughProxy()
      const other = (await fixture.connect()).getCountDownLatch('l')
      await warmUp(client)
      await client.getPermitExpirableSemaphore('p').delete()
      await other.trySetCount(2)
      const waiting = other.await()
      proxy.dropNextReply(requestOf('latch/count-down'))
      await client.getCountDownLatch('l').countDown()
      assert.equal(await other.getCount(), 1)
      proxy.dropNextRequest(requestOf('latch/count-down'))
      await client.getCountDownLatch('l').countDown()
      assert.equal(await waiting, true)
    })
  })
}
