import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Hold, LeaseLostError, NotHeldError } from '../../src/index.js'
import { spawnChild } from '../support/child.js'
import { startRedis } from '../support/redis-server.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'
import { type Bench, WATCHDOG_MS } from './bench.js'
import type { Kind } from './kinds.js'
import { JavaError, text } from './redisson.js'

export interface Case {
  /** Of its names and threads; short. */
  readonly id: string
  /** A fact, in the present tense. */
  readonly title: string
  /** It measures time, so nothing else may run beside it. */
  readonly alone?: true
  /** Why this kind cannot do it, if so. */
  readonly notFor?: (kind: Kind) => string | undefined
  /** Answers what is worth telling, such as a measured time. */
  run(bench: Bench): Promise<string | undefined>
}

/** More than any watchdog's lease here: what sleeps until it ends has not been woken. */
const LONG_LEASE_MS = 60_000
const HAND_OVERS = 9
const WOKEN_MS = 100

/** Names that are spelled or sent in a special way. */
const ODD_NAMES = ['{shop}:order', 'a{b', 'a}b', 'a{}b', ' two words\n', 'größe:"7"%20\\', '鎖🔒']

export const CASES: readonly Case[] = [
  {
    id: 'java-first',
    title: 'while Java holds it Node is refused, then Node has it',
    async run(bench) {
      const [holder, other] = (await bench.java(2)) as [JavaOwner, JavaOwner]
      await excludes(bench, holder, other)
      return undefined
    },
  },
  {
    id: 'node-first',
    title: 'while Node holds it Java is refused, then Java has it',
    async run(bench) {
      await excludesJava(bench, await bench.oneJava())
      return undefined
    },
  },
  {
    id: 'names',
    title: 'names with tags, braces, spaces and letters of all kinds mean the same lock',
    async run(bench) {
      for (const name of ODD_NAMES.map((odd) => `${bench.name}:${odd}`)) {
        const [holder, other] = (await bench.java(2, name)) as [JavaOwner, JavaOwner]
        await excludes(bench, holder, other, name)
        await excludesJava(bench, holder, name)
        if (bench.kind.silent !== undefined) continue
        assert.ok((await toNode(bench, holder, name)) < WATCHDOG_MS / 2, `Node is woken: ${JSON.stringify(name)}`)
        assert.ok((await toJava(bench, holder, name)) < WATCHDOG_MS / 2, `Java is woken: ${JSON.stringify(name)}`)
      }
      return undefined
    },
  },
  {
    id: 'to-node',
    title: `Java's unlock wakes Node within ${WOKEN_MS} ms`,
    alone: true,
    notFor: (kind) => kind.silent,
    async run(bench) {
      const java = await bench.oneJava()
      return await measure(() => toNode(bench, java))
    },
  },
  {
    id: 'to-java',
    title: `Node's unlock wakes Java within ${WOKEN_MS} ms`,
    alone: true,
    notFor: (kind) => kind.silent,
    async run(bench) {
      const java = await bench.oneJava()
      return await measure(() => toJava(bench, java))
    },
  },
  {
    id: 'java-count',
    title: 'Java re-enters: Node sees holder and count, and stays out until the last unlock',
    notFor: (kind) => kind.notReentrant,
    async run(bench) {
      const java = await bench.oneJava()
      const node = bench.node()
      const holder = await java.holder()
      await java.lock()
      await java.lock()
      assert.deepEqual(await node.getHolders(), [{ holder, holdCount: 2 }])
      await java.unlock()
      assert.deepEqual(await node.getHolders(), [{ holder, holdCount: 1 }])
      assert.equal(await node.tryLock(), null)
      await java.unlock()
      assert.deepEqual(await node.getHolders(), [])
      return undefined
    },
  },
  {
    id: 'node-count',
    title: 'Node re-enters: Java sees the count, and stays out until the last unlock',
    notFor: (kind) => kind.notReentrant,
    async run(bench) {
      const java = await bench.oneJava()
      const node = bench.node()
      const hash = await bench.site.redissons[0].get('getMap', text(bench.name))
      await node.withLock(async (outer) => {
        const field = text(bench.kind.field?.(outer.holder) ?? outer.holder)
        const countInJava = async () => await hash.call('counter', 'get', field)
        assert.equal(await countInJava(), '1')
        const inner = await node.lock()
        assert.equal(await countInJava(), '2')
        await inner.unlock()
        assert.equal(await countInJava(), '1')
        assert.equal(await java.tryLock(), false)
      })
      assert.equal(await java.isLocked(), false)
      return undefined
    },
  },
  {
    id: 'ttl',
    title: 'each side sees what is left of the lease of the other',
    async run(bench) {
      const java = await bench.oneJava()
      const node = bench.node()
      const isRightOf = (leaseMs: number, left: number) =>
        assert.ok(left > leaseMs - 1_000 && left <= leaseMs, `${left}`)
      await java.lock(20_000)
      isRightOf(20_000, await node.remainingLeaseMs())
      await java.unlock()
      await node.withLock({ leaseTimeMs: 40_000 }, async () => isRightOf(40_000, await java.remainTimeToLive()))
      // By a fresh RLock: in 3.14.1 one that was locked with a lease of its own uses that ever after.
      const watched = await bench.oneJava()
      await watched.lock()
      isRightOf(WATCHDOG_MS, await node.remainingLeaseMs())
      await watched.unlock()
      await node.withLock(async () => isRightOf(WATCHDOG_MS, await java.remainTimeToLive()))
      return undefined
    },
  },
  {
    id: 'lease-end',
    title: 'a lease that ends without an unlock lets the other side in',
    async run(bench) {
      const java = await bench.oneJava()
      const node = bench.node()
      await java.lock(700)
      const hold = await endsIn(700, () => node.lock({ leaseTimeMs: 700, waitTimeMs: 5_000 }))
      await endsIn(700, () => java.tryLock(5_000, LONG_LEASE_MS))
      await assert.rejects(hold.unlock(), LeaseLostError)
      assert.equal(await java.isHeldByCurrentThread(), true)
      await java.unlock()
      return undefined
    },
  },
  {
    id: 'not-owner',
    title: 'an unlock by somebody else is refused, on both sides',
    async run(bench) {
      const [java, otherJava] = (await bench.java(2)) as [JavaOwner, JavaOwner]
      const node = bench.node()
      const hold = await node.lock()
      await assert.rejects(java.unlock(), isIllegalMonitorState)
      assert.equal(await hold.isHeld(), true)
      assert.equal(await bench.countInRedis(hold.holder), 1)
      await hold.unlock()

      await java.lock()
      await assert.rejects(otherJava.unlock(), isIllegalMonitorState)
      await assert.rejects(
        bench.site.clients[0].runInScope(() => node.unlock()),
        NotHeldError,
      )
      await hold.unlock() // again, late: it must not touch Java's hold
      assert.equal(await java.getHoldCount(), 1)
      await java.unlock()
      return undefined
    },
  },
  {
    id: 'java-forces',
    title: 'Java forces: the holder in Node learns of it at its next renewal, a waiter in Node goes on at once',
    async run(bench) {
      const java = await bench.oneJava()
      const node = bench.node()
      const hold = await node.lock()
      const lost = once(hold.signal, 'abort')
      const waiter = node.lock()
      await bench.hasWaiter()
      const forcedAt = performance.now()
      assert.equal(await java.forceUnlock(), true)
      const next = await soon(waiter, 1_000)
      await soon(lost, WATCHDOG_MS / 3 + 500)
      const learntMs = performance.now() - forcedAt
      assert.ok(hold.signal.reason instanceof LeaseLostError)
      assert.equal(hold.signal.reason.reason, 'gone')
      assert.throws(() => hold.assertHeld(), LeaseLostError)
      await next.unlock()
      assert.equal(await java.forceUnlock(), false)
      return `told after ${Math.round(learntMs)} ms`
    },
  },
  {
    id: 'node-forces',
    title: 'Node forces: the holder in Java holds it no more, a waiter in Java goes on at once',
    async run(bench) {
      const [java, waiting] = (await bench.java(2)) as [JavaOwner, JavaOwner]
      const node = bench.node()
      await java.lock()
      const waiter = waiting.lock()
      await bench.hasWaiter()
      assert.equal(await node.forceUnlock(), true)
      await soon(waiter, 1_000)
      assert.equal(await java.isHeldByCurrentThread(), false)
      await assert.rejects(java.unlock(), isIllegalMonitorState)
      assert.equal(await waiting.isHeldByCurrentThread(), true)
      await waiting.unlock()
      assert.equal(await node.forceUnlock(), false)
      return undefined
    },
  },
  {
    id: 'watchdog',
    title: 'the watchdogs of both sides let the TTL fall to two thirds, and renew it to the full',
    async run(bench) {
      const [javaName, nodeName] = [`${bench.name}:java`, `${bench.name}:node`]
      // A client of Redisson 4.7 that has locked and unlocked often renews much more often: its timers are not stopped.
      const redissons = await bench.site.openRedissons()
      const java = await bench.oneJava(javaName, redissons)
      await java.lock()
      const hold = await bench.node(nodeName).lock()
      const notes = await Promise.all([ttlPattern(bench, javaName), ttlPattern(bench, nodeName)])
      await java.unlock()
      await hold.unlock()
      for (const redisson of redissons) await redisson.shutdown()
      return `TTL of Java ${notes[0]}, of Node ${notes[1]}`
    },
  },
  {
    id: 'java-dies',
    title: 'the JVM is killed: Node has the lock when the lease is over',
    async run(bench) {
      const { jvm, redissons } = await bench.site.startJvm()
      try {
        const java = await bench.oneJava(undefined, redissons)
        await java.lock()
        return await outlives(bench, () => jvm.kill(), bench.node().lock())
      } finally {
        await jvm.stop()
      }
    },
  },
  {
    id: 'node-dies',
    title: 'the Node process is killed: Java has the lock when the lease is over',
    async run(bench) {
      const urls = bench.site.servers.map((server) => server.url)
      await using child = spawnChild(new URL('./holder.js', import.meta.url), [bench.kind.name, bench.name, ...urls])
      await child.nextMessage(({ at }) => at === 'held', 20_000)
      const java = await bench.oneJava()
      const owner = java.lock().then(() => java)
      return await outlives(bench, () => void child.stop(), owner)
    },
  },
  {
    id: 'restart',
    title: 'Redis restarts empty: a waiter in Node goes on, and its unlock wakes the waiter in Java',
    notFor: (kind) => kind.silent,
    async run(bench) {
      await using server = await startRedis()
      await using client = await connect({ url: server.url, lockWatchdogTimeoutMs: WATCHDOG_MS })
      const redisson = await bench.site.jvm.open(server.url, WATCHDOG_MS)
      const [java] = await bench.java(1, bench.name, [redisson, redisson])
      const node = bench.kind.nodeLock([client, client], bench.name)
      const listeners = async () => {
        const channels = (await server.admin.pubsub('CHANNELS')).map(String)
        const counts = (await server.admin.call('PUBSUB', 'NUMSUB', ...channels)) as (string | number)[]
        return sum(counts.filter((count) => typeof count === 'number'))
      }

      const hold = await node.lock({ leaseTimeMs: LONG_LEASE_MS })
      const inNode = node.lock({ leaseTimeMs: LONG_LEASE_MS })
      const inJava = java?.lock()
      await waitUntil(async () => (await listeners()) === 2, { message: 'both sides listen' })
      await sleep(50) // and sleep
      await server.restart()
      const next = await soon(inNode, 3_000)
      await sleep(100) // Node has left the channel
      await waitUntil(async () => (await listeners()) === 1, { timeoutMs: 15_000, message: 'Java listens again' })
      const startedAt = performance.now()
      await next.unlock()
      await soon(Promise.resolve(inJava), 1_000)
      const tookMs = performance.now() - startedAt
      await java?.unlock()
      await assert.rejects(hold.unlock(), LeaseLostError)
      await redisson.shutdown()
      return `woken after ${tookMs.toFixed(1)} ms`
    },
  },
  {
    id: 'flash-sale',
    title: 'four threads and four tasks sell a stock of 200 together, each unit once',
    alone: true,
    async run(bench) {
      const STOCK = 200
      const key = `${bench.name}:stock`
      const { admin } = bench.server
      const node = bench.node()
      await admin.set(key, STOCK)
      const sellInNode = async (): Promise<number> => {
        for (let sold = 0; ; sold++) {
          const wasLast = await node.withLock(async () => {
            const left = Number(await admin.get(key))
            if (left === 0) return true
            await sleep(1)
            await admin.set(key, left - 1)
            return false
          })
          if (wasLast) return sold
        }
      }
      const started = performance.now()
      const threads = (await bench.java(4)).map((owner) => owner.sell(key, 1))
      const tasks = Array.from({ length: 4 }, sellInNode)
      const [byJava, byNode] = [sum(await Promise.all(threads)), sum(await Promise.all(tasks))]
      const note = `Java sold ${byJava}, Node ${byNode} in ${Math.round(performance.now() - started)} ms`
      assert.equal(await admin.get(key), '0', note)
      await admin.del(key)
      assert.equal(byJava + byNode, STOCK, note)
      assert.ok(byJava > 0 && byNode > 0, note)
      return note
    },
  },
]

