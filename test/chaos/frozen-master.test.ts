/** A master that freezes: every client leaves it, and it grants nothing when it continues after its replacement. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { Cluster, Redis } from 'ioredis'
import { createCluster, createSentinel } from 'redis'
import { type Client, type ClientOptions, connect } from '../../src/index.js'
import { watchWholeProcess } from '../support/fixture.js'
import { type Cluster as ClusterServers, startCluster } from '../support/servers/redis-cluster.js'
import { type SentinelGroup, startSentinels } from '../support/servers/redis-sentinel.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

/** Promised: locks work again so long after the master was replaced, ms. */
const LIMIT_MS = 10_000
const LOCK = 'frozen:taken'
const OPTIONS: ClientOptions = { commandTimeoutMs: 1_500 }

type Ends = (() => unknown)[]

/** A deployment, and the ways to it, each with the default settings of its library. */
interface Deployment {
  readonly ways: Record<string, (ends: Ends) => Promise<Client>>
  /** Freezes the master that has `LOCK`. @returns how to thaw it */
  freeze(): Promise<() => void>
  /** Resolves when it has been replaced. */
  replaced(): Promise<unknown>
  heal(): Promise<unknown>
}

function sentinelDeployment(group: SentinelGroup): Deployment {
  const sentinels = group.sentinels.map(({ host, port }) => ({ host, port }))
  const name = group.masterName
  return {
    ways: {
      'a configuration': () => {
        const sentinelAddresses = sentinels.map(({ host, port }) => `redis://${host}:${port}`)
        return connect({ config: { sentinelServersConfig: { sentinelAddresses, masterName: name } }, ...OPTIONS })
      },
      "the user's ioredis": async (ends) => {
        const redis = new Redis({ sentinels, name })
        redis.on('error', () => {})
        ends.push(() => redis.disconnect())
        return await connect({ client: redis, ...OPTIONS })
      },
      "the user's node-redis": async (ends) => {
        const redis = createSentinel({ name, sentinelRootNodes: sentinels })
        redis.on('error', () => {})
        await redis.connect()
        ends.push(() => redis.isOpen && redis.destroy())
        return await connect({ client: redis, ...OPTIONS })
      },
    },
    async freeze() {
      const master = await group.freezeMaster()
      return () => master.thaw()
    },
    replaced: () => group.waitForFailover(),
    heal: () => group.heal(),
  }
}

function clusterDeployment(cluster: ClusterServers): Deployment {
  let frozen: Awaited<ReturnType<ClusterServers['nodeOf']>>
  return {
    ways: {
      'a configuration': () =>
        connect({ config: { clusterServersConfig: { nodeAddresses: [...cluster.urls] } }, ...OPTIONS }),
      "the user's ioredis": async (ends) => {
        const redis = new Cluster([...cluster.urls])
        redis.on('error', () => {})
        ends.push(() => redis.disconnect())
        return await connect({ client: redis, ...OPTIONS })
      },
      "the user's node-redis": async (ends) => {
        const redis = createCluster({ rootNodes: cluster.urls.map((url) => ({ url })) })
        redis.on('error', () => {})
        await redis.connect()
        ends.push(() => redis.isOpen && redis.destroy())
        return await connect({ client: redis, ...OPTIONS })
      },
    },
    async freeze() {
      frozen = await cluster.nodeOf(LOCK)
      await cluster.freeze(frozen)
      return () => cluster.thaw(frozen)
    },
    replaced: () => cluster.waitForFailover(frozen),
    heal: () => cluster.heal(),
  }
}

