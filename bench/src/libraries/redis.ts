import { Cluster, Redis } from 'ioredis'
import type { OpenOptions } from '../library.js'

/** A client with the defaults of ioredis. For the types of all libraries, one of a cluster is one of a server. */
export function redisOf({ url, isCluster }: OpenOptions): Redis {
  return isCluster ? (new Cluster([url]) as unknown as Redis) : new Redis(url)
}
