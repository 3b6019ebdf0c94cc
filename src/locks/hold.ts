// A counted hold on a lease: assertHeld, signal, unlock.
import { LeaseLostError, type LossDetails, type LossReason, type NotHeldError } from '../errors.js'
import { mayHaveManyListeners } from '../platform.js'
import { defined } from '../util/defined.js'
import { checkDuration, MIN_LEASE_MS } from '../util/validate.js'
import { type Inspect, SHOWN } from '../util/visible.js'
import type { Owners } from '../wire/holder.js'
import { runOutside } from './call-chain.js'

/** The terms on which a hold was taken. */
export interface HoldTerms {
  /** Lease of its own, ms, from the grant; undefined: renewed by the watchdog. */
  readonly leaseTimeMs: number | undefined
  readonly maxHoldMs: number | undefined
  readonly warnAfterMs: number | undefined
  readonly label: string | undefined
  /** Once its work has started, the lock stays taken for at least this long from the grant, ms, whatever becomes of it. */
  readonly atLeastMs?: number | undefined
}

/** The part of the client of a hold that call chains need. */
export interface HoldingClient {
  readonly owners: Owners
  /** Whether a call re-enters a hold that its call chain is inside of. */
  readonly implicitReentry: boolean
}

/** The lease behind a hold. */
export interface HeldLease {
  readonly context: HoldingClient
  /** The program's name of the lock. */
  readonly name: string
  /** The name in Redis; undefined: a hold on several locks. */
  readonly key: string | undefined
  readonly holder: string
  readonly ownerId: number
  readonly count: number
  readonly fencingToken: bigint | undefined
  readonly kind: {
    /** Its name in messages. */
    readonly title: string
    /** The thing that is held, at the beginning of a sentence. */
    readonly noun: string
    readonly permitIds?: readonly string[] | undefined
    /** Whether its holds keep the stack of the call that took them. */
    readonly tracesHolds?: boolean
  }
  /** How often it was handed off. */
  readonly handOffs?: number
  /** The members of a hold on several locks. */
  readonly members?: readonly Hold[]
  /** For how long the hold is certain to be valid unless renewed, ms. */
  remainingMs(hold: Hold): number
  /** Ends the hold if its deadline has passed. */
  expireIfDue(hold: Hold): void
  /** The hold count of this owner according to Redis. If Redis does not know the holder, the holds are lost. */
  fetchHoldCount(): Promise<number>
  release(hold: Hold): Promise<void>
  /** Gives the hold a lease of its own from now, or extends the one that it has. */
  lease(hold: Hold, leaseTimeMs: number, operation: 'extend'): Promise<void>
  /** The work starts: from here on the lock stays taken for the hold's `atLeastMs`. */
  keepAtLeast(hold: Hold): void
  handOver(): void
  notHeld(why: string): NotHeldError
}

/**
 * One hold of a lock, as a value: `lock()` returns it, and any code that has it may release it.
 *
 * A hold knows its deadline: the monotonic time at which the winning command was sent, plus the lease, minus a small margin
 * for clocks that run at different speeds. After the deadline, or once Redis reports that the holder is gone, the hold is
 * lost for good: `assertHeld()` throws from the first turn of the event loop after a pause, `signal` aborts, and the client
 * emits `lost`. No late renewal revives it.
 */
export class Hold {
  /** The `label` option of the call that took it. */
  readonly label: string | undefined
  /** When it was granted, ms since the epoch by this machine's wall clock. For people: nothing is computed from it. */
  readonly acquiredAt: number
  // One hold may be two objects, so that the garbage collector can tell that the caller dropped it. The lease, the watchdog
  // and the scope refer to the hold itself, which has all of its state and can therefore never be collected while it is
  // live. If it is watched (reporting/dropped-holds.ts), the caller gets a second object, the caller's hold: it refers to
  // the hold, only the caller refers to it, and a FinalizationRegistry reports when it was collected.
  readonly #lease: HeldLease
  /** The hold itself: another object than `this` only in a caller's hold. */
  readonly #hold: Hold
  #callerHold: WeakRef<Hold> | undefined
  #ending: 'released' | LeaseLostError | undefined
  #abort: AbortController | undefined

  /** @internal Holds come from `lock()` and similar methods. */
  constructor(lease: HeldLease, label: string | undefined, hold?: Hold) {
    this.#lease = lease
    this.#hold = hold ?? this
    this.label = label
    this.acquiredAt = hold?.acquiredAt ?? Date.now()
  }

  /** The name that the program passed to `getLock` or a similar method. */
  get lockName(): string {
    return this.#lease.name
  }

  /** The holder in Redis: `<client id>:<owner id>`, as Redisson's `<uuid>:<thread id>`. */
  get holder(): string {
    return this.#lease.holder
  }

  /** The owner inside this client: the equivalent of a thread id in Java. */
  get ownerId(): number {
    return this.#lease.ownerId
  }

