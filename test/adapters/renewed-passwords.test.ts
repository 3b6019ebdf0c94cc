/** A password that is valid for minutes, as those of IAM are: connections of Holdfast must follow the client of the user. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Cluster, Redis } from 'ioredis'
import { createClient } from 'redis'
import { type Client, connect } from '../../src/index.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'

const USER = 'app'

/** A client of the user whose password can be renewed. */
interface App {
  connect(): Promise<Client>
  /** As its user renews it; undefined: by itself. */
  renew?(password: string): void
  end(): void
}

/** @param current  the password that is valid now */
type Open = (address: { host: string; port: number }, current: () => string) => Promise<App>

const SERVER: Record<string, Open> = {
  async 'ioredis whose options are changed'(address, current) {
    const redis = new Redis({ ...address, username: USER, password: current() })
    redis.on('error', () => {})
    return {
      connect: () => connect({ client: redis }),
      renew: (password) => Object.assign(redis.options, { password }),
      end: () => redis.disconnect(),
    }
  },
  async 'node-redis with a credentialsProvider'(socket, current) {
    const credentials = async () => ({ username: USER, password: current() })
    const redis = createClient({ socket, credentialsProvider: { type: 'async-credentials-provider', credentials } })
    redis.on('error', () => {})
    await redis.connect()
    return { connect: () => connect({ client: redis }), end: () => redis.destroy() }
  },
  async 'node-redis whose options are changed'(socket, current) {
    const redis = createClient({ socket, username: USER, password: current() })
    redis.on('error', () => {})
    await redis.connect()
    return {
      connect: () => connect({ client: redis }),
      renew: (password) => Object.assign(redis.options, { password }),
      end: () => redis.destroy(),
    }
  },
}

const CLUSTER: Record<string, Open> = {
  async 'ioredis Cluster whose redisOptions are changed'(address, current) {
    const redisOptions = { username: USER, password: current() }
    const cluster = new Cluster([address], { redisOptions })
    cluster.on('error', () => {})
    return {
      connect: () => connect({ client: cluster }),
      renew: (password) => Object.assign(cluster.options.redisOptions ?? {}, { password }),
      end: () => cluster.disconnect(),
    }
  },
}

function suite(title: string, start: () => Promise<{ nodes: readonly RedisServer[]; stop(): Promise<unknown> }>) {
  return (ways: Record<string, Open>): void =>
    void describe(title, () => {
      let servers: Awaited<ReturnType<typeof start>>
      before(async () => {
        servers = await start()
      })
      after(() => servers.stop())

      const onEach = (...command: [string, ...string[]]): Promise<unknown[]> =>
        Promise.all(servers.nodes.map(({ admin }) => admin.call(...command)))
      const channels = async (): Promise<string[]> => {
        const found = await onEach('PUBSUB', 'CHANNELS')
        return found.flatMap((reply) => (reply as unknown[]).map(String))
      }

      for (const [way, open] of Object.entries(ways)) {
        it(`a renewed password is used after it was renewed, by commands and for wake-ups: ${way}`, async () => {
          let password = 'first'
          await onEach('ACL', 'SETUSER', USER, 'reset', 'on', `>${password}`, '~*', '&*', '+@all')
          const [{ host, port }] = servers.nodes as [RedisServer]
          const app = await open({ host, port }, () => password)
          const [client, other] = [await app.connect(), await app.connect()]
          try {
            for (const next of ['second', 'third']) {
              const held = await other.getFencedLock('a').lock()
              const waiting = client.getFencedLock('a').lock()
              waiting.catch(() => {})
              const isListening = async (): Promise<boolean> => (await channels()).some((name) => name.includes('{a}'))
              await waitUntil(isListening, { message: `a waiter listens with the ${password} password` })
              password = next
              await onEach('ACL', 'SETUSER', USER, 'resetpass', `>${password}`)
              app.renew?.(password)
              // One after the other: neither must rely on the other's reconnect.
              for (const type of ['PUBSUB', 'NORMAL']) {
                await onEach('CLIENT', 'KILL', 'USER', USER, 'TYPE', type)
                await waitUntil(isListening, { message: `the waiter listens again with the ${next} password` })
              }
              await held.unlock()
              await (await waiting).unlock()
            }
          } finally {
            await client.close()
            await other.close()
            app.end()
          }
          assert.deepEqual(await channels(), [])
        })

        it(`a renewed password is warned of once while it is refused again and again: ${way}`, async () => {
          let password = 'first'
          await onEach('ACL', 'SETUSER', USER, 'reset', 'on', `>${password}`, '~*', '&*', '+@all')
          const [{ host, port }] = servers.nodes as [RedisServer]
          const app = await open({ host, port }, () => password)
          const [client, other] = [await app.connect(), await app.connect()]
          const warnings: (Error & { code?: string })[] = []
          client.on('warning', (warning) => warnings.push(warning))
          const refusals = (): Error[] => warnings.filter(({ code }) => code === 'SIGN_IN_REFUSED')
          try {
            await other.getLock('a').lock()
            const waiting = client.getLock('a').lock({ waitTimeMs: 60_000 })
            waiting.catch(() => {})
            await waitUntil(async () => (await channels()).length > 0)
            await onEach('ACL', 'SETUSER', USER, 'resetpass', '>second')
            await onEach('CLIENT', 'KILL', 'USER', USER)
            await waitUntil(() => refusals().length > 0, { timeoutMs: 30_000, message: 'it is warned' })
            password = 'second'
            app.renew?.(password)
            const isServed = async (): Promise<boolean> =>
              await client
                .getLock('b')
                .withLock(() => true)
                .catch(() => false)
            await waitUntil(isServed, { timeoutMs: 30_000, message: 'commands run again' })
            assert.equal(refusals().length, 1)
            assert.match(String(refusals()[0]), /WRONGPASS/)
          } finally {
            await client.close()
            await other.close()
            app.end()
          }
        })
      }
    })
}

suite('a short-lived password of a server', async () => {
  const server = await startRedis()
  return { nodes: [server], stop: () => server.stop() }
})(SERVER)

suite('a short-lived password of a cluster', async () => {
  const cluster = await startCluster({ replicasEach: 0 })
  return { nodes: cluster.nodes, stop: () => cluster.stop() }
})(CLUSTER)
