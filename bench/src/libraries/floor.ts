import { Redis } from 'ioredis'
import type { Locker, OpenOptions } from '../library.js'

const PLAIN = {
  lock: `return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])`,
  unlock: `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`,
}

/** A lock as Redisson stores it: a hash with its holder, a lease, and a message to waiters. */
const REDISSON = {
  lock: `if redis.call('exists', KEYS[1]) == 1 then return redis.call('pttl', KEYS[1]) end
    redis.call('hset', KEYS[1], ARGV[1], 1)
    redis.call('pexpire', KEYS[1], ARGV[2])
    return 'OK'`,
  unlock: `if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return 0 end
    redis.call('del', KEYS[1])
    redis.call('publish', 'redisson_lock__channel:{' .. KEYS[1] .. '}', '0')
    return 1`,
}

interface Scripts {
  floorLock(name: string, token: string, leaseMs: number): Promise<unknown>
  floorUnlock(name: string, token: string): Promise<number>
}

/** The lowest cost of a lock with an owner: two minimal scripts over one connection, without waiting. */
export async function open(options: OpenOptions): Promise<Locker> {
  return openWith(PLAIN, options)
}

/** The lowest cost of a lock that Redisson understands. */
export async function openOnTheWire(options: OpenOptions): Promise<Locker> {
  return openWith(REDISSON, options)
}

function openWith(scripts: typeof PLAIN, { url, leaseMs }: OpenOptions): Locker {
  const redis = new Redis(url, {
    scripts: {
      floorLock: { lua: scripts.lock, numberOfKeys: 1 },
      floorUnlock: { lua: scripts.unlock, numberOfKeys: 1 },
    },
  }) as Redis & Scripts
  let last = 0
  return {
    async acquire(name) {
      const token = `${process.pid}:${++last}`
      if ((await redis.floorLock(name, token, leaseMs)) !== 'OK') throw new Error(`${name} is locked`)
      return () => redis.floorUnlock(name, token)
    },
  }
}
