import assert from 'node:assert/strict'
import { assertInTime, sleep } from '../support/wait-until.js'
import { oddNames } from './case.js'
import { SEMAPHORES_FAIL_OVER } from './failover-cases.js'
import { isBefore } from './kinds.js'
import { PERMIT_CASES } from './permit-cases.js'
import { PLAIN_SEMAPHORE_CASES } from './plain-semaphore-cases.js'
import { endsWith, type SemaphoreCase, sees, sidesOf } from './semaphore-steps.js'
import type { SemaphoreFixture, Side, Taken } from './semaphores.js'
import { becomes, measure, PROMPT_MS, RESUBSCRIBED_MS, soon, sum, WOKEN_MS } from './steps.js'

const STOCK = 60

/** For both kinds of semaphores, then those for one of them. */
export const SEMAPHORE_CASES: readonly SemaphoreCase[] = [
  {
    id: 'java-first',
    title: 'while Java has all permits Node and Java are refused, then Node gets them',
    async run(fixture) {
      const [java, node] = await sidesOf(fixture, 3)
      await excludes(java, node, 3)
      await endsWith(3, [java, node])
      return undefined
    },
  },
  {
    id: 'node-first',
    title: 'while Node has all permits Java and Node are refused, then Java gets them',
    async run(fixture) {
      const [java, node] = await sidesOf(fixture, 3)
      await excludes(node, java, 3)
      await endsWith(3, [java, node])
      return undefined
    },
  },
  {
    id: 'names',
    title: 'names with tags, braces, spaces and any letters mean the same semaphore',
    async run(fixture) {
      for (const name of oddNames(fixture)) {
        const [java, node] = await sidesOf(fixture, 2, name)
        await excludes(java, node, 2)
        await excludes(node, java, 2)
        const what = JSON.stringify(name)
        assertInTime((await handOver(fixture, java, node, 2, name)) < PROMPT_MS, `Node is woken: ${what}`)
        assertInTime((await handOver(fixture, node, java, 2, name)) < PROMPT_MS, `Java is woken: ${what}`)
        await endsWith(2, [java, node])
      }
      return undefined
    },
  },
  {
    id: 'to-node',
    title: `Java's release wakes Node within ${WOKEN_MS} ms`,
    alone: true,
    async run(fixture) {
      const [java, node] = await sidesOf(fixture, 1)
      const note = await measure(() => handOver(fixture, java, node, 1))
      await endsWith(1, [java, node])
      return note
    },
  },
  {
    id: 'to-java',
    title: `Node's release wakes Java within ${WOKEN_MS} ms`,
    alone: true,
    async run(fixture) {
      const [java, node] = await sidesOf(fixture, 1)
      const note = await measure(() => handOver(fixture, node, java, 1))
      await endsWith(1, [java, node])
      return note
    },
  },
  {
    id: 'several',
    title: 'when several permits return at once, as many threads and tasks get them at once',
    async run(fixture) {
      const [java, node] = await sidesOf(fixture, 6)
      for (const from of [java, node]) {
        const [four, two] = [await from.acquire(4), await from.acquire(2)]
        const queue = waitersFor([java, node, java, node, java, node])
        await fixture.hasWaiters(2)
        await four.release()
        await becomes(async () => queue.served.length, 4)
        await sleep(50)
        assert.equal(queue.served.length, 4)
        await two.release()
        await soon(queue.all, PROMPT_MS)
        await Promise.all(queue.served.map((taken) => taken.release()))
        await sees([java, node], 6)
      }
      await endsWith(6, [java, node])
      return undefined
    },
  },
  {
    id: 'many-wanted',
    title: 'a caller for several permits gets them when the last of them returns, not earlier',
    async run(fixture) {
      const [java, node] = await sidesOf(fixture, 3)
      const pairs = [
        [java, node],
        [node, java],
      ] as const
      for (const [from, to] of pairs) {
        const singles = [await from.acquire(), await from.acquire(), await from.acquire()]
        const queue = waitersFor([to], 3)
        await fixture.hasWaiters(1)
        for (const [index, single] of singles.entries()) {
          assert.equal(queue.served.length, 0, `after ${index} of 3`)
          await single.release()
          if (index < 2) await sleep(50)
        }
        await soon(queue.all, PROMPT_MS)
        await sees([java, node], 0)
        for (const taken of queue.served) await taken.release()
      }
      await endsWith(3, [java, node])
      return undefined
    },
  },
  {
    id: 'counts',
    title: 'each side sees the free permits of the other, and what it creates, adds and removes',
    async run(fixture) {
      const [java, node] = [await fixture.java(), fixture.node()]
      const both = [java, node]
      for (const [maker, other] of [
        [java, node],
        [node, java],
      ] as const) {
        await sees(both, 0)
        assert.equal(await other.tryAcquire(), null)
        assert.equal(await maker.trySetPermits(2), true)
        assert.equal(await other.trySetPermits(7), false)
        await sees(both, 2)
        const one = await other.acquire()
        await sees(both, 1)
        await maker.addPermits(3)
        await sees(both, 4)
        await other.addPermits(-5)
        await sees(both, -1)
        assert.equal(await maker.tryAcquire(), null)
        await one.release()
        await sees(both, 0)
        await maker.addPermits(1)
        await (await other.acquire()).release()
        await endsWith(1, [other, maker])
      }
      return undefined
    },
  },
  {
    id: 'java-adds',
    title: 'permits added by Java wake Node',
    notFor: (_, version) =>
      isBefore(version, '3.16.2')
        ? 'before 3.16.2 it publishes nothing: waiters in Java keep sleeping, waiters in Node poll after 5 s'
        : undefined,
    async run(fixture) {
      const [java, node] = await sidesOf(fixture, 0)
      await wakesByAdding(fixture, java, node)
      await endsWith(1, [java, node])
      return undefined
    },
  },
  {
    id: 'node-adds',
    title: 'permits added by Node wake Java',
    async run(fixture) {
      const [java, node] = await sidesOf(fixture, 0)
      await wakesByAdding(fixture, node, java)
      await endsWith(1, [java, node])
      return undefined
    },
  },
  {
    id: 'deleted',
    title: 'waiters of a semaphore that one side deletes wait until the other side creates it again',
    async run(fixture) {
      const [java, node] = [await fixture.java(), fixture.node()]
      for (const [deleter, maker] of [
        [java, node],
        [node, java],
      ] as const) {
        assert.equal(await maker.trySetPermits(0), true)
        const queue = waitersFor([java, node])
        await fixture.hasWaiters(2)
        assert.equal(await deleter.delete(), true)
        assert.equal(await maker.delete(), false)
        await sees([java, node], 0)
        await sleep(50)
        assert.equal(queue.served.length, 0)
        assert.equal(await maker.trySetPermits(2), true)
        await soon(queue.all, PROMPT_MS)
        await Promise.all(queue.served.map((taken) => taken.release()))
        await endsWith(2, [java, node])
      }
      return undefined
    },
  },
  {
    id: 'restart',
    title: 'Redis restarts empty: waiters of both sides are served when Node has created the semaphore again',
    notFor: (_kind, _version, { takesOver }) => takesOver,
    async run(fixture) {
      await fixture.site.onAnotherServer(async (server, client, redisson) => {
        const [java, node] = [await fixture.java(fixture.name, [redisson]), fixture.node(fixture.name, [client])]
        assert.equal(await java.trySetPermits(0), true)
        const [inJava, inNode] = [waitersFor([java, java]), waitersFor([node, node])]
        await fixture.hasWaiters(2, fixture.name, server)
        await server.restart()
        await fixture.hasWaiters(2, fixture.name, server)
        await sleep(RESUBSCRIBED_MS)
        assert.equal(await node.trySetPermits(4), true)
        await soon(inNode.all, PROMPT_MS)
        await soon(inJava.all, PROMPT_MS)
        await Promise.all([...inNode.served, ...inJava.served].map((taken) => taken.release()))
        await endsWith(4, [java, node])
      })
      return undefined
    },
  },
  {
    id: 'flash-sale',
    title: `four threads and four tasks sell a stock of ${STOCK} with three permits, never more than three at once`,
    async run(fixture) {
      const permits = 3
      const [, node] = await sidesOf(fixture, permits)
      const { admin } = fixture.backend
      const key = `${fixture.name}:stock`
      await admin.set(key, STOCK)
      const sellInNode = async () => {
        let most = 0
        for (let sold = 0; ; sold++) {
          const taken = await node.acquire()
          most = Math.max(most, await admin.incr(`${key}:inside`))
          const isSold = (await admin.decr(key)) >= 0
          await sleep(2)
          await admin.decr(`${key}:inside`)
          await taken.release()
          if (!isSold) return { sold, most }
          await sleep(5)
        }
      }
      const java = await fixture.java()
      const startedAt = performance.now()
      const threads = Array.from({ length: 4 }, () => java.sell(key, 2, 5))
      const tasks = Array.from({ length: 4 }, sellInNode)
      const [inJava, inNode] = [await Promise.all(threads), await Promise.all(tasks)]
      const [byJava, byNode] = [sum(inJava.map(({ sold }) => sold)), sum(inNode.map(({ sold }) => sold))]
      const most = Math.max(...[...inJava, ...inNode].map((seller) => seller.most))
      const tookMs = Math.round(performance.now() - startedAt)
      const note = `Java sold ${byJava}, Node ${byNode} in ${tookMs} ms, at most ${most} inside`
      assert.equal(byJava + byNode, STOCK, note)
      assert.ok(most <= permits, note)
      assertInTime(byJava > 0 && byNode > 0, note)
      assert.equal(await admin.get(`${key}:inside`), '0')
      for (const own of [key, `${key}:inside`]) await admin.del(own) // of two slots
      await endsWith(permits, [java, node])
      return note
    },
  },
  ...PLAIN_SEMAPHORE_CASES,
  ...PERMIT_CASES,
  ...SEMAPHORES_FAIL_OVER,
]