type JavaOwner = Awaited<ReturnType<Bench['oneJava']>>

/** A Java thread holds the lock: nobody else gets it, in Node or Java. Then Node does. */
async function excludes(bench: Bench, holder: JavaOwner, other: JavaOwner, name = bench.name): Promise<void> {
  const node = bench.node(name)
  await holder.lock()
  assert.equal(await node.tryLock(), null)
  assert.equal(await node.tryLock({ waitTimeMs: 50 }), null)
  assert.equal(await other.tryLock(), false)
  assert.equal(await node.isLocked(), true)
  await holder.unlock()
  await freeByThen(node.tryLock())
}

/** A hold of Node: no thread of Java gets the lock, nor another task. Then Java does. */
async function excludesJava(bench: Bench, java: JavaOwner, name = bench.name): Promise<void> {
  const node = bench.node(name)
  const hold = await node.lock()
  assert.equal(await java.tryLock(), false)
  assert.equal(await java.tryLock(50), false)
  assert.equal(await java.isLocked(), true)
  assert.equal(await node.tryLock(), null)
  await hold.unlock()
  assert.equal(await java.tryLock(), true)
  assert.equal(await java.isHeldByCurrentThread(), true)
  assert.equal(await node.tryLock(), null)
  await java.unlock()
  assert.equal(await java.isLocked(), false)
}

