import assert from 'node:assert/strict'
import { assertInTime, sleep, waitUntil } from '../support/wait-until.js'
import type { Case } from './case.js'
import type { LockFixture } from './fixture.js'
import type { JavaOwner } from './redisson.js'
import { LONG_LEASE_MS, PROMPT_MS } from './steps.js'

const FAIR = ['fair', 'nonReentrantFair']
/** A dead waiter delays the others by at most this, ms: until the next attempt of a waiter in Node, and the grace of the dead one. */
const DEAD_WAITER_MS = 8_000
/** The cases of fair locks: their order, and waiters that die. */
export const FAIR_CASES: readonly Case[] = [
  {
    id: 'order',
    title: 'threads and tasks that alternate in the queue are served in order, each at once',
    kinds: FAIR,
    async run(fixture) {
      return await servesInOrder(fixture, ['java', 'node', 'node', 'java', 'java', 'node', 'java', 'node'], PROMPT_MS)
    },
  },
  {
    id: 'dead-nodes',
    title: 'a Node process that dies in the queue does not change the order, and delays the next one by seconds',
    kinds: FAIR,
    dies: 'node',
    async run(fixture) {
      const { doomedNode } = fixture.site
      const child = await doomedNode.alive()
      const queue = ['node', 'dead', 'java', 'node', 'java', 'dead', 'node', 'java'] as const
      return await servesInOrder(fixture, queue, DEAD_WAITER_MS, {
        join: async () => child.send({ kind: fixture.kind.name, name: fixture.name }),
        die: () => doomedNode.die(fixture),
      })
    },
  },
  {
    id: 'dead-threads',
    title: 'a JVM that dies in the queue does not change the order, and delays the next one by seconds',
    kinds: FAIR,
    dies: 'jvm',
    async run(fixture) {
      const { doomedJvm } = fixture.site
      const { redissons } = await doomedJvm.alive()
      const threads = await fixture.java(2, fixture.name, redissons)
      const queue = ['java', 'dead', 'node', 'java', 'node', 'dead', 'java', 'node'] as const
      return await servesInOrder(fixture, queue, DEAD_WAITER_MS, {
        join: async () =>
          void threads
            .pop()
            ?.lock()
            .catch(() => {}),
        die: () => doomedJvm.die(fixture),
      })
    },
  },
]

interface Mortals {
  /** One more of them requests the lock. */
  readonly join: () => Promise<void>
  /** All of them die. */
  readonly die: () => Promise<void>
}

/**
 * Callers get the lock in the order of their requests, without those that die meanwhile.
 * @param atMostMs  from one release to the next grant
 */
async function servesInOrder(
  fixture: LockFixture,
  queue: readonly ('java' | 'node' | 'dead')[],
  atMostMs: number,
  mortals?: Mortals,
): Promise<string> {
  const { admin } = fixture.backend
  const node = fixture.node()
  const threads = await fixture.java(queue.filter((who) => who === 'java').length)
  const served: string[] = []
  const gapsMs: number[] = []
  let freeAt = 0
  const serve = async (who: string, unlock: () => Promise<void>) => {
    gapsMs.push(performance.now() - freeAt)
    served.push(who)
    await sleep(5)
    freeAt = performance.now()
    await unlock()
  }

  const hold = await node.lock({ leaseTimeMs: LONG_LEASE_MS })
  const waiting: Promise<void>[] = []
  for (const [place, who] of queue.entries()) {
    const name = `${who} ${place}`
    if (who === 'dead') await mortals?.join()
    else if (who === 'node') waiting.push(node.lock().then(async (next) => await serve(name, () => next.unlock())))
    else {
      const java = threads.pop() as JavaOwner
      waiting.push(java.lock().then(async () => await serve(name, () => java.unlock())))
    }
    const isQueued = async () => (await admin.llen(`redisson_lock_queue:{${fixture.name}}`)) === place + 1
    await waitUntil(isQueued, { message: `${name} is in the queue` })
  }
  const living = queue.filter((who) => who !== 'dead')
  await waitUntil(async () => (await fixture.listeners()) === queue.length, { message: 'all are subscribed' })
  await mortals?.die()
  await waitUntil(async () => (await fixture.listeners()) === living.length, { message: 'the dead are not subscribed' })
  await sleep(50) // they subscribe, make one more attempt, and then pause
  freeAt = performance.now()
  await hold.unlock()
  await Promise.all(waiting)

  assert.deepEqual(
    served,
    [...queue.entries()].filter(([, who]) => who !== 'dead').map(([place, who]) => `${who} ${place}`),
  )
  const note = `after ${gapsMs.map(Math.round).join(', ')} ms`
  assertInTime(Math.max(...gapsMs) < atMostMs, note)
  return note
}
