import assert from 'node:assert/strict'
import { once } from 'node:events'
import { LeaseLostError, NotHeldError } from '../../src/index.js'
import { assertInTime, sleep, waitUntil } from '../support/wait-until.js'
import { WATCHDOG_MS } from './backend.js'
import { type Case, oddNames } from './case.js'
import { LOCKS_IN_CLUSTERS } from './cluster-cases.js'
import { LOCKS_FAIL_OVER } from './failover-cases.js'
import { isBefore, type Kind } from './kinds.js'
import { SPECIAL_CASES } from './special-cases.js'
import {
  endsIn,
  isIllegalMonitorState,
  javaExcludes,
  javaSees,
  LONG_LEASE_MS,
  measure,
  nodeExcludes,
  nodeSees,
  outlives,
  PROMPT_MS,
  soon,
  sum,
  toJava,
  toNode,
  ttlPattern,
  WOKEN_MS,
} from './steps.js'

const STOCK = 100

/** Why a waiter in Java does not see that a lease has ended, if so. */
function sleepsOn({ name }: Kind, version: string): string | undefined {
  if (name !== 'fair' || !isBefore(version, '3.32.0')) return undefined
  return (
    'before 3.32 a fair waiter in Java that has waited as long as the lease in its first reply keeps sleeping until a message ' +
    'comes, and a lease that ends sends none'
  )
}

