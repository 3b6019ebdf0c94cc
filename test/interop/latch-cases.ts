import assert from 'node:assert/strict'
import { assertInTime, settlesWithin, sleep } from '../support/wait-until.js'
import { type Case, oddNames } from './case.js'
import { LATCHES_IN_CLUSTERS } from './cluster-cases.js'
import { LATCHES_FAIL_OVER } from './failover-cases.js'
import type { LatchFixture, LatchSide } from './latches.js'
import { becomes, measure, PROMPT_MS, RESUBSCRIBED_MS, soon, WOKEN_MS } from './steps.js'

/** How often a latch is opened for waiters whose connection has been replaced. */
const MOST_ROUNDS = 3

export const LATCH_CASES: readonly Case<LatchFixture>[] = [
  {
    id: 'java-opens',
    title: `both sides count down, Java last: waiters of both sides are notified within ${WOKEN_MS} ms`,
    alone: true,
    async run(fixture) {
      const [java, node] = [await fixture.java(), fixture.node()]
      return await measure(() => opens(fixture, [node, java, node, java]))
    },
  },
  {
    id: 'node-opens',
    title: `both sides count down, Node last: waiters of both sides are notified within ${WOKEN_MS} ms`,
    alone: true,
    async run(fixture) {
      const [java, node] = [await fixture.java(), fixture.node()]
      return await measure(() => opens(fixture, [java, node, java, node]))
    },
  },
  {
    id: 'counts',
    title: 'each side sees the count of the other, cannot set it while the latch is closed, and can when it is open',
    async run(fixture) {
      const [java, node] = [await fixture.java(), fixture.node()]
      for (const [maker, other] of [
        [java, node],
        [node, java],
      ] as const) {
        assert.equal(await maker.trySetCount(3), true)
        assert.equal(await other.trySetCount(5), false)
        await sees([java, node], 3)
        await other.countDown()
        await sees([java, node], 2)
        await maker.countDown()
        await sees([java, node], 1)
        assert.equal(await other.await(50), false)
        await other.countDown()
        await sees([java, node], 0)
      }
      return undefined
    },
  },
  {
    id: 'open',
    title: 'an open latch releases everybody at once, and stays open when it is counted down further',
    async run(fixture) {
      const sides = [await fixture.java(), fixture.node()]
      for (const counter of sides) {
        await counter.countDown()
        await sees(sides, 0)
        for (const side of sides) assert.equal(await soon(side.await(), PROMPT_MS), true)
      }
      return undefined
    },
  },
  {
    id: 'again',
    title: 'a waiter that comes after the latch was closed again waits for that count, whoever opened the latch before',
    async run(fixture) {
      const [java, node] = [await fixture.java(), fixture.node()]
      for (let round = 0; round < 3; round++) {
        for (const [closer, opener] of [
          [java, node],
          [node, java],
        ] as const) {
          assert.equal(await closer.trySetCount(1), true)
          const { passed, all } = waitersFor([java, node])
          await fixture.hasWaiters(2)
          assert.equal(passed.length, 0)
          await opener.countDown()
          await soon(all, PROMPT_MS)
        }
      }
      return undefined
    },
  },
  {
    id: 'names',
    title: 'names with tags, braces, spaces and any letters mean the same latch',
    async run(fixture) {
      const names = oddNames(fixture).filter((name) => fixture.site.topology.name !== 'cluster' || !name.includes('{'))
      for (const name of names) {
        const [java, node] = [await fixture.java(name), fixture.node(name)]
        for (const [from, to] of [
          [java, node],
          [node, java],
        ] as const) {
          assert.equal(await from.trySetCount(1), true)
          await sees([to], 1)
          const { all } = waitersFor([to])
          await fixture.hasWaiters(1, name)
          await from.countDown()
          await soon(all, PROMPT_MS)
        }
      }
      return undefined
    },
  },
  {
    id: 'node-deletes',
    title: 'Node deletes a latch: waiters of both sides continue at once',
    async run(fixture) {
      const [java, node] = [await fixture.java(), fixture.node()]
      for (const maker of [java, node]) {
        assert.equal(await maker.trySetCount(2), true)
        const { all } = waitersFor([java, node, java, node])
        await fixture.hasWaiters(2)
        assert.equal(await node.delete(), true)
        await soon(all, PROMPT_MS)
        assert.equal(await node.delete(), false)
      }
      return undefined
    },
  },
  {
    id: 'java-deletes',
    title: 'Java deletes a latch: waiters in Node continue at once, those in Java when it is opened the next time',
    async run(fixture) {
      const [java, node] = [await fixture.java(), fixture.node()]
      assert.equal(await node.trySetCount(2), true)
      const [inNode, inJava] = [waitersFor([node, node]), waitersFor([java])]
      await fixture.hasWaiters(2)
      assert.equal(await java.delete(), true)
      await soon(inNode.all, PROMPT_MS)
      await sees([java, node], 0)
      await sleep(200)
      assert.equal(inJava.passed.length, 0, 'Redisson makes its waiters stay')
      assert.equal(await node.trySetCount(1), true)
      await sleep(50) // 3.14.1 may receive simultaneous messages in the wrong order
      await node.countDown()
      await soon(inJava.all, PROMPT_MS)
      return undefined
    },
  },
  {
    id: 'restart',
    title: 'Redis restarts empty, so the latch is open: Node continues, Java when it is opened the next time',
    notFor: (_kind, _version, { takesOver }) => takesOver,
    async run(fixture) {
      await fixture.site.onAnotherServer(async (server, client, redisson) => {
        const [java, node] = [await fixture.java(fixture.name, [redisson]), fixture.node(fixture.name, [client])]
        assert.equal(await java.trySetCount(2), true)
        const [inNode, inJava] = [waitersFor([node, node]), waitersFor([java, java])]
        await fixture.hasWaiters(2, fixture.name, server)
        await server.restart()
        await soon(inNode.all, 3_000)
        await fixture.hasWaiters(1, fixture.name, server)
        await sleep(RESUBSCRIBED_MS)
        assert.equal(inJava.passed.length, 0, 'Redisson does not check whether it is still closed')
        // Redisson does not say when it passes messages on again.
        for (let round = 1; inJava.passed.length < 2; round++) {
          assertInTime(round <= MOST_ROUNDS, `Java waits although the latch was opened ${MOST_ROUNDS} times`)
          assert.equal(await node.trySetCount(1), true)
          await sleep(50) // as above
          await node.countDown()
          await settlesWithin(inJava.all, PROMPT_MS).catch(() => {})
        }
      })
      return undefined
    },
  },
  ...LATCHES_IN_CLUSTERS,
  ...LATCHES_FAIL_OVER,
]

/** How long it takes from the last count until all waiters, threads and tasks, continue, ms. None did before. */
async function opens(fixture: LatchFixture, counters: readonly LatchSide[]): Promise<number> {
  const [java, node] = [await fixture.java(), fixture.node()]
  assert.equal(await node.trySetCount(counters.length), true)
  const { passed, all } = waitersFor([java, node, java, node, java, node])
  await fixture.hasWaiters(2)
  for (const counter of counters.slice(0, -1)) await counter.countDown()
  await sees([java, node], 1)
  assert.equal(passed.length, 0)
  const startedAt = performance.now()
  await counters.at(-1)?.countDown()
  await all
  return performance.now() - startedAt
}

/** One more waiter on each of these sides, and which have passed so far. */
function waitersFor(sides: readonly LatchSide[]): { passed: boolean[]; all: Promise<unknown> } {
  const passed: boolean[] = []
  return { passed, all: Promise.all(sides.map(async (side) => passed.push(await side.await()))) }
}

async function sees(sides: readonly LatchSide[], count: number): Promise<void> {
  for (const side of sides) await becomes(() => side.getCount(), count)
}