async function freeByThen(taking: Promise<Hold | null>): Promise<void> {
  const hold = await taking
  assert.ok(hold, 'it is free')
  await hold.unlock()
}

/** How long it takes from Java's unlock until a waiter in Node has the lock, ms. */
async function toNode(bench: Bench, java: JavaOwner, name = bench.name): Promise<number> {
  await java.lock(LONG_LEASE_MS)
  const waiter = bench.node(name).lock()
  await bench.hasWaiter(name)
  const startedAt = performance.now()
  await java.unlock()
  const hold = await waiter
  const tookMs = performance.now() - startedAt
  await hold.unlock()
  return tookMs
}

/** How long it takes from Node's unlock until a waiter in Java has the lock, ms. */
async function toJava(bench: Bench, java: JavaOwner, name = bench.name): Promise<number> {
  const hold = await bench.node(name).lock({ leaseTimeMs: LONG_LEASE_MS })
  const waiter = java.lock()
  await bench.hasWaiter(name)
  const startedAt = performance.now()
  await hold.unlock()
  await waiter
  const tookMs = performance.now() - startedAt
  await java.unlock()
  return tookMs
}

async function measure(handOver: () => Promise<number>): Promise<string> {
  await handOver() // warms up
  const tookMs: number[] = []
  for (let round = 0; round < HAND_OVERS; round++) tookMs.push(await handOver())
  const sorted = tookMs.toSorted((a, b) => a - b)
  const median = sorted[Math.floor(HAND_OVERS / 2)] ?? Number.NaN
  const note = `median ${median.toFixed(1)} ms, longest ${(sorted.at(-1) ?? 0).toFixed(1)} ms`
  assert.ok(median <= WOKEN_MS, note)
  return note
}

