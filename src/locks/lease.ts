import { NoReplyError, toArray, toInteger } from '../delivery/replies.js'
import {
  ConfigError,
  clientWarning,
  LeaseLostError,
  type LossReason,
  NotHeldError,
  OutcomeUnknownError,
} from '../errors.js'
import type { ScriptCall } from '../lua/script.js'
import type { DenseSet } from '../util/collections.js'
import type { WaitQueue } from '../waiting/wait-queue.js'
import type { Watched } from '../watchdog/renewable.js'
import { type Owner, spellHolder } from '../wire/holder.js'
import type { Context } from './context.js'
import { type HeldLease, Hold, type HoldTerms } from './hold.js'
import { ask, inspect } from './inspection.js'
import { type LockKind, queueName } from './kinds/lock-kind.js'
import type { LeaseRegistry } from './lease-registry.js'
import { deadlineOf, driftMs, outlastNested, reasonAt, type Times, timesFrom } from './lease-times.js'
import { runInTurnQueue, settle, turnQueueOf } from './turn-scripts.js'

/** By how much Redis may keep a lease for longer than it was asked to before its clock is taken to have been set back. */
const OVERLONG_MS = 1_000

/** How long to leave a lock to others who listen before this client asks for it again. */
const OTHERS_FIRST_MS = 10

/** One attempt to take a lock: from when it is sent until its caller has the outcome. */
export interface LockAttempt {
  readonly lease: Lease
  /** It took the lock. */
  hasWon: boolean
  /** What it took was force-unlocked. */
  isForced: boolean
}

/** What a client lends to what takes leases. */
export interface LeaseContext extends Context {
  /** All that this client holds. */
  readonly leases: LeaseRegistry<Lease>
  /** What asks Redis for a lock right now. */
  readonly attempts: DenseSet<LockAttempt>
}

/**
 * What one owner has of one lock: its holds (one for each re-entry), and what Redis is told about them. The hold count is
 * written, never incremented, so every command may run twice; commands of one lease go one after the other.
 */
export class Lease implements Watched, HeldLease {
  readonly lockName: string
  readonly holder: string
  readonly owner: Owner
  readonly kind: LockKind
  /** What names this owner's field of this lock, to claim it. */
  readonly field: string
  readonly context: LeaseContext
  readonly #holds = new Map<Hold, Times>()
  leasedAt = 0
  /** What Redis gave with the grant. */
  fencingToken: bigint | undefined
  /** Whether an attempt without an answer came before the one that won: a copy of it may arrive after the release. */
  mayHaveLateCopies = false
  /** This client is about to force it: should the answer to something else be here first, that is why it is gone. */
  isBeingForced = false
  /** Callers who are about to take something else as the same owner: to read inside this write. */
  joining = 0
  /** How often it went from one caller of this client to the next. What was inside it before is outside now. */
  handOffs = 0
  /** When Redis granted it, on the clock. */
  #grantedAt = 0
  /** When the last lease that was asked for ends at the latest, on the clock. */
  #leaseEndsAt = 0
  /** The longest lease that was asked for, ms. */
  #longestLeaseMs = 0
  /** Redis would keep it for longer than that: its clock was set back, and the next renewal makes good for it. */
  #isOverlong = false
  /** Those whose turn comes when the command on its way is answered; undefined: none is. */
  #turns: (() => void)[] | undefined

  constructor(context: LeaseContext, kind: LockKind, lockName: string, owner: Owner) {
    this.context = context
    this.kind = kind
    this.lockName = lockName
    this.owner = owner
    this.holder = kind.holder(spellHolder(context.clientId, owner.id))
    this.field = fieldOf(kind, lockName)
  }

  get programName(): string | undefined {
    return this.context.nameMapper?.unmap(this.lockName)
  }

  /** Where those of this client stand who wait for the same. */
  get queue(): string {
    return queueName(this.kind, this.lockName)
  }

  get permitIds(): readonly string[] | undefined {
    return this.kind.permitIds
  }

  get noun(): string {
    return this.kind.noun
  }

  get tracesHolds(): boolean {
    return this.kind.tracesHolds
  }

  get ownerId(): number {
    return this.owner.id
  }

  get count(): number {
    return this.#holds.size
  }

