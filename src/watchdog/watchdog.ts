import type { Scripts } from '../delivery/scripts.js'
import type { Clock } from '../util/clock.js'
import { DenseSet } from '../util/collections.js'
import type { Random } from '../util/random.js'
import type { Watched } from './renewable.js'
import { Renewer } from './renewer.js'
import type { ThreadClient } from './thread-client.js'

/** Redisson's default of `lockWatchdogBatchSize`. */
const BATCH_SIZE = 100

/**
 * Keeps the holds of one client alive, and tells those that are lost, with one timer: it fires every third of the
 * watchdog's lease to renew, and at the earliest deadline of a hold to end it, whatever Redis does meanwhile.
 */
export class Watchdog {
  /** Renews while this thread is too busy to, if the client asked for one. */
  threadClient: ThreadClient | undefined
  readonly #clock: Clock
  readonly #periodMs: number
  readonly #renewer: Renewer<Watched>
  readonly #watched = new DenseSet<Watched>()
  /** What was long on its way. */
  #late: Watched[] = []
  #nextRenewalAt = 0
  #wakeAt = Number.POSITIVE_INFINITY
  #cancelTimer: (() => void) | undefined

  /** @param onRefused  told of each renewal that Redis answers with an error that will not pass */
  constructor(
    clock: Clock,
    random: Random,
    scripts: Scripts,
    leaseTimeMs: number,
    onRefused: (error: unknown) => void = () => {},
    batchSize = BATCH_SIZE,
  ) {
    this.#clock = clock
    this.#periodMs = leaseTimeMs / 3
    const terms = { periodMs: this.#periodMs, batchSize }
    this.#renewer = new Renewer(clock, random, scripts, terms, (one) => this.#watched.has(one), onRefused)
  }

  /** @param isWanted  false: it is about to be released, so not even a late grant is renewed before the next tick */
  watch(lease: Watched, isWanted = true): void {
    if (this.#watched.size === 0) this.#renewNextAt(this.#clock.now() + this.#periodMs)
    this.#watched.add(lease)
    if (isWanted) this.schedule(lease)
    else this.look(lease)
  }

  /** Look at a lease again: it gained a hold, which may be due earlier than the others. */
  schedule(lease: Watched): void {
    this.look(lease)
    // It was long on its way (a slow link, a server that was away): the next tick may be too late for what is left.
    if (isRenewed(lease) && this.#clock.now() - lease.leasedAt > this.#periodMs / 2) {
      this.#renewSoon(lease)
    }
  }

  /** Those that one command granted are renewed by one. */
  #renewSoon(lease: Watched): void {
    if (this.#late.push(lease) > 1) return
    queueMicrotask(() => {
      const late = this.#late
      this.#late = []
      void this.#renewer.renew(late)
    })
  }

  /** The same for a hold that Redis was not asked for. */
  look(lease: Watched): void {
    this.threadClient?.watch(lease)
    this.#wakeBy(Math.min(this.#nextRenewalAt, lease.inspect(this.#clock.now())))
  }

  /**
   * From here on nothing renews it: to be called before its release is sent.
   * @returns whether a renewal of the thread may still arrive after the release
   */
  forget(lease: Watched): boolean {
    this.#watched.delete(lease)
    const mayBeRenewed = this.threadClient?.forget(lease) ?? false
    if (this.#watched.size === 0) this.#stopTimer()
    return mayBeRenewed
  }

  /** Redis may have lost its data, or another server answers now: ask about everything at once. */
  audit(): void {
    this.#inspectAll()
    void this.#renewer.renew([...this.#watched])
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
      this.#renewNextAt(Math.max(this.#nextRenewalAt + this.#periodMs, now + this.#periodMs / 2))
      void this.#renewer.renew([...this.#watched].filter(isRenewed))
    }
    next = Math.min(next, this.#nextRenewalAt)
    if (this.#watched.size > 0) this.#wakeBy(next)
  }

  #inspectAll(): number {
    const now = this.#clock.now()
    let next = Number.POSITIVE_INFINITY
    for (const lease of this.#watched) next = Math.min(next, lease.inspect(now))
    return next
  }

  #renewNextAt(at: number): void {
    this.#nextRenewalAt = at
    this.threadClient?.expect(at)
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

function isRenewed(lease: Watched): boolean {
  return lease.renewableUntil > 0
}
