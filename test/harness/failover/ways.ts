import type * as ioredis from 'ioredis'
import type * as nodeRedis from 'redis'
import { type Client, type ClientOptions, type ConnectOptions, connect } from '../../../src/index.js'
import { openGlide } from '../glide.js'

/** The addresses of the servers. */
export interface Addresses {
  readonly sentinels: readonly Address[]
  readonly masterName: string
  /** Of a cluster. */
  readonly nodes: readonly Address[]
  /** An address that always leads to the current master. If it is a name, `ip` is what that resolves to. */
  readonly endpoint?: Address & { readonly ip?: string }
  /** By which address clients reach each server that is announced by one they cannot reach. */
  readonly natMap?: Readonly<Record<string, Address>>
  /** Of all users; default `none`, and any other will do. */
  readonly password?: string
}

interface Address {
  readonly host: string
  readonly port: number
}

/** Clients of a way log in as the user of its name. The password may change while a client is open. */
interface Login {
  readonly username: string
  password: string
}

/** A user like those of the clients. Servers and Sentinels log in to each other as `PEER`, so a partition can tell them apart. */
export const APP = { username: 'app', password: 'none' } as const
export const PEER = 'peer'

export interface Opened {
  readonly client: Client
  /** What a user does who has a new password. */
  setPassword?(password: string): unknown
  end(): Promise<void>
}

/** A way to open a client. The user's own clients have the defaults of their libraries. */
type Way = (addresses: Addresses, options: ClientOptions, login: Login) => Promise<Opened>
type Ways = Readonly<Record<string, Way>>
type UserClient = NonNullable<ConnectOptions['client']>

/** Here all versions of a library are alike. */
type Ioredis = typeof ioredis
type NodeRedis = typeof nodeRedis
const IOREDIS = {
  'ioredis-5': () => import('ioredis-5') as Promise<unknown> as Promise<Ioredis>,
  'ioredis-6': () => import('ioredis'),
}
const NODE_REDIS = {
  'node-redis-4': () => import('redis-4') as Promise<unknown> as Promise<NodeRedis>,
  'node-redis-5': () => import('redis-5') as Promise<unknown> as Promise<NodeRedis>,
  'node-redis-6': () => import('redis'),
}

const url = ({ host, port }: Address): string => `redis://${host}:${port}`

/** Holdfast treats the address as a single server, so it needs to know about the replicas. */
const REPLICATED: ClientOptions = { checkLockSyncedSlaves: true }

const byUrl: Way = (addresses, options, { username, password }) => {
  const { host, port } = endpointOf(addresses)
  return byConfig({ url: `redis://${username}:${password}@${host}:${port}`, ...REPLICATED, ...options })
}

