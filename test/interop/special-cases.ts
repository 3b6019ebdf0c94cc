import assert from 'node:assert/strict'
import { SelfDeadlockError } from '../../src/index.js'
import { sleep, waitUntil } from '../support/wait-until.js'
import type { Bench } from './bench.js'
import type { Case } from './cases.js'
import { JavaError, type JavaOwner, text, texts } from './redisson.js'
import { isFree, LONG_LEASE_MS, nodeSees, PROMPT_MS, soon, toJava, toNode } from './steps.js'

const FAIR = ['fair', 'nonReentrantFair']
/** A dead waiter delays the others by at most this: until the next one in Node asks, and its time to come. */
const DEAD_WAITER_MS = 8_000
/** Longest pause of a waiter in Node that is not woken. */
const POLL_MS = 5_000
/** Longest pause of a waiter that polls, with much to spare. */
const ASKED_AGAIN_MS = 1_000

/** Of all lengths that the hash of a value treats differently, and of letters of one to four bytes. */
const ODD_VALUES = [
  ...Array.from({ length: 70 }, (_, length) => 'a1-'.repeat(length).slice(0, length)),
  ...['größe', '鎖', '🔒', ' two words\n', '"quoted\\"', '1,2%20', '{tag}'],
]

/** What is only about some kinds. */
export const SPECIAL_CASES: readonly Case[] = [
  {
    id: 'asks-again',
    title: 'a waiter that is not woken polls, and gets the lock within a second',
    kinds: ['spin', 'red'],
    async run(bench) {
      const java = await bench.oneJava()
      const rival = await bench.rival.oneJava()
      const tookMs: number[] = []
      for (let round = 0; round < 3; round++) {
        tookMs.push(await toNode(bench, bench.rival, java))
        tookMs.push(await toJava(bench, bench.rival, rival))
      }
      const note = tookMs.map((ms) => `${Math.round(ms)} ms`).join(', ')
      assert.ok(Math.max(...tookMs) < ASKED_AGAIN_MS, note)
      return note
    },
  },
  {
    id: 'taken-again',
    title: 'acquiring it again is an error in Java and in Node, and each side sees one hold',
    kinds: ['nonReentrant', 'nonReentrantFair'],
    async run(bench) {
      const java = await bench.oneJava()
      const node = bench.node()
      await java.lock()
      const isRefused = (error: unknown) =>
        error instanceof JavaError && error.className === 'java.lang.IllegalMonitorStateException'
      await assert.rejects(java.lock(), isRefused)
      await assert.rejects(java.tryLock(), isRefused)
      await nodeSees(bench, await java.holders(), 1)
      await java.unlock()
      await node.withLock({}, async () => {
        await assert.rejects(node.lock(), SelfDeadlockError)
        await assert.rejects(node.tryLock(), SelfDeadlockError)
        assert.equal(await java.tryLock(), false)
      })
      await java.lock() // a failed attempt holds nothing
      await java.unlock()
      return undefined
    },
  },
  {
    id: 'gets-its-turn',
    title: 'Java gets the lock within a second again and again, next to 20 tasks of one Node client that never pause',
    kinds: ['lock', 'nonReentrant', 'write'],
    alone: true,
    async run(bench) {
      const java = await bench.oneJava()
      const node = bench.node()
      let isOver = false
      let sections = 0
      const tasks = Array.from({ length: 20 }, async () => {
        for (; !isOver; sections++) await node.withLock({}, () => sleep(1))
      })
      const waitedMs: number[] = []
      try {
        for (let round = 0; round < 20; round++) {
          const startedAt = performance.now()
          await java.lock()
          waitedMs.push(performance.now() - startedAt)
          await java.unlock()
        }
      } finally {
        isOver = true
        await Promise.all(tasks)
      }
      const [median = 0, longest = 0] = [10, 19].map((index) => waitedMs.toSorted((a, b) => a - b)[index])
      const note = `Java waited for ${Math.round(median)} ms, at worst ${Math.round(longest)} ms; Node had ${sections} sections`
      assert.ok(longest < PROMPT_MS, note)
      return note
    },
  },
  {
    id: 'order',
    title: 'threads and tasks that alternate in the queue are served in order, each at once',
    kinds: FAIR,
    async run(bench) {
      return await servesInOrder(bench, ['java', 'node', 'node', 'java', 'java', 'node', 'java', 'node'], PROMPT_MS)
    },
  },
  {
    id: 'dead-nodes',
    title: 'a Node process that dies in the queue does not change the order, and delays the next one by seconds',
    kinds: FAIR,
    dies: 'node',
    async run(bench) {
      const { doomedNode } = bench.site
      const child = await doomedNode.alive()
      const queue = ['node', 'dead', 'java', 'node', 'java', 'dead', 'node', 'java'] as const
      return await servesInOrder(bench, queue, DEAD_WAITER_MS, {
        join: async () => child.send({ kind: bench.kind.name, name: bench.name }),
        die: () => doomedNode.die(bench),
      })
    },
  },
  {
    id: 'dead-threads',
    title: 'a JVM that dies in the queue does not change the order, and delays the next one by seconds',
    kinds: FAIR,
    dies: 'jvm',
    async run(bench) {
      const { doomedJvm } = bench.site
      const { redissons } = await doomedJvm.alive()
      const threads = await bench.java(2, bench.name, redissons)
      const queue = ['java', 'dead', 'node', 'java', 'node', 'dead', 'java', 'node'] as const
      return await servesInOrder(bench, queue, DEAD_WAITER_MS, {
        join: async () =>
          void threads
            .pop()
            ?.lock()
            .catch(() => {}),
        die: () => doomedJvm.die(bench),
      })
    },
  },
  {
    id: 'shared',
    title: 'Java and Node read together, see each other, and keep writers of both sides out until the last has left',
    kinds: ['read'],
    async run(bench) {
      const java = await bench.oneJava()
      const [holder = ''] = await java.holders()
      const writer = bench.rival
      const javaWriter = await writer.oneJava()
      const fields = await bench.site.redissons[0].get('getMap', text(bench.name))
      const countInJava = async (field: string) => await fields.call('counter', 'get', text(field))
      const nobodyWrites = async () => {
        assert.equal(await writer.node().tryLock(), null)
        assert.equal(await javaWriter.tryLock(), false)
      }

      await java.lock()
      const hold = await bench.node().lock()
      const holders = [
        { holder, holdCount: 1 },
        { holder: hold.holder, holdCount: 1 },
      ]
      assert.deepEqual(byHolder(await bench.node().getHolders()), byHolder(holders))
      assert.deepEqual([await countInJava(holder), await countInJava(hold.holder)], ['1', '1'])
      await java.lock()
      const inner = await bench.node().lock({ within: hold })
      assert.deepEqual(
        byHolder(await bench.node().getHolders()),
        byHolder(holders.map((one) => ({ ...one, holdCount: 2 }))),
      )
      assert.deepEqual([await countInJava(holder), await countInJava(hold.holder)], ['2', '2'])
      await nobodyWrites()
      await java.unlock()
      await inner.unlock()
      await java.unlock()
      assert.equal(await java.isHeldByCurrentThread(), false)
      assert.equal(await hold.isHeld(), true)
      await nobodyWrites()
      const inJava = javaWriter.lock()
      await writer.hasWaiter('java')
      await hold.unlock() // Node is the last to leave
      await soon(inJava, PROMPT_MS)
      assert.equal(await bench.node().tryLock(), null)
      await javaWriter.unlock()

      const again = await bench.node().lock()
      await java.lock()
      const inNode = writer.node().lock()
      await writer.hasWaiter('node')
      await again.unlock()
      await nobodyWrites()
      await java.unlock() // Java is the last to leave
      const hasIt = await soon(inNode, PROMPT_MS)
      assert.equal(await java.tryLock(), false)
      await hasIt.unlock()
      return undefined
    },
  },
  {
    id: 'own-read',
    title: 'a writer in Java or Node also reads: the other side sees both, and neither reads nor writes',
    kinds: ['write'],
    async run(bench) {
      const [write, read] = [bench, bench.as('read')]
      const nobodyElse = async () => {
        for (const rival of bench.rivals) {
          assert.equal(await rival.node().tryLock(), null)
          assert.equal(await (await rival.oneJava()).tryLock(), false)
        }
      }
      const [javaWrites, javaReads] = [await write.oneJava(), await read.oneJava()]
      await javaWrites.lock()
      await javaReads.lock()
      await nodeSees(write, await javaWrites.holders(), 1)
      await nodeSees(read, await javaReads.holders(), 1)
      await nobodyElse()
      await javaReads.unlock()
      await nodeSees(read, [], 0)
      await nobodyElse()
      await javaWrites.unlock()

      const fields = await bench.site.redissons[0].get('getMap', text(bench.name))
      const countInJava = async (field: string) => await fields.call('counter', 'get', text(field))
      const writing = await write.node().lock()
      const reading = await read.node().lock({ within: writing })
      assert.deepEqual([await countInJava(writing.holder), await countInJava(reading.holder)], ['1', '1'])
      assert.equal(await javaWrites.isLocked(), true)
      await nobodyElse()
      await reading.unlock()
      assert.deepEqual([await countInJava(writing.holder), await countInJava(reading.holder)], ['1', null])
      await nobodyElse()
      await writing.unlock()
      for (const rival of bench.rivals) await isFree(rival.node().tryLock())
      return undefined
    },
  },
  {
    id: 'java-downgrades',
    title: 'Java keeps reading after a write: Node reads with it, and writes when Java has left',
    kinds: ['write'],
    async run(bench) {
      const [write, read] = [bench, bench.as('read')]
      const [javaWrites, javaReads] = [await write.oneJava(), await read.oneJava()]
      await javaWrites.lock()
      await javaReads.lock(LONG_LEASE_MS) // 3.14.1 does not renew it
      const waiter = read.node().lock()
      await read.hasWaiter('node')
      const downgradedAt = performance.now()
      await javaWrites.unlock()
      await isFree(read.node().tryLock()) // a new reader reads at once
      assert.equal(await write.node().tryLock(), null)
      const hold = await soon(waiter, POLL_MS + PROMPT_MS)
      const tookMs = performance.now() - downgradedAt
      const writer = write.node().lock()
      await write.hasWaiter('node')
      await hold.unlock()
      assert.equal(await javaReads.isHeldByCurrentThread(), true)
      await nodeSees(read, await javaReads.holders(), 1)
      await javaReads.unlock()
      await (await soon(writer, PROMPT_MS)).unlock()
      return `Redisson tells nobody: who had waited read after ${Math.round(tookMs)} ms`
    },
  },
  {
    id: 'node-downgrades',
    title: 'Node keeps reading after a write: waiting readers in Java are woken, and write when Node has left',
    kinds: ['write'],
    async run(bench) {
      const [write, read] = [bench, bench.as('read')]
      const [javaWrites, javaReads] = [await write.oneJava(), await read.oneJava()]
      await write.node().withLock({ leaseTimeMs: LONG_LEASE_MS }, async (writing) => {
        const reading = await read.node().lock()
        const waiter = javaReads.lock()
        await read.hasWaiter('java')
        await writing.unlock()
        await soon(waiter, PROMPT_MS)
        assert.equal(await javaWrites.tryLock(), false)
        await javaReads.unlock()
        assert.equal(await javaWrites.tryLock(), false)
        const writer = javaWrites.lock()
        await write.hasWaiter('java')
        await reading.unlock()
        await soon(writer, PROMPT_MS)
        await javaWrites.unlock()
      })
      return undefined
    },
  },
  {
    id: 'tokens',
    title: 'tokens of Java and Node are one rising sequence, and both sides agree on the last one',
    kinds: ['fenced'],
    async run(bench) {
      const java = await bench.oneJava()
      const node = bench.site.clients[0].getFencedLock(bench.name)
      const tokens: bigint[] = []
      const add = async (token: bigint) => {
        tokens.push(token)
        assert.equal(await node.getToken(), token)
        assert.equal(BigInt(Number(await java.call('getToken'))), token)
      }
      const takeInJava = async () => BigInt(Number(await java.call('lockAndGetToken')))
      for (let round = 0; round < 5; round++) {
        await add(await takeInJava())
        await java.unlock()
        const hold = await node.lock()
        await add(hold.fencingToken)
        await hold.unlock()
      }
      // The same for waiters, and across a forced release.
      const javaToken = await takeInJava()
      const inNode = node.lock()
      await bench.hasWaiter('node')
      await add(javaToken)
      await java.unlock()
      const hold = await soon(inNode, PROMPT_MS)
      await add(hold.fencingToken)
      const inJava = takeInJava()
      await bench.hasWaiter('java')
      assert.equal(await node.forceUnlock(), true)
      await add(await soon(inJava, PROMPT_MS))
      await java.unlock()
      assert.deepEqual(
        tokens,
        tokens.map((_, index) => BigInt(index + 1)),
      )
      return `${tokens.length} tokens`
    },
  },
  {
    id: 'members',
    title: 'a multi-lock on two servers excludes the other side from each of its locks, and needs all of them',
    kinds: ['multi'],
    async run(bench) {
      const members = await membersOf(bench)
      const java = await bench.oneJava()
      const node = bench.node()
      await java.lock()
      for (const [index, part] of node.parts.entries()) {
        assert.equal(await part.tryLock(), null)
        assert.equal(await members[index]?.tryLock(), false)
      }
      await java.unlock()
      await node.withLock({}, async () => {
        for (const member of members) assert.equal(await member.tryLock(), false)
      })
      for (const [index, part] of node.parts.entries()) {
        const others = node.parts.filter((other) => other !== part)
        await part.withLock(async () => {
          assert.equal(await java.tryLock(), false)
          assert.equal(await java.tryLock(100), false)
          for (const other of others) assert.equal(await other.isLocked(), false)
        })
        await members[index]?.lock()
        assert.equal(await node.tryLock(), null)
        assert.equal(await node.tryLock({ waitTimeMs: 100 }), null)
        for (const other of others) assert.equal(await other.isLocked(), false)
        await members[index]?.unlock()
      }
      return undefined
    },
  },
  {
    id: 'majority',
    title: 'a red lock on three servers is available on both sides while a majority of them is free',
    kinds: ['red'],
    async run(bench) {
      const [first, second] = await membersOf(bench)
      const java = await bench.oneJava()
      const node = bench.node()
      const [nodeFirst, nodeSecond] = node.parts
      assert.ok(first && second && nodeFirst && nodeSecond)
      await first.lock()
      const hold = await soon(node.lock(), PROMPT_MS)
      assert.equal(await second.tryLock(), false)
      assert.equal(await java.tryLock(), false) // it has one of three
      await hold.unlock()
      await second.lock()
      assert.equal(await node.tryLock(), null)
      await second.unlock()
      await first.unlock()

      await nodeFirst.withLock(async () => {
        assert.equal(await java.tryLock(), true)
        assert.equal(await nodeSecond.tryLock(), null)
        assert.equal(await node.tryLock(), null)
        await java.unlock()
        await nodeSecond.withLock(async () => {
          assert.equal(await java.tryLock(), false)
        })
      })
      return undefined
    },
  },
  {
    id: 'values',
    title: 'equal values are the same lock: sets with a common value exclude each other, others do not',
    kinds: ['fasterMulti'],
    async run(bench) {
      const { redissons, clients } = bench.site
      const group = bench.name
      const javaOf = async (thread: string, ...values: string[]) =>
        (await redissons[0].lock('getMultiLock', text(group), texts(values))).by(`${group}-${thread}`)
      const nodeOf = (...values: string[]) => clients[0].getFasterMultiLock(group, values)
      const digests = async () => (await bench.backend.admin.hkeys(group)).filter((key) => !key.includes(':')).sort()

      const all = await javaOf('all', ...ODD_VALUES)
      await all.lock()
      const ofJava = await digests()
      assert.equal(ofJava.length, ODD_VALUES.length)
      await all.unlock()
      await nodeOf(...ODD_VALUES).withLock(async () => assert.deepEqual(await digests(), ofJava))

      const ab = await javaOf('ab', 'a', 'b')
      await ab.lock()
      assert.equal(await nodeOf('b', 'c').tryLock(), null)
      const cd = await nodeOf('c', 'd').tryLock()
      assert.ok(cd, 'no value in common')
      const waiter = nodeOf('b', 'c').lock()
      await bench.hasWaiter('node')
      await ab.unlock()
      const da = await javaOf('da', 'd', 'a')
      assert.equal(await da.tryLock(), false)
      await cd.unlock()
      const bc = await soon(waiter, PROMPT_MS)
      assert.equal(await ab.tryLock(), false)
      assert.equal(await da.tryLock(), true)
      await bc.unlock()
      const inJava = ab.lock()
      await sleep(100)
      assert.equal(await nodeOf('b').isLocked(), false) // all or none: `a` is taken
      await da.unlock()
      await soon(inJava, PROMPT_MS)
      await ab.unlock()
      return `${ODD_VALUES.length} digests`
    },
  },
]

