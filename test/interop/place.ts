import type { RedisServer } from '../support/redis-server.js'
import { sleep, waitUntil } from '../support/wait-until.js'
import type { Site } from './bench.js'

/** Java takes its time to connect again. */
const LISTENS_MS = 15_000

/** What both sides have, and the cases are run with. */
export interface Thing {
  readonly name: string
  /** The first version of Redisson that has it; absent: all that we test have it. */
  readonly since?: string
  /** Why not before that, if not because Redisson did not have it. */
  readonly whyNotBefore?: string
}

/** What one case has: a site, and names of its own. */
export abstract class Place<K extends Thing = Thing> {
  readonly site: Site
  readonly kind: K
  /** All names of the case contain it. */
  readonly name: string

  constructor(site: Site, kind: K, name: string) {
    this.site = site
    this.kind = kind
    this.name = name
  }

  /** The first Redis that it is on. */
  get server(): RedisServer {
    return this.site.servers[0]
  }

  /** All of them. */
  get servers(): readonly RedisServer[] {
    return [this.server]
  }

  /** Resolves when waiters on so many sides sleep: only then a message has somebody to wake. */
  async hasWaiters(sides: number, name = this.name, server = this.server): Promise<void> {
    const areThere = async () => (await subscribers(server, name)) >= sides
    await waitUntil(areThere, { timeoutMs: LISTENS_MS, message: `waiters on ${sides} sides for ${name}` })
    await sleep(50) // they listen, ask once more, and then sleep
  }

  /** On how many channels of that name somebody listens. */
  async listeners(name = this.name): Promise<number> {
    return (await Promise.all(this.servers.map((server) => channelsOf(server, name)))).flat().length
  }

  /** The keys that the case left behind. The counter of fencing tokens is to stay. */
  async leftKeys(): Promise<string[]> {
    const keys = await Promise.all(this.site.servers.map(({ admin }) => admin.keys('*')))
    return keys.flat().filter((key) => key.includes(this.name) && !key.startsWith('redisson_lock_token:'))
  }
}

async function channelsOf({ admin }: RedisServer, name: string): Promise<string[]> {
  return (await admin.pubsub('CHANNELS')).map(String).filter((channel) => channel.includes(name))
}

/** How many clients listen to these channels, in all. Each side has one, however many wait there. */
async function subscribers(server: RedisServer, name: string): Promise<number> {
  const channels = await channelsOf(server, name)
  if (channels.length === 0) return 0
  const counts = (await server.admin.call('PUBSUB', 'NUMSUB', ...channels)) as (string | number)[]
  return counts.reduce<number>((total, count) => total + (typeof count === 'number' ? count : 0), 0)
}
