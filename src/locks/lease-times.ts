import type { LossReason } from '../errors.js'
import type { HoldTerms } from './hold.js'

/** When things are due for one hold, on the clock. */
export interface Times {
  readonly terms: HoldTerms
  readonly grantedAt: number
  /** Until when Redis surely keeps the lease. */
  leasedUntil: number
  /** When `maxHoldMs` ends it. */
  readonly maxHoldAt: number
  /** When `warnAfterMs` reports it. */
  warnAt: number
}

export function timesFrom(grantedAt: number, terms: HoldTerms, leasedUntil: number): Times {
  return {
    terms,
    grantedAt,
    leasedUntil,
    maxHoldAt: grantedAt + (terms.maxHoldMs ?? Number.POSITIVE_INFINITY),
    warnAt: grantedAt + (terms.warnAfterMs ?? Number.POSITIVE_INFINITY),
  }
}

/** Surely held until then. */
export function deadlineOf({ leasedUntil, maxHoldAt }: Times): number {
  return Math.min(leasedUntil, maxHoldAt)
}

export function reasonAt(times: Times): LossReason {
  return times.leasedUntil >= times.maxHoldAt ? 'maxHold' : 'expired'
}

/**
 * The lease of an outer hold cannot end while a hold that re-entered it keeps the lock: it lasts as long as that one's.
 * @param all  the holds of one owner, the outermost first
 */
export function outlastNested(times: Times, all: Iterable<Times>): void {
  let isNested = false
  for (const other of all) {
    if (isNested) times.leasedUntil = Math.max(times.leasedUntil, deadlineOf(other))
    isNested ||= other === times
  }
}

/** Clocks of client and server may run at slightly different speeds: 1 % of the lease and 2 ms, as Redlock reckons. */
export function driftMs(leaseTimeMs: number): number {
  return leaseTimeMs / 100 + 2
}
