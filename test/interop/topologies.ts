import type { Backend } from './backend.js'
import { isBefore } from './kinds.js'
import { RedisCluster } from './redis-cluster.js'
import { RedisSentinels } from './redis-sentinels.js'
import { SingleRedis } from './single-redis.js'

export type TopologyName = 'single' | 'cluster' | 'sentinel'

/** What kind of Redis the cases run on. */
export interface Topology {
  readonly name: TopologyName
  /** `shardedSubscriptionMode` in the file of a cluster. */
  readonly sharding?: 'AUTO' | 'OFF'
  /** How many there are, each of which could be the only one. */
  readonly backends: number
  readonly start: () => Promise<Backend>
  /** The first version of Redisson that reads the file; absent: no file is read. */
  readonly since?: string
  /** Only these kinds and cases run on it. */
  readonly kinds?: readonly string[]
  readonly cases?: readonly string[]
  /** Why Redis does not come back empty after a crash, if so. */
  readonly takesOver?: string
}

const REPLICAS = 'Redis does not come back empty here: a replica takes over, which `failover` shows'

/** One for each kind of channel. */
const CHANNELS = ['lock', 'fair', 'read', 'semaphore', 'latch']
/** All that show that one side wakes the other. */
const WAKE_UPS = ['listens', 'to-node', 'to-java', 'order', 'java-opens', 'node-opens']

export const TOPOLOGIES: readonly Topology[] = [
  { name: 'single', backends: 3, start: () => SingleRedis.start() },
  {
    name: 'cluster',
    sharding: 'AUTO',
    backends: 1,
    start: () => RedisCluster.start('AUTO'),
    since: '4.0.0',
    takesOver: REPLICAS,
  },
  {
    name: 'cluster',
    sharding: 'OFF',
    backends: 1,
    start: () => RedisCluster.start('OFF'),
    since: '4.0.0',
    kinds: CHANNELS,
    cases: WAKE_UPS,
    takesOver: REPLICAS,
  },
  {
    name: 'sentinel',
    backends: 1,
    start: () => RedisSentinels.start(),
    since: '4.0.0',
    takesOver: REPLICAS,
  },
]

/** What one run is of: one table of each suite. */
export interface Setting {
  readonly version: string
  readonly topology: Topology
}

/** Every version on single servers, and those that read the files of 4.x on the others. @param names  empty: all */
export function settingsOf(versions: readonly string[], names: string): Setting[] {
  const chosen = TOPOLOGIES.filter(({ name }) => names === '' || names.split(',').includes(name))
  return chosen.flatMap((topology) =>
    versions
      .filter((version) => topology.since === undefined || !isBefore(version, topology.since))
      .map((version) => ({ version, topology })),
  )
}

/** The head of its tables. */
export function titleOf({ version, topology: { name, sharding } }: Setting): string {
  if (name === 'single') return version
  return `${version} ${name}${sharding === 'OFF' ? ', plain' : ''}`
}
