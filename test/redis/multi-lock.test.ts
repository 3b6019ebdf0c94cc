/** What a multi-lock promises in addition to every kind of lock. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Client, getMultiLock, getRedLock, type Hold, LeaseLostError, type Lock } from '../../src/index.js'
import { countCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { requestTo } from '../support/kinds.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

/** A plain one and a fair one, which are taken one after the other. */
const unlike = (client: Client, name = 'a'): [Lock, Lock] => [
  client.getLock(`${name}:1`),
  client.getFairLock(`${name}:2`),
]

describe('a multi-lock', () => {
  const fixture = setUpFixture()

  async function exists(name: string): Promise<boolean> {
    return (await fixture.server.admin.exists(name)) === 1
  }

  /** As many tasks that use a lock in turn, until the end. */
  function use(lock: Lock, tasks: number, sectionMs: number): { end(): Promise<void> } {
    let isOver = false
    const all = Array.from({ length: tasks }, async () => {
      while (!isOver) await lock.withLock(async () => await sleep(sectionMs))
    })
    return {
      end: async () => {
        isOver = true
        await Promise.all(all)
      },
    }
  }

  it('a multi-lock is served next to a busy second lock as soon as a plain waiter, and keeps the first lock free', async () => {
    const client = await fixture.connect()
    const serve = async (kind: 'getLock' | 'getFairLock', name: string): Promise<void> => {
      const [first, second] = [client[kind](`${name}:1`), client[kind](`${name}:2`)]
      const users = use(second, 8, 400) // a line of 3.2 s
      await sleep(200)
      const startedAt = performance.now()
      const alone = second.withLock(() => performance.now() - startedAt)
      let [samples, taken] = [0, 0]
      const sampler = setInterval(async () => {
        samples++
        if (await exists(first.name)) taken++
      }, 50)
      const hold = await getMultiLock(first, second).lock({ waitTimeMs: 60_000 })
      const tookMs = performance.now() - startedAt
      clearInterval(sampler)
      await hold.unlock()
      await users.end()
      assert(tookMs < 3 * (await alone), `${kind}: ${tookMs} ms, and ${await alone} ms for the second lock alone`)
      assert(taken < samples / 2, `${kind}: the first lock was taken ${taken} of ${samples} times`)
    }
    await Promise.all([serve('getLock', 'a'), serve('getFairLock', 'b')])
  })

  it('a multi-lock of two busy locks is served, because it keeps the first one longer after each round', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const users = ['a', 'b'].map((name) => use(other.getLock(name), 3, 60))
    await sleep(100)
    const both = getMultiLock(client.getLock('a'), client.getLock('b'))
    for (let round = 0; round < 2; round++) await both.withLock({ waitTimeMs: 20_000 }, () => {})
    await Promise.all(users.map((each) => each.end()))
  })

  it('a multi-lock keeps its place ahead of later callers of its client when a hold that it would re-enter is lost', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    for (let round = 0; round < 5; round++) {
      const [a, b] = [client.getLock(`a${round}`), client.getLock(`b${round}`)]
      const order: string[] = []
      const lost = new Promise<void>((resolve) => void client.once('lost', () => resolve()))
      const joint = client.runInScope(async () => {
        await a.lock()
        await other.getLock(a.name).forceUnlock()
        const rival = await other.getLock(a.name).lock()
        const hold = getMultiLock(a, b).lock()
        void hold.then(() => order.push('the multi-lock'))
        return { rival, hold }
      })
      await lost
      await sleep(1)
      const single = a.lock()
      void single.then(() => order.push('a later one'))
      const { rival, hold } = await joint
      await sleep(150)
      await rival.unlock()
      await (await Promise.race([hold, single])).unlock()
      await Promise.all([hold, single].map(async (each) => await (await each).unlock()))
      assert.deepEqual(order, ['the multi-lock', 'a later one'])
    }
  })

  it('two multi-locks named in opposite order are soon served: value sets of one group, one name on two servers', async () => {
    const second = await startRedis()
    fixture.onEnd(() => second.stop())
    const [here, there] = [await fixture.connect(), await fixture.connect({}, second.url)]
    const pairs: [Lock, Lock][] = [
      [here.getFasterMultiLock('group', ['1']), here.getFasterMultiLock('group', ['2'])],
      [here.getLock('a'), there.getLock('a')],
    ]
    for (const pair of pairs) {
      const use = async (orders: [Lock, Lock][]): Promise<number> => {
        const startedAt = performance.now()
        const uses = orders.map(async (locks) => {
          for (let round = 0; round < 40; round++) await getMultiLock(...locks).withLock(() => sleep(2))
        })
        await Promise.all(uses)
        return performance.now() - startedAt
      }
      const sameMs = await use([pair, pair])
      const oppositeMs = await use([pair, [pair[1], pair[0]]])
      assert(oppositeMs < 5 * sameMs + 1_000, `${oppositeMs} ms for 80 sections, and ${sameMs} ms in the same order`)
    }
  })

  it('a multi-lock of plain locks on one server is acquired, refused and released by one command each', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const names = ['a', 'b', 'c', 'd']
    const all = getMultiLock(...names.map((name) => client.getLock(name)))
    for (let round = 0; round < 2; round++) {
      const hold = await all.lock()
      for (const name of names) {
        const [[holder, count], ...more] = Object.entries(await fixture.server.admin.hgetall(name)) as [
          [string, string],
        ]
        assert(holder.startsWith(`${client.id}:`) && hold.holder.includes(holder))
        assert.deepEqual([count, more.length], ['1', 0])
      }
      await hold.unlock()
    }
    const holds: Hold[] = []
    assert.equal((await countCommands(fixture.server, async () => holds.push(await all.lock()))).scripts, 1)
    assert.equal((await countCommands(fixture.server, () => holds[0]?.unlock())).scripts, 1)

    const busy = await other.getLock('c').lock()
    const { scripts, calls } = await countCommands(fixture.server, async () => assert.equal(await all.tryLock(), null))
    assert.deepEqual([scripts, calls['hset']], [1, undefined])
    await busy.unlock()
  })

  it('a multi-lock of plain locks never holds some without the others, however many contend', async () => {
    const clients = [await fixture.connect(), await fixture.connect(), await fixture.connect()]
    const names = ['a', 'b', 'c', 'd']
    const inside = new Map<string, number>()
    let sections = 0
    const tasks = clients.flatMap((client, index) =>
      [0, 1].map(async (task) => {
        for (let round = 0; round < 15; round++) {
          const wanted = names.filter((_, n) => (n + index + task + round) % 3 > 0)
          const locks = wanted.map((name) => client.getLock(name))
          if ((index + task) % 2) locks.reverse()
          await getMultiLock(...locks).withLock({ waitTimeMs: 15_000 }, async (hold) => {
            for (const name of wanted) inside.set(name, (inside.get(name) ?? 0) + 1)
            for (const name of wanted) assert.equal(inside.get(name), 1)
            await sleep(2)
            hold.assertHeld()
            for (const name of wanted) inside.set(name, 0)
            sections++
          })
        }
      }),
    )
    await Promise.all(tasks)
    assert.equal(sections, 90)
    assert.deepEqual(await fixture.server.admin.keys('[abcd]'), [])
  })

  it('a multi-lock of plain locks repeats a command without a reply as the same owners', async () => {
    const { client, proxy } = await fixture.connectThroughProxy({ commandTimeoutMs: 500 })
    const both = getMultiLock(client.getLock('a:1'), client.getLock('a:2'))
    await both.withLock(() => {})
    proxy.dropNextReply(requestTo('acquire'))
    const hold = await both.lock()
    await proxy.dropped
    assert.equal(await hold.isHeld(), true)
    await hold.unlock()
    await waitUntil(async () => (await fixture.server.admin.dbsize()) === 0)
  })

  it('a multi-lock repeats the command that sets its lease like any other attempt', async () => {
    const { client, proxy } = await fixture.connectThroughProxy({ commandTimeoutMs: 500 })
    const both = getMultiLock(...unlike(client))
    await both.withLock({ leaseTimeMs: 20_000 }, () => {})
    proxy.delay(2_000, requestTo('renew'))
    const waiting = both.lock({ leaseTimeMs: 20_000 })
    await waitUntil(() => exists('a:2'))
    await sleep(800) // longer than commandTimeoutMs
    proxy.pass()
    const hold = await waiting
    assert(hold.remainingMs() > 10_000)
    await hold.unlock()
  })

  it('a multi-lock counts maxHoldMs and warnAfterMs from its last grant, and reports itself but none of its members', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const reports: string[] = []
    client.on('longWait', ({ lockName }) => reports.push(`waits for ${lockName}`))
    client.on('longHold', ({ hold }) => reports.push(`holds ${hold.lockName}`))
    client.on('lost', ({ hold, error }) => reports.push(`loses ${hold.lockName}: ${error.reason}`))
    for (const locks of [unlike(client), [client.getLock('b:1'), client.getLock('b:2')]]) {
      const both = getMultiLock(...locks)
      const busy = await other.getLock(locks[1]?.name ?? '').lock()
      const waiting = both.lock({ maxHoldMs: 1_000, warnAfterMs: 400, waitTimeMs: 20_000 })
      await sleep(1_500)
      await busy.unlock()
      const hold = await waiting
      assert(hold.remainingMs() > 0 && hold.remainingMs() <= 1_000)
      await waitUntil(() => hold.signal.aborted)
      assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'maxHold', parts: [] })
      assert(await exists(locks[0]?.name ?? ''), 'it comes free with its lease')
      await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
      await waitUntil(async () => (await fixture.server.admin.dbsize()) === 0)
      const name = both.name
      assert.deepEqual(reports.splice(0), [`waits for ${name}`, `holds ${name}`, `loses ${name}: maxHold`])
    }
  })

  it('a multi-lock reports which of its locks was lost', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const errors: LeaseLostError[] = []
    const both = getMultiLock(client.getLock('a'), client.getLock('b'))
    const hold = await both.lock()
    client.on('lost', ({ error, hold: lost }) => void (lost === hold && errors.push(error)))
    await other.getLock('b').forceUnlock()
    assert.equal(await hold.isHeld(), false)
    const [error] = errors
    assert.deepEqual(
      error?.parts.map(({ lockName, reason }) => [lockName, reason]),
      [['b', 'gone']],
    )
    assert.match(error?.message ?? '', /^Lock "multi-lock of .*: it lost "b" of [\w-]+:\d+: Redis no longer knows/)
    assert.equal(hold.signal.reason, error)
    await assert.rejects(hold.unlock(), (thrown) => thrown === error)
  })

  it('a watchdog lease shorter than the round trip is a LeaseLostError of a multi-lock, not an endless wait', async () => {
    const { client, proxy } = await fixture.connectThroughProxy({ lockWatchdogTimeoutMs: 1_000 })
    const both = getMultiLock(...unlike(client))
    await both.withLock(() => {})
    proxy.delay(500)
    const outcome = await settlesWithin(both.lock(), 30_000)
    proxy.pass()
    assert(outcome.status === 'rejected' && outcome.reason instanceof LeaseLostError)
    assert.equal(outcome.reason.reason, 'expired')
    await waitUntil(async () => (await fixture.server.admin.dbsize()) === 0)
  })
})

