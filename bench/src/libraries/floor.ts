import { Redis } from 'ioredis'
import type { Locker, OpenOptions } from '../library.js'

const LOCK = `return redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])`
const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`

interface Scripts {
  floorLock(name: string, token: string, leaseMs: number): Promise<string | null>
  floorUnlock(name: string, token: string): Promise<number>
}

/** The least that a lock with an owner can cost: two minimal scripts over one connection, and nobody who waits. */
export async function open({ url, leaseMs }: OpenOptions): Promise<Locker> {
  const redis = new Redis(url, {
    scripts: { floorLock: { lua: LOCK, numberOfKeys: 1 }, floorUnlock: { lua: UNLOCK, numberOfKeys: 1 } },
  }) as Redis & Scripts
  let last = 0
  return {
    async acquire(name) {
      const token = `${process.pid}:${++last}`
      if ((await redis.floorLock(name, token, leaseMs)) === null) throw new Error(`${name} is taken`)
      return () => redis.floorUnlock(name, token)
    },
  }
}
