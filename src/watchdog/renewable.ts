// A lease, as the watchdog renews it.
import type { ScriptCall } from '../lua/script.js'

/** Something with a lease. */
export interface Renewable {
  /**
   * The call that renews it now, with one key. A renewal script takes the keys and arguments of many such calls in sequence,
   * and replies for each: 0, the holder is gone; else what is left of the lease, ms, or 1 where that is not known.
   */
  renewal(now: number): ScriptCall
  /**
   * A renewal sent at `sentAt` was applied.
   * @param leftMs  how long Redis keeps the lease, ms, if that is known; it may be longer than requested
   */
  renewed(sentAt: number, leftMs?: number): void
  /** Redis replied that the holder is gone. */
  markLost(): void
}

/** A lease, as the watchdog sees it. */
export interface Watched extends Renewable {
  /** As `renewal`, with this lease time. */
  renewalFor(leaseTimeMs: number): ScriptCall
  /** When its current lease was requested, on the clock. */
  readonly leasedAt: number
  /** Until when the watchdog may renew it, on the clock; 0: it has lease times of its own. */
  readonly renewableUntil: number
  /** Its place among the leases that are watched. */
  watched?: number
  /** Ends or reports the holds that are due. @returns when to call it again, on the clock */
  inspect(now: number): number
}
