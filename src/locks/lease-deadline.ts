import type { LossReason } from '../errors.js'
import type { HoldTerms } from './hold.js'

/** The times that matter for one hold, on the client's clock. */
export interface HoldTimes {
  readonly terms: HoldTerms
  readonly grantedAt: number
  /** Until when Redis is certain to keep the lease. */
  leasedUntil: number
  /** When `maxHoldMs` ends the hold. */
  readonly maxHoldAt: number
  /** When `warnAfterMs` reports the hold. */
  warnAt: number
}

export function timesFrom(grantedAt: number, terms: HoldTerms, leasedUntil: number): HoldTimes {
  return {
    terms,
    grantedAt,
    leasedUntil,
    maxHoldAt: grantedAt + (terms.maxHoldMs ?? Number.POSITIVE_INFINITY),
    warnAt: grantedAt + (terms.warnAfterMs ?? Number.POSITIVE_INFINITY),
  }
}

/**
 * Until when Redis is certain to keep a lease. Redis starts to count when the command arrives, which is after it was sent.
 * The clocks of client and server may run at slightly different speeds, so 1 % and 2 ms are subtracted, as in Redlock.
 */
export function leasedUntil(sentAt: number, leaseTimeMs: number): number {
  return sentAt + leaseTimeMs - (leaseTimeMs / 100 + 2)
}

/** Until when the hold is certain to be valid. */
export function deadlineOf({ leasedUntil, maxHoldAt }: HoldTimes): number {
  return Math.min(leasedUntil, maxHoldAt)
}

/** What ends the hold at its deadline. */
export function lossReasonOf(times: HoldTimes): LossReason {
  return times.leasedUntil >= times.maxHoldAt ? 'maxHold' : 'expired'
}

/**
 * An outer hold cannot expire while a hold that re-entered it keeps the lock, so it lasts as long as the inner one.
 * @param all  the holds of one owner, the outermost first
 */
export function extendByNested(times: HoldTimes, all: Iterable<HoldTimes>): void {
  let isNested = false
  for (const other of all) {
    if (isNested) times.leasedUntil = Math.max(times.leasedUntil, deadlineOf(other))
    isNested ||= other === times
  }
}

/**
 * The lease to ask for at `now` so that every hold gets what it is entitled to, ms.
 * @param watchdogTimeoutMs  lease of a hold without one of its own
 */
export function leaseOwedMs(all: Iterable<HoldTimes>, watchdogTimeoutMs: number, now: number): number {
  let owedMs = 1
  for (const { terms, grantedAt, leasedUntil } of all) {
    // Computed as a duration, not as an instant: adding fractions would round up to a millisecond too many.
    const leftMs = terms.leaseTimeMs === undefined ? watchdogTimeoutMs : grantedAt + terms.leaseTimeMs - now
    // A nested hold may have extended it.
    owedMs = Math.max(owedMs, leftMs, leasedUntil - now)
  }
  return Math.ceil(owedMs)
}
