import assert from 'node:assert/strict'
import { ConfigError } from '../../src/index.js'
import type { Case } from './case.js'
import type { LatchFixture } from './latches.js'
import { JavaError } from './redisson.js'
import { becomes, LONG_LEASE_MS, PROMPT_MS, soon } from './steps.js'

/** Names whose channel is in another slot than the key: on one server they work. */
export const TORN_NAMES = ['a{b', 'a}b', 'a{}b']

const CLUSTER = ['cluster'] as const

/** What there is only in a cluster. */
export const LOCKS_IN_CLUSTERS: readonly Case[] = [
  {
    id: 'listens',
    title: 'Java subscribes as its file says, to a sharded or a plain channel; Node to both',
    kinds: ['lock'],
    topologies: CLUSTER,
    async run(fixture) {
      const [java, waiting] = await fixture.java(2)
      assert.ok(java && waiting)
      const listeners = async () =>
        [...(await fixture.backend.channels())].find(([name]) => name.includes(fixture.name))?.[1]
      await java.lock(LONG_LEASE_MS)
      const inJava = waiting.lock().then(() => waiting.unlock())
      const isPlain = fixture.site.topology.sharding === 'OFF'
      await becomes(listeners, isPlain ? { plain: 1, sharded: 0 } : { plain: 0, sharded: 1 })
      const inNode = fixture
        .node()
        .lock()
        .then((hold) => hold.unlock())
      await becomes(listeners, isPlain ? { plain: 2, sharded: 1 } : { plain: 1, sharded: 2 })
      await fixture.hasWaiters(2)
      await java.unlock()
      await soon(Promise.all([inJava, inNode]), PROMPT_MS)
      return isPlain ? 'plain' : 'sharded'
    },
  },
  {
    id: 'torn-names',
    title: 'names with half a tag fail in Java, and are refused in Node before anything is sent',
    topologies: CLUSTER,
    notFor: ({ name }) => (name === 'spin' ? 'it has one key and no channel: any name will do in Java' : undefined),
    async run(fixture) {
      for (const name of TORN_NAMES.map((torn) => `${fixture.name}:${torn}`)) {
        assert.throws(() => fixture.node(name), ConfigError)
        const java = await fixture.oneJava(name)
        await java.lock(500).catch(isOfTornName) // one with a single key succeeds; it cannot be released
        await assert.rejects(java.unlock(), isCrossSlot)
      }
      return undefined
    },
  },
]

export const LATCHES_IN_CLUSTERS: readonly Case<LatchFixture>[] = [
  {
    id: 'tagged-names',
    title: 'a name with a tag fails in Java, which adds another pair of braces, and works in Node',
    topologies: CLUSTER,
    async run(fixture) {
      const name = `{shop}:${fixture.name}`
      const [java, node] = [await fixture.java(name), fixture.node(name)]
      await assert.rejects(java.trySetCount(1), isCrossSlot)
      assert.equal(await node.trySetCount(1), true)
      const all = Promise.all([node.await(), node.await()])
      await fixture.hasWaiters(1, name)
      await assert.rejects(java.countDown(), isCrossSlot)
      assert.equal(await java.getCount(), 1)
      await node.countDown()
      await soon(all, PROMPT_MS)
      return undefined
    },
  },
]

/** 4.7 says of a non-reentrant fair lock that it is held already, because it ignores why it was refused. */
function isOfTornName(error: unknown): void {
  const isMisread = error instanceof JavaError && error.message.includes('is non-reentrant and is already held')
  assert.ok(isMisread || isCrossSlot(error), String(error))
}

function isCrossSlot(error: unknown): boolean {
  return error instanceof JavaError && error.message.includes('CROSSSLOT')
}
