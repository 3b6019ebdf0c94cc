import { type Cluster, Redis } from 'ioredis'
import { openCluster, openSentinel } from '../../support/drivers.js'
import { startCluster } from '../../support/servers/redis-cluster.js'
import { MASTER_NAME, startSentinels } from '../../support/servers/redis-sentinel.js'
import { startRedis } from '../../support/servers/redis-server.js'
import { type Place, placeOfCluster, placeOfSentinels } from '../place.js'
import type { TopologyName } from './ways.js'

/** The servers of a run. They end with this process. */
export interface Servers extends Place {
  readonly name: TopologyName
}

/** Nobody fails here, and a busy machine must not be taken for a dead master. */
const PATIENCE_MS = 60_000

export async function startServers(name: TopologyName): Promise<Servers> {
  if (name === 'single') {
    const server = await startRedis()
    return { name, url: server.url, file: undefined }
  }
  if (name === 'cluster') {
    const cluster = await startCluster()
    for (const admin of cluster.admins) await admin.config('SET', 'cluster-node-timeout', PATIENCE_MS)
    return { name, ...placeOfCluster(cluster.urls) }
  }
  const group = await startSentinels()
  for (const { admin } of group.sentinels) {
    await admin.call('SENTINEL', 'SET', MASTER_NAME, 'down-after-milliseconds', PATIENCE_MS)
  }
  const urls = group.sentinels.map(({ url }) => url)
  return { name, ...placeOfSentinels(urls, MASTER_NAME) }
}

/** A connection without Holdfast to the same data. */
export function openRaw(topology: TopologyName, url: string): Redis | Cluster {
  if (topology === 'single') return new Redis(url)
  return topology === 'cluster' ? openCluster(url) : openSentinel(url)
}
