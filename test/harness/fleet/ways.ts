/** How the processes connect: each by the defaults of its client library. */
import { Redis } from 'ioredis'
import { type ClientOptions, connect } from '../../../src/index.js'
import { addressOf, type Driver, driverNamed } from '../../support/drivers.js'
import { MASTER_NAME } from '../../support/servers/redis-sentinel.js'
import { openGlide } from '../glide.js'

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

const OWN: Readonly<Record<string, Open>> = {
  [RESP2]: (url, options) => onIoredis(new Redis(url, { protocol: 2 }), options),
  [RESP2_SENTINEL]: (url, options) =>
    onIoredis(new Redis({ sentinels: [addressOf(url)], name: MASTER_NAME, protocol: 2 }), options),
  [GLIDE]: (url, options) => onGlide('server', url, options),
  [GLIDE_CLUSTER]: (url, options) => onGlide('cluster', url, options),
}

/** @param url  of the server, a node, or a Sentinel */
export async function openBy(way: string, url: string, options: ClientOptions): ReturnType<Open> {
  return await (OWN[way] ?? driverNamed(way).open)(url, options)
}

async function onIoredis(redis: Redis, options: ClientOptions): ReturnType<Open> {
  redis.on('error', () => {})
  return { client: await connect({ client: redis, ...options }), end: async () => redis.disconnect() }
}

async function onGlide(to: 'server' | 'cluster', url: string, options: ClientOptions): ReturnType<Open> {
  const { client, glide } = await openGlide(to, () => ({ addresses: [addressOf(url)] }), options)
  return { client, end: async () => glide.close() }
}