/** One side has all permits: nobody else gets any. Then the other side has them. */
async function excludes(owner: Side, other: Side, permits: number): Promise<void> {
  const all = await owner.acquire(permits)
  await sees([owner, other], 0)
  for (const side of [owner, other]) {
    assert.equal(await side.tryAcquire(), null)
    assert.equal(await side.tryAcquire(1, 50), null)
  }
  await all.release()
  assert.equal(await other.tryAcquire(permits + 1), null)
  const next = await other.tryAcquire(permits)
  assert.ok(next, 'they are free')
  assert.equal(await owner.tryAcquire(), null)
  await next.release()
}

/** How long it takes from the release of all permits by one side until a waiter of the other has one, ms. */
async function handOver(
  fixture: SemaphoreFixture,
  from: Side,
  to: Side,
  permits: number,
  name = fixture.name,
): Promise<number> {
  const all = await from.acquire(permits)
  const waiter = to.acquire()
  await fixture.hasWaiters(1, name)
  const startedAt = performance.now()
  await all.release()
  const next = await waiter
  const tookMs = performance.now() - startedAt
  await next.release()
  return tookMs
}

async function wakesByAdding(fixture: SemaphoreFixture, adder: Side, waiter: Side): Promise<void> {
  const queue = waitersFor([waiter])
  await fixture.hasWaiters(1)
  await adder.addPermits(1)
  await soon(queue.all, PROMPT_MS)
  for (const taken of queue.served) await taken.release()
}

/** One more waiter for each of these sides, and what they have acquired so far. */
function waitersFor(sides: readonly Side[], permits = 1): { served: Taken[]; all: Promise<unknown> } {
  const served: Taken[] = []
  return { served, all: Promise.all(sides.map(async (side) => served.push(await side.acquire(permits)))) }
}
