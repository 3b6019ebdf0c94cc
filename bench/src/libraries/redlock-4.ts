import type { Redis } from 'ioredis'
import Redlock from 'redlock-4'
import type { Locker, OpenOptions } from '../library.js'
import { redisOf } from './redis.js'

export async function open(options: OpenOptions): Promise<Locker> {
  const { leaseMs, tuned } = options
  const redlock = new Redlock(
    [redisOf(options) as Redis],
    tuned ? { retryCount: -1, retryDelay: 1, retryJitter: 0 } : {},
  )
  return {
    async acquire(name) {
      const lock = await redlock.lock(name, leaseMs)
      return () => lock.unlock()
    },
  }
}
