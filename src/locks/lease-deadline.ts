// Until when a hold is valid: lease, clock drift, maxHoldMs.
import { ConfigError, type LossReason } from '../errors.js'
import type { HoldTerms } from './hold.js'

/** A lease that Redis keeps for longer than requested by this much shows that the clock of Redis was set back, ms. */
const OVERLONG_MS = 1_000

/** The leases that were requested from Redis for one owner. */
export class RequestedLeases {
  /** When the last one ends at the latest, on the clock. */
  endAt = 0
  longestMs = 0
  /** Redis would keep it for longer than that: the clock of Redis was set back, and the next renewal corrects the lease. */
  isOverlong = false
  #reentry: HoldTimes | undefined

  add(leaseTimeMs: number, sentAt: number): void {
    this.endAt = Math.max(this.endAt, sentAt + leaseTimeMs)
    this.longestMs = Math.max(this.longestMs, leaseTimeMs)
  }

  /** A re-entry is in flight until there is a reply. */
  async reentering(times: HoldTimes, reply: Promise<unknown>): Promise<unknown> {
    this.#reentry = times
    try {
      return await reply
    } finally {
      this.#reentry = undefined
    }
  }

  /**
   * The lease to ask for at `now` so that every hold gets what it is entitled to, ms; also the hold of a re-entry in flight,
   * since what is sent now may be applied after the reply to that.
   * @param watchdogTimeoutMs  lease of a hold without one of its own
   */
  owedMs(holds: Iterable<HoldTimes>, watchdogTimeoutMs: number, now: number): number {
    let owedMs = 1
    for (const { terms, grantedAt, leasedUntil } of this.#reentry ? [...holds, this.#reentry] : holds) {
      // Computed as a duration, not as an instant: adding fractions would round up to a millisecond too many.
      const leftMs = terms.leaseTimeMs === undefined ? watchdogTimeoutMs : grantedAt + terms.leaseTimeMs - now
      // A nested hold may have extended it.
      owedMs = Math.max(owedMs, leftMs, leasedUntil - now)
    }
    return Math.ceil(owedMs)
  }

  /** @param leftMs  how long Redis keeps the lock, according to a renewal */
  checkLeft(leftMs: number): void {
    this.isOverlong = leftMs > this.longestMs + OVERLONG_MS
  }
}

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

/**
 * The times of a hold whose lease is requested at `sentAt`.
 * @param watchdogTimeoutMs  lease of a hold without one of its own
 */
export function timesRequested(sentAt: number, terms: HoldTerms, watchdogTimeoutMs: number): HoldTimes {
  return timesFrom(sentAt, terms, leasedUntil(sentAt, terms.leaseTimeMs ?? watchdogTimeoutMs))
}

/** Until when the hold is certain to be valid. */
export function deadlineOf({ leasedUntil, maxHoldAt }: HoldTimes): number {
  return Math.min(leasedUntil, maxHoldAt)
}

/** The reason why the hold ends at its deadline. */
export function lossReasonOf(times: HoldTimes): LossReason {
  return times.leasedUntil >= times.maxHoldAt ? 'maxHold' : 'expired'
}

/** @throws {ConfigError} the hold has no lease of its own */
export function checkExtensible({ leaseTimeMs }: HoldTerms, lockName: string): void {
  if (leaseTimeMs !== undefined) return
  throw new ConfigError('extend', undefined, 'a hold taken with leaseTimeMs: the watchdog renews this one', {
    lockName,
  })
}

/** The times of a hold that has requested a lease of its own, once more, at `sentAt`. A lease never ends sooner for that. */
export function timesExtended(times: HoldTimes, sentAt: number, leaseTimeMs: number): HoldTimes {
  const { terms, grantedAt } = times
  const fromGrantMs = Math.ceil(sentAt - grantedAt) + leaseTimeMs
  return {
    ...times,
    terms: { ...terms, leaseTimeMs: Math.max(terms.leaseTimeMs ?? 0, fromGrantMs) },
    leasedUntil: Math.max(times.leasedUntil, leasedUntil(sentAt, leaseTimeMs)),
  }
}

/** The holds of one owner on one lock, the outermost first, and their times. */
export class HoldDeadlines<H> extends Map<H, HoldTimes> {
  /** The deadlines of the write that the owner reads inside of: in Redis it lasts at least as long as the read. */
  readonly #around: HoldDeadlines<H> | undefined
  /** When the last hold without a lease of its own ended, on the clock. */
  #renewedUntil = 0

  constructor(around: HoldDeadlines<H> | undefined) {
    super()
    this.#around = around
  }

  /** Redis has granted or extended the lease of a hold. */
  override set(hold: H, times: HoldTimes): this {
    this.#around?.extend(times.leasedUntil)
    return super.set(hold, times)
  }

  /** Removes an ended hold. Redis keeps the lease that it had, so the remaining holds last at least as long. */
  end(hold: H, now: number): HoldTimes | undefined {
    const times = this.get(hold)
    this.delete(hold)
    if (times && isRenewed(times)) this.#renewedUntil = now
    if (times && (this.size > 0 || this.#around)) this.extend(times.leasedUntil)
    return times
  }

  /** Redis has applied a renewal, by the watchdog's lease, that was sent at `sentAt`. */
  renew(sentAt: number, watchdogTimeoutMs: number): void {
    const until = leasedUntil(sentAt, watchdogTimeoutMs)
    // If it was sent for a hold that has been released since, the others have it all the same.
    if (sentAt < this.#renewedUntil) this.extend(until)
    else if (this.renewableUntil > 0) this.extend(until, isRenewed)
  }

  /** Redis is certain to keep the lease until then. */
  extend(until: number, isMeant: (times: HoldTimes) => boolean = () => true): void {
    for (const times of this.values()) if (isMeant(times)) times.leasedUntil = Math.max(times.leasedUntil, until)
    this.#around?.extend(until)
  }

  /** An outer hold cannot expire while a hold that re-entered it keeps the lock, so it lasts as long as the inner one. */
  extendByNested(times: HoldTimes): void {
    let isNested = false
    for (const other of this.values()) {
      if (isNested) times.leasedUntil = Math.max(times.leasedUntil, other.leasedUntil)
      isNested ||= other === times
    }
  }

  /** Until when the watchdog may renew them; 0: all have leases of their own. */
  get renewableUntil(): number {
    let until = 0
    for (const times of this.values()) if (isRenewed(times)) until = Math.max(until, times.maxHoldAt)
    return until
  }
}

/** Whether the watchdog renews it: it has no lease of its own. */
export function isRenewed({ terms }: HoldTimes): boolean {
  return terms.leaseTimeMs === undefined
}
