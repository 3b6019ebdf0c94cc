import type { Hold } from '../../src/index.js'
import { waitUntil } from './wait-until.js'

/** By how much a renewal adds to what is left of a lease at least, ms. */
const RISE_MS = 50

/**
 * Resolves when each hold has been renewed `times` times, and fails when one is lost. To wait for renewals instead of for
 * several leases allows leases that a machine which stalls does not use up.
 */
export async function renewed(holds: readonly Hold[], times = 2): Promise<void> {
  const seen = holds.map((hold) => ({ hold, leftMs: hold.remainingMs(), rises: 0 }))
  const message = (): string => `each hold is renewed ${times} times, not ${seen.map(({ rises }) => rises)} times`
  await waitUntil(
    () => {
      for (const one of seen) {
        one.hold.assertHeld()
        const leftMs = one.hold.remainingMs()
        if (leftMs > one.leftMs + RISE_MS) one.rises++
        one.leftMs = leftMs
      }
      return seen.every(({ rises }) => rises >= times)
    },
    { timeoutMs: 30_000, message },
  )
}