  /** Whether any of its holds is surely valid now. */
  get isLive(): boolean {
    for (const hold of this.#holds.keys()) this.expireIfDue(hold)
    return this.#holds.size > 0
  }

  /** The hold that was taken last. */
  get latest(): Hold | undefined {
    return this.isLive ? [...this.#holds.keys()].at(-1) : undefined
  }

  /**
   * Take it: the command that was sent at `sentAt` won. If this throws, the caller has to give it back.
   * @param isWanted  false: it will be released at once, so it needs no renewal
   * @throws {LeaseLostError} its lease was over before the answer was here, or another one of this client was granted since
   * @throws {ClientClosedError} the client was closed meanwhile
   */
  begin(terms: HoldTerms, sentAt: number, isWanted = true): Hold {
    const times = this.#timesOf(terms, sentAt)
    this.context.assertOpen(this.lockName)
    if (this.context.clock.now() >= deadlineOf(times))
      throw new LeaseLostError(this.lockName, this.holder, 'expired', this.noun)
    this.#displaceOthers(sentAt)
    this.leasedAt = sentAt
    this.#grantedAt = sentAt
    this.context.leases.add(this)
    const hold = this.#add(terms, times)
    this.context.watchdog.watch(this, isWanted)
    return hold
  }

  /** Redis grants it to one at a time: what this client was granted earlier is no longer there, and is lost at once. */
  #displaceOthers(sentAt: number): void {
    const { context, kind, lockName, owner } = this
    for (const other of context.leases.named(lockName)) {
      if (other.owner === owner || !kind.excludes(other.kind) || !other.isLive) continue
      if (other.#grantedAt > sentAt) throw new LeaseLostError(lockName, this.holder, 'gone', this.noun)
      other.markLost()
    }
  }

  /**
   * One attempt to take the lock once more for the same owner; undefined if what was to be re-entered has ended.
   * @param handOffs  when the caller was inside it
   */
  async reenter(terms: HoldTerms, handOffs: number): Promise<Hold | undefined> {
    return await this.#inTurn(async () => {
      if (!this.isLive || this.handOffs !== handOffs) return undefined
      const sentAt = this.context.clock.now()
      const leaseTimeMs = this.#leaseOf(terms)
      this.requesting(leaseTimeMs, sentAt)
      const call = this.kind.reenter(this.lockName, this.holder, leaseTimeMs, this.count + 1)
      if (toInteger(await this.context.scripts.run(call)) !== 1) this.markLost()
      this.leasedAt = sentAt
      // The hold that was re-entered may have been lost on the way.
      if (!this.isLive) throw new LeaseLostError(this.lockName, this.holder, 'gone', this.noun)
      const hold = this.#add(terms, this.#timesOf(terms, sentAt))
      this.expireIfDue(hold)
      this.context.watchdog.schedule(this)
      if (hold.lostError) throw hold.lostError
      return hold
    })
  }