/** Its member locks in Java, each on a separate thread. */
async function membersOf(bench: Bench): Promise<JavaOwner[]> {
  const redissons = bench.site.redissons.slice(0, bench.backends.length)
  const members = await Promise.all(redissons.map((redisson) => redisson.lock('getLock', text(bench.name))))
  return members.map((member, index) => member.by(`${bench.name}-member-${index}`))
}

function byHolder<T extends { holder: string }>(holders: readonly T[]): T[] {
  return holders.toSorted((a, b) => (a.holder < b.holder ? -1 : 1))
}

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
  bench: Bench,
  queue: readonly ('java' | 'node' | 'dead')[],
  atMostMs: number,
  mortals?: Mortals,
): Promise<string> {
  const { admin } = bench.backend
  const node = bench.node()
  const threads = await bench.java(queue.filter((who) => who === 'java').length)
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
    const isQueued = async () => (await admin.llen(`redisson_lock_queue:{${bench.name}}`)) === place + 1
    await waitUntil(isQueued, { message: `${name} is in the queue` })
  }
  const living = queue.filter((who) => who !== 'dead')
  await waitUntil(async () => (await bench.listeners()) === queue.length, { message: 'all listen' })
  await mortals?.die()
  await waitUntil(async () => (await bench.listeners()) === living.length, { message: 'the dead do not listen' })
  await sleep(50) // they subscribe, ask once more, and then pause
  freeAt = performance.now()
  await hold.unlock()
  await Promise.all(waiting)

  assert.deepEqual(
    served,
    [...queue.entries()].filter(([, who]) => who !== 'dead').map(([place, who]) => `${who} ${place}`),
  )
  const note = `after ${gapsMs.map(Math.round).join(', ')} ms`
  assert.ok(Math.max(...gapsMs) < atMostMs, note)
  return note
}