/** Watches the TTL for some periods of a watchdog. */
async function ttlPattern(bench: Bench, name: string): Promise<string> {
  const seen: number[] = []
  const endsAt = performance.now() + 1.5 * WATCHDOG_MS
  while (performance.now() < endsAt) {
    seen.push(await bench.server.admin.pttl(name))
    await sleep(20)
  }
  const lowest = Math.min(...seen)
  const renewed = seen.filter((ttl, index) => ttl > (seen[index - 1] ?? Number.POSITIVE_INFINITY))
  const note = `${lowest} … ${Math.max(...renewed)} ms, renewed ${renewed.length} times`
  const period = WATCHDOG_MS / 3
  assert.ok(lowest > WATCHDOG_MS - 1.4 * period && lowest < WATCHDOG_MS - 0.8 * period, note)
  assert.ok(renewed.length >= 3 && Math.min(...renewed) > WATCHDOG_MS - 200, note)
  return note
}

/** Kills the holder: the waiter gets the lock when the lease is over, not earlier, and within a second. */
async function outlives(bench: Bench, kill: () => void, waiter: Promise<{ unlock(): Promise<void> }>): Promise<string> {
  const { admin } = bench.server
  await bench.hasWaiter()
  await sleep(WATCHDOG_MS / 3) // at least one renewal
  const killedAt = performance.now()
  kill()
  await sleep(50) // what was on its way has arrived
  const ttl = await admin.pttl(bench.name)
  const leaseMs = performance.now() - killedAt + ttl
  const owner = await soon(waiter, leaseMs + 1_000)
  const tookMs = performance.now() - killedAt
  await owner.unlock()
  assert.ok(ttl > 0 && tookMs > leaseMs - 50, `after ${tookMs} ms, of ${leaseMs}`)
  return `${Math.round(tookMs - leaseMs)} ms after the end of the lease`
}

/** The value, if it comes in time. */
async function soon<T>(promise: Promise<T>, ms: number): Promise<T> {
  await settlesWithin(promise, ms)
  return await promise
}

/** The value, and that it takes about as long as the lease that it waits for. */
async function endsIn<T>(leaseMs: number, act: () => Promise<T>): Promise<T> {
  const startedAt = performance.now()
  const value = await act()
  const tookMs = performance.now() - startedAt
  assert.ok(value, 'it gets the lock')
  assert.ok(tookMs > leaseMs - 300 && tookMs < leaseMs + 1_000, `after ${tookMs} ms`)
  return value
}

function isIllegalMonitorState(error: unknown): boolean {
  return error instanceof JavaError && error.className === 'java.lang.IllegalMonitorStateException'
}

const sum = (numbers: number[]): number => numbers.reduce((total, number) => total + number, 0)

/** Fails while something of the case is still there. */
export async function expectNoKeys(bench: Bench): Promise<void> {
  let left: string[] = []
  const isClean = async () => {
    left = await bench.leftKeys()
    return left.length === 0
  }
  await waitUntil(isClean, {
    timeoutMs: 2_000,
    message: () => `no key should be left, but there is ${left.join(', ')}`,
  })
}