describe('a red lock with one silent server', () => {
  const fixture = setUpFixture()

  it('a red lock with one silent server is refused in time when the other servers split the votes', async () => {
    const servers = [fixture.server, await startRedis(), await startRedis()]
    for (const server of servers.slice(1) as RedisServer[]) fixture.onEnd(() => server.stop())
    const connect = async () =>
      await Promise.all(servers.map(({ url }) => fixture.connect({ commandTimeoutMs: 8_000 }, url)))
    const [clients, others] = [await connect(), await connect()]
    const red = getRedLock(...clients.map((client) => client.getLock('a')))
    await red.withLock(() => {})
    const busy = await others[0]?.getLock('a').lock()
    servers[2]?.freeze()
    try {
      for (const waitTimeMs of [undefined, 100]) {
        const startedAt = performance.now()
        assert.equal(await red.tryLock({ waitTimeMs }), null)
        const tookMs = performance.now() - startedAt
        assert(tookMs < 2_000, `${tookMs} ms`)
      }
      const waiting = red.lock({ waitTimeMs: 20_000 })
      await sleep(500)
      await busy?.unlock()
      const startedAt = performance.now()
      const hold = await waiting
      assert(performance.now() - startedAt < 2_500)
      hold.assertHeld()
      servers[2]?.thaw()
      await hold.unlock()
    } finally {
      servers[2]?.thaw()
    }
    const free = async (): Promise<boolean> => {
      const sizes = await Promise.all(servers.map(async ({ admin }) => await admin.dbsize()))
      return sizes.every((size) => size === 0)
    }
    await waitUntil(free, { timeoutMs: 35_000 })
  })
})
