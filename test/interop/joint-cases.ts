import assert from 'node:assert/strict'
import { sleep } from '../support/wait-until.js'
import type { Case } from './case.js'
import type { LockFixture } from './fixture.js'
import { type JavaOwner, text, texts } from './redisson.js'
import { PROMPT_MS, soon } from './steps.js'

/** Of all lengths that the hash of a value treats differently, and of letters of one to four bytes. */
const ODD_VALUES = [
  ...Array.from({ length: 70 }, (_, length) => 'a1-'.repeat(length).slice(0, length)),
  ...['größe', '鎖', '🔒', ' two words\n', '"quoted\\"', '1,2%20', '{tag}'],
]

/** The cases of locks on several locks or values. */
export const JOINT_CASES: readonly Case[] = [
  {
    id: 'members',
    title: 'a multi-lock on two servers excludes the other side from each of its locks, and needs all of them',
    kinds: ['multi'],
    async run(fixture) {
      const members = await membersOf(fixture)
      const java = await fixture.oneJava()
      const node = fixture.node()
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
    async run(fixture) {
      const [first, second] = await membersOf(fixture)
      const java = await fixture.oneJava()
      const node = fixture.node()
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
    async run(fixture) {
      const { redissons, clients } = fixture.site
      const group = fixture.name
      const javaOf = async (thread: string, ...values: string[]) =>
        (await redissons[0].lock('getMultiLock', text(group), texts(values))).by(`${group}-${thread}`)
      const nodeOf = (...values: string[]) => clients[0].getFasterMultiLock(group, values)
      const digests = async () => (await fixture.backend.admin.hkeys(group)).filter((key) => !key.includes(':')).sort()

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
      await fixture.hasWaiter('node')
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
async function membersOf(fixture: LockFixture): Promise<JavaOwner[]> {
  const redissons = fixture.site.redissons.slice(0, fixture.backends.length)
  const members = await Promise.all(redissons.map((redisson) => redisson.lock('getLock', text(fixture.name))))
  return members.map((member, index) => member.by(`${fixture.name}-member-${index}`))
}
