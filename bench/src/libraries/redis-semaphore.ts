import { Redis } from 'ioredis'
import { Mutex } from 'redis-semaphore'
import type { Locker, OpenOptions } from '../library.js'

export async function open({ url, leaseMs, keep, tuned }: OpenOptions): Promise<Locker> {
  const redis = new Redis(url)
  const options = {
    // It keeps what it holds alive unless told otherwise; its lease of 10 s is never over in the other workloads.
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
