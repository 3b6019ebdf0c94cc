import assert from 'node:assert/strict'
import { idempotencyKey } from '../../src/wire/keys.js'
import { sleep } from '../support/wait-until.js'
import type { Bench } from './bench.js'
import type { Case } from './case.js'
import type { LatchBench } from './latches.js'
import type { JavaOwner } from './redisson.js'
import type { SemaphoreBench } from './semaphores.js'
import { LONG_LEASE_MS, RESUBSCRIBED_MS, soon } from './steps.js'

/** Much less than any lease here: a waiter served by then was woken, or polled. */
const SERVED_MS = 10_000

const FAILOVER = { id: 'failover', topologies: ['cluster', 'sentinel'], dies: 'master' } as const

export const LOCKS_FAIL_OVER: readonly Case[] = [
  {
    ...FAILOVER,
    title: 'replicas take over while each side holds and waits: no sections overlap, and the waiters are served',
    async run(bench) {
      const { rival, site } = bench
      const [ofJava, ofNode] = [`${bench.name}:java`, `${bench.name}:node`]
      const java = await bench.oneJava(ofJava)
      await java.lock(LONG_LEASE_MS)
      const hold = await bench.node(ofNode).lock({ leaseTimeMs: LONG_LEASE_MS })
      const inNode = rival.node(ofJava).lock()
      const waiting = await rival.oneJava(ofNode)
      // A caller that keeps polling fails in Java while the replicas find their new master: NoSyncedSlavesException.
      const inJava = bench.kind.polls ? undefined : waiting.lock().then(() => waiting)
      await haveWaiters(bench)

      const refused = await intruders(bench, [ofJava, ofNode])
      await site.doomedMaster.die(bench)
      const others = await refused()
      assert.equal(await java.isHeldByCurrentThread(), true)
      assert.equal(await hold.isHeld(), true)
      await haveWaiters(bench)
      const tookMs = [await served(() => java.unlock(), inNode)]
      if (inJava) tookMs.push(await served(() => hold.unlock(), inJava))
      else await hold.unlock()
      return `served after ${tookMs.join(' and ')} ms; of others ${others}`
    },
  },
]

export const SEMAPHORES_FAIL_OVER: readonly Case<SemaphoreBench>[] = [
  {
    ...FAILOVER,
    title: 'replicas take over while each side has the only permit and the other waits: the waiters are served',
    async run(bench) {
      const names = [`${bench.name}:java`, `${bench.name}:node`] as const
      const pairs = [
        { owner: await bench.java(names[0]), waiter: bench.node(names[0]) },
        { owner: bench.node(names[1]), waiter: await bench.java(names[1]) },
      ]
      const busy = []
      for (const { owner, waiter } of pairs) {
        assert.equal(await owner.trySetPermits(1), true)
        const taken = await owner.acquire()
        busy.push({ owner, waiter, taken, next: waiter.acquire() })
      }
      for (const name of names) await bench.hasWaiters(1, name)

      await bench.site.doomedMaster.die(bench)
      for (const { owner, waiter } of busy) {
        for (const side of [owner, waiter]) assert.equal(await side.tryAcquire(), null)
      }
      for (const name of names) await bench.hasWaiters(1, name)
      await sleep(RESUBSCRIBED_MS)
      const tookMs: number[] = []
      for (const { owner, taken, next } of busy) {
        const then = next.then((one) => ({ unlock: () => one.release() }))
        tookMs.push(await served(() => taken.release(), then))
        assert.equal(await owner.availablePermits(), 1)
        assert.equal(await owner.delete(), true)
      }
      for (const name of names) await dropReceipts(bench, name)
      return `served after ${tookMs.join(' and ')} ms`
    },
  },
]

export const LATCHES_FAIL_OVER: readonly Case<LatchBench>[] = [
  {
    ...FAILOVER,
    title: 'replicas take over while both sides wait: a count-down by either side releases all',
    async run(bench) {
      const names = [`${bench.name}:java`, `${bench.name}:node`] as const
      const openers = [await bench.java(names[0]), bench.node(names[1])]
      const waiters: Promise<unknown>[] = []
      for (const [index, name] of names.entries()) {
        assert.equal(await openers[index]?.trySetCount(1), true)
        waiters.push(Promise.all([(await bench.java(name)).await(), bench.node(name).await()]))
        await bench.hasWaiters(2, name)
      }
      await bench.site.doomedMaster.die(bench)
      for (const name of names) await bench.hasWaiters(2, name)
      await sleep(RESUBSCRIBED_MS)
      for (const [index, opener] of openers.entries()) {
        assert.equal(await opener.getCount(), 1)
        await opener.countDown()
        await soon(waiters[index] as Promise<unknown>, SERVED_MS)
      }
      return undefined
    },
  },
]

/** Operations that a reconnect fell into may arrive once more: their stored replies stay, and expire. */
async function dropReceipts({ backend: { admin }, site }: SemaphoreBench, name: string): Promise<void> {
  const key = idempotencyKey(name, site.clients[0].id)
  assert.notEqual(await admin.pttl(key), -1, 'they end')
  await admin.del(key)
}

async function haveWaiters(bench: Bench): Promise<void> {
  await bench.rival.hasWaiter('node', `${bench.name}:java`)
  await bench.rival.hasWaiter('java', `${bench.name}:node`)
  await sleep(RESUBSCRIBED_MS)
}

/** Others try all the time, on both sides; while the masters change they may get no reply. The result ends that. */
async function intruders(bench: Bench, names: readonly string[]): Promise<() => Promise<string>> {
  const count = { refused: 0, withoutReply: 0, letIn: 0 }
  let isOver = false
  const intrude = async (tryLock: () => Promise<boolean>): Promise<void> => {
    while (!isOver) {
      const isIn = await tryLock().catch(() => undefined)
      count[isIn === undefined ? 'withoutReply' : isIn ? 'letIn' : 'refused']++
      await sleep(20)
    }
  }
  const trying: Promise<void>[] = []
  for (const name of names) {
    const node = bench.rival.node(name)
    const java = (await bench.rival.java(2, name))[1] as JavaOwner
    trying.push(intrude(async () => (await node.tryLock()) !== null))
    trying.push(intrude(async () => await java.tryLock()))
  }
  return async () => {
    isOver = true
    await Promise.all(trying)
    assert.equal(count.letIn, 0, `${count.letIn} got in`)
    assert.ok(count.refused > 0)
    return `${count.refused} refused, ${count.withoutReply} without a reply`
  }
}

/** How long it takes until the waiter has it, ms, rounded. It gives it back. */
async function served(release: () => Promise<void>, waiter: Promise<{ unlock(): Promise<void> }>): Promise<number> {
  const startedAt = performance.now()
  await release()
  const next = await soon(waiter, SERVED_MS)
  const tookMs = Math.round(performance.now() - startedAt)
  await next.unlock()
  return tookMs
}
