import { Cluster, Redis } from 'ioredis'
import { listed, RedissonFile } from '../interop/redisson-file.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import { MASTER_NAME, startSentinels } from '../support/servers/redis-sentinel.js'
import { startRedis } from '../support/servers/redis-server.js'
import type { TopologyName } from './ways.js'

/** The servers of a run. They end with this process. */
export interface Place {
  readonly name: TopologyName
  /** Of the server, a node, or a Sentinel. */
  readonly url: string
  /** A configuration for `holdfast` and Redisson; undefined: the URL is enough. */
  readonly file: RedissonFile | undefined
}

/** Nobody fails here, and a busy machine must not be taken for a dead master. */
const PATIENCE_MS = 60_000

export async function startPlace(name: TopologyName): Promise<Place> {
  if (name === 'single') {
    const server = await startRedis()
    return { name, url: server.url, file: undefined }
  }
  if (name === 'cluster') {
    const cluster = await startCluster()
    for (const admin of cluster.admins) await admin.config('SET', 'cluster-node-timeout', PATIENCE_MS)
    const file = new RedissonFile('clusterServersConfig', `  nodeAddresses:\n${listed(cluster.urls)}`)
    return { name, url: cluster.urls[0] ?? '', file }
  }
  const group = await startSentinels()
  for (const { admin } of group.sentinels) {
    await admin.call('SENTINEL', 'SET', MASTER_NAME, 'down-after-milliseconds', PATIENCE_MS)
  }
  const urls = group.sentinels.map(({ url }) => url)
  const own = `  sentinelAddresses:\n${listed(urls)}\n  masterName: ${MASTER_NAME}\n  checkSentinelsList: false`
  return { name, url: urls[0] ?? '', file: new RedissonFile('sentinelServersConfig', own) }
}

/** A connection without Holdfast to the same data. */
export function openRaw(topology: TopologyName, url: string): Redis | Cluster {
  if (topology === 'cluster') return new Cluster([url])
  if (topology === 'single') return new Redis(url)
  const { hostname, port } = new URL(url)
  return new Redis({ sentinels: [{ host: hostname, port: Number(port) }], name: MASTER_NAME })
}
