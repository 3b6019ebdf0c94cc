import { LockFactory } from '@verrou/core'
import { redisStore } from '@verrou/core/drivers/redis'
import { Redis } from 'ioredis'
import type { Locker, OpenOptions } from '../library.js'

export async function open({ url, leaseMs, tuned }: OpenOptions): Promise<Locker> {
  const store = redisStore({ connection: new Redis(url) }).factory()
  const locks = new LockFactory(store, tuned ? { retry: { delay: 1 } } : {})
  return {
    async acquire(name) {
      const lock = locks.createLock(name, leaseMs)
      if (!(await lock.acquire())) throw new Error(`${name} is locked`)
      return () => lock.release()
    },
  }
}
