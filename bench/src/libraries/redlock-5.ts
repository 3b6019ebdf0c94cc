import type { Redis } from 'ioredis'
import Redlock from 'redlock-5'
import { keptBy } from '../kept-by.js'
import type { Locker, OpenOptions } from '../library.js'
import { redisOf } from './redis.js'

export async function open(options: OpenOptions): Promise<Locker> {
  const { leaseMs, keep, tuned } = options
  const settings = tuned ? { retryCount: -1, retryDelay: 1, retryJitter: 0 } : {}
  const redlock = new Redlock([redisOf(options) as Redis], settings)
  redlock.on('error', () => {}) // also emitted for every attempt on a busy lock
  if (keep) return { acquire: (name) => keptBy((section) => redlock.using([name], leaseMs, section)) }
  return {
    async acquire(name) {
      const lock = await redlock.acquire([name], leaseMs)
      return () => lock.release()
    },
  }
}
