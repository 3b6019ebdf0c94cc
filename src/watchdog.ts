import type { Clock } from './clock.js'
import { isWorthRetrying, type ScriptCall, type Scripts, toArray, toInteger } from './lua/run.js'
import type { Random } from './random.js'
import { backoffMs } from './waiting/backoff.js'

/** How a kind of lock renews many of its possessions in one script call. */
export type Renewal = (batch: readonly RenewalItem[]) => ScriptCall

export interface RenewalItem {
  readonly lockName: string
  readonly holder: string
  readonly leaseTimeMs: number
}

/** What the watchdog sees of a possession. */
export interface Watched {
  readonly lockName: string
  readonly holder: string
  readonly renewal: Renewal
  /** When the lease that it has was asked for, on the clock. */
  readonly leasedAt: number
  /** Whether it holds anything that lives by the watchdog, rather than by a lease of its own. */
  readonly needsRenewal: boolean
  /** What to set as its lease now, ms: what its holds are entitled to. */
  leaseOwedMs(now: number): number
  /** A renewal sent at `sentAt` was applied. */
  renewed(sentAt: number): void
  /** Redis said that the holder is gone. */
  gone(): void
  /** Ends or reports what is due now; answers when it wants to be looked at next, on the clock. */
  inspect(now: number): number
}

/** Redisson's default of `lockWatchdogBatchSize`. */
const BATCH_SIZE = 100

/** After so many renewals others have a turn of the event loop. */
const AT_ONCE = 500

/**
 * Keeps the holds of one client alive, and tells those that are lost, with one timer: it fires every third of the
 * watchdog's lease to renew, and at the earliest deadline of a hold to end it, whatever Redis does meanwhile.
 */
export class Watchdog {
  readonly #clock: Clock
  readonly #random: Random
  readonly #scripts: Scripts
  readonly #periodMs: number
  readonly #batchSize: number
  readonly #watched = new Set<Watched>()
  #nextRenewalAt = 0
  #wakeAt = Number.POSITIVE_INFINITY
  #cancelTimer: (() => void) | undefined

  readonly #onRefused: (error: unknown) => void

  /** @param onRefused  told of each renewal that Redis answers with an error that will not pass */
  constructor(
    clock: Clock,
    random: Random,
    scripts: Scripts,
    leaseTimeMs: number,
    onRefused: (error: unknown) => void = () => {},
    batchSize = BATCH_SIZE,
  ) {
    this.#batchSize = batchSize
    this.#onRefused = onRefused
    this.#clock = clock
    this.#random = random
    this.#scripts = scripts
    this.#periodMs = leaseTimeMs / 3
  }

