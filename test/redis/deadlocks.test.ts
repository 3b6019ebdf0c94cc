/** Deadlocks of several clients on a real server, and that there is none where locks are taken in one order. */
import assert from 'node:assert/strict'
import { before, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '../../src/index.js'
import { SeededRandom } from '../../src/testing/seeded-random.js'
import { fairDeadlines, fairQueue } from '../../src/wire/keys.js'
import { setUpFixture } from '../support/fixture.js'
import { waitUntil } from '../support/wait-until.js'

/** Long enough for a busy machine: it ends as soon as all clients have replied. */
const timeoutMs = 5_000
const asked = { inspection: true }
const JAVA = '10488e73-5c1a-4f7e-9d53-7a1b2c3d4e5f:41'

describe('deadlocks among clients', () => {
  const fixture = setUpFixture(undefined, [])
  before(async () => {
    await fixture.server.admin.call('ACL', 'SETUSER', 'default', 'allcommands', 'allkeys', 'allchannels')
  })

  /** Takes locks one inside the other. @returns once the first is held; `done` when all is over */
  async function nested(client: Client, names: string[], kind: 'getLock' | 'getFairLock', signal: AbortSignal) {
    const [outer = '', inner = ''] = names
    let entered = (): void => {}
    const first = new Promise<void>((resolve) => {
      entered = resolve
    })
    let enter = (): void => {}
    const gate = new Promise<void>((resolve) => {
      enter = resolve
    })
    const done = client[kind](outer)
      .withLock(async () => {
        entered()
        await gate
        await client[kind](inner).withLock({ signal }, async () => {})
      })
      .catch((error: unknown) => error)
    await first
    return { enter, done }
  }

  for (const kind of ['getLock', 'getFairLock'] as const) {
    it(`a deadlock of two call chains that cross with ${kind} is named, and gone with one wait`, async () => {
      const observer = await fixture.connect(asked)
      const stop = new AbortController()
      const [one, other] = [await fixture.connect(asked), await fixture.connect(asked)]
      const ab = await nested(one, ['a', 'b'], kind, stop.signal)
      const ba = await nested(other, ['b', 'a'], kind, stop.signal)
      assert.deepEqual(await observer.fleet.deadlocks({ timeoutMs }), { cycles: [], suspected: [], doubts: [] })
      ab.enter()
      ba.enter()
      const found = await waitUntil(
        async () => {
          const { cycles } = await observer.fleet.deadlocks({ timeoutMs })
          return cycles.length > 0 && cycles
        },
        { timeoutMs: 60_000 },
      )
      assert.deepEqual(
        found.map(({ locks, endsInMs }) => [locks, endsInMs]),
        [[['a', 'b'], null]],
      )
      assert.deepEqual(
        found[0]?.owners.map(({ holder }) => holder.split(':')[0]),
        [one.id, other.id],
      )
      stop.abort(new Error('enough'))
      await Promise.all([ab.done, ba.done])
      assert.deepEqual(await observer.fleet.deadlocks({ timeoutMs }), { cycles: [], suspected: [], doubts: [] })
    })
  }

  it('deadlocks are named as the program names the locks, also with a nameMapper', async () => {
    const nameMapper = { map: (name: string) => `app:${name}`, unmap: (key: string) => key.slice('app:'.length) }
    const options = { ...asked, nameMapper }
    const observer = await fixture.connect(options)
    const stop = new AbortController()
    const ab = await nested(await fixture.connect(options), ['a', 'b'], 'getLock', stop.signal)
    const ba = await nested(await fixture.connect(options), ['b', 'a'], 'getLock', stop.signal)
    ab.enter()
    ba.enter()
    const found = await waitUntil(async () => (await observer.fleet.deadlocks({ timeoutMs })).cycles[0], {
      timeoutMs: 60_000,
    })
    assert.deepEqual(found.locks, ['a', 'b'])
    const listed: string[] = []
    for await (const { name, waiters } of observer.fleet.locks({ match: 'app:*', timeoutMs })) {
      listed.push(name, ...waiters.flatMap(({ chain }) => chain.map(({ lock }) => `inside ${lock}`)))
    }
    assert.deepEqual(listed.sort(), ['a', 'b', 'inside a', 'inside b'])
    stop.abort(new Error('enough'))
    await Promise.all([ab.done, ba.done])
  })

  it('deadlocks include a thread of Java that is in the queue of a fair lock', async () => {
    const { admin } = fixture.server
    const observer = await fixture.connect(asked)
    const stop = new AbortController()
    await admin.multi().hset('java', JAVA, 1).pexpire('java', 60_000).exec()
    const node = await nested(await fixture.connect(asked), ['fair', 'java'], 'getFairLock', stop.signal)
    await admin
      .multi()
      .rpush(fairQueue('fair'), JAVA)
      .zadd(fairDeadlines('fair'), Date.now() + 60_000, JAVA)
      .exec()
    const listener = admin.duplicate()
    fixture.onEnd(() => listener.disconnect())
    await listener.subscribe(`redisson_lock__channel:{fair}:${JAVA}`)
    node.enter()
    const found = await waitUntil(
      async () => {
        const { cycles } = await observer.fleet.deadlocks({ timeoutMs })
        return cycles.length > 0 && cycles
      },
      { timeoutMs: 60_000 },
    )
    assert.deepEqual(found[0]?.locks, ['fair', 'java'])
    assert.equal(found[0]?.owners[1]?.holder, JAVA)
    stop.abort(new Error('enough'))
    await node.done
    await admin.del('java', fairQueue('fair'), fairDeadlines('fair'))
  })

  it('deadlocks are never reported where all locks are taken in one order, however often one looks', async () => {
    const observer = await fixture.connect(asked)
    const random = new SeededRandom(3)
    const names = ['a', 'b', 'c', 'd']
    let isOver = false
    let taken = 0
    const inOrder = async (client: Client, from: number): Promise<void> => {
      const next = from + Math.floor(random.fraction() * (names.length - from))
      await client.getLock(names[next] ?? '').withLock(async () => {
        taken++
        await sleep(random.fraction() * 5)
        if (next + 1 < names.length && random.fraction() < 0.7) await inOrder(client, next + 1)
      })
    }
    const clients = await Promise.all(Array.from({ length: 4 }, async () => await fixture.connect(asked)))
    const tasks = clients.flatMap((client) => [client, client])
    const work = tasks.map(async (client) => {
      while (!isOver) await inOrder(client, 0)
    })
    for (let look = 0; look < 30; look++) {
      // Short, so that some clients do not reply in time.
      const { cycles } = await observer.fleet.deadlocks({ timeoutMs: look % 2 === 0 ? timeoutMs : 5 })
      assert.deepEqual(cycles, [])
    }
    isOver = true
    await Promise.all(work)
    assert.ok(taken > 0)
  })
})
