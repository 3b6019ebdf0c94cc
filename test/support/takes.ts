import type { Client } from '../../src/index.js'

/** Everything that can be granted, each with one attempt, and with a wait of some length. */
export type Take = (client: Client, waitTimeMs: number) => Promise<{ free(): Promise<unknown> } | undefined>
const release = (hold: { unlock(): Promise<void> } | null) => (hold ? { free: () => hold.unlock() } : undefined)
export const TAKES: Record<string, Take> = {
  lock: async (client, waitTimeMs) => release(await client.getLock('t:lock').tryLock({ waitTimeMs })),
  'fair lock': async (client, waitTimeMs) => release(await client.getFairLock('t:fair').tryLock({ waitTimeMs })),
  'fenced lock': async (client, waitTimeMs) => release(await client.getFencedLock('t:fenced').tryLock({ waitTimeMs })),
  'read lock': async (client, waitTimeMs) =>
    release(await client.getReadWriteLock('t:rw').readLock().tryLock({ waitTimeMs })),
  'write lock in order': async (client, waitTimeMs) =>
    release(await client.getReadWriteLock('t:ordered', { order: 'fifo' }).writeLock().tryLock({ waitTimeMs })),
  'spin lock': async (client, waitTimeMs) => release(await client.getSpinLock('t:spin').tryLock({ waitTimeMs })),
  'multi-lock of values': async (client, waitTimeMs) =>
    release(await client.getFasterMultiLock('t:multi', ['1', '2']).tryLock({ waitTimeMs })),
  permit: async (client, waitTimeMs) =>
    release(await client.getPermitExpirableSemaphore('t:permits').tryAcquire({ waitTimeMs })),
  semaphore: async (client, waitTimeMs) => {
    const semaphore = client.getSemaphore('t:semaphore')
    return (await semaphore.tryAcquire({ waitTimeMs })) ? { free: () => semaphore.release() } : undefined
  },
}
/** Keys that stay when all of it is released. */
export const COUNTERS = /^(redisson_lock_token|holdfast_idempotency|holdfast_generation):|^t:(permits|semaphore)$/
