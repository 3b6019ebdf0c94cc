import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { type Backend, channelsOf, type Listeners, type Target, WATCHDOG_MS } from './backend.js'
import type { Jvm, Redisson } from './redisson.js'

/** One server without replicas. Both sides get its URL. */
export class SingleRedis implements Backend, AsyncDisposable {
  readonly target: Target
  readonly #server: RedisServer

  static async start(): Promise<SingleRedis> {
    return new SingleRedis(await startRedis())
  }

  private constructor(server: RedisServer) {
    this.#server = server
    this.target = { url: server.url, lockWatchdogTimeoutMs: WATCHDOG_MS }
  }

  get admin() {
    return this.#server.admin
  }

  async keys(): Promise<string[]> {
    return await this.admin.keys('*')
  }

  async channels(): Promise<ReadonlyMap<string, Listeners>> {
    return await channelsOf([this.#server])
  }

  async open(jvm: Jvm): Promise<Redisson> {
    return await jvm.open(this.#server.url, WATCHDOG_MS)
  }

  async failover(): Promise<void> {
    throw new Error('nobody could take over')
  }

  /** Without its data. */
  async restart(): Promise<void> {
    await this.#server.restart()
  }

  async stop(): Promise<void> {
    await this.#server.stop()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }
}