  watch(possession: Watched): void {
    const now = this.#clock.now()
    if (this.#watched.size === 0) this.#nextRenewalAt = now + this.#periodMs
    this.#watched.add(possession)
    this.recheck(possession)
  }

  /** Look at a possession again: it gained a hold, which may be due earlier than the others. */
  recheck(possession: Watched): void {
    this.look(possession)
    // It was long on its way (a slow link, a server that was away): the next tick may be too late for what is left.
    if (possession.needsRenewal && this.#clock.now() - possession.leasedAt > this.#periodMs / 2)
      void this.#renew([possession])
  }

  /** The same for a hold that Redis was not asked for. */
  look(possession: Watched): void {
    this.#wakeBy(Math.min(this.#nextRenewalAt, possession.inspect(this.#clock.now())))
  }

  /** From here on nothing renews it: to be called before its release is sent. */
  forget(possession: Watched): void {
    this.#watched.delete(possession)
    if (this.#watched.size === 0) this.#stopTimer()
  }

  /** Redis may have lost its data, or another server answers now: ask about everything at once. */
  audit(): void {
    this.#inspectAll()
    void this.#renew([...this.#watched])
  }

  close(): void {
    this.#watched.clear()
    this.#stopTimer()
  }

  #onTimer(): void {
    this.#wakeAt = Number.POSITIVE_INFINITY
    // Deadlines first: after a pause of this process nothing that is over may be revived by a late renewal.
    let next = this.#inspectAll()
    const now = this.#clock.now()
    if (now >= this.#nextRenewalAt) {
      // A fixed rate, however long the renewals take; a tick that was missed is not made up for.
      this.#nextRenewalAt = Math.max(this.#nextRenewalAt + this.#periodMs, now + this.#periodMs / 2)
      void this.#renew([...this.#watched].filter((possession) => possession.needsRenewal))
    }
    next = Math.min(next, this.#nextRenewalAt)
    if (this.#watched.size > 0) this.#wakeBy(next)
  }

  #inspectAll(): number {
    const now = this.#clock.now()
    let next = Number.POSITIVE_INFINITY
    for (const possession of [...this.#watched]) next = Math.min(next, possession.inspect(now))
    return next
  }

  async #renew(possessions: readonly Watched[]): Promise<void> {
    let sent = 0
    for (const group of this.#groups(possessions)) {
      for (let start = 0; start < group.length; start += this.#batchSize) {
        const batch = group.slice(start, start + this.#batchSize)
        void this.#renewBatch((batch[0] as Watched).renewal, batch)
        sent += batch.length
        if (sent < AT_ONCE) continue
        sent = 0
        await new Promise<void>((resolve) => void this.#clock.after(0, resolve, false))
      }
    }
  }

  /** What one script can renew: the same kind of renewal, in a cluster of one slot. */
  #groups(possessions: readonly Watched[]): Iterable<readonly Watched[]> {
    const groups = new Map<Renewal, Map<number, Watched[]>>()
    for (const possession of possessions) {
      const bySlot = groups.get(possession.renewal) ?? new Map<number, Watched[]>()
      groups.set(possession.renewal, bySlot)
      const slot = this.#scripts.slotOf(possession.lockName)
      const group = bySlot.get(slot)
      if (group) group.push(possession)
      else bySlot.set(slot, [possession])
    }
    return [...groups.values()].flatMap((bySlot) => [...bySlot.values()])
  }

  /** One batch for itself: the failure of another never stops it. Repeated until answered, or until the next tick. */
  async #renewBatch(renewal: Renewal, possessions: readonly Watched[]): Promise<void> {
    const giveUpAt = this.#clock.now() + this.#periodMs
    let batch = possessions
    for (let failures = 0; ; failures++) {
      batch = batch.filter((possession) => this.#watched.has(possession))
      if (batch.length === 0) return
      const sentAt = this.#clock.now()
      const call = renewal(
        batch.map((possession) => ({
          lockName: possession.lockName,
          holder: possession.holder,
          leaseTimeMs: possession.leaseOwedMs(sentAt),
        })),
      )
      try {
        const replies = toArray(await this.#scripts.run(call))
        batch.forEach((possession, index) => {
          if (!this.#watched.has(possession)) return
          if (toInteger(replies[index]) === 1) possession.renewed(sentAt)
          else possession.gone()
        })
        return
      } catch (error) {
        if (!isWorthRetrying(error)) this.#onRefused(error)
        // Whatever it was (no answer, a busy script, a demoted master): it may pass, and the deadline ends what it must.
        const delayMs = backoffMs(failures, 50, Math.min(1_000, this.#periodMs / 2), this.#random)
        if (this.#clock.now() + delayMs >= giveUpAt) return
        await new Promise<void>((resolve) => void this.#clock.after(delayMs, resolve, false))
      }
    }
  }

  #wakeBy(at: number): void {
    if (at >= this.#wakeAt) return
    this.#cancelTimer?.()
    this.#wakeAt = at
    // Not a reason to keep the process alive: the connection is one as long as anything is held.
    this.#cancelTimer = this.#clock.after(at - this.#clock.now(), () => this.#onTimer(), false)
  }

  #stopTimer(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    this.#wakeAt = Number.POSITIVE_INFINITY
  }
}
