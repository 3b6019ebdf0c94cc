import { Redis } from 'ioredis'
import { createLock, IoredisAdapter } from 'redlock-universal'
import { keptBy } from '../kept-by.js'
import type { Locker, OpenOptions } from '../library.js'

export async function open({ url, leaseMs, keep, tuned }: OpenOptions): Promise<Locker> {
  const adapter = new IoredisAdapter(new Redis(url))
  const options = { adapter, ttl: leaseMs, ...(tuned && { retryAttempts: 1_000_000, retryDelay: 1 }) }
  if (keep) {
    return { acquire: (name) => keptBy((section) => createLock({ ...options, key: name }).using(section)) }
  }
  return {
    async acquire(name) {
      const lock = createLock({ ...options, key: name })
      const handle = await lock.acquire()
      return () => lock.release(handle)
    },
  }
}
