/** Connections of node-redis that are given up while they are being opened. */
import { after, before, describe, it } from 'node:test'
import { createCluster } from 'redis'
import { endingOf, type NodeRedisLike } from '../../src/adapters/node-redis/client.js'
import { nodeRedis } from '../../src/adapters/node-redis/port.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { sleep, waitUntil } from '../support/wait-until.js'

interface Library {
  createClient(options: object): NodeRedisLike
}

const VERSIONS: Record<string, () => Promise<Library>> = {
  'node-redis 4': () => import('redis-4') as Promise<unknown> as Promise<Library>,
  'node-redis 5': () => import('redis-5') as Promise<unknown> as Promise<Library>,
  'node-redis 6': () => import('redis') as Promise<unknown> as Promise<Library>,
}

describe('a connection that is ended', () => {
  let server: RedisServer
  before(async () => {
    server = await startRedis()
  })
  after(() => server.stop())

  for (const [version, load] of Object.entries(VERSIONS)) {
    it(`a connection ended before it has a socket, and while it signs in, leaves none: ${version}`, async () => {
      const { createClient } = await load()
      const before = (await server.connections()).length
      for (const event of ['none', 'connect', 'ready']) {
        const client = createClient({ url: server.url, socket: { reconnectStrategy: false } })
        client.on('error', () => {})
        const end = endingOf(client)
        const ended = new Promise<void>((resolve) => {
          client.on('connect', () => void (event === 'none' && resolve()))
          client.on(event, () => {
            end()
            resolve()
          })
        })
        client.connect().catch(() => {})
        if (event === 'none') end()
        await ended
        await waitUntil(async () => (await server.connections()).length === before, { message: `ended at ${event}` })
      }
    })
  }

  it('a connection to a cluster ended at any time while it opens leaves none to any node', async () => {
    await using cluster = await startCluster()
    const user = createCluster({ rootNodes: cluster.urls.map((url) => ({ url })) })
    user.on('error', () => {})
    await user.connect()
    const before = (await cluster.connections()).length
    for (let ms = 0; ms < 15; ms += 0.5) {
      const port = nodeRedis(user as unknown as NodeRedisLike)
      port.send(['GET', 'a'], 'a').catch(() => {})
      await sleep(ms)
      await port.close()
    }
    await waitUntil(async () => (await cluster.connections()).length === before, { message: 'all are ended' })
    user.destroy()
  })
})
