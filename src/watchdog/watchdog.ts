// One timer: renews, expires, audits after a reconnect.
import type { Scripts } from '../delivery/scripts.js'
import type { Clock } from '../util/clock.js'
import { DenseSet } from '../util/collections.js'
import type { Random } from '../util/random.js'
import { queueMicrotask } from '../util/real-time.js'
import type { Watched } from './renewable.js'
import { Renewer } from './renewer.js'
import type { ThreadClient } from './thread-client.js'

export interface WatchdogTerms {
  /** Lease of a hold without `leaseTimeMs`, ms. */
  readonly leaseTimeMs: number
  /** How many leases one script call renews. */
  readonly batchSize: number
}

export interface WatchdogHooks {
  /** Redis rejected a renewal, and it is not that it cannot serve now. */
  onRefused(error: unknown): void
  /** A script call renewed something. @param key  one of its keys */
  onRenewed(key: string): void
  /** The outcome of each renewal, before the lease knows it. */
  onRenewal(lease: Watched, result: 'renewed' | 'gone' | 'failed'): void
  /**
   * Something is held: one second after nothing was, then after the time that the last call returned, ms.
   * @returns how soon to be called again, if something is still held
   */
  onTick(): number
}

/** How long something has been held at the first tick, ms. */
export const FIRST_TICK_MS = 1_000

/**
 * Renews the leases of one client and ends holds at their deadlines, with one timer: it fires every third of the watchdog's
 * lease to renew, and at the earliest deadline of a hold to end it, even if Redis is unreachable. After the last release it stays
 * armed: most programs lock again before it would fire, and arming it for each lock costs more than the rest.
 */
export class Watchdog {
  /** The watchdog thread, if the client uses it: it renews while this event loop is blocked. */
  threadClient: ThreadClient | undefined
  /** How late the timer fired the last time, ms. */
  delayMs = 0
  readonly #clock: Clock
  readonly #hooks: WatchdogHooks
  readonly #periodMs: number
  readonly #renewer: Renewer<Watched>
  readonly #watched = new DenseSet<Watched>('watched')
  /** Leases whose grants took long to arrive. */
  #lateGrants: Watched[] = []
  #nextRenewalAt = 0
  #nextTickAt = Number.POSITIVE_INFINITY
  #wakeAt = Number.POSITIVE_INFINITY
  #cancelTimer: (() => void) | undefined

  constructor(clock: Clock, random: Random, scripts: Scripts, terms: WatchdogTerms, hooks: WatchdogHooks) {
    this.#clock = clock
    this.#hooks = hooks
    this.#periodMs = terms.leaseTimeMs / 3
    const { onRefused, onRenewed, onRenewal } = hooks
    const isWanted = (one: Watched): boolean => this.#watched.has(one)
    const renewals = { periodMs: this.#periodMs, batchSize: terms.batchSize }
    this.#renewer = new Renewer(clock, random, scripts, renewals, isWanted, onRefused, onRenewed, onRenewal)
  }

  /** @param isWanted  false: it will be released at once, so not even a late grant is renewed before the next tick */
  watch(lease: Watched, isWanted: boolean, now: number): void {
    if (this.#watched.size === 0) {
      this.#renewNextAt(now + this.#periodMs)
      this.#nextTickAt = now + FIRST_TICK_MS
    }
    this.#watched.add(lease)
    if (isWanted) this.schedule(lease, now)
    else this.inspect(lease, now)
  }

  /** A lease gained a hold, which may be due earlier than the others. */
  schedule(lease: Watched, now = this.#clock.now()): void {
    this.inspect(lease, now)
    // If the grant took long to arrive (a slow link, an unreachable server), the next tick may be too late.
    if (now - lease.leasedAt > this.#periodMs / 2 && isRenewed(lease)) this.#renewSoon(lease)
  }

  /** Leases that one command granted are renewed by one command. */
  #renewSoon(lease: Watched): void {
    if (this.#lateGrants.push(lease) > 1) return
    queueMicrotask(() => {
      const late = this.#lateGrants
      this.#lateGrants = []
      void this.#renewer.renew(late)
    })
  }

  /** The same for a hold that needed no command, as after a hand-off. */
  inspect(lease: Watched, now = this.#clock.now()): void {
    this.threadClient?.watch(lease)
    this.#wakeBy(Math.min(this.#nextRenewalAt, this.#nextTickAt, lease.inspect(now)))
  }

  /**
   * Stops renewing a lease. Call it before its release is sent.
   * @returns whether a renewal by the watchdog thread may still arrive after the release
   */
  unwatch(lease: Watched): boolean {
    this.#watched.delete(lease)
    return this.threadClient?.unwatch(lease) ?? false
  }

  /** After a reconnect: Redis may have lost its data, or this may be another server. Every lease is checked at once. */
  audit(): void {
    this.#inspectAll()
    void this.#renewer.renew([...this.#watched])
  }

  /** Nothing is watched any more. */
  close(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
    this.#wakeAt = Number.POSITIVE_INFINITY
  }

  #onTimer(): void {
    this.delayMs = Math.max(0, this.#clock.now() - this.#wakeAt)
    this.#wakeAt = Number.POSITIVE_INFINITY
    if (this.#watched.size === 0) return
    // Deadlines first: after a pause of this process no late renewal may revive an expired hold.
    let next = this.#inspectAll()
    const now = this.#clock.now()
    if (now >= this.#nextRenewalAt) {
      // A fixed rate, however long the renewals take; missed ticks are skipped.
      this.#renewNextAt(Math.max(this.#nextRenewalAt + this.#periodMs, now + this.#periodMs / 2))
      void this.#renewer.renew([...this.#watched].filter(isRenewed))
    }
    if (now >= this.#nextTickAt) this.#nextTickAt = now + this.#hooks.onTick()
    next = Math.min(next, this.#nextRenewalAt, this.#nextTickAt)
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
    this.threadClient?.heartbeat(at)
  }

  #wakeBy(at: number): void {
    if (at >= this.#wakeAt) return
    this.#cancelTimer?.()
    this.#wakeAt = at
    // The timer does not keep the process alive; the connection does.
    this.#cancelTimer = this.#clock.after(at - this.#clock.now(), () => this.#onTimer(), false)
  }
}

function isRenewed(lease: Watched): boolean {
  return lease.renewableUntil > 0
}