export const CASES: readonly Case[] = [
  {
    id: 'java-first',
    title: 'while Java holds the lock Node is refused, then Node gets it',
    async run(fixture) {
      await javaExcludes(fixture, await fixture.oneJava())
      return undefined
    },
  },
  {
    id: 'node-first',
    title: 'while Node holds the lock Java is refused, then Java gets it',
    async run(fixture) {
      await nodeExcludes(fixture)
      return undefined
    },
  },
  {
    id: 'names',
    title: 'names with tags, braces, spaces and any letters mean the same lock',
    async run(fixture) {
      const { polls } = fixture.kind
      for (const name of oddNames(fixture)) {
        const java = await fixture.oneJava(name)
        await javaExcludes(fixture, java, name)
        await nodeExcludes(fixture, name)
        for (const rival of fixture.rivals) {
          const other = await rival.oneJava(name)
          const what = JSON.stringify(name)
          if (!polls?.node)
            assertInTime((await toNode(fixture, rival, java, name)) < PROMPT_MS, `Node is woken: ${what}`)
          if (!polls?.java)
            assertInTime((await toJava(fixture, rival, other, name)) < PROMPT_MS, `Java is woken: ${what}`)
        }
      }
      return undefined
    },
  },
  {
    id: 'to-node',
    title: `Java's unlock wakes Node within ${WOKEN_MS} ms`,
    alone: true,
    notFor: ({ polls }) => polls?.node,
    async run(fixture) {
      const java = await fixture.oneJava()
      const notes: string[] = []
      for (const rival of fixture.rivals) notes.push(await measure(() => toNode(fixture, rival, java)))
      return notes.join(' and ')
    },
  },
  {
    id: 'to-java',
    title: `Node's unlock wakes Java within ${WOKEN_MS} ms`,
    alone: true,
    notFor: ({ polls }) => polls?.java,
    async run(fixture) {
      const notes: string[] = []
      for (const rival of fixture.rivals) {
        const java = await rival.oneJava()
        notes.push(await measure(() => toJava(fixture, rival, java)))
      }
      return notes.join(' and ')
    },
  },
  {
    id: 'java-count',
    title: 'Java re-enters: Node sees holder and count, and stays out until the last unlock',
    notFor: (kind) => kind.notReentrant,
    async run(fixture) {
      const java = await fixture.oneJava()
      const holders = await java.holders()
      await java.lock()
      await java.lock()
      await nodeSees(fixture, holders, 2)
      await java.unlock()
      await nodeSees(fixture, holders, 1)
      for (const rival of fixture.rivals) assert.equal(await rival.node().tryLock(), null)
      await java.unlock()
      assert.deepEqual(await fixture.node().getHolders(), [])
      return undefined
    },
  },
  {
    id: 'node-count',
    title: 'Node re-enters: Java sees holder and count, and stays out until the last unlock',
    notFor: (kind) => kind.notReentrant,
    async run(fixture) {
      const node = fixture.node()
      await node.withLock({}, async (outer) => {
        await javaSees(fixture, outer, 1)
        const inner = await node.lock()
        await javaSees(fixture, outer, 2)
        await inner.unlock()
        await javaSees(fixture, outer, 1)
        for (const rival of fixture.rivals) assert.equal(await (await rival.oneJava()).tryLock(), false)
      })
      assert.equal(await (await fixture.oneJava()).isLocked(), false)
      return undefined
    },
  },
  {
    id: 'ttl',
    title: 'each side sees the remaining lease of the other',
    async run(fixture) {
      const java = await fixture.oneJava()
      const node = fixture.node()
      const sees = async (leaseMs: number, read: () => Promise<number>) => {
        let left = 0
        const isRight = async () => {
          left = await read()
          return left > leaseMs - 1_500 && left <= leaseMs
        }
        await waitUntil(isRight, { timeoutMs: 500, message: () => `${left} ms of ${leaseMs}` })
      }
      const { keyOutlivesMs = 0 } = fixture.kind
      const inNode = () => node.remainingLeaseMs()
      const inJava = async () => (await java.remainTimeToLive()) - keyOutlivesMs
      await java.lock(20_000)
      await sees(20_000, inNode)
      await java.unlock()
      await node.withLock({ leaseTimeMs: 40_000 }, () => sees(40_000, inJava))
      // By a fresh RLock: in 3.14.1 one that was locked with a fixed lease keeps using that.
      const watched = await fixture.oneJava()
      await watched.lock()
      await sees(WATCHDOG_MS, inNode)
      await watched.unlock()
      await node.withLock({}, () => sees(WATCHDOG_MS, inJava))
      return undefined
    },
  },
  {
    id: 'java-lease',
    title: 'Node gets the lock when a lease of Java ends without an unlock',
    async run(fixture) {
      for (const rival of fixture.rivals) {
        await (await fixture.oneJava()).lock(700)
        const hold = await endsIn(700, () => rival.node().lock({ waitTimeMs: 5_000 }))
        assert.equal(await (await fixture.oneJava()).isHeldByCurrentThread(), false)
        await hold.unlock()
      }
      return undefined
    },
  },
  {
    id: 'node-lease',
    title: 'Java gets the lock when a lease of Node ends without an unlock, and the hold in Node is lost',
    notFor: sleepsOn,
    async run(fixture) {
      for (const rival of fixture.rivals) {
        const java = await rival.oneJava()
        const hold = await fixture.node().lock({ leaseTimeMs: 700 })
        await endsIn(700, () => java.tryLock(5_000, LONG_LEASE_MS))
        assert.throws(() => hold.assertHeld(), LeaseLostError)
        await assert.rejects(hold.unlock(), LeaseLostError)
        assert.equal(await java.isHeldByCurrentThread(), true)
        await java.unlock()
      }
      return undefined
    },
  },
  {
    id: 'not-owner',
    title: 'an unlock by a non-holder is refused, on both sides',
    async run(fixture) {
      const [java, other] = await fixture.java(2)
      assert.ok(java && other)
      const refused = (unlocking: Promise<void>) =>
        fixture.kind.javaHidesRefusal ? unlocking : assert.rejects(unlocking, isIllegalMonitorState)
      const node = fixture.node()
      const hold = await node.lock()
      await refused(java.unlock())
      assert.equal(await hold.isHeld(), true)
      await javaSees(fixture, hold, 1)
      await hold.unlock()

      await java.lock()
      await refused(other.unlock())
      for (const [index, part] of node.parts.entries()) {
        const client = fixture.site.clients[index]
        await assert.rejects(async () => await client?.runInScope(() => part.unlock()), NotHeldError)
      }
      await hold.unlock() // again, late: it must not touch Java's hold
      await nodeSees(fixture, await java.holders(), 1)
      assert.equal(await java.isHeldByCurrentThread(), true)
      await java.unlock()
      return fixture.kind.javaHidesRefusal && 'RedissonRedLock.unlock does not say that it was refused'
    },
  },
  {
    id: 'java-forces',
    title: 'Java forces the lock: the holder in Node notices at its next renewal, and a waiter in Node gets it at once',
    async run(fixture) {
      const java = await fixture.oneJava()
      const hold = await fixture.node().lock()
      const lost = once(hold.signal, 'abort')
      const waiter = fixture.rival.node().lock()
      await fixture.rival.hasWaiter('node')
      const forcedAt = performance.now()
      const wasHeld = await java.forceUnlock()
      const next = await soon(waiter, 1_000)
      await soon(lost, WATCHDOG_MS / 3 + 1_000)
      const learntMs = performance.now() - forcedAt
      assert.ok(hold.signal.reason instanceof LeaseLostError)
      assert.equal(hold.signal.reason.reason, 'gone')
      assert.throws(() => hold.assertHeld(), LeaseLostError)
      await next.unlock()
      if (!fixture.kind.javaForcesBlindly) assert.deepEqual([wasHeld, await java.forceUnlock()], [true, false])
      return `notified after ${Math.round(learntMs)} ms`
    },
  },
  {
    id: 'node-forces',
    title: 'Node forces the lock: the holder in Java has lost it, and a waiter in Java gets it at once',
    async run(fixture) {
      const java = await fixture.oneJava()
      const waiting = await fixture.rival.oneJava()
      const node = fixture.node()
      await java.lock()
      const waiter = waiting.lock()
      await fixture.rival.hasWaiter('java')
      assert.equal(await node.forceUnlock(), true)
      await soon(waiter, 1_000)
      assert.equal(await java.isHeldByCurrentThread(), false)
      if (!fixture.kind.javaHidesRefusal) await assert.rejects(java.unlock(), isIllegalMonitorState)
      assert.equal(await waiting.isHeldByCurrentThread(), true)
      await waiting.unlock()
      assert.equal(await node.forceUnlock(), false)
      return undefined
    },
  },
  {
    id: 'watchdog',
    title: 'the watchdogs of both sides let the TTL fall to two thirds and renew it to the full lease',
    async run(fixture) {
      const [javaName, nodeName] = [`${fixture.name}:java`, `${fixture.name}:node`]
      // A client of Redisson 4.7 that has locked and unlocked often renews much more often: its timers are not stopped.
      const redissons = await fixture.site.openRedissons(fixture.kind)
      const java = await fixture.oneJava(javaName, redissons)
      await java.lock()
      const hold = await fixture.node(nodeName).lock()
      const notes = await Promise.all([
        ttlPattern(fixture, javaName, (await java.holders())[0] ?? ''),
        ttlPattern(fixture, nodeName, hold.holder, fixture.kind.keyOutlivesMs),
      ])
      await java.unlock()
      await hold.unlock()
      for (const redisson of redissons) await redisson.shutdown()
      return `TTL of Java ${notes[0]}, of Node ${notes[1]}`
    },
  },
  {
    id: 'java-dies',
    title: 'the JVM is killed: Node gets the lock when the lease ends',
    dies: 'jvm',
    async run(fixture) {
      const { doomedJvm } = fixture.site
      const { redissons } = await doomedJvm.alive()
      await (await fixture.oneJava(fixture.name, redissons)).lock()
      return await outlives(fixture, 'node', () => doomedJvm.die(fixture), fixture.rival.node().lock())
    },
  },
  {
    id: 'node-dies',
    title: 'the Node process is killed: Java gets the lock when the lease ends',
    dies: 'node',
    notFor: sleepsOn,
    async run(fixture) {
      const { doomedNode } = fixture.site
      const child = await doomedNode.alive()
      child.send({ kind: fixture.kind.name, name: fixture.name })
      await child.nextMessage(({ held }) => held === fixture.name, 20_000)
      const java = await fixture.rival.oneJava()
      const owner = java.lock().then(() => java)
      return await outlives(fixture, 'java', () => doomedNode.die(fixture), owner)
    },
  },
  {
    id: 'restart',
    title: 'Redis restarts empty: a waiter in Node is served, and its unlock wakes the waiter in Java',
    notFor: (kind, _, { takesOver }) => takesOver ?? kind.deafAfterRestart,
    async run(fixture) {
      const { kind, name, rival } = fixture
      return await fixture.site.onAnotherServer(async (server, client, redisson) => {
        const java = await rival.oneJava(name, [redisson])
        const hold = await fixture.node(name, [client]).lock({ leaseTimeMs: LONG_LEASE_MS })
        const inNode = rival.node(name, [client]).lock({ leaseTimeMs: LONG_LEASE_MS })
        const inJava = java.lock()
        await fixture.hasWaiters(2, name, server)
        await server.restart()
        const next = await soon(inNode, 3_000)
        await sleep(100) // Node has left the channel
        await fixture.hasWaiters(1, name, server) // Java listens again
        const startedAt = performance.now()
        await next.unlock()
        await soon(inJava, PROMPT_MS)
        const tookMs = performance.now() - startedAt
        await java.unlock()
        await assert.rejects(hold.unlock(), LeaseLostError, `${kind.name}: the first hold is lost`)
        return `woken after ${tookMs.toFixed(1)} ms`
      })
    },
  },
  {
    id: 'flash-sale',
    title: `four threads and four tasks sell a stock of ${STOCK} together, each unit once`,
    notFor: (kind) => kind.shared,
    async run(fixture) {
      const key = `${fixture.name}:stock`
      const { admin } = fixture.backend
      const node = fixture.node()
      // As for the watchdog: it leaves many timers.
      const redissons = await fixture.site.openRedissons(fixture.kind)
      // Between two sales of a seller: pollers get a share only if the lock is free now and then.
      const restMs = fixture.kind.polls ? 25 : 5
      await admin.set(key, STOCK)
      const sellInNode = async (): Promise<number> => {
        for (let sold = 0; ; sold++) {
          const wasLast = await node.withLock({}, async () => {
            const left = Number(await admin.get(key))
            if (left === 0) return true
            await sleep(1)
            await admin.set(key, left - 1)
            return false
          })
          if (wasLast) return sold
          await sleep(restMs)
        }
      }
      const started = performance.now()
      const threads = (await fixture.java(4, fixture.name, redissons)).map((owner) => owner.sell(key, 1, restMs))
      const tasks = Array.from({ length: 4 }, sellInNode)
      const [byJava, byNode] = [sum(await Promise.all(threads)), sum(await Promise.all(tasks))]
      const note = `Java sold ${byJava}, Node ${byNode} in ${Math.round(performance.now() - started)} ms`
      assert.equal(await admin.get(key), '0', note)
      await admin.del(key)
      assert.equal(byJava + byNode, STOCK, note)
      assertInTime(byJava > 0 && byNode > 0, note)
      for (const redisson of redissons) await redisson.shutdown()
      return note
    },
  },
  ...SPECIAL_CASES,
  ...LOCKS_IN_CLUSTERS,
  ...LOCKS_FAIL_OVER,
]
