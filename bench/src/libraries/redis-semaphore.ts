import { Redis } from 'ioredis'
import { Mutex } from 'redis-semaphore'
import type { Locker, OpenOptions } from '../library.js'

export async function open({ url, leaseMs, keep, tuned }: OpenOptions): Promise<Locker> {
  const redis = new Redis(url)
  const options = {
    // It renews unless told otherwise; in the other workloads its lease of 10 s never ends.
    ...(keep && { lockTimeout: leaseMs, onLockLost: () => {} }),
    ...(tuned && { retryInterval: 1, acquireTimeout: Number.POSITIVE_INFINITY }),
  }
  return {
    async acquire(name) {
      const mutex = new Mutex(redis, name, options)
      await mutex.acquire()
      return () => mutex.release()
    },
  }
}