export const WAYS: Readonly<Record<'managed' | 'sentinel' | 'cluster', Ways>> = {
  managed: {
    url: byUrl,
    config: (addresses, options, login) => {
      const singleServerConfig = { address: url(endpointOf(addresses)) }
      const credentialsResolver = async () => ({ ...login })
      return byConfig({ config: { singleServerConfig }, credentialsResolver, ...REPLICATED, ...options })
    },
    ...mapped(
      IOREDIS,
      (load): Way =>
        async (addresses, options, login) => {
          const { Redis } = await load()
          const { host, port } = endpointOf(addresses)
          const redis = new Redis({ host, port, ...login })
          const opened = await onClient(redis, () => redis.disconnect(), { ...REPLICATED, ...options })
          return { ...opened, setPassword: (password) => Object.assign(redis.options, { password }) }
        },
    ),
    ...mapped(
      NODE_REDIS,
      (load): Way =>
        async (addresses, options, login) => {
          const { createClient } = await load()
          const { host, port } = endpointOf(addresses)
          const credentialsProvider = {
            type: 'async-credentials-provider',
            credentials: async () => ({ ...login }),
          } as const
          const redis = createClient({ socket: { host, port }, ...login, credentialsProvider })
          const opened = await onNodeRedis(redis, { ...REPLICATED, ...options })
          // Version 4 has no provider.
          return { ...opened, setPassword: (password) => Object.assign(redis.options ?? {}, { password }) }
        },
    ),
    'valkey-glide': async (addresses, options, login) => {
      const { ip = '', port } = endpointOf(addresses)
      const configOf = () => ({ addresses: [{ host: ip, port }], credentials: { ...login } })
      const { client, glide } = await openGlide('server', configOf, { ...REPLICATED, ...options })
      const end = async () => endBoth(client, () => glide.close())
      return { client, end, setPassword: (password) => glide.updateConnectionPassword(password) }
    },
  },
  sentinel: {
    config: ({ sentinels, masterName, natMap }, options, login) => {
      const natMapper = natMap && { natMapper: natMapperOf(natMap) }
      const sentinelServersConfig = { sentinelAddresses: sentinels.map(url), masterName, ...natMapper, ...login }
      return byConfig({ config: { sentinelServersConfig }, ...options })
    },
    ...mapped(
      IOREDIS,
      (load): Way =>
        async ({ sentinels, masterName: name, natMap }, options, login) => {
          const { Redis } = await load()
          const redis = new Redis({ sentinels: [...sentinels], name, ...(natMap && { natMap }), ...login })
          return onClient(redis, () => redis.disconnect(), options)
        },
    ),
    'node-redis-6': async ({ sentinels, masterName: name, natMap }, options, login) => {
      const { createSentinel } = await NODE_REDIS['node-redis-6']()
      const nodeAddressMap = natMap && { nodeAddressMap: natMap }
      const nodeClientOptions = { ...login }
      const redis = createSentinel({ name, sentinelRootNodes: [...sentinels], nodeClientOptions, ...nodeAddressMap })
      return await onNodeRedis(redis, options)
    },
    url: byUrl,
  },
  cluster: {
    config: ({ nodes }, options, login) => {
      const clusterServersConfig = { nodeAddresses: nodes.map(url), ...login }
      return byConfig({ config: { clusterServersConfig }, ...options })
    },
    ...mapped(
      IOREDIS,
      (load): Way =>
        async ({ nodes }, options, login) => {
          const { Cluster } = await load()
          const redis = new Cluster([...nodes], { redisOptions: { ...login } })
          return onClient(redis, () => redis.disconnect(), options)
        },
    ),
    'node-redis-6': async ({ nodes }, options, login) => {
      const { createCluster } = await NODE_REDIS['node-redis-6']()
      const redis = createCluster({ rootNodes: nodes.map((node) => ({ url: url(node) })), defaults: { ...login } })
      return await onNodeRedis(redis, options)
    },
    'valkey-glide': async ({ nodes }, options, login) => {
      const configOf = () => ({ addresses: [...nodes], credentials: { ...login } })
      const { client, glide } = await openGlide('cluster', configOf, options)
      return { client, end: async () => endBoth(client, () => glide.close()) }
    },
  },
}

export function wayOf(topology: keyof typeof WAYS, name: string): Way {
  const way = WAYS[topology][name]
  if (!way) throw new Error(`there is no way ${name} to a ${topology}`)
  return way
}

function mapped<T>(loaders: Readonly<Record<string, T>>, wayOf: (load: T) => Way): Ways {
  return Object.fromEntries(Object.entries(loaders).map(([name, load]) => [name, wayOf(load)]))
}

function endpointOf({ endpoint }: Addresses): NonNullable<Addresses['endpoint']> {
  if (!endpoint) throw new Error('no endpoint')
  return endpoint
}

function natMapperOf(natMap: NonNullable<Addresses['natMap']>): Record<string, unknown> {
  const entries = Object.entries(natMap).map(([from, { host, port }]) => [from, `${host}:${port}`])
  return { class: 'org.redisson.api.HostPortNatMapper', hostsPortMap: Object.fromEntries(entries) }
}

async function byConfig(options: ConnectOptions): Promise<Opened> {
  const client = await connect(options)
  return { client, end: () => client.close() }
}

/** A node-redis client has to be connected. */
async function onNodeRedis(redis: NodeRedisClient, options: ClientOptions): Promise<Opened> {
  redis.on('error', () => {})
  await redis.connect()
  return await onClient(redis, () => redis.isOpen && (redis.destroy ?? redis.disconnect)?.call(redis), options)
}

interface NodeRedisClient {
  readonly isOpen: boolean
  on(event: 'error', listener: () => void): unknown
  connect(): Promise<unknown>
  destroy?(): unknown
  /** Version 4. */
  disconnect?(): unknown
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
