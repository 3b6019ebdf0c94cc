import { Redlock } from '@sesamecare-oss/redlock'
import { Redis } from 'ioredis'
import { keptBy } from '../kept-by.js'
import type { Locker, OpenOptions } from '../library.js'

export async function open({ url, leaseMs, keep, tuned }: OpenOptions): Promise<Locker> {
  const settings = tuned ? { retryCount: -1, retryDelay: 1, retryJitter: 0 } : {}
  const redlock = new Redlock([new Redis(url)], settings)
  redlock.on('error', () => {}) // also emitted for every attempt on a busy lock
  if (keep) return { acquire: (name) => keptBy((section) => redlock.using([name], leaseMs, section)) }
  return {
    async acquire(name) {
      const lock = await redlock.acquire([name], leaseMs)
      return () => lock.release()
    },
  }
}
