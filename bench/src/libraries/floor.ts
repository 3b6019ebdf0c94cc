import { once } from 'node:events'
import { Cluster } from 'ioredis'
import type { Locker, OpenOptions } from '../library.js'
import { redisOf } from './redis.js'

/** A lock as Redisson stores it: a hash with its holder, a lease, and a message to waiters. */
const LOCK = `if redis.call('exists', KEYS[1]) == 1 then return redis.call('pttl', KEYS[1]) end
redis.call('hset', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return nil`
const UNLOCK = `if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return nil end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], '0')
return 1`

/** The lowest cost of a lock that Redisson understands: the least pair of scripts over one connection, without waiting. */
export async function open(options: OpenOptions): Promise<Locker> {
  const redis = redisOf(options)
  const { leaseMs } = options
  await once(redis, 'ready')
  const servers = redis instanceof Cluster ? redis.nodes('master') : [redis]
  const load = async (script: string): Promise<string> => {
    const hashes = await Promise.all(servers.map((server) => server.script('LOAD', script)))
    return String(hashes[0])
  }
  const [lock, unlock] = [await load(LOCK), await load(UNLOCK)]
  let last = 0
  return {
    async acquire(name) {
      const token = `${process.pid}:${++last}`
      if ((await redis.evalsha(lock, 1, name, token, leaseMs)) !== null) throw new Error(`${name} is locked`)
      return () => redis.evalsha(unlock, 2, name, `redisson_lock__channel:{${name}}`, token)
    },
  }
}