  /**
   * A number higher than that of every earlier holder. Pass it to the resource that the lock guards, which rejects requests
   * with a lower one. Only locks of `getFencedLock` have it; a re-entry has the token of the outer hold.
   * @see Redisson `RFencedLock.lockAndGetToken`
   */
  get fencingToken(): bigint | undefined {
    return this.#lease.fencingToken
  }

  /**
   * The ids of permits of a `PermitExpirableSemaphore`, 32 hexadecimal digits each. Any client can release permits by id.
   * @see Redisson `RPermitExpirableSemaphore.acquire`
   */
  get permitIds(): readonly string[] | undefined {
    return this.#lease.kind.permitIds
  }

  /** How many holds its owner has on this lock now, including this one; 0 once this one has ended. */
  get count(): number {
    this.#expireIfDue()
    return this.#hold.#ending ? 0 : this.#lease.count
  }

  /**
   * Aborts with a `LeaseLostError` as soon as the hold is lost; never after a clean release. Pass it to the work that the
   * lock guards: `fetch(url, { signal: hold.signal })`.
   */
  get signal(): AbortSignal {
    if (!this.#hold.#abort) {
      this.#hold.#abort = new AbortController()
      mayHaveManyListeners(this.#hold.#abort.signal) // a body may pass it to more than ten calls
      if (this.#hold.#ending instanceof LeaseLostError) this.#hold.#abort.abort(this.#hold.#ending)
    }
    this.#expireIfDue()
    return this.#hold.#abort.signal
  }

  /**
   * For how long it is certain to be held unless renewed, ms; 0 once it has ended. Synchronous, without I/O.
   * @example `if (hold.remainingMs() < 1_000) throw new Error('too late to start the next step')`
   */
  remainingMs(): number {
    this.#expireIfDue()
    return this.#hold.#ending ? 0 : this.#lease.remainingMs(this.#hold)
  }

  /**
   * Throws unless the lock is certain to be held right now. Synchronous, without I/O: call it before each step that must
   * not happen twice.
   * @throws {LeaseLostError} the hold was lost
   * @throws {NotHeldError} it was released
   * @example `hold.assertHeld(); await writeNextStep()`
   */
  assertHeld(): void {
    this.#expireIfDue()
    if (this.#hold.#ending instanceof LeaseLostError) throw this.#hold.#ending.thrown()
    if (this.#hold.#ending) throw this.#lease.notHeld(`the hold was already ${this.#hold.#ending}`)
  }

  /**
   * Asks Redis whether this owner still holds the lock.
   * @returns false once the hold has ended, or if Redis does not know the holder: then the hold is lost, and `signal` aborts
   * @throws {OutcomeUnknownError} Redis did not answer
   * @example `if (!(await hold.isHeld())) return`
   * @see Redisson `RLock.isHeldByThread`
   */
  async isHeld(): Promise<boolean> {
    this.#expireIfDue()
    if (this.#hold.#ending) return false
    return (await this.#lease.fetchHoldCount()) > 0 && this.#hold.#ending === undefined
  }

  /**
   * Releases this hold. Releasing the last hold of its owner frees the lock and wakes the waiters. Idempotent.
   * @throws {LeaseLostError} the hold had been lost before; what it guarded may not have been exclusive
   * @throws {OutcomeUnknownError} Redis did not answer; the release is repeated in the background, and the lock is free when
   *   its lease ends at the latest
   * @throws {WrongTypeError} something else was written to the key of the lock, which is gone
   * @example `const hold = await lock.lock(); try { await work() } finally { await hold.unlock() }`
   * @see Redisson `RLock.unlock`
   */
  unlock(): Promise<void> {
    const hold = this.#hold
    hold.isUnlocked = true
    if (hold.#ending === 'released') return Promise.resolve()
    hold.#ending?.thrown()
    return this.#lease.release(hold)
  }

  /**
   * Extends the hold's own lease, requested with `leaseTimeMs`: it ends `leaseTimeMs` from now, or when it would have ended
   * if that is later. For work that turns out to take longer than planned. `maxHoldMs` counts from the grant as before.
   * @param leaseTimeMs  from this call, ms; at least 10
   * @throws {LeaseLostError} the hold was lost before, or Redis does not know its holder any more
   * @throws {NotHeldError} it was released before
   * @throws {OutcomeUnknownError} Redis did not reply; count on the old lease
   * @throws {ConfigError} the watchdog renews the hold, which has no lease of its own; or the duration cannot work
   * @example
   * const hold = await lock.lock({ leaseTimeMs: 30_000 })
   * await hold.extend(60_000) // a minute from now
   * @see Redisson `RLock.expire`, which may also shorten the lease
   */
  async extend(leaseTimeMs: number): Promise<void> {
    checkDuration('leaseTimeMs', leaseTimeMs, MIN_LEASE_MS, this.lockName)
    this.assertHeld()
    await this.#lease.lease(this.#hold, leaseTimeMs, 'extend')
  }

  /**
   * Ends the hold without releasing the lock, to transfer it: another process continues with
   * `client.adopt(lockName, holder)`. The lock stays taken until its lease ends, so adopt it before that. All holds of this
   * owner on this lock end.
   * @returns the holder to pass to `adopt`
   * @throws {LeaseLostError} the hold had been lost before
   * @throws {NotHeldError} it was released before
   * @example `await queue.add({ lockName: hold.lockName, holder: hold.handOver() })`
   */
  handOver(): string {
    this.assertHeld()
    this.#lease.handOver()
    return this.holder
  }

  /** Releases at the end of an `await using` block. Never throws: `signal` and the `lost` event report a loss. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.unlock().catch(() => {})
  }

  /** @internal The work starts: from here on the lock stays taken for `atLeastMs`. */
  keepAtLeast(): void {
    this.#lease.keepAtLeast(this.#hold)
  }

  /**
   * The fields of the hold, for logs; the fencing token as a text, because JSON has no bigint.
   * @example `console.log(JSON.stringify(hold))`
   */
  toJSON(): object {
    const { fencingToken } = this
    return { ...this.#shown(), ...(fencingToken !== undefined && { fencingToken: String(fencingToken) }) }
  }

  /** @internal What `console.log` shows. */
  [SHOWN](_depth: number, options: object, inspect: Inspect): string {
    return `Hold ${inspect(this.#shown(), options)}`
  }

  #shown(): object {
    const { lockName, holder, count, acquiredAt, label, fencingToken, permitIds } = this
    const remainingMs = this.remainingMs()
    return defined({ lockName, holder, count, remainingMs, acquiredAt, label, fencingToken, permitIds })
  }

  /** @internal Makes the caller's hold: see above. */
  newCallerHold(): this {
    const callerHold = new Hold(this.#lease, this.label, this)
    this.#callerHold = new WeakRef(callerHold)
    return callerHold as this
  }

  /** @internal The hold itself, also of a caller's hold. */
  get hold(): Hold {
    return this.#hold
  }

  /** @internal The object that the caller has. */
  get callerHold(): Hold {
    return this.#callerHold?.deref() ?? this
  }

  /** @internal */
  get isLive(): boolean {
    this.#expireIfDue()
    return this.#hold.#ending === undefined
  }

  /** @internal Whether its caller has still to release it: it is live or was lost, and `unlock()` was not called. */
  get isOpen(): boolean {
    return !this.#hold.isUnlocked && (this.isLive || this.lostError !== undefined)
  }

  /** @internal */
  get lostError(): LeaseLostError | undefined {
    const ending = this.#hold.#ending
    return ending === 'released' ? undefined : ending
  }

  /** @internal */
  get lease(): HeldLease {
    return this.#lease
  }

  /** @internal The hold itself, or the members of a hold on several locks. */
  get members(): readonly Hold[] {
    return this.#lease.members ?? [this.#hold]
  }

  /** @internal When it was granted, on the clock. */
  grantedAt = 0

  /** @internal Whether a caller got it: other holds are members of joint ones, or came too late. */
  hasCaller = false

  /** @internal Whether `unlock()` was called. */
  isUnlocked = false

  /** @internal Called when it has ended, whatever the cause. */
  onEnd: (() => void) | undefined

  /** @internal The stack of the call that took it, if it is kept. It is formatted when read: that is the costly part. */
  takenAt: { stack?: string } | undefined

  /** @internal Its span, for those who ask this client what it holds. */
  span: { readonly traceId: string; readonly spanId: string } | undefined

  /** @internal The caller's frames of that stack. */
  get takenFrom(): string | undefined {
    const frames = this.takenAt?.stack?.split('\n').slice(1)
    return frames?.filter((line) => !/[ .](#runs|#inScope|holdOf) /.test(line)).join('\n')
  }

  /**
   * @internal Called by its lease only. A release may still turn out to have come too late.
   * @param parts  the losses of the members of a hold on several locks
   * @param details  its own lease, if it had one, and who forced it
   */
  end(
    how: 'released' | LossReason,
    parts?: readonly LeaseLostError[],
    details?: Omit<LossDetails, 'label'>,
  ): LeaseLostError | undefined {
    if (this.lostError) return undefined
    if (how === 'released') {
      this.#hold.#ending = how
      this.onEnd?.()
      return undefined
    }
    const { label } = this
    this.#hold.#ending = new LeaseLostError(this.lockName, this.holder, how, this.#lease.kind.noun, parts, {
      ...details,
      label,
    })
    this.onEnd?.()
    const abort = this.#hold.#abort
    if (abort) runOutside(() => abort.abort(this.#hold.#ending))
    return this.#hold.#ending
  }

  /** Ends the hold in this turn of the event loop if its deadline has passed, even if the timer is late. */
  #expireIfDue(): void {
    if (!this.#hold.#ending) this.#lease.expireIfDue(this.#hold)
  }
}
