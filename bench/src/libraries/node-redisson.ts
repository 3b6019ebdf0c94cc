import { Redisson } from 'node-redisson'
import type { Locker, OpenOptions } from '../library.js'

export async function open({ url, leaseMs }: OpenOptions): Promise<Locker> {
  const { hostname, port } = new URL(url)
  const redisson = new Redisson({
    redis: { options: { host: hostname, port: Number(port) } },
    lockWatchdogTimeout: BigInt(leaseMs),
  })
  return {
    async acquire(name) {
      // A lock object is one owner.
      const lock = redisson.getLock(name)
      await lock.lock()
      return () => lock.unlock()
    },
  }
}
