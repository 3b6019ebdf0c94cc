import { Redis } from 'ioredis'
import Redlock from 'redlock-4'
import type { Locker, OpenOptions } from '../library.js'

export async function open({ url, leaseMs, tuned }: OpenOptions): Promise<Locker> {
  const redlock = new Redlock([new Redis(url)], tuned ? { retryCount: -1, retryDelay: 1, retryJitter: 0 } : {})
  return {
    async acquire(name) {
      const lock = await redlock.lock(name, leaseMs)
      return () => lock.unlock()
    },
  }
}
