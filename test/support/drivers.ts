import { Cluster, Redis } from 'ioredis'
import { type Client, type ClientOptions, connect } from '../../src/index.js'
import { isBun, openBun } from './bun.js'
import { MASTER_NAME } from './servers/redis-sentinel.js'

/** It takes long to load, which the processes of the tests would feel that do not use it. */
const nodeRedis = () => import('redis')

/** A way to open a client: each with the default settings of its library. */
export interface Driver {
  readonly name: string
  /** @param url of the server, of a node of the cluster, or of a sentinel: it reports the others */
  open(url: string, options: ClientOptions): Promise<{ client: Client; end: () => Promise<void> }>
  /** Its clients receive no messages: their waiters poll. */
  readonly isPolled?: true
  /** How long its connections may last after it was closed, ms; default 5 s. */
  readonly lingersMs?: number
  /** A connection to the same data without Holdfast, to be disconnected by the caller. Default one to the server. */
  openRaw?(url: string): Redis | Cluster
}

const everyDriver: readonly Driver[] = [
  {
    name: 'a URL',
    async open(url, options) {
      return { client: await connect({ url, ...options }), end: async () => {} }
    },
  },
  {
    name: 'an ioredis client of the user',
    async open(url, options) {
      const redis = new Redis(url)
      redis.on('error', () => {})
      const end = async (): Promise<void> => redis.disconnect()
      return { client: await connect({ client: redis, ...options }), end }
    },
  },
  {
    name: 'a node-redis client of the user',
    async open(url, options) {
      const { createClient } = await nodeRedis()
      const redis = createClient({ url })
      redis.on('error', () => {})
      await redis.connect()
      const end = async (): Promise<void> => {
        if (redis.isOpen) redis.destroy()
      }
      return { client: await connect({ client: redis, ...options }), end }
    },
  },
  ...(isBun
    ? [
        {
          name: 'a client of Bun of the user',
          async open(url: string, options: ClientOptions) {
            const redis = openBun(url)
            return { client: await connect({ client: redis, ...options }), end: async () => redis.close() }
          },
        },
      ]
    : []),
]

/** TEST_DRIVERS: only those with that in their names. */
export const drivers = everyDriver.filter(({ name }) => name.includes(process.env['TEST_DRIVERS'] ?? ''))

export const openCluster = (url: string): Cluster => new Cluster([url])

/** For a cluster. */
export const clusterDrivers: readonly Driver[] = [
  {
    name: 'an ioredis Cluster of the user',
    async open(url, options) {
      const cluster = openCluster(url)
      cluster.on('error', () => {})
      const end = async (): Promise<void> => cluster.disconnect()
      return { client: await connect({ client: cluster, ...options }), end }
    },
    openRaw: openCluster,
  },
  {
    name: 'a node-redis cluster of the user',
    async open(url, options) {
      const { createCluster } = await nodeRedis()
      const cluster = createCluster({ rootNodes: [{ url }] })
      cluster.on('error', () => {})
      await cluster.connect()
      const end = async (): Promise<void> => {
        if (cluster.isOpen) cluster.destroy()
      }
      return { client: await connect({ client: cluster, ...options }), end }
    },
    openRaw: openCluster,
  },
  {
    name: 'a configuration of a cluster',
    async open(url, options) {
      const config = { clusterServersConfig: { nodeAddresses: [url] } }
      const open = (): Promise<Client> => connect({ config, ...options })
      // A machine that stalls may keep the only node that is given silent for longer than the 2 s that it has.
      const client = await open().catch((error) => {
        if (!String(error).endsWith('no reply in time')) throw error
        return open()
      })
      return { client, end: async () => {} }
    },
    openRaw: openCluster,
  },
]

export const addressOf = (url: string): { host: string; port: number } => {
  const { hostname, port } = new URL(url)
  return { host: hostname, port: Number(port) }
}
export const openSentinel = (url: string): Redis => new Redis({ sentinels: [addressOf(url)], name: MASTER_NAME })

/** For servers that sentinels watch. The slowest last, as it gets the fewest kinds of locks. */
export const sentinelDrivers: readonly Driver[] = [
  {
    name: 'an ioredis client of Sentinel of the user',
    async open(url, options) {
      const redis = openSentinel(url)
      redis.on('error', () => {})
      const end = async (): Promise<void> => redis.disconnect()
      return { client: await connect({ client: redis, ...options }), end }
    },
    openRaw: openSentinel,
  },
  {
    name: 'a configuration of Sentinel',
    async open(url, options) {
      const config = { sentinelServersConfig: { sentinelAddresses: [url], masterName: MASTER_NAME } }
      return { client: await connect({ config, ...options }), end: async () => {} }
    },
    openRaw: openSentinel,
  },
  {
    name: 'a node-redis sentinel of the user',
    async open(url, options) {
      const { createSentinel } = await nodeRedis()
      const sentinel = createSentinel({ name: MASTER_NAME, sentinelRootNodes: [addressOf(url)] })
      sentinel.on('error', () => {})
      await sentinel.connect()
      const end = async (): Promise<void> => {
        if (sentinel.isOpen) await sentinel.destroy()
      }
      return { client: await connect({ client: sentinel, ...options }), end }
    },
    openRaw: openSentinel,
  },
]

/** For the processes of the tests, which receive a name. */
export function driverNamed(name: string): Driver {
  const found = [...everyDriver, ...clusterDrivers, ...sentinelDrivers].find((driver) => driver.name === name)
  if (!found) throw new Error(`there is no driver called ${name}`)
  return found
}
