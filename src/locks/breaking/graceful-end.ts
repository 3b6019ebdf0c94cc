// The holder's side of a forced release: ends a lease when its work has ended, or the grace is over.
import type { LateCopies } from '../../delivery/late-copies.js'
import type { ForcedBy } from '../../errors.js'
import type { ScriptCall } from '../../lua/script.js'
import type { Context, Section } from '../context.js'
import type { Hold } from '../hold.js'
import type { LockKind } from '../kinds/lock-kind.js'
import { leasedUntil } from '../lease-deadline.js'
import { releaseInBackground } from '../release.js'
import { type ForcedEnd, holdForced } from '../reporting/observation.js'
import type { ForcedMark } from './mark.js'

/** By how much the lease outlasts the grace, ms: the release arrives before it ends. */
const MARGIN_MS = 1_000

interface EndingLease {
  readonly context: Context
  readonly kind: LockKind
  readonly key: string
  readonly holder: string
  readonly leasedAt: number
  readonly leaseEndsAt: number
  readonly copies: LateCopies
  readonly renewableUntil: number
  requesting(leaseTimeMs: number, sentAt: number): void
  renewalFor(leaseTimeMs: number): ScriptCall
}

/**
 * The end of a lease that an operator wants. Its holds are lost at once, but Redis keeps the holder, so that nobody else gets
 * in while the work under it stops. The lock is released as soon as that is done, and at the end of the grace in any case.
 */
export class GracefulEnd implements Section {
  /** For the error of the holds. */
  readonly forced: ForcedBy
  readonly #lease: EndingLease
  readonly #isFreed: boolean
  /** The holds whose work may still be running. */
  readonly #working: Set<Hold>
  readonly #cancelTimer: () => void
  #isOver = false

  /**
   * @param holds  of the lease, while they are live
   * @param isFreed  the lock was freed before this client noticed the mark
   */
  constructor(lease: EndingLease, holds: Iterable<Hold>, { by, reason, graceMs }: ForcedMark, isFreed: boolean) {
    this.#lease = lease
    this.#isFreed = isFreed
    this.#working = new Set(holds)
    this.forced = { by, reason }
    const { clock, sections } = lease.context
    this.#coverGrace(graceMs)
    sections.add(this) // a client that closes waits for it, for as long as the drain lasts
    this.#cancelTimer = clock.after(graceMs, () => this.end())
  }

  /** The work under a hold has ended. */
  stopped(hold: Hold): void {
    if (this.#working.delete(hold)) this.#report(hold, 'stopped')
    if (this.#working.size === 0) this.end()
  }

  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#cancelTimer()
    releaseInBackground(this.#lease)
    this.#lease.context.sections.delete(this)
    for (const hold of this.#working) this.#report(hold, 'overrun')
    this.#working.clear()
  }

  /** One last renewal, if the lease could end within the grace. A lease of its own is left to end. */
  #coverGrace(graceMs: number): void {
    const lease = this.#lease
    const { clock, scripts, backgroundRetries, watchdogTimeoutMs } = lease.context
    const endsAt = clock.now() + graceMs
    if (lease.renewableUntil === 0 || leasedUntil(lease.leasedAt, watchdogTimeoutMs) >= endsAt) return
    const renew = async (timeoutMs?: number): Promise<unknown> => {
      if (this.#isOver) return undefined
      const now = clock.now()
      const leftMs = Math.ceil(endsAt - now) + MARGIN_MS
      lease.requesting(leftMs, now)
      return await scripts.run(lease.renewalFor(leftMs), timeoutMs)
    }
    void backgroundRetries.retryInBackground(renew, endsAt)
  }

  #report(hold: Hold, outcome: ForcedEnd): void {
    holdForced(hold, this.forced, this.#isFreed ? 'freed' : outcome)
  }
}
