import { after, before } from 'node:test'
import type { Redis } from 'ioredis'
import { slotOf } from '../../src/wire/slots.js'
import { RIGHTS_OF_HOLDFAST } from './rights.js'
import { calmCluster, calmSentinels } from './servers/calm.js'
import { type Cluster, startCluster } from './servers/redis-cluster.js'
import { startSentinels } from './servers/redis-sentinel.js'
import type { RedisServer } from './servers/redis-server.js'

/** What the suites read and write in Redis besides Holdfast. In a cluster each command goes to the node that has the key. */
export type Admin = Pick<
  Redis,
  | 'config'
  | 'del'
  | 'exists'
  | 'flushall'
  | 'get'
  | 'hgetall'
  | 'hset'
  | 'incr'
  | 'info'
  | 'keys'
  | 'lpop'
  | 'lpush'
  | 'mget'
  | 'pttl'
  | 'pubsub'
  | 'script'
  | 'set'
  | 'zcard'
  | 'zrem'
>

/** The Redis that a suite runs on: one server, servers watched by sentinels, or a cluster. */
export interface Place {
  /** Where a driver begins: the server, a sentinel, a node. */
  readonly url: string
  readonly admin: Admin
  /** Connections of clients, as CLIENT LIST shows them, those of the tests left out. */
  connections(): Promise<string[]>
}

/** A cluster for the tests of the enclosing `describe`. */
export function setUpCluster(): () => Place {
  return setUpPlace(
    () => startCluster({ args: RIGHTS_OF_HOLDFAST }),
    async (cluster) => {
      await calmCluster(cluster)
      return {
        url: cluster.urls[0] as string,
        admin: await adminOfCluster(cluster),
        connections: () => cluster.connections(),
      }
    },
  )
}

/** A master, replicas and sentinels for the tests of the enclosing `describe`. */
export function setUpSentinels(): () => Place {
  return setUpPlace(
    () => startSentinels({ args: RIGHTS_OF_HOLDFAST }),
    async (group) => {
      await calmSentinels(group)
      return {
        url: group.sentinels[0]?.url as string,
        admin: adminOfMaster(await group.master()),
        connections: () => group.connections(),
      }
    },
  )
}

function setUpPlace<T extends { stop(): Promise<void> }>(
  start: () => Promise<T>,
  open: (started: T) => Promise<Place>,
): () => Place {
  let started: T | undefined
  let place: Place | undefined
  before(async () => {
    started = await start()
    place = await open(started)
  })
  after(() => started?.stop())
  return () => {
    if (!place) throw new Error('it is set up when the tests run')
    return place
  }
}

/** The master's, which stays it: without the messages between sentinels. */
function adminOfMaster({ admin }: RedisServer): Admin {
  const pubsub = async (what: 'CHANNELS', ...args: string[]): Promise<unknown[]> => {
    const found: unknown[] = await admin.pubsub(what, ...(args as [string]))
    return found.filter((channel) => channel !== '__sentinel__:hello')
  }
  return new Proxy(admin, {
    get(target, name) {
      if (name === 'pubsub') return pubsub
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

const KEYED = ['get', 'hgetall', 'hset', 'incr', 'lpop', 'lpush', 'pttl', 'set', 'zcard', 'zrem'] as const

/** Commands with keys go to their masters, which stay it, and all others to all masters or nodes. */
async function adminOfCluster(cluster: Cluster): Promise<Admin> {
  const masters = (await cluster.masters()).map(({ admin }) => admin)
  const owners = new Map<number, Promise<RedisServer>>()
  const ownerOf = async (key: string): Promise<Redis> => {
    const slot = slotOf(key)
    const owner = owners.get(slot) ?? cluster.nodeOf(key)
    owners.set(slot, owner)
    return (await owner).admin
  }
  const each = async <T>(keys: readonly string[], run: (admin: Redis, key: string) => Promise<T>): Promise<T[]> =>
    await Promise.all(keys.map(async (key) => await run(await ownerOf(key), key)))
  const all = async <T>(run: (admin: Redis) => Promise<T>, admins = masters): Promise<T[]> =>
    await Promise.all(admins.map(run))

  const ofKeys = Object.fromEntries(
    KEYED.map((name) => [
      name,
      async (key: string, ...args: unknown[]) => {
        const owner = await ownerOf(key)
        return await Reflect.apply(owner[name] as (...args: unknown[]) => unknown, owner, [key, ...args])
      },
    ]),
  )
  return {
    ...ofKeys,
    del: async (...keys: string[]) => sum(await each(keys, (admin, key) => admin.del(key))),
    exists: async (...keys: string[]) => sum(await each(keys, (admin, key) => admin.exists(key))),
    mget: async (...keys: string[]) => await each(keys, (admin, key) => admin.get(key)),
    keys: async (pattern: string) => (await all((admin) => admin.keys(pattern))).flat(),
    flushall: async () => (await all((admin) => admin.flushall()))[0],
    config: async (what: 'RESETSTAT') => (await all((admin) => admin.config(what)))[0],
    script: async (what: 'FLUSH') => (await all((admin) => admin.script(what)))[0],
    info: async (section: string) => {
      if (section !== 'commandstats') throw new Error(`INFO ${section} is not of a cluster as a whole`)
      return added(await all((admin) => admin.info(section)))
    },
    // A plain channel can be listened on at any node.
    pubsub: async (what: string, ...channels: string[]) => {
      const replies = await all(
        (admin) => admin.call('PUBSUB', what, ...channels) as Promise<unknown[]>,
        cluster.nodes.map(({ admin }) => admin),
      )
      if (what !== 'NUMSUB') return [...new Set(replies.flat())]
      return channels.flatMap((channel, at) => [channel, sum(replies.map((reply) => Number(reply[2 * at + 1])))])
    },
  } as unknown as Admin
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0)
}

/** How often each command was called, of several servers. */
function added(stats: readonly string[]): string {
  const calls = new Map<string, number>()
  for (const [, command = '', count] of stats.join('\n').matchAll(/^cmdstat_(\S+?):calls=(\d+)/gm)) {
    calls.set(command, (calls.get(command) ?? 0) + Number(count))
  }
  return [...calls].map(([command, count]) => `cmdstat_${command}:calls=${count}`).join('\n')
}
