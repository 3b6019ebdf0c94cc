/** What a port reports about its channels when subscriber connections are lost, with Sentinel and in a cluster. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { Cluster, Redis } from 'ioredis'
import { ioredis } from '../../src/adapters/ioredis/port.js'
import { nodeRedis } from '../../src/adapters/node-redis/port.js'
import type { RedisPort } from '../../src/adapters/port.js'
import { watchWholeProcess } from '../support/fixture.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import { MASTER_NAME, startSentinels } from '../support/servers/redis-sentinel.js'
import type { RedisServer } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'

interface Servers {
  readonly nodes: readonly RedisServer[]
  /** The server that a client is given. */
  readonly entry: { readonly host: string; readonly port: number }
  /** The server to publish a channel at. */
  nodeOf(channel: string): Promise<RedisServer>
  stop(): Promise<void>
}

type Open = (entry: Servers['entry']) => Promise<{ port: RedisPort; end: () => unknown }>

const topologies: Record<string, { start(): Promise<Servers>; ways: Record<string, Open> }> = {
  'a cluster': {
    async start() {
      const cluster = await startCluster()
      const [entry] = cluster.nodes as [RedisServer]
      const nodeOf = (channel: string): Promise<RedisServer> => cluster.nodeOf(channel)
      return { nodes: cluster.nodes, entry, nodeOf, stop: () => cluster.stop() }
    },
    ways: {
      async ioredis(entry) {
        const client = new Cluster([entry])
        client.on('error', () => {})
        return { port: ioredis(client), end: () => client.disconnect() }
      },
      async 'node-redis'({ host, port }) {
        const { createCluster } = await import('redis')
        const client = createCluster({ rootNodes: [{ url: `redis://${host}:${port}` }] })
        client.on('error', () => {})
        await client.connect()
        return { port: nodeRedis(client), end: () => client.destroy() }
      },
    },
  },
  sentinels: {
    async start() {
      const group = await startSentinels()
      const master = await group.master()
      const [entry] = group.sentinels as [RedisServer]
      return { nodes: [master], entry, nodeOf: async () => master, stop: () => group.stop() }
    },
    ways: {
      async ioredis(entry) {
        const client = new Redis({ sentinels: [entry], name: MASTER_NAME })
        client.on('error', () => {})
        return { port: ioredis(client), end: () => client.disconnect() }
      },
      async 'node-redis'({ host, port }) {
        const { createSentinel } = await import('redis')
        const client = createSentinel({ name: MASTER_NAME, sentinelRootNodes: [{ host, port }] })
        client.on('error', () => {})
        await client.connect()
        return { port: nodeRedis(client), end: () => client.destroy() }
      },
    },
  },
}

describe('the subscriber connections of a port', { concurrency: 1 }, () => {
  watchWholeProcess()

  for (const [title, { start, ways }] of Object.entries(topologies)) {
    describe(`subscriber connections in ${title}`, () => {
      let servers: Servers
      const ends: (() => unknown)[] = []

      before(async () => {
        servers = await start()
      })
      after(() => servers.stop())
      afterEach(async () => {
        for (const end of ends.splice(0)) await end()
      })

      for (const [name, open] of Object.entries(ways)) {
        it(`a killed connection is reported as lost for each channel, then as resubscribed, through ${name} in ${title}`, async () => {
          const { port, end } = await open(servers.entry)
          ends.push(async () => {
            await port.close()
            await end()
          })
          /** What was last reported for each channel. */
          const state = new Map<string, 'lost' | 'subscribed'>()
          const lost = new Set<string>()
          port.listen({
            reconnected: () => {},
            subscriptionLost: (channel) => {
              lost.add(channel)
              state.set(channel, 'lost')
            },
            resubscribed: (channel, refusal) => {
              assert.equal(refusal, undefined)
              state.set(channel, 'subscribed')
            },
          })
          const channels = ['redisson_a', 'redisson_b', 'redisson_c']
          const received = new Set<string>()
          await Promise.all(channels.map((channel) => port.subscribe(channel, () => received.add(channel))))
          for (let round = 1; round <= 2; round++) {
            lost.clear()
            received.clear()
            await Promise.all(servers.nodes.map(({ admin }) => admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')))
            await waitUntil(() => lost.size === channels.length, { message: `all are lost in round ${round}` })
            await waitUntil(() => channels.every((channel) => state.get(channel) === 'subscribed'), {
              timeoutMs: 10_000,
              message: `all are resubscribed in round ${round}`,
            })
            for (const channel of channels) await (await servers.nodeOf(channel)).admin.publish(channel, '0')
            await waitUntil(() => received.size === channels.length, { message: `all receive in round ${round}` })
          }
          await Promise.all(channels.map((channel) => port.unsubscribe(channel)))
        })
      }
    })
  }
})
