import assert from 'node:assert/strict'
import { assertInTime } from '../support/wait-until.js'
import { isBefore } from './kinds.js'
import { duration, int, type JavaArgument, long, MILLISECONDS, text } from './redisson.js'
import { endsWith, type SemaphoreCase, sees, sidesOf } from './semaphore-steps.js'
import type { SemaphoreFixture } from './semaphores.js'
import { becomes } from './steps.js'

/** What only the plain semaphore has. */
export const PLAIN_SEMAPHORE_CASES: readonly SemaphoreCase[] = [
  {
    id: 'anybody',
    title: 'a permit has no holder: either side releases permits of the other, and more than were acquired',
    kinds: ['semaphore'],
    async run(fixture) {
      const [java, node] = await sidesOf(fixture, 1)
      const { inJava, inNode } = await objectsOf(fixture)
      await java.acquire()
      await inNode.release()
      await sees([java, node], 1)
      await node.acquire()
      await inJava('release')
      await sees([java, node], 1)
      await inJava('release', int(2))
      await inNode.release(3)
      await endsWith(6, [java, node])
      return undefined
    },
  },
  {
    id: 'drained',
    title: 'a drain takes all available permits, and the other side finds none',
    kinds: ['semaphore'],
    async run(fixture) {
      const [java, node] = await sidesOf(fixture, 5)
      const { inJava, inNode } = await objectsOf(fixture)
      const drainers = [() => inNode.drainPermits(), async () => Number(await inJava('drainPermits'))]
      for (const drain of drainers) {
        assert.equal(await drain(), 5)
        await sees([java, node], 0)
        assert.equal(await java.tryAcquire(), null)
        assert.equal(await node.tryAcquire(), null)
        assert.equal(await drain(), 0)
        await java.addPermits(2)
        await node.addPermits(3)
      }
      await endsWith(5, [java, node])
      return undefined
    },
  },
  {
    id: 'expiry',
    title: 'each side sees the expiry of the other; Node keeps it, and creates nothing when it is over',
    kinds: ['semaphore'],
    async run(fixture) {
      const [java, node] = [await fixture.java(), fixture.node()]
      const { inJava, inNode } = await objectsOf(fixture)
      const leftInJava = async () => Number(await inJava('remainTimeToLive'))
      assert.equal(await inNode.trySetPermits(1, { timeToLiveMs: 30_000 }), true)
      const left = await leftInJava()
      assertInTime(left > 28_000, `${left} ms of 30 s`)
      assert.ok(left <= 30_000, `${left} ms of 30 s`)
      await (await java.acquire()).release()
      await (await node.acquire()).release()
      await node.addPermits(2)
      assert.ok((await leftInJava()) > 0)
      assert.equal(await inNode.drainPermits(), 3)
      assert.ok((await leftInJava()) > 0)
      assert.equal(await inJava('expire', long(300), MILLISECONDS), true)
      await becomes(() => fixture.backend.admin.exists(fixture.name), 0, 2_000)
      assert.equal(await inNode.releaseIfExists(), false)
      assert.equal(await inJava('isExists'), false)
      return undefined
    },
  },
  {
    id: 'java-expiry',
    title: 'a semaphore created by Java with an expiry ends for Node too, and releaseIfExists creates nothing',
    kinds: ['semaphore'],
    notFor: (_, version) => (isBefore(version, '4.0.0') ? 'Redisson has it since 3.29 and 4.0' : undefined),
    async run(fixture) {
      const [java, node] = [await fixture.java(), fixture.node()]
      const { inJava, inNode } = await objectsOf(fixture)
      assert.equal(await inJava('trySetPermits', int(1), duration(500)), true)
      await node.acquire()
      assert.equal(await inJava('releaseIfExists', int(1)), true)
      await java.acquire()
      assert.equal(await inNode.releaseIfExists(), true)
      await sees([java, node], 1)
      await sees([java, node], 0)
      assert.equal(await inNode.releaseIfExists(), false)
      assert.equal(await inJava('releaseIfExists', int(1)), false)
      assert.equal(await node.delete(), false)
      return undefined
    },
  },
]

/** The objects of a plain semaphore, for what only it has. */
async function objectsOf({ site, name, threads }: SemaphoreFixture) {
  const object = await site.redissons[0].get('getSemaphore', text(name))
  const inJava = (method: string, ...args: JavaArgument[]) => threads.call(object, method, ...args)
  return { inJava, inNode: site.clients[0].getSemaphore(name) }
}
