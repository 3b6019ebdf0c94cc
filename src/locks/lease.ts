// One owner's lease in Redis: its holds, grant, re-entry, release, loss.
import { LateCopies } from '../delivery/late-copies.js'
import { toArray, toInteger } from '../delivery/replies.js'
import { LeaseLostError, type LossReason, NotHeldError } from '../errors.js'
import type { ScriptCall } from '../lua/script.js'
import type { DenseSet } from '../util/collections.js'
import { OneAtATime } from '../util/one-at-a-time.js'
import type { WaitQueue } from '../waiting/wait-queue.js'
import type { Watched } from '../watchdog/renewable.js'
import { formatHolder, type Owner } from '../wire/holder.js'
import type { Named } from '../wire/names.js'
import { AtLeast } from './at-least.js'
import { throwExplained, unlockLost } from './breaking/explain-loss.js'
import { GracefulEnd } from './breaking/graceful-end.js'
import type { ForcedMark } from './breaking/mark.js'
import type { Context } from './context.js'
import { acceptsHandOff, handOver, isRunOver, mayBeHandedOff, releaseForOthers } from './hand-off.js'
import { type HeldLease, Hold, type HoldTerms } from './hold.js'
import { inspectHolder, runScript } from './inspection.js'
import { fieldOf, type LockKind, queueName } from './kinds/lock-kind.js'
import {
  checkExtensible,
  deadlineOf,
  HoldDeadlines,
  type HoldTimes,
  lossReasonOf,
  RequestedLeases,
  timesExtended,
  timesFrom,
  timesRequested,
} from './lease-deadline.js'
import type { LeaseRegistry, LockAttempt } from './lease-registry.js'
import { releaseInBackground, releaseLast, releaseOne } from './release.js'
import { holdEnded } from './reporting/observation.js'

/** Services of a client for code that takes leases. */
export interface LeaseContext extends Context {
  /** Every lease of this client. */
  readonly leases: LeaseRegistry<Lease>
  /** The attempts in flight. */
  readonly attempts: DenseSet<LockAttempt<Lease>>
}

/**
 * One owner's lease of one lock: its holds, one for each re-entry, and the lease that Redis keeps for them. Commands write
 * the hold count and never increment it, so every command is idempotent.
 */
export class Lease implements Watched, HeldLease {
  readonly key: string
  readonly name: string
  readonly holder: string
  readonly owner: Owner
  readonly kind: LockKind
  /** Identifies the lock and its side (read or write) among its owner's claims. */
  readonly field: string
  /** The wait queue of this client for the same lock. */
  readonly queue: string
  readonly context: LeaseContext
  readonly copies: LateCopies
  /** Its places in the sets of leases: see `DenseSet`. */
  registered = -1
  watched = -1
  readonly #holds: HoldDeadlines<Hold>
  leasedAt = 0
  /** From the grant, if the lock is fenced. */
  fencingToken: bigint | undefined
  /** `forceUnlock` of this client is in flight: the reason if a reply shows that the lease is gone. */
  isBeingForced = false
  #gracefulEnd: GracefulEnd | undefined
  readonly #joined: Lease | undefined
  /** Callers that are about to take another lock as the same owner: to read inside this write. */
  joining = 0
  /** How often it was handed off. A call chain that was inside it before a hand-off is outside now. */
  handOffs = 0
  /** When the command that won was sent, on the clock: Redis granted it then or later. */
  grantedAt = 0
  /** By when Redis had granted it, on the clock. */
  #grantedBy = 0
  #atLeast: AtLeast | undefined
  readonly #requested = new RequestedLeases()
  /** Each command has to know the hold count that it starts from. */
  readonly #commands = new OneAtATime()

  /** @param joined  the write of the same owner that this reads inside of: in Redis it lasts at least as long */
  constructor(
    context: LeaseContext,
    kind: LockKind,
    { key, name, queue }: Named & { readonly queue?: string },
    owner: Owner,
    joined?: Lease,
  ) {
    this.context = context
    this.copies = new LateCopies(context)
    this.kind = kind
    this.key = key
    this.name = name
    this.owner = owner
    this.#joined = joined
    this.#holds = new HoldDeadlines(joined ? joined.#holds : undefined)
    this.holder = kind.holder(formatHolder(context.clientId, owner.id))
    this.field = fieldOf(kind, key)
    this.queue = queue ?? queueName(kind, key)
  }

  get ownerId(): number {
    return this.owner.id
  }

  get count(): number {
    return this.#holds.size
  }

