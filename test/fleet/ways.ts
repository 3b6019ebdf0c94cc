/** How the processes connect: each by the defaults of its client library. */
import { Redis } from 'ioredis'
import { valkeyGlide } from '../../src/adapters/valkey-glide/port.js'
import { type ClientOptions, connect } from '../../src/index.js'
import { type Driver, driverNamed } from '../support/drivers.js'
import { MASTER_NAME } from '../support/servers/redis-sentinel.js'

const RESP2 = 'ioredis, RESP2'
const RESP2_SENTINEL = 'ioredis, RESP2, Sentinel'
const GLIDE = 'valkey-glide'
const GLIDE_CLUSTER = 'valkey-glide, cluster'

/** For eight processes, one after the other. */
export const WAYS = {
  single: ['an ioredis client of the user', 'a node-redis client of the user', GLIDE, RESP2, 'a URL'],
  sentinel: [
    'an ioredis client of Sentinel of the user',
    'a node-redis sentinel of the user',
    'a configuration of Sentinel',
    RESP2_SENTINEL,
  ],
  cluster: [
    'an ioredis Cluster of the user',
    'a node-redis cluster of the user',
    GLIDE_CLUSTER,
    'a configuration of a cluster',
  ],
} as const

export type TopologyName = keyof typeof WAYS

type Open = Driver['open']

const addressOf = (url: string): { host: string; port: number } => {
  const { hostname, port } = new URL(url)
  return { host: hostname, port: Number(port) }
}

const OWN: Readonly<Record<string, Open>> = {
  [RESP2]: (url, options) => onIoredis(new Redis(url, { protocol: 2 }), options),
  [RESP2_SENTINEL]: (url, options) =>
    onIoredis(new Redis({ sentinels: [addressOf(url)], name: MASTER_NAME, protocol: 2 }), options),
  [GLIDE]: async (url, options) => {
    const { GlideClient, Logger } = await import('@valkey/valkey-glide')
    Logger.setLoggerConfig('off')
    const open = () => GlideClient.createClient({ addresses: [addressOf(url)] })
    const glide = await open()
    const client = await connect({ client: valkeyGlide(glide, { subscriber: open }), ...options })
    return { client, end: async () => glide.close() }
  },
  [GLIDE_CLUSTER]: async (url, options) => {
    const { GlideClusterClient, Logger } = await import('@valkey/valkey-glide')
    Logger.setLoggerConfig('off')
    const open = () => GlideClusterClient.createClient({ addresses: [addressOf(url)] })
    const glide = await open()
    const client = await connect({ client: valkeyGlide(glide, { subscriber: open }), ...options })
    return { client, end: async () => glide.close() }
  },
}

/** @param url  of the server, a node, or a Sentinel */
export async function openBy(way: string, url: string, options: ClientOptions): ReturnType<Open> {
  return await (OWN[way] ?? driverNamed(way).open)(url, options)
}

async function onIoredis(redis: Redis, options: ClientOptions): ReturnType<Open> {
  redis.on('error', () => {})
  return { client: await connect({ client: redis, ...options }), end: async () => redis.disconnect() }
}
