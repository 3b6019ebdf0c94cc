import { sleep, waitUntil } from '../support/wait-until.js'
import type { Backend } from './backend.js'
import type { Site } from './fixture.js'

/** Java takes its time to connect again. */
const LISTENS_MS = 15_000

/** What both sides have, and the cases are run with. */
export interface Thing {
  readonly name: string
  /** The first version of Redisson that has it; absent: all tested versions have it. */
  readonly since?: string
  /** Why not before that, if not because Redisson did not have it. */
  readonly whyNotBefore?: string
  /** By how much what Node has in Redis outlives its lease, ms. */
  readonly keyOutlivesMs?: number
  /** It is made of others, on several servers. */
  readonly made?: { readonly servers: number }
}

/** What one case works with: a site, and unique names. */
export abstract class CaseContext<K extends Thing = Thing> {
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
  get backend(): Backend {
    return this.site.backends[0]
  }

  /** All of them. */
  get backends(): readonly Backend[] {
    return [this.backend]
  }

  /** Resolves when waiters on `sides` sides pause: only then a message has a waiter to wake. */
  async hasWaiters(sides: number, name = this.name, backend = this.backend): Promise<void> {
    const areThere = async () => (await subscribers(backend, name)) >= sides
    await waitUntil(areThere, { timeoutMs: LISTENS_MS, message: `waiters on ${sides} sides for ${name}` })
    await sleep(50) // they subscribe, make one more attempt, and then pause
  }

  /** How many channels of that name have a subscriber. */
  async listeners(name = this.name): Promise<number> {
    return (await Promise.all(this.backends.map((backend) => countsOf(backend, name)))).flat().length
  }

  /**
   * The keys that the case left behind. The counter of fencing tokens is to stay, the generation of a semaphore expires, and
   * so does a key whose leases are over.
   */
  async leftKeys(): Promise<string[]> {
    const { keyOutlivesMs = 0 } = this.kind
    const left = this.site.backends.map(async (backend) => {
      const keys = (await backend.keys()).filter(
        (key) => key.includes(this.name) && !/^(redisson_lock_token|holdfast_generation):/.test(key),
      )
      const ttls = await Promise.all(keys.map((key) => backend.admin.pttl(key)))
      return keys.filter((_, index) => ttls[index] === -1 || (ttls[index] ?? 0) > keyOutlivesMs)
    })
    return (await Promise.all(left)).flat()
  }
}

/** Of each channel of that name, how many clients listen. */
async function countsOf(backend: Backend, name: string): Promise<number[]> {
  const channels = [...(await backend.channels())].filter(([channel]) => channel.includes(name))
  return channels.map(([, { plain, sharded }]) => Math.max(plain, sharded)) // in a cluster Node listens both ways
}

/** How many clients listen to these channels, in all. Each side has one, however many wait there. */
async function subscribers(backend: Backend, name: string): Promise<number> {
  return (await countsOf(backend, name)).reduce((total, count) => total + count, 0)
}