describe('a master that freezes', { concurrency: 1 }, () => {
  watchWholeProcess()

  describe('a frozen master under Sentinel', { concurrency: 1 }, () => {
    let group: SentinelGroup
    before(async () => {
      group = await startSentinels()
    })
    after(() => group.stop())
    suite(['a configuration', "the user's ioredis", "the user's node-redis"], () => sentinelDeployment(group))
  })

  describe('a frozen master in a cluster', { concurrency: 1 }, () => {
    let cluster: ClusterServers
    before(async () => {
      cluster = await startCluster()
    })
    after(() => cluster.stop())
    suite(['a configuration', "the user's ioredis", "the user's node-redis"], () => clusterDeployment(cluster))

    it('a client that connects while the master is frozen is not delayed, whichever server it queries', async () => {
      const { ways, freeze, replaced, heal } = clusterDeployment(cluster)
      await freeze()
      try {
        const opening = Array.from({ length: 8 }, () => (ways['a configuration'] as () => Promise<Client>)())
        for (const one of opening) one.catch(() => {})
        await replaced()
        for (const one of opening) {
          const outcome = await settlesWithin(one, 2 * LIMIT_MS)
          assert(outcome.status === 'fulfilled', String((outcome as PromiseRejectedResult).reason))
          await outcome.value.getLock(LOCK).withLock(() => {})
          await outcome.value.close()
        }
      } finally {
        await heal()
      }
    })
  })
})

function suite(names: readonly string[], deploymentOf: () => Deployment): void {
  let ends: Ends = []
  afterEach(async () => {
    await deploymentOf().heal()
    for (const end of ends.reverse()) await end()
    ends = []
  })

  it('every client leaves a master that stays frozen, and locks again within 10 s of its replacement', async (t) => {
    const { ways, freeze, replaced } = deploymentOf()
    const clients: [string, Client][] = []
    for (const [name, way] of Object.entries(ways)) {
      const client = await way(ends)
      ends.push(() => client.close())
      await client.getLock(`${LOCK}:${name}`).withLock(() => {})
      await client.getLock(LOCK).withLock(() => {})
      clients.push([name, client])
    }
    await freeze()
    const recoveries = clients.map(async ([name, client]) => {
      const lockOnce = async (): Promise<boolean> => {
        const hold = await client.getLock(LOCK).tryLock({ waitTimeMs: 1_000 })
        await hold?.unlock()
        return hold !== null
      }
      await waitUntil(() => lockOnce().catch(() => false), { timeoutMs: 6 * LIMIT_MS, message: `${name} locks again` })
      return { name, at: performance.now() }
    })
    await replaced()
    const replacedAt = performance.now()
    for (const { name, at } of await Promise.all(recoveries)) {
      const tookMs = Math.max(0, at - replacedAt)
      t.diagnostic(`${name}: locks again ${Math.round(tookMs)} ms after the master was replaced`)
      assert(tookMs < LIMIT_MS, `${name}: ${tookMs} ms`)
    }
  })

  for (const name of names) {
    it(`a replaced master grants nothing to a client that connected while it was frozen: ${name}`, async (t) => {
      const { ways, freeze, replaced } = deploymentOf()
      const way = ways[name] as Deployment['ways'][string]
      const thaw = await freeze()
      const opening = waitUntil(() => way(ends).catch(() => null), { timeoutMs: 3 * LIMIT_MS }).then((client) => {
        ends.push(() => client.close())
        return client
      })
      // Some cannot connect before the master is replaced.
      const fresh = await Promise.race([opening, sleep(300)])
      await replaced()
      // node-redis may query the frozen server for the others, and then waits for it.
      const current = await (ways['a configuration'] as typeof way)(ends)
      ends.push(() => current.close())
      const taken = await waitUntil(
        () =>
          current
            .getLock(LOCK)
            .tryLock({ waitTimeMs: 1_000 })
            .catch(() => null),
        { timeoutMs: LIMIT_MS, message: 'the new master grants the lock' },
      )
      const found: string[] = []
      let tries = 0
      let isOver = false
      const trying = (async () => {
        const client = fresh ?? (await opening)
        for (; !isOver; tries++) {
          const hold = await client
            .getLock(LOCK)
            .tryLock()
            .catch(() => null)
          if (hold) found.push(`granted, while the other one had it for ${taken.remainingMs()} ms`)
          await sleep(5)
        }
      })()
      await sleep(100)
      thaw()
      await sleep(2_000)
      isOver = true
      await trying
      t.diagnostic(`${name}: ${tries} tries around the thaw, connected before it: ${fresh !== undefined}`)
      assert.deepEqual(found, [])
      taken.assertHeld()
      await taken.unlock()
    })
  }
}
