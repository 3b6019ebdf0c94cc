import type { LockRow } from '../src/dashboard/api.js'

/** Less than this is jitter of the sampling, and a number that counts should not jump for it, ms. */
const JITTER_MS = 400

/** A lock, with its durations as points in time of this page. */
export interface Row {
  readonly lock: LockRow
  /** `performance.now()` when the lock's durations were true. */
  readonly readAt: number
  /** undefined: a key without expiry */
  readonly leaseEndsAt: number | undefined
  /** The longest lease of its present holder that was seen, ms. */
  readonly leaseFullMs: number
  /** When the first holder took it, or was seen first. */
  readonly heldSince: number
}

/** @param at when it was received, a `performance.now()` */
export function rowOf(lock: LockRow, at: number, previous: Row | undefined): Row {
  const readAt = at - lock.ageMs
  const [first] = lock.holders
  const isSame = first !== undefined && first.holder === previous?.lock.holders[0]?.holder
  const leaseMs = lock.remainingLeaseMs
  return {
    lock,
    readAt,
    leaseEndsAt: leaseMs === null ? undefined : readAt + leaseMs,
    leaseFullMs: Math.max(leaseMs ?? 0, isSame ? previous.leaseFullMs : 0, 1),
    heldSince: steady(readAt - (first?.heldMs ?? first?.seenMs ?? 0), isSame ? previous.heldSince : undefined),
  }
}

function steady(time: number, before: number | undefined): number {
  return before !== undefined && Math.abs(time - before) < JITTER_MS ? before : time
}
