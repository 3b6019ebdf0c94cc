import assert from 'node:assert/strict'
import { type Client, connect, type Lock, SelfDeadlockError } from '../../src/index.js'
import { measureLateness } from '../support/lateness.js'
import { assertInTime, sleep } from '../support/wait-until.js'
import type { Case } from './case.js'
import { FAIR_CASES } from './fair-cases.js'
import { JOINT_CASES } from './joint-cases.js'
import { LEASE_END_CASES } from './lease-end-cases.js'
import { READ_WRITE_CASES } from './read-write-cases.js'
import { JavaError } from './redisson.js'
import { nodeSees, PROMPT_MS, soon, toJava, toNode } from './steps.js'

/** Longest pause of a waiter that polls, with much to spare. */
const POLL_MS = 1_000

/** The cases of some kinds only. */
export const SPECIAL_CASES: readonly Case[] = [
  {
    id: 'polls',
    title: 'a waiter that is not woken polls, and gets the lock within a second',
    kinds: ['spin', 'red'],
    async run(fixture) {
      const java = await fixture.oneJava()
      const rival = await fixture.rival.oneJava()
      const latenessMs = measureLateness()
      const tookMs: number[] = []
      for (let round = 0; round < 3; round++) {
        tookMs.push(await toNode(fixture, fixture.rival, java))
        tookMs.push(await toJava(fixture, fixture.rival, rival))
      }
      const note = tookMs.map((ms) => `${Math.round(ms)} ms`).join(', ')
      assertInTime(Math.max(...tookMs) < POLL_MS + latenessMs(), note)
      return note
    },
  },
  {
    id: 'taken-again',
    title: 'acquiring it again is an error in Java and in Node, and each side sees one hold',
    kinds: ['nonReentrant', 'nonReentrantFair'],
    async run(fixture) {
      const java = await fixture.oneJava()
      const node = fixture.node()
      await java.lock()
      const isRefused = (error: unknown) =>
        error instanceof JavaError && error.className === 'java.lang.IllegalMonitorStateException'
      await assert.rejects(java.lock(), isRefused)
      await assert.rejects(java.tryLock(), isRefused)
      await nodeSees(fixture, await java.holders(), 1)
      await java.unlock()
      await node.withLock({}, async () => {
        await assert.rejects(node.lock(), SelfDeadlockError)
        assert.equal(await node.tryLock(), null)
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
    async run(fixture) {
      const java = await fixture.oneJava()
      const node = fixture.node()
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
      assertInTime(longest < PROMPT_MS, note)
      return note
    },
  },
  {
    id: 'in-order',
    title:
      'four busy Java threads and nine callers of ordered locks of Node exclude each other, and both get their turns',
    kinds: ['lock', 'write'],
    alone: true,
    async run(fixture) {
      const { name, kind, site } = fixture
      const lockOf = (client: Client): Lock => {
        if (kind.name === 'lock') return client.getLock(name, { order: 'fifo' })
        return client.getReadWriteLock(name, { order: 'fifo' }).writeLock()
      }
      const target = site.backends[0].target
      const clients = [site.clients[0], await connect(target), await connect(target)]
      const sections = { node: 0, java: 0 }
      let inside: string | undefined
      let isOver = false
      const section = async (side: keyof typeof sections): Promise<void> => {
        assert.equal(inside, undefined)
        inside = side
        sections[side]++
        await sleep(1)
        inside = undefined
      }
      const inNode = clients.flatMap((client) =>
        [1, 2, 3].map(async () => {
          while (!isOver) await lockOf(client).withLock(() => section('node'))
        }),
      )
      const inJava = (await fixture.java(4)).map(async (java) => {
        while (!isOver) {
          await java.lock()
          await section('java')
          await java.unlock()
        }
      })
      await sleep(5_000)
      isOver = true
      await Promise.all([...inNode, ...inJava])
      await Promise.all(clients.slice(1).map((client) => client.close()))
      const note = `${sections.node} sections of Node, ${sections.java} of Java`
      // Java's releases grant nobody: its threads overtake the queue. A queue that nobody woke would get one turn a second.
      assertInTime(sections.node > 50 && sections.java > 50, note)
      return note
    },
  },
  ...FAIR_CASES,
  ...READ_WRITE_CASES,
  {
    id: 'tokens',
    title: 'tokens of Java and Node are one rising sequence, and both sides agree on the last one',
    kinds: ['fenced'],
    async run(fixture) {
      const java = await fixture.oneJava()
      const node = fixture.site.clients[0].getFencedLock(fixture.name)
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
      await fixture.hasWaiter('node')
      await add(javaToken)
      await java.unlock()
      const hold = await soon(inNode, PROMPT_MS)
      await add(hold.fencingToken)
      const inJava = takeInJava()
      await fixture.hasWaiter('java')
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
  ...JOINT_CASES,
  ...LEASE_END_CASES,
]
