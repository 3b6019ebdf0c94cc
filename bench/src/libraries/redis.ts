import { Cluster, Redis } from 'ioredis'
import type { OpenOptions } from '../library.js'

/** A client with the defaults of ioredis. */
export function redisOf({ url, isCluster }: OpenOptions): Redis | Cluster {
  return isCluster ? new Cluster([url]) : new Redis(url)
}