  /** When the last lease that was requested ends at the latest, on the clock. */
  get leaseEndsAt(): number {
    return this.#requested.endAt
  }

  /** Whether any hold is certain to be valid now. */
  get isLive(): boolean {
    for (const hold of this.#holds.keys()) this.expireIfDue(hold)
    return this.#holds.size > 0
  }

  /** The hold that was taken last, of those that are still to be released. */
  get latest(): Hold | undefined {
    return [...this.#holds.keys()].findLast(({ isOpen }) => isOpen)
  }

  get outermost(): Hold | undefined {
    return this.#holds.keys().next().value
  }

  /**
   * Registers a grant: the command that was sent at `sentAt` won. If this throws, the caller has to release the lock.
   * @param isWanted  false: it will be released at once, so it needs no renewal
   * @throws {LeaseLostError} its lease ended before the reply arrived, or Redis granted the lock to another owner of this
   *   client since
   * @throws {ClientClosedError} the client was closed meanwhile
   */
  begin(terms: HoldTerms, sentAt: number, isWanted = true): Hold {
    const times = timesRequested(sentAt, terms, this.context.watchdogTimeoutMs)
    this.context.assertOpen(this.name)
    const now = this.context.clock.now()
    if (now >= deadlineOf(times)) throw this.#lossError('expired')
    if (!this.context.leases.displace(this, sentAt)) throw this.#lossError('gone')
    this.leasedAt = sentAt
    this.grantedAt = sentAt
    this.#grantedBy = now
    this.context.leases.add(this)
    const hold = this.#add(terms, times)
    this.context.watchdog.watch(this, isWanted, now)
    return hold
  }

  /**
   * One attempt to take the lock again for the same owner; undefined if the hold to re-enter has ended.
   * @param handOffs  as it was when the caller entered that hold
   */
  async reenter(terms: HoldTerms, handOffs: number): Promise<Hold | undefined> {
    return await this.#commands.run(async () => {
      if (!this.isLive || this.handOffs !== handOffs) return undefined
      const sentAt = this.context.clock.now()
      const leaseTimeMs = terms.leaseTimeMs ?? this.context.watchdogTimeoutMs
      this.requesting(leaseTimeMs, sentAt)
      const call = this.kind.reenter(this.key, this.holder, leaseTimeMs, this.count + 1)
      const times = timesRequested(sentAt, terms, this.context.watchdogTimeoutMs)
      const reply = this.#requested.reentering(times, this.context.scripts.run(call))
      if (toInteger(await reply) !== 1) this.markLost()
      this.leasedAt = sentAt
      // The outer hold may have been lost meanwhile.
      if (!this.isLive) throw this.#lossError('gone')
      const hold = this.#add(terms, times)
      this.expireIfDue(hold)
      this.context.watchdog.schedule(this)
      if (hold.lostError) throw hold.lostError
      return hold
    })
  }

  keepAtLeast(hold: Hold): void {
    // A re-entry is part of a run that has already started.
    if (this.count !== 1) return
    const atLeastMs = this.#holds.get(hold)?.terms.atLeastMs
    this.#atLeast = atLeastMs === undefined ? undefined : new AtLeast(this, this.#grantedBy, atLeastMs)
  }

