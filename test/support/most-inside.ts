import type { BaseLock } from '../../src/index.js'
import { sleep } from './wait-until.js'

/** Runs tasks side by side, and resolves to how many were inside at the same time at most. */
export async function mostInside(locks: readonly BaseLock[]): Promise<number> {
  let inside = 0
  let most = 0
  await Promise.all(
    locks.map((lock) =>
      lock.withLock(async () => {
        most = Math.max(most, ++inside)
        await sleep(20)
        inside--
      }),
    ),
  )
  return most
}
