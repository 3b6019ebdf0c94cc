import type { Redis } from 'ioredis'
import type { RedisServer } from '../support/servers/redis-server.js'
import type { Jvm, Redisson } from './redisson.js'

/** `lockWatchdogTimeout` of both sides: short, so that a crash and a renewal are soon over. */
export const WATCHDOG_MS = 3_000

/** What Node's `connect` gets: a URL, or a file that Java reads too. Other processes can use the same. */
export type Target = { readonly url: string; readonly lockWatchdogTimeoutMs: number } | { readonly config: string }

type Command =
  | 'decr'
  | 'del'
  | 'exists'
  | 'get'
  | 'hget'
  | 'hkeys'
  | 'incr'
  | 'llen'
  | 'pexpireat'
  | 'pttl'
  | 'set'
  | 'time'

/** How the tests read keys, wherever they are. */
export type Admin = Pick<Redis, Command | 'zrangeBuffer'>

/** How many clients listen on a channel, one way and the other. */
export interface Listeners {
  readonly plain: number
  readonly sharded: number
}

/** One Redis as the cases see it: a server, a cluster, or a master with replicas and Sentinels. */
export interface Backend {
  readonly target: Target
  readonly admin: Admin
  keys(): Promise<string[]>
  /** Each channel with a subscriber. */
  channels(): Promise<ReadonlyMap<string, Listeners>>
  /** A client of Java that connects to the same target. */
  open(jvm: Jvm): Promise<Redisson>
  /** Replicas replace all masters; resolves when all servers know. */
  failover(): Promise<void>
  stop(): Promise<void>
}

/** The channels of some servers together. */
export async function channelsOf(servers: readonly RedisServer[]): Promise<Map<string, Listeners>> {
  const all = new Map<string, Listeners>()
  const lists = await Promise.all(servers.flatMap((server) => [listOf(server, ''), listOf(server, 'SHARD')]))
  for (const [channel, { plain, sharded }] of lists.flat()) {
    const before = all.get(channel) ?? { plain: 0, sharded: 0 }
    all.set(channel, { plain: before.plain + plain, sharded: before.sharded + sharded })
  }
  return all
}

async function listOf({ admin }: RedisServer, prefix: '' | 'SHARD'): Promise<[string, Listeners][]> {
  const channels = ((await admin.call('PUBSUB', `${prefix}CHANNELS`)) as string[]).map(String)
  if (channels.length === 0) return []
  const counts = (await admin.call('PUBSUB', `${prefix}NUMSUB`, ...channels)) as (string | number)[]
  return channels.map((channel, index) => {
    const count = Number(counts[2 * index + 1])
    return [channel, prefix === '' ? { plain: count, sharded: 0 } : { plain: 0, sharded: count }]
  })
}
