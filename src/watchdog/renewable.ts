import type { ScriptCall } from '../lua/script.js'

/** Something with a lease. */
export interface Renewable {
  /**
   * The call that renews it now, of one key. A renewal script takes the keys and arguments of many such calls, one after
   * the other, and replies for each: 0 gone, else what is left of its lease, ms, or 1 where that is not known.
   */
  renewal(now: number): ScriptCall
  /**
   * A renewal sent at `sentAt` was applied.
   * @param leftMs  how long Redis keeps the lease, ms, if that is known: it may be longer than was asked for
   */
  renewed(sentAt: number, leftMs?: number): void
  /** Redis said that the holder is gone. */
  markLost(): void
}

/** What the watchdog sees of a lease. */
export interface Watched extends Renewable {
  /** The same as `renewal`, for this lease. */
  renewalFor(leaseTimeMs: number): ScriptCall
  /** When the lease that it has was asked for, on the clock. */
  readonly leasedAt: number
  /** Until when the watchdog may renew it, on the clock; 0: it lives by leases of its own. */
  readonly renewableUntil: number
  /** Ends or reports what is due now; answers when it wants to be looked at next, on the clock. */
  inspect(now: number): number
}
