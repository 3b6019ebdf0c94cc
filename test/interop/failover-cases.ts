import assert from 'node:assert/strict'
import { idempotencyKey } from '../../src/wire/keys.js'
import { sleep } from '../support/wait-until.js'
import type { Case } from './case.js'
import type { LockFixture } from './fixture.js'
import type { LatchFixture } from './latches.js'
import type { JavaOwner } from './redisson.js'
import type { SemaphoreFixture } from './semaphores.js'
import { LONG_LEASE_MS, RESUBSCRIBED_MS, soon } from './steps.js'

/** Much less than any lease here: a waiter served by then was woken, or polled. */
const SERVED_MS = 10_000

const FAILOVER = { id: 'failover', topologies: ['cluster', 'sentinel'], dies: 'master' } as const

export const LOCKS_FAIL_OVER: readonly Case[] = [
  {
    ...FAILOVER,
    title: 'replicas take over while each side holds and waits: no sections overlap, and the waiters are served',
    async run(fixture) {
      const { rival, site } = fixture
      const [ofJava, ofNode] = [`${fixture.name}:java`, `${fixture.name}:node`]
      const java = await fixture.oneJava(ofJava)
      await java.lock(LONG_LEASE_MS)
      const hold = await fixture.node(ofNode).lock({ leaseTimeMs: LONG_LEASE_MS })
      const inNode = rival.node(ofJava).lock()
      const waiting = await rival.oneJava(ofNode)
      // A caller that keeps polling fails in Java while the replicas find their new master: NoSyncedSlavesException.
      const inJava = fixture.kind.polls ? undefined : waiting.lock().then(() => waiting)
      await haveWaiters(fixture)

      const refused = await intruders(fixture, [ofJava, ofNode])
      await site.doomedMaster.die(fixture)
      const others = await refused()
      assert.equal(await java.isHeldByCurrentThread(), true)
      assert.equal(await hold.isHeld(), true)
      await haveWaiters(fixture)
      const tookMs = [await served(() => java.unlock(), inNode)]
      if (inJava) tookMs.push(await served(() => hold.unlock(), inJava))
      else await hold.unlock()
      return `served after ${tookMs.join(' and ')} ms; of others ${others}`
    },
  },
]

export const SEMAPHORES_FAIL_OVER: readonly Case<SemaphoreFixture>[] = [
  {
    ...FAILOVER,
    title: 'replicas take over while each side has the only permit and the other waits: the waiters are served',
    async run(fixture) {
      const names = [`${fixture.name}:java`, `${fixture.name}:node`] as const
      const pairs = [
        { owner: await fixture.java(names[0]), waiter: fixture.node(names[0]) },
        { owner: fixture.node(names[1]), waiter: await fixture.java(names[1]) },
      ]
      const busy = []
      for (const { owner, waiter } of pairs) {
        assert.equal(await owner.trySetPermits(1), true)
        const taken = await owner.acquire()
        busy.push({ owner, waiter, taken, next: waiter.acquire() })
      }
      for (const name of names) await fixture.hasWaiters(1, name)

      await fixture.site.doomedMaster.die(fixture)
      for (const { owner, waiter } of busy) {
        for (const side of [owner, waiter]) assert.equal(await side.tryAcquire(), null)
      }
      for (const name of names) await fixture.hasWaiters(1, name)
      await sleep(RESUBSCRIBED_MS)
      const tookMs: number[] = []
      for (const { owner, taken, next } of busy) {
        const then = next.then((one) => ({ unlock: () => one.release() }))
        tookMs.push(await served(() => taken.release(), then))
        assert.equal(await owner.availablePermits(), 1)
        assert.equal(await owner.delete(), true)
      }
      for (const name of names) await dropReceipts(fixture, name)
      return `served after ${tookMs.join(' and ')} ms`
    },
  },
]

export const LATCHES_FAIL_OVER: readonly Case<LatchFixture>[] = [
  {
    ...FAILOVER,
    title: 'replicas take over while both sides wait: a count-down by either side releases all',
    async run(fixture) {
      const names = [`${fixture.name}:java`, `${fixture.name}:node`] as const
      const openers = [await fixture.java(names[0]), fixture.node(names[1])]
      const waiters: Promise<unknown>[] = []
      for (const [index, name] of names.entries()) {
        assert.equal(await openers[index]?.trySetCount(1), true)
        waiters.push(Promise.all([(await fixture.java(name)).await(), fixture.node(name).await()]))
        await fixture.hasWaiters(2, name)
      }
      await fixture.site.doomedMaster.die(fixture)
      for (const name of names) await fixture.hasWaiters(2, name)
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
async function dropReceipts({ backend: { admin }, site }: SemaphoreFixture, name: string): Promise<void> {
  const key = idempotencyKey(name, site.clients[0].id)
  assert.notEqual(await admin.pttl(key), -1, 'they end')
  await admin.del(key)
}

async function haveWaiters(fixture: LockFixture): Promise<void> {
  await fixture.rival.hasWaiter('node', `${fixture.name}:java`)
  await fixture.rival.hasWaiter('java', `${fixture.name}:node`)
  await sleep(RESUBSCRIBED_MS)
}

/** Others try all the time, on both sides; while the masters change they may get no reply. The result ends that. */
async function intruders(fixture: LockFixture, names: readonly string[]): Promise<() => Promise<string>> {
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
    const node = fixture.rival.node(name)
    const java = (await fixture.rival.java(2, name))[1] as JavaOwner
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