  /**
   * Let a hold that is renewed last for a lease of its own from now on, and no longer be renewed for its sake.
   * @throws {LeaseLostError} it was lost
   */
  async lease(hold: Hold, leaseTimeMs: number): Promise<void> {
    await this.#inTurn(async () => {
      const times = this.#holds.get(hold)
      const sentAt = this.context.clock.now()
      if (times) {
        this.requesting(leaseTimeMs, sentAt)
        const call = this.renewalFor(leaseTimeMs)
        const renewed = await ask(this.context, this.lockName, 'lock', call, (reply) => toInteger(toArray(reply)[0]))
        if (!renewed) this.markLost()
      }
      if (!times || !hold.isLive) throw hold.lostError ?? this.notHeld('the hold has ended')
      this.#holds.set(hold, this.#timesOf({ ...times.terms, leaseTimeMs }, sentAt))
      this.context.watchdog.schedule(this)
    })
  }

  /** End one hold; the last one frees the lock. */
  release(hold: Hold): Promise<void> {
    return this.#inTurn(() => this.#release(hold))
  }

  #release(hold: Hold): Promise<void> | void {
    if (!hold.isLive) {
      const { lostError } = hold
      if (!lostError) return
      // Redis may have the key for a while longer (a renewal whose answer never came): free it for the others.
      const mayBeThere = lostError.reason === 'expired' || lostError.reason === 'maxHold'
      if (mayBeThere && this.count === 0) this.settle()
      throw lostError
    }
    const queue = this.kind.isHandedOff ? this.context.waitQueues.at(this.queue) : undefined
    if (this.count > 1) return this.#stepDown(hold)
    if (queue && this.#mayBeHandedOff(hold) && queue.offer(this)) return
    return queue && this.#isRunOver ? this.#freeForOthers(hold, queue) : this.#free(hold, queue)
  }

  /**
   * Another caller of this client goes on with it, in the place of the one who lets it go. Redis is not told: there it stays
   * with the same holder, on the lease that it has, renewed as before.
   * @returns undefined if that is not what the caller asked for
   */
  handOffTo(terms: HoldTerms): Hold | undefined {
    const [released] = this.#holds
    if (!released || terms.leaseTimeMs !== undefined) return undefined
    const [from, { leasedUntil }] = released
    this.handOffs++
    const hold = this.#add(terms, timesFrom(this.context.clock.now(), terms, leasedUntil))
    // It was released in time, however late it is by now.
    this.end(from, 'released')
    this.expireIfDue(hold)
    this.context.watchdog.look(this)
    return hold
  }

  /** End all holds without telling Redis: another client goes on with them. */
  handOver(): void {
    if (!this.kind.adopt) {
      throw new ConfigError('handOver', undefined, `a lock that can be adopted, and a ${this.kind.title} cannot`, this)
    }
    this.owner.retire(this.field) // or it would take the lock beside its successor
    for (const hold of [...this.#holds.keys()]) this.end(hold, 'released')
  }

  /** Lose all holds. */
  loseAll(reason: LossReason): void {
    // What is left of it would keep others out until its lease ends.
    if (this.kind.isDivisible && this.count > 0 && (reason === 'gone' || reason === 'forced')) this.settle()
    for (const hold of [...this.#holds.keys()]) this.#lose(hold, reason)
  }

  /** A command is about to ask for a lease: from now on the lock may be taken until this lease ends. */
  requesting(leaseTimeMs: number, sentAt: number): void {
    this.#leaseEndsAt = Math.max(this.#leaseEndsAt, sentAt + leaseTimeMs)
    this.#longestLeaseMs = Math.max(this.#longestLeaseMs, leaseTimeMs)
  }

  /** Free the lock in the background, as long as the last lease asked for may last. */
  settle(): void {
    this.owner.retire(this.field)
    settle(this.context, this.kind, this.lockName, this.holder, this.#leaseEndsAt)
  }

  async askHoldCount(): Promise<number> {
    const { holders, partial = [] } = await inspect(this.context, this.kind, this.lockName)
    const mine = holders.find(({ holder }) => holder === this.holder)
    if (!mine || partial.includes(mine.holder)) this.markLost()
    // Never below what Redis knows, but for a kind that keeps no count there.
    return mine && this.count > 0 ? Math.max(mine.holdCount, this.count) : 0
  }

  notHeld(why: string): NotHeldError {
    return new NotHeldError(
      `${this.noun} ${JSON.stringify(this.lockName)} is not held by ${this.holder}: ${why}`,
      this.lockName,
    )
  }

  remainingMs(hold: Hold): number {
    const times = this.#holds.get(hold)
    return times ? Math.max(0, Math.floor(deadlineOf(times) - this.context.clock.now())) : 0
  }

  expireIfDue(hold: Hold): void {
    const times = this.#holds.get(hold)
    if (times && this.#isOver(times, this.context.clock.now())) this.#lose(hold, reasonAt(times))
  }

  // What the watchdog calls.

  get renewableUntil(): number {
    let until = 0
    for (const { terms, maxHoldAt } of this.#holds.values()) {
      if (terms.leaseTimeMs === undefined) until = Math.max(until, maxHoldAt)
    }
    return until
  }

  renewal(now: number): ScriptCall {
    const owedMs = this.#leaseOwedMs(now)
    if (!this.#isOverlong) return this.renewalFor(owedMs)
    return this.kind.renewCapped(this.lockName, this.holder, owedMs, Math.ceil(this.#longestLeaseMs))
  }

  renewalFor(leaseTimeMs: number): ScriptCall {
    return this.kind.renew(this.lockName, this.holder, leaseTimeMs)
  }

  /** What its holds are entitled to, ms from `now`. */
  #leaseOwedMs(now: number): number {
    let owedMs = 1
    for (const { terms, grantedAt, leasedUntil } of this.#holds.values()) {
      // Not by way of an instant: a sum of fractions would be a millisecond too long when it is rounded up.
      const leftMs = terms.leaseTimeMs === undefined ? this.#leaseOf(terms) : grantedAt + terms.leaseTimeMs - now
      // It may last as long as a nested hold did.
      owedMs = Math.max(owedMs, leftMs, leasedUntil - now)
    }
    return Math.ceil(owedMs)
  }

  renewed(sentAt: number, leftMs?: number): void {
    this.leasedAt = sentAt
    if (this.renewableUntil > 0) this.requesting(this.context.watchdogTimeoutMs, sentAt)
    if (leftMs !== undefined) this.#isOverlong = leftMs > this.#longestLeaseMs + OVERLONG_MS
    for (const times of this.#holds.values()) {
      if (times.terms.leaseTimeMs !== undefined) continue
      times.leasedUntil = Math.max(times.leasedUntil, this.#leasedUntil(times.terms, sentAt))
    }
  }

  markLost(): void {
    this.loseAll(this.isBeingForced ? 'forced' : 'gone')
  }

  inspect(now: number): number {
    let next = Number.POSITIVE_INFINITY
    for (const [hold, times] of this.#holds) {
      if (this.#isOver(times, now)) {
        this.#lose(hold, reasonAt(times))
        continue
      }
      if (now >= times.warnAt) {
        times.warnAt = Number.POSITIVE_INFINITY
        this.context.emit('longHold', { hold, heldMs: Math.round(now - times.grantedAt) })
      }
      next = Math.min(next, deadlineOf(times), times.warnAt)
    }
    return next
  }

  /** Others were kept waiting long enough while it went from one caller of this client to the next. */
  get #isRunOver(): boolean {
    const { clock, maxHandOffs, maxHandOffMs } = this.context
    return this.handOffs >= maxHandOffs || clock.now() - this.#grantedAt >= maxHandOffMs
  }

  /** Whether the next caller may go on where this hold ends. */
  #mayBeHandedOff(hold: Hold): boolean {
    const { clock, watchdogTimeoutMs } = this.context
    const { terms, leasedUntil } = this.#holds.get(hold) as Times
    const now = clock.now()
    // What the watchdog could not renew in time had better be asked for anew; and a longer lease that a re-entry asked for
    // would outlive the next one.
    const isOurs = terms.leaseTimeMs === undefined && this.#leaseEndsAt <= now + watchdogTimeoutMs
    const isFresh = isOurs && leasedUntil - now > watchdogTimeoutMs / 3
    return isFresh && !this.#isRunOver && !this.isBeingForced && this.joining === 0 && this.owner.hasOnly(this.field)
  }

  /** Whether its time is over, also if it was renewed while this thread was busy. */
  #isOver(times: Times, now: number): boolean {
    if (now < deadlineOf(times)) return false
    this.context.watchdog.threadClient?.catchUp(this)
    outlastNested(times, this.#holds.values())
    return now >= deadlineOf(times)
  }

  #leaseOf(terms: HoldTerms): number {
    return terms.leaseTimeMs ?? this.context.watchdogTimeoutMs
  }

  #timesOf(terms: HoldTerms, sentAt: number): Times {
    return timesFrom(sentAt, terms, this.#leasedUntil(terms, sentAt))
  }

  #leasedUntil(terms: HoldTerms, sentAt: number): number {
    const leaseTimeMs = this.#leaseOf(terms)
    return sentAt + leaseTimeMs - driftMs(leaseTimeMs)
  }

  #add(terms: HoldTerms, times: Times): Hold {
    const hold = new Hold(this, terms.label)
    this.#holds.set(hold, times)
    return hold
  }

  async #stepDown(hold: Hold): Promise<void> {
    this.end(hold, 'released')
    const { clock, scripts } = this.context
    const sentAt = clock.now()
    try {
      const call = this.kind.releaseOne(this.lockName, this.holder, this.#leaseOwedMs(sentAt), this.count)
      if (toInteger(await scripts.run(call)) === 1) return this.renewed(sentAt)
    } catch {
      // The owner goes on holding, with a count in Redis that is too high until its next command writes the right one.
      // The last release deletes the field whatever the count, so nothing depends on this command.
      return
    }
    this.#lose(hold, 'gone')
    this.markLost()
    throw new LeaseLostError(this.lockName, this.holder, 'gone', this.noun)
  }

  /** @param queue  of those in this client who wait for it */
  async #free(hold: Hold, queue?: WaitQueue): Promise<void> {
    const { clock, scripts, backgroundRetries: settlements, commandTimeoutMs } = this.context
    const { leasedUntil } = this.#holds.get(hold) as Times
    // From here on nothing renews it, whatever becomes of the release: then the lease ends it.
    this.end(hold, 'released')
    const reconnects = scripts.reconnects
    let failures = 0
    let heard: number | null
    let isInLine = false
    try {
      const { kind, lockName, holder } = this
      const inLine = turnQueueOf(this.context, kind)?.release(lockName, holder, queue?.onRelease(this.handOffs > 0))
      isInLine = inLine !== undefined
      const free = (call: ScriptCall): Promise<number | null> =>
        settlements.retryUntilAnswered(call, commandTimeoutMs, () => failures++)
      const otherwise = (): ScriptCall => {
        failures = 0 // what was refused did not run
        return kind.release(lockName, holder)
      }
      heard = await runInTurnQueue(this.context, inLine, otherwise, free)
    } catch (error) {
      this.settle()
      throw error instanceof NoReplyError ? new OutcomeUnknownError(this.lockName, 'unlock', error) : error
    }
    const mayHaveRunBefore = failures > 0 || scripts.reconnects !== reconnects
    // The critical section was over in time; only its release arrived after the lease, when others may hold the lock already.
    const hasRunOut = clock.now() >= leasedUntil
    if (heard === null && !mayHaveRunBefore && !hasRunOut) {
      this.#lose(hold, 'gone')
      throw new LeaseLostError(this.lockName, this.holder, 'gone', this.noun)
    }
    if (this.mayHaveLateCopies) this.settle()
    else if (mayHaveRunBefore) this.owner.retire(this.field)
    else this.owner.free(this.field)
    if (heard === -1) this.context.emit('warning', publishRefused(this.lockName))
    queue?.released(heard ?? 0)
    // Clients of this process whose turn it is read that in the same poll, and would always come after a caller that goes on.
    if (isInLine && (heard ?? 0) > (queue?.ears ?? 0)) await new Promise<void>((resolve) => clock.afterPoll(resolve))
  }

  /** Free it, and leave it to others for a moment if they listen. */
  async #freeForOthers(hold: Hold, queue: WaitQueue): Promise<void> {
    const goOn = queue.standBack()
    let isFree = false
    try {
      await this.#free(hold, queue)
      isFree = true
    } finally {
      goOn(isFree && queue.hasRivals ? OTHERS_FIRST_MS : 0)
    }
  }

  #lose(hold: Hold, reason: LossReason): void {
    this.owner.retire(this.field)
    const error = this.end(hold, reason)
    this.context.waitQueues.at(this.queue)?.wake() // nobody will release it
    if (error) this.context.emit('lost', { hold, error })
  }

  end(hold: Hold, how: 'released' | LossReason): LeaseLostError | undefined {
    this.#holds.delete(hold)
    if (this.#holds.size === 0) {
      // A renewal that the thread sent may still be on its way, and must not find another hold of the same owner.
      if (this.context.watchdog.forget(this)) this.owner.retire(this.field)
      this.context.leases.delete(this)
    } else {
      this.context.watchdog.threadClient?.watch(this)
    }
    return hold.end(how)
  }

  /** One command of this lease after the other, so that each one knows the count it starts from. */
  async #inTurn<T>(action: () => Promise<T> | T): Promise<T> {
    if (this.#turns) await new Promise<void>((resolve) => this.#turns?.push(resolve))
    this.#turns ??= []
    const turns = this.#turns
    try {
      return await action()
    } finally {
      const next = turns.shift()
      if (next) next()
      else this.#turns = undefined
    }
  }
}

/** A reader and a writer of one lock have a field each. */
export function fieldOf(kind: LockKind, lockName: string): string {
  return `${kind.holder('')}/${lockName}`
}

/** @param name  of what was released */
export function publishRefused(name: string): Error {
  return clientWarning(
    'PUBLISH_REFUSED',
    `Redis released ${JSON.stringify(name)} but refused to wake its waiters, who now wait for the lease or a poll: ` +
      'allow PUBLISH and the channels &redisson_* and &holdfast_inbox:* in the ACL of this user',
  )
}
