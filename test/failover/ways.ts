import { Cluster, Redis } from 'ioredis'
import { valkeyGlide } from '../../src/adapters/valkey-glide/port.js'
import { type Client, type ClientOptions, type ConnectOptions, connect } from '../../src/index.js'

/** The addresses of the servers. */
export interface Place {
  readonly sentinels: readonly Address[]
  readonly masterName: string
  /** Of a cluster. */
  readonly nodes: readonly Address[]
  /** An address that always leads to the current master. */
  readonly endpoint?: Address
}

interface Address {
  readonly host: string
  readonly port: number
}

/** The user of the clients. Servers and Sentinels log in to each other as `PEER`, so a partition can tell them apart. */
export const APP = { username: 'app', password: 'none' } as const
export const PEER = 'peer'

export interface Opened {
  readonly client: Client
  end(): Promise<void>
}

/** A way to open a client. The user's own clients have the defaults of their libraries. */
type Way = (place: Place, options: ClientOptions) => Promise<Opened>
type UserClient = NonNullable<ConnectOptions['client']>

const url = ({ host, port }: Address): string => `redis://${host}:${port}`

export const WAYS: Readonly<Record<string, Readonly<Record<string, Way>>>> = {
  sentinel: {
    config: ({ sentinels, masterName }, options) => {
      const sentinelServersConfig = { sentinelAddresses: sentinels.map(url), masterName, ...APP }
      return byConfig({ config: { sentinelServersConfig }, ...options })
    },
    ioredis: ({ sentinels, masterName: name }, options) => {
      const redis = new Redis({ sentinels: [...sentinels], name, ...APP })
      return onClient(redis, () => redis.disconnect(), options)
    },
    'node-redis': async ({ sentinels, masterName: name }, options) => {
      const { createSentinel } = await import('redis')
      const redis = createSentinel({ name, sentinelRootNodes: [...sentinels], nodeClientOptions: APP })
      redis.on('error', () => {})
      await redis.connect()
      return await onClient(redis, () => redis.isOpen && redis.destroy(), options)
    },
    // Holdfast treats it as a single server, so it needs to know about the replicas.
    url: ({ endpoint }, options) => {
      if (!endpoint) throw new Error('no endpoint')
      const { host, port } = endpoint
      const address = `redis://${APP.username}:${APP.password}@${host}:${port}`
      return byConfig({ url: address, checkLockSyncedSlaves: true, ...options })
    },
  },
  cluster: {
    config: ({ nodes }, options) => {
      const clusterServersConfig = { nodeAddresses: nodes.map(url), ...APP }
      return byConfig({ config: { clusterServersConfig }, ...options })
    },
    ioredis: ({ nodes }, options) => {
      const redis = new Cluster([...nodes], { redisOptions: APP })
      return onClient(redis, () => redis.disconnect(), options)
    },
    'node-redis': async ({ nodes }, options) => {
      const { createCluster } = await import('redis')
      const redis = createCluster({ rootNodes: nodes.map((node) => ({ url: url(node) })), defaults: APP })
      redis.on('error', () => {})
      await redis.connect()
      return await onClient(redis, () => redis.isOpen && redis.destroy(), options)
    },
    'valkey-glide': async ({ nodes }, options) => {
      const { GlideClusterClient, Logger } = await import('@valkey/valkey-glide')
      Logger.setLoggerConfig('off')
      const open = () => GlideClusterClient.createClient({ addresses: [...nodes], credentials: APP })
      const glide = await open()
      const client = await connect({ client: valkeyGlide(glide, { subscriber: open }), ...options })
      return { client, end: async () => endBoth(client, () => glide.close()) }
    },
  },
}

export function wayOf(topology: string, name: string): Way {
  const way = WAYS[topology]?.[name]
  if (!way) throw new Error(`there is no way ${name} to a ${topology}`)
  return way
}

async function byConfig(options: ConnectOptions): Promise<Opened> {
  const client = await connect(options)
  return { client, end: () => client.close() }
}

async function onClient(user: object, end: () => unknown, options: ClientOptions): Promise<Opened> {
  if ('on' in user && typeof user.on === 'function') user.on('error', () => {})
  try {
    const client = await connect({ client: user as UserClient, ...options })
    return { client, end: () => endBoth(client, end) }
  } catch (error) {
    await end()
    throw error
  }
}

async function endBoth(client: Client, end: () => unknown): Promise<void> {
  await client.close()
  await end()
}
