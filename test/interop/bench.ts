import { type Client, connect, type Lock } from '../../src/index.js'
import { type RedisServer, startRedis } from '../support/redis-server.js'
import { sleep, waitUntil } from '../support/wait-until.js'
import type { Kind } from './kinds.js'
import { type JavaOwner, Jvm, type Redisson } from './redisson.js'

/** `lockWatchdogTimeout` of both sides: short, so that a crash and a renewal are soon over. */
export const WATCHDOG_MS = 3_000

/** Two Redis servers with a JVM and a Node client on both: what all cases of one version share. */
export class Site implements AsyncDisposable {
  readonly built: string
  readonly servers: readonly [RedisServer, RedisServer]
  readonly clients: readonly [Client, Client]
  readonly jvm: Jvm
  readonly redissons: readonly [Redisson, Redisson]

  static async open(built: string, version: string): Promise<Site> {
    const [first, second, jvm] = await Promise.all([startRedis(), startRedis(), Jvm.start(built, version)])
    return new Site(built, [first, second], await clientsOf(first, second), jvm, await redissonsOf(jvm, first, second))
  }

  private constructor(
    built: string,
    servers: Site['servers'],
    clients: Site['clients'],
    jvm: Jvm,
    redissons: Site['redissons'],
  ) {
    this.built = built
    this.servers = servers
    this.clients = clients
    this.jvm = jvm
    this.redissons = redissons
  }

  /** Another JVM with clients of the same servers, to be killed. */
  async startJvm(): Promise<{ jvm: Jvm; redissons: Site['redissons'] }> {
    const jvm = await Jvm.start(this.built, this.jvm.version)
    return { jvm, redissons: await redissonsOf(jvm, ...this.servers) }
  }

  /** Fresh clients in the same JVM. */
  async openRedissons(): Promise<Site['redissons']> {
    return await redissonsOf(this.jvm, ...this.servers)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.clients.map((client) => client.close()))
    await this.jvm.stop()
    await Promise.all(this.servers.map((server) => server.stop()))
  }
}

async function clientsOf(first: RedisServer, second: RedisServer): Promise<Site['clients']> {
  const options = { lockWatchdogTimeoutMs: WATCHDOG_MS }
  return [await connect({ url: first.url, ...options }), await connect({ url: second.url, ...options })]
}

async function redissonsOf(jvm: Jvm, first: RedisServer, second: RedisServer): Promise<Site['redissons']> {
  return [await jvm.open(first.url, WATCHDOG_MS), await jvm.open(second.url, WATCHDOG_MS)]
}

/** What one case has: locks of a kind under names of its own, on both sides. */
export class Bench {
  readonly site: Site
  readonly kind: Kind
  /** All names of the case contain it. */
  readonly name: string
  readonly #caseId: string

  constructor(site: Site, kind: Kind, caseId: string) {
    this.site = site
    this.kind = kind
    this.name = `interop:${kind.name}:${caseId}`
    this.#caseId = caseId
  }

  get server(): RedisServer {
    return this.site.servers[0]
  }

  /** The lock in Node. Each call of `lock` outside of a hold is an owner of its own. */
  node(name = this.name): Lock {
    return this.kind.nodeLock(this.site.clients, name)
  }

  /** The lock in Java, for one owner on each of the threads asked for. They share one RLock object. */
  async java(threads: number, name = this.name, redissons = this.site.redissons): Promise<JavaOwner[]> {
    const lock = await this.kind.lock(redissons, name)
    return Array.from({ length: threads }, (_, index) => lock.by(`${this.#caseId}-${index}`))
  }

  async oneJava(name = this.name, redissons = this.site.redissons): Promise<JavaOwner> {
    const [owner] = await this.java(1, name, redissons)
    if (!owner) throw new Error('unreachable')
    return owner
  }

  /** The hold count that stands in the lock's hash for this holder. */
  async countInRedis(holder: string, name = this.name): Promise<number> {
    const field = this.kind.field?.(holder) ?? holder
    return Number((await this.server.admin.hget(name, field)) ?? 0)
  }

  /** Resolves when somebody sleeps until this lock comes free: only then an unlock has somebody to wake. */
  async hasWaiter(name = this.name): Promise<void> {
    if (this.kind.silent !== undefined) return
    const listening = async () => (await this.server.admin.pubsub('CHANNELS')).some((channel) => isOf(name, channel))
    await waitUntil(listening, { message: `a waiter for ${name}` })
    await sleep(50) // it listens, asks once more, and then sleeps
  }

  /** The keys that the case left behind. */
  async leftKeys(): Promise<string[]> {
    const keys = await Promise.all(this.site.servers.map((server) => server.admin.keys('*')))
    return keys.flat().filter((key) => isOf(this.name, key))
  }
}

function isOf(name: string, keyOrChannel: unknown): boolean {
  return String(keyOrChannel).includes(name)
}
