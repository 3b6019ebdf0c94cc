import assert from 'node:assert/strict'
import type { Case } from './case.js'
import { text } from './redisson.js'
import { isFree, LONG_LEASE_MS, nodeSees, PROMPT_MS, soon } from './steps.js'

/** Longest pause of a waiter in Node that is not woken. */
const POLL_MS = 5_000
/** The cases of read-write locks. */
export const READ_WRITE_CASES: readonly Case[] = [
  {
    id: 'shared',
    title: 'Java and Node read together, see each other, and keep writers of both sides out until the last has left',
    kinds: ['read'],
    async run(fixture) {
      const java = await fixture.oneJava()
      const [holder = ''] = await java.holders()
      const writer = fixture.rival
      const javaWriter = await writer.oneJava()
      const fields = await fixture.site.redissons[0].get('getMap', text(fixture.name))
      const countInJava = async (field: string) => await fields.call('counter', 'get', text(field))
      const nobodyWrites = async () => {
        assert.equal(await writer.node().tryLock(), null)
        assert.equal(await javaWriter.tryLock(), false)
      }

      await java.lock()
      const hold = await fixture.node().lock()
      const holders = [
        { holder, holdCount: 1 },
        { holder: hold.holder, holdCount: 1 },
      ]
      assert.deepEqual(byHolder(await fixture.node().getHolders()), byHolder(holders))
      assert.deepEqual([await countInJava(holder), await countInJava(hold.holder)], ['1', '1'])
      await java.lock()
      const inner = await fixture.node().lock({ within: hold })
      assert.deepEqual(
        byHolder(await fixture.node().getHolders()),
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
      assert.equal(await fixture.node().tryLock(), null)
      await javaWriter.unlock()

      const again = await fixture.node().lock()
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
    async run(fixture) {
      const [write, read] = [fixture, fixture.as('read')]
      const nobodyElse = async () => {
        for (const rival of fixture.rivals) {
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

      const fields = await fixture.site.redissons[0].get('getMap', text(fixture.name))
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
      for (const rival of fixture.rivals) await isFree(rival.node().tryLock())
      return undefined
    },
  },
  {
    id: 'java-downgrades',
    title: 'Java keeps reading after a write: Node reads with it, and writes when Java has left',
    kinds: ['write'],
    async run(fixture) {
      const [write, read] = [fixture, fixture.as('read')]
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
      return `Redisson publishes nothing: the waiter read after ${Math.round(tookMs)} ms`
    },
  },
  {
    id: 'node-downgrades',
    title: 'Node keeps reading after a write: waiting readers in Java are woken, and write when Node has left',
    kinds: ['write'],
    async run(fixture) {
      const [write, read] = [fixture, fixture.as('read')]
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
]

function byHolder<T extends { holder: string }>(holders: readonly T[]): T[] {
  return holders.toSorted((a, b) => (a.holder < b.holder ? -1 : 1))
}