  /**
   * Gives a hold a lease of its own from now; the watchdog stops renewing it.
   * @throws {LeaseLostError} the hold was lost
   */
  async lease(hold: Hold, leaseTimeMs: number, operation: 'lock' | 'extend' = 'lock'): Promise<void> {
    await this.#commands.run(async () => {
      const times = this.#holds.get(hold)
      if (operation === 'extend' && times) checkExtensible(times.terms, this.name)
      const sentAt = this.context.clock.now()
      if (times) {
        this.requesting(leaseTimeMs, sentAt)
        const call = this.renewalFor(leaseTimeMs)
        const renewed = await runScript(this.context, this, operation, call, (reply) => toInteger(toArray(reply)[0]))
        if (!renewed) this.markLost()
      }
      if (!times || !hold.isLive) throw hold.lostError ?? this.notHeld('the hold has ended')
      this.#holds.set(hold, timesExtended(times, sentAt, leaseTimeMs))
      this.context.watchdog.schedule(this)
    })
  }

  /** Ends one hold; the last one hands the lease off or releases the lock. */
  release(hold: Hold): Promise<void> {
    // The last hold is not held any more as soon as its release is sent, so that no other command of the lease follows.
    const now = this.context.clock.now()
    const times = this.#holds.get(hold)
    const isLast = this.#holds.size === 1 && this.#commands.isIdle
    if (times && isLast && !this.#isOver(times, now)) return this.#release(hold, now) ?? Promise.resolve()
    return this.#commands.run(() =>
      hold.isLive ? this.#release(hold, this.context.clock.now()) : unlockLost(this, hold, this.#gracefulEnd),
    )
  }

  #release(hold: Hold, now: number): Promise<void> | void {
    if (this.#holds.size > 1) return this.#releaseOne(hold)
    if (this.#atLeast?.isRunning) {
      this.end(hold, 'released')
      holdEnded(hold, 'released')
      return this.#atLeast.leaveToLease()
    }
    const queue = this.kind.isHandedOff ? this.context.waitQueues.at(this.queue) : undefined
    if (!queue) return this.#releaseLast(hold, now)
    if (mayBeHandedOff(this, this.#holds.get(hold) as HoldTimes) && queue.offer(this)) return
    return isRunOver(this)
      ? releaseForOthers(queue, () => this.#releaseLast(hold, now, queue))
      : this.#releaseLast(hold, now, queue)
  }

  /**
   * Ends the last hold, and begins the next one on the same lease. Redis is not involved: it keeps the holder and the lease,
   * and the watchdog keeps renewing it.
   * @returns undefined if the waiter cannot take it over
   */
  handOffTo(terms: HoldTerms): Hold | undefined {
    const [released] = this.#holds
    if (!released || !acceptsHandOff(terms)) return undefined
    const [from, { leasedUntil }] = released
    this.handOffs++
    const hold = this.#add(terms, timesFrom(this.context.clock.now(), terms, leasedUntil))
    // It was released in time, however late it is now.
    this.end(from, 'released')
    this.expireIfDue(hold)
    this.context.watchdog.inspect(this)
    holdEnded(from, 'handed_off')
    return hold
  }

  /** Ends all holds but leaves the lease in Redis: another client adopts it. */
  handOver(): void {
    handOver(this, [...this.#holds.keys()])
  }

  /** Every hold is lost. */
  loseAll(reason: LossReason): void {
    // The part that is left would keep others out until its lease ends. A client that closes releases everything itself.
    if (this.kind.isDivisible && this.count > 0 && reason !== 'closed') this.releaseInBackground()
    for (const hold of [...this.#holds.keys()]) this.#lose(hold, reason)
  }

  /** An operator ends every hold; the lock is released when their work has ended, or the grace of the mark is over. */
  endGracefully(mark: ForcedMark, isFreed = false): void {
    this.#gracefulEnd = new GracefulEnd(this, this.#holds.keys(), mark, isFreed)
    this.loseAll('forced')
  }

  /** A command that requests a lease is about to be sent: from now until the end of that lease the lock may be taken. */
  requesting(leaseTimeMs: number, sentAt: number): void {
    this.#requested.add(leaseTimeMs, sentAt)
    this.#joined?.requesting(leaseTimeMs, sentAt)
  }

  /** Frees the lock in the background, until the last lease that was requested has ended. */
  releaseInBackground(): void {
    this.owner.retire(this.field)
    if (this.#atLeast?.isRunning) void this.#atLeast.leaveToLease()
    else releaseInBackground(this)
  }

  async fetchHoldCount(): Promise<number> {
    const holdCount = await inspectHolder(this.context, this.kind, this, this.holder)
    if (holdCount === undefined) this.markLost()
    return this.count > 0 ? Math.max(holdCount ?? 0, this.count) : 0
  }

  notHeld(why: string): NotHeldError {
    const what = `${this.kind.noun} ${JSON.stringify(this.name)} is not held by ${this.holder}`
    return new NotHeldError(`${what}: ${why}`, this.name)
  }

  remainingMs(hold: Hold): number {
    const times = this.#holds.get(hold)
    return times ? Math.max(0, Math.floor(deadlineOf(times) - this.context.clock.now())) : 0
  }

  expireIfDue(hold: Hold): void {
    const times = this.#holds.get(hold)
    if (times && this.#isOver(times, this.context.clock.now())) this.#lose(hold, lossReasonOf(times))
  }

  // For the watchdog.

  get renewableUntil(): number {
    return this.#holds.renewableUntil
  }

  renewal(now: number): ScriptCall {
    const owedMs = this.#requested.owedMs(this.#holds.values(), this.context.watchdogTimeoutMs, now)
    if (!this.#requested.isOverlong) return this.renewalFor(owedMs)
    const leaseTimeMs = Math.max(owedMs, Math.ceil(this.#atLeast?.leftMs ?? 0))
    return this.kind.renewCapped(this.key, this.holder, leaseTimeMs, Math.ceil(this.#requested.longestMs))
  }

  renewalFor(leaseTimeMs: number): ScriptCall {
    return this.kind.renew(this.key, this.holder, leaseTimeMs)
  }

  renewed(sentAt: number, leftMs?: number): void {
    this.leasedAt = sentAt
    if (this.renewableUntil > 0) this.requesting(this.context.watchdogTimeoutMs, sentAt)
    if (leftMs !== undefined) this.#requested.checkLeft(leftMs)
    this.#holds.renew(sentAt, this.context.watchdogTimeoutMs)
  }

  markLost(): void {
    this.loseAll(this.isBeingForced ? 'forced' : 'gone')
  }

  inspect(now: number): number {
    let next = Number.POSITIVE_INFINITY
    for (const [hold, times] of this.#holds) {
      if (this.#isOver(times, now)) {
        this.#lose(hold, lossReasonOf(times))
        continue
      }
      if (now >= times.warnAt) {
        times.warnAt = Number.POSITIVE_INFINITY
        this.context.emit('longHold', { hold: hold.callerHold, heldMs: Math.round(now - times.grantedAt) })
      }
      next = Math.min(next, deadlineOf(times), times.warnAt)
    }
    return next
  }

  /** Whether its deadline has passed, also considering renewals by the watchdog thread and by nested holds. */
  #isOver(times: HoldTimes, now: number): boolean {
    if (now < deadlineOf(times)) return false
    this.context.watchdog.threadClient?.catchUp(this)
    this.#holds.extendByNested(times)
    return now >= deadlineOf(times)
  }

  #add(terms: HoldTerms, times: HoldTimes): Hold {
    const hold = new Hold(this, terms.label)
    hold.grantedAt = times.grantedAt
    this.#holds.set(hold, times)
    return hold
  }

  async #releaseOne(hold: Hold): Promise<void> {
    this.end(hold, 'released')
    const sentAt = this.context.clock.now()
    const owedMs = this.#requested.owedMs(this.#holds.values(), this.context.watchdogTimeoutMs, sentAt)
    const isHeld = await releaseOne(this, owedMs, this.count)
    if (isHeld === false) {
      this.#lose(hold, 'gone')
      this.markLost()
      throw this.#lossError('gone')
    }
    if (isHeld) this.renewed(sentAt)
    holdEnded(hold, 'released')
  }

  /** @param queue  the waiters of this client for the same lock */
  #releaseLast(hold: Hold, now: number, queue?: WaitQueue): Promise<void> {
    const { leasedUntil } = this.#holds.get(hold) as HoldTimes
    // From here on nothing renews it, so the lease ends it whatever becomes of the release.
    this.end(hold, 'released', now)
    return releaseLast(this, hold, now, leasedUntil, queue)
  }

  /** Redis did not know the holder when the last hold was released. */
  releasedLate(hold: Hold): Promise<never> {
    this.#lose(hold, 'gone')
    return throwExplained(this, hold, this.#lossError('gone'))
  }

  #lossError(reason: LossReason): LeaseLostError {
    return new LeaseLostError(this.name, this.holder, reason, this.kind.noun)
  }

  #lose(hold: Hold, reason: LossReason): void {
    const error = this.end(hold, reason)
    this.context.waitQueues.at(this.queue)?.wake() // nobody will release it
    if (!error) return
    this.context.emit('lost', { hold: hold.callerHold, error })
    holdEnded(hold, 'lost', error)
  }

  end(hold: Hold, how: 'released' | LossReason, now = this.context.clock.now()): LeaseLostError | undefined {
    this.context.watchdog.threadClient?.catchUp(this)
    if (how !== 'released') this.owner.retire(this.field) // its late `unlock()` must not free the owner's next lease
    const leaseTimeMs = this.#holds.end(hold, now)?.terms.leaseTimeMs
    if (this.#holds.size === 0) {
      // A renewal by the watchdog thread may be in flight, and must not extend a later lease of the same owner.
      if (this.context.watchdog.unwatch(this)) this.owner.retire(this.field)
      this.context.leases.delete(this)
    } else {
      this.context.watchdog.threadClient?.watch(this)
    }
    return hold.end(how, undefined, how === 'released' ? undefined : { leaseTimeMs, forced: this.#gracefulEnd?.forced })
  }
}
