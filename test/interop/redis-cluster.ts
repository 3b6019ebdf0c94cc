import { Cluster as ClusterClient } from 'ioredis'
import { type Cluster, startCluster } from '../support/servers/redis-cluster.js'
import { type Admin, type Backend, channelsOf, type Listeners, type Target } from './backend.js'
import type { Jvm, Redisson } from './redisson.js'
import { listed, RedissonFile } from './redisson-file.js'

/** Three masters with a replica each. */
export class RedisCluster implements Backend {
  readonly target: Target
  readonly admin: Admin
  readonly #cluster: Cluster
  readonly #client: ClusterClient
  readonly #file: RedissonFile

  static async start(sharding: 'AUTO' | 'OFF'): Promise<RedisCluster> {
    return new RedisCluster(await startCluster(), sharding)
  }

  private constructor(cluster: Cluster, sharding: 'AUTO' | 'OFF') {
    this.#cluster = cluster
    this.#client = new ClusterClient([...cluster.urls], { slotsRefreshInterval: 500 })
    this.#client.on('error', () => {})
    this.admin = this.#client
    const own = `  nodeAddresses:\n${listed(cluster.urls)}\n  shardedSubscriptionMode: ${sharding}`
    this.#file = new RedissonFile('clusterServersConfig', own)
    this.target = { config: this.#file.path }
  }

  async keys(): Promise<string[]> {
    return await this.#cluster.keys()
  }

  async channels(): Promise<ReadonlyMap<string, Listeners>> {
    return await channelsOf(this.#cluster.nodes)
  }

  async open(jvm: Jvm): Promise<Redisson> {
    return await jvm.openFile(this.#file.path)
  }

  /** One master after the other agrees and goes: nothing is lost. */
  async failover(): Promise<void> {
    const tags = new Map<unknown, string>()
    for (let tag = 0; tags.size < (await this.#cluster.masters()).length; tag++) {
      tags.set(await this.#cluster.nodeOf(String(tag)), String(tag))
    }
    for (const tag of tags.values()) await this.#cluster.failover(tag)
  }

  async stop(): Promise<void> {
    this.#client.disconnect()
    this.#file.remove()
    await this.#cluster.stop()
  }
}
