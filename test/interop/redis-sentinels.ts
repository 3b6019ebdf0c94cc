import { Redis } from 'ioredis'
import { type SentinelGroup, startSentinels } from '../support/servers/redis-sentinel.js'
import { type Admin, type Backend, channelsOf, type Listeners, type Target } from './backend.js'
import type { Jvm, Redisson } from './redisson.js'
import { listed, RedissonFile } from './redisson-file.js'

/** A master with two replicas, and three Sentinels. */
export class RedisSentinels implements Backend {
  readonly target: Target
  readonly admin: Admin
  readonly #group: SentinelGroup
  readonly #client: Redis
  readonly #file: RedissonFile

  static async start(): Promise<RedisSentinels> {
    return new RedisSentinels(await startSentinels())
  }

  private constructor(group: SentinelGroup) {
    this.#group = group
    const sentinels = group.sentinels.map(({ host, port }) => ({ host, port }))
    this.#client = new Redis({ sentinels, name: group.masterName, failoverDetector: true })
    this.#client.on('error', () => {})
    this.admin = this.#client
    const urls = group.sentinels.map(({ url }) => url)
    const own = `  sentinelAddresses:\n${listed(urls)}\n  masterName: ${group.masterName}`
    this.#file = new RedissonFile('sentinelServersConfig', own)
    this.target = { config: this.#file.path }
  }

  async keys(): Promise<string[]> {
    return await (await this.#group.master()).admin.keys('*')
  }

  async channels(): Promise<ReadonlyMap<string, Listeners>> {
    return await channelsOf([await this.#group.master()])
  }

  async open(jvm: Jvm): Promise<Redisson> {
    return await jvm.openFile(this.#file.path)
  }

  async failover(): Promise<void> {
    await this.#group.failover()
  }

  async stop(): Promise<void> {
    this.#client.disconnect()
    this.#file.remove()
    await this.#group.stop()
  }
}
