import { ConfigError, LeaseLostError, NotHeldError, OutcomeUnknownError, WaitTimeoutError } from '../errors.js'
import { checkHolder, type Owner } from '../holder.js'
import { lockChannel, UNLOCK_MESSAGE } from '../keys.js'
import {
  lockAcquire,
  lockAdopt,
  lockForceRelease,
  lockReenter,
  lockRelease,
  lockRenew,
  lockStepDown,
} from '../lua/generated.js'
import { isWorthRetrying, toInteger, Unanswered } from '../lua/run.js'
import {
  checkFunction,
  checkLabel,
  checkName,
  checkOptionalDuration,
  checkSignal,
  LEAST_LEASE_MS,
  ownOptions,
} from '../validate.js'
import { type Attempted, tryOnce, waitFor } from '../waiting/wait-loop.js'
import type { Context } from './context.js'
import { Hold, type HoldTerms } from './hold.js'
import { ask, type Holder, inspect } from './inspection.js'
import type { LockKind } from './kind.js'
import { currentScope, enclosingPossession, hasCurrentOwner, runWithHold } from './ownership.js'
import { Possession } from './possession.js'

/** The terms of a hold, for every call that takes one. */
export interface HoldOptions {
  /** Lease, ms, from the grant; at least 10. Absent: the watchdog renews the hold until it is released. */
  leaseTimeMs?: number | undefined
  /**
   * End of renewal, ms from the grant: then the hold is lost, its `signal` aborts, and the lock comes free with its lease.
   * Default: the client's `maxHoldMs`, which is no limit by default.
   */
  maxHoldMs?: number | undefined
  /** Report a longer wait or hold as `longWait` or `longHold`, ms. Default: the client's, which is never by default. */
  warnAfterMs?: number | undefined
  /** What it is for; shown in events. */
  label?: string | undefined
}

export interface LockOptions extends HoldOptions {
  /** Longest wait, ms, from this call; 0 tries once. Absent: no limit for `lock`, 0 for `tryLock`. */
  waitTimeMs?: number | undefined
  /** Ends the wait: the call throws the signal's reason at once. Has no say once the lock is held. */
  signal?: AbortSignal | undefined
  /** Re-enter this hold, for code that passes holds by hand: same owner, hold count + 1. */
  within?: Hold | undefined
}

export interface WithLockOptions extends LockOptions {
  /** Called with the hold before the body. */
  onAcquire?: ((hold: Hold) => unknown) | undefined
  /** Called with the hold after the release, however the body ended. */
  onRelease?: ((hold: Hold) => unknown) | undefined
}

export type Guarded<T> = (hold: Hold) => T | PromiseLike<T>

const HOLD_OPTIONS = ['leaseTimeMs', 'maxHoldMs', 'warnAfterMs', 'label']
const LOCK_OPTIONS = [...HOLD_OPTIONS, 'waitTimeMs', 'signal', 'within']
const WITH_LOCK_OPTIONS = [...LOCK_OPTIONS, 'onAcquire', 'onRelease']

const PLAIN: LockKind = {
  channel: lockChannel,
  acquire: (lockName, holder, leaseTimeMs) => lockAcquire(lockName, leaseTimeMs, holder),
  reenter: (lockName, holder, leaseTimeMs, count) => lockReenter(lockName, leaseTimeMs, holder, count),
  stepDown: (lockName, holder, leaseTimeMs, count) => lockStepDown(lockName, leaseTimeMs, holder, count),
  release: (lockName, holder) => lockRelease(lockName, holder, lockChannel(lockName), UNLOCK_MESSAGE),
  renewal: (batch) =>
    lockRenew(
      batch.map(({ lockName }) => lockName),
      batch.flatMap(({ holder, leaseTimeMs }) => [holder, leaseTimeMs]),
    ),
}

/** Whether another attempt may do better: also after a grant that took longer to arrive than its lease. */
function isPassing(error: unknown): boolean {
  return isWorthRetrying(error) || (error instanceof LeaseLostError && error.reason === 'expired')
}

/**
 * A re-entrant lock on one name, shared by everybody who uses that name on this Redis: this process, other Node
 * processes, and Java processes that use Redisson's `RLock`. Not fair: who asks first after a release gets it.
 *
 * It keeps out everybody else as long as Redis keeps the key and the holder stays within its lease; a holder that is
 * paused beyond it is told afterwards, not stopped. A lock object is only a name: make as many as you like.
 */
export class Lock {
  readonly name: string
  readonly #context: Context
  readonly #kind: LockKind = PLAIN

  /** @internal Locks come from `client.getLock`. */
  constructor(context: Context, name: string) {
    this.name = checkName(name)
    this.#context = context
  }

  /**
   * Take the lock, and wait as long as it takes.
   *
   * Inside `withLock` on the same lock, or after `lock()` in the same scope, this re-enters: same owner, hold count + 1.
   * Anywhere else it is a new owner, also on the same lock object. Redis being away is ridden out for up to 15 s.
   * @returns the hold; release it with `hold.unlock()` or `await using`
   * @throws {WaitTimeoutError} `waitTimeMs` ended first
   * @throws {OutcomeUnknownError} Redis did not answer; what it may have granted is released in the background
   * @throws {LeaseLostError} the hold to re-enter was lost, or the lease is too short for its grant to arrive in time
   * @throws {ClientClosedError} the client is closed, or was closed during the wait
   * @throws {ConfigError} an argument cannot work; nothing was sent
   * @throws the reason of `signal`, when it aborts during the wait
   * @see Redisson `RLock.lock`, `RLock.lockInterruptibly`: same key, field and channel
   */
  async lock(options: LockOptions = {}): Promise<Hold> {
    return this.#inScope(await this.#promised(ownOptions(options, LOCK_OPTIONS, this.name)))
  }

  /**
   * Take the lock if it comes free in time; without `waitTimeMs` ask once.
   * @returns the hold, or null when the wait ended first
   * @throws as `lock`, but never `WaitTimeoutError`
   * @see Redisson `RLock.tryLock(waitTime, leaseTime, unit)`: same key, field and channel
   */
  async tryLock(options: LockOptions = {}): Promise<Hold | null> {
    const own = ownOptions(options, LOCK_OPTIONS, this.name)
    const { waitTimeMs = 0 } = own
    const hold = await this.#acquire(own, waitTimeMs)
    return hold === undefined ? null : this.#inScope(hold)
  }

  /**
   * Run `fn` with the lock held, and release it when `fn` ends. The form we recommend: what `fn` calls may take the same
   * lock again, and a loss cannot go unnoticed.
   * @returns what `fn` returned
   * @throws what `fn` threw, whatever becomes of the release
   * @throws {LeaseLostError} `fn` succeeded, but the lock was lost meanwhile: it may not have been alone
   * @throws as `lock`
   */
  withLock<T>(fn: Guarded<T>): Promise<T>
  withLock<T>(options: WithLockOptions, fn: Guarded<T>): Promise<T>
  async withLock<T>(first: WithLockOptions | Guarded<T>, second?: Guarded<T>): Promise<T> {
    const [options, fn] = this.#optionsAndBody(first, second)
    return await this.#guard(await this.#promised(options), options, fn)
  }

  /**
   * Like `withLock`, but answers when the lock was not to be had; without `waitTimeMs` asks once.
   * @returns `{ ran: true, value }`, or `{ ran: false }`
   */
  tryWithLock<T>(fn: Guarded<T>): Promise<{ ran: true; value: T } | { ran: false }>
  tryWithLock<T>(options: WithLockOptions, fn: Guarded<T>): Promise<{ ran: true; value: T } | { ran: false }>
  async tryWithLock<T>(
    first: WithLockOptions | Guarded<T>,
    second?: Guarded<T>,
  ): Promise<{ ran: true; value: T } | { ran: false }> {
    const [options, fn] = this.#optionsAndBody(first, second)
    const { waitTimeMs = 0 } = options
    const hold = await this.#acquire(options, waitTimeMs)
    return hold === undefined ? { ran: false } : { ran: true, value: await this.#guard(hold, options, fn) }
  }

  /**
   * Free the lock whoever holds it, and wake the waiters. A holder in this client loses it at once, any other learns of it
   * at its next renewal.
   * @returns whether it was held
   * @throws {OutcomeUnknownError} Redis did not answer
   * @see Redisson `RLock.forceUnlock`
   */
  async forceUnlock(): Promise<boolean> {
    const call = lockForceRelease(this.name, this.#kind.channel(this.name), UNLOCK_MESSAGE)
    // Those of now: what is granted while this is on its way may have come after it.
    const condemned = [...this.#context.possessions].filter(({ lockName }) => lockName === this.name)
    const wasHeld = await ask(this.#context, this.name, 'forceUnlock', call, toInteger)
    for (const possession of condemned) possession.loseAll('forced')
    return wasHeld === 1
  }

  /**
   * Whether anybody holds it right now. Old news when it arrives: do not decide by it whether to write.
   * @see Redisson `RLock.isLocked`
   */
  async isLocked(): Promise<boolean> {
    return (await this.getHolders()).length > 0
  }

  /** Who holds it, and how often: one entry, or none. */
  async getHolders(): Promise<readonly Holder[]> {
    return (await inspect(this.#context, this.name)).holders
  }

  /**
   * What is left of the present lease, ms; 0 if nobody holds it, Infinity if somebody took its expiry away.
   * @see Redisson `RLock.remainTimeToLive`
   */
  async remainingLeaseMs(): Promise<number> {
    return (await inspect(this.#context, this.name)).remainingLeaseMs
  }

  /**
   * Release the hold on this lock that the current owner took last, for code ported from Java: inside
   * `client.runInScope` or `withLock`.
   * @throws {NotHeldError} the current owner does not hold it, or there is no current owner
   * @throws as `Hold.unlock`
   * @see Redisson `RLock.unlock`
   */
  async unlock(): Promise<void> {
    this.#assertCurrentOwner('unlock')
    const hold = enclosingPossession(this.#context, this.name)?.latest
    if (!hold) throw new NotHeldError(`Lock ${JSON.stringify(this.name)} is not held by the current owner`, this.name)
    await hold.unlock()
  }

  /**
   * Whether the current owner holds it, by Redis.
   * @throws {NotHeldError} there is no current owner: the call is inside no scope and no hold
   * @see Redisson `RLock.isHeldByCurrentThread`
   */
  async isHeldByCurrentOwner(): Promise<boolean> {
    return (await this.getHoldCount()) > 0
  }

  /**
   * How often the current owner holds it, by Redis; 0 if it does not.
   * @throws {NotHeldError} there is no current owner: the call is inside no scope and no hold
   * @see Redisson `RLock.getHoldCount`
   */
  async getHoldCount(): Promise<number> {
    this.#assertCurrentOwner('getHoldCount')
    return (await enclosingPossession(this.#context, this.name)?.askHoldCount()) ?? 0
  }

  /** @internal `client.adopt` */
  async adopt(from: string, options: HoldOptions): Promise<Hold> {
    const context = this.#context
    context.assertOpen(this.name)
    const terms = this.#terms(ownOptions(options, HOLD_OPTIONS, this.name))
    const possession = new Possession(context, this.#kind, this.name, context.owners.next())
    const leaseTimeMs = terms.leaseTimeMs ?? context.watchdogTimeoutMs
    const sentAt = context.clock.now()
    possession.requesting(leaseTimeMs, sentAt)
    const call = lockAdopt(this.name, leaseTimeMs, checkHolder(from), possession.holder)
    try {
      if ((await ask(context, this.name, 'adopt', call, toInteger)) === 1) return possession.begin(terms, sentAt)
    } catch (error) {
      possession.settle() // it may have been taken over, and nobody else knows the new holder
      throw error
    }
    throw new NotHeldError(
      `Lock ${JSON.stringify(this.name)} is not held by ${from}: its lease has ended, or somebody else adopted it`,
      this.name,
    )
  }

  async #promised(options: LockOptions): Promise<Hold> {
    const hold = await this.#acquire(options, options.waitTimeMs)
    if (hold === undefined) throw new WaitTimeoutError(this.name, options.waitTimeMs ?? 0)
    return hold
  }

  /** The way to every hold. Answers undefined when the wait time ended first. */
  async #acquire(options: LockOptions, waitTime: number | undefined): Promise<Hold | undefined> {
    const context = this.#context
    const { clock } = context
    const terms = this.#terms(options)
    const waitTimeMs = checkOptionalDuration('waitTimeMs', waitTime, 0, this.name)
    const signal = checkSignal(options.signal, this.name)
    const reentered = this.#reentered(options.within)
    if (!reentered) context.assertOpen(this.name)

    const possession = reentered ?? new Possession(context, this.#kind, this.name, this.#owner())
    const leaseTimeMs = terms.leaseTimeMs ?? context.watchdogTimeoutMs
    /** Whether Redis may have granted something that no hold stands for: then it is given back at the end. */
    let mayBeHeld = false
    /** The caller has its outcome; what an attempt in flight still brings is not for anybody. */
    let isOver = false
    let isInFlight = false

    const attempt = async (): Promise<Attempted<Hold>> => {
      if (reentered) return { granted: await reentered.reenter(terms), leaseMs: leaseTimeMs }
      const sentAt = clock.now()
      possession.requesting(leaseTimeMs, sentAt)
      isInFlight = true
      let heldForMs: number | null
      try {
        heldForMs = toInteger(await context.scripts.run(this.#kind.acquire(this.name, possession.holder, leaseTimeMs)))
      } catch (error) {
        mayBeHeld ||= error instanceof Unanswered
        if (isOver && mayBeHeld) possession.settle()
        throw error
      } finally {
        isInFlight = false
      }
      if (heldForMs !== null) {
        if (isOver && mayBeHeld) possession.settle()
        return { heldForMs }
      }
      possession.mayHaveStrays ||= mayBeHeld
      mayBeHeld = true
      if (isOver) {
        possession.settle()
        return { heldForMs: 0 }
      }
      const granted = possession.begin(terms, sentAt)
      mayBeHeld = false
      return { granted, leaseMs: leaseTimeMs }
    }
    const giveBack = (late: Hold): void => void late.unlock().catch(() => {})
    const stopWarning = this.#warnOfLongWait(terms)
    try {
      const deadlineAt = clock.now() + (waitTimeMs ?? Number.POSITIVE_INFINITY)
      // A re-entry must not stand in line behind those who wait for its own outer hold.
      const line = reentered ?? this.name
      const channel = this.#kind.channel(this.name)
      const wait = {
        lockName: this.name,
        attempt,
        isWorthRetrying: isPassing,
        giveBack,
        line,
        channel,
        deadlineAt,
        signal,
      }
      return waitTimeMs === 0 ? await tryOnce(wait, context) : await waitFor(wait, context)
    } catch (error) {
      throw error instanceof Unanswered ? new OutcomeUnknownError(this.name, 'lock', error) : error
    } finally {
      isOver = true
      stopWarning?.()
      if (!isInFlight && mayBeHeld) possession.settle()
      // Else it is claimed by what it holds, or by an attempt in flight that decides it.
      else if (!isInFlight && !reentered && possession.count === 0) possession.owner.free(this.name)
    }
  }

  async #guard<T>(hold: Hold, options: WithLockOptions, fn: Guarded<T>): Promise<T> {
    let value: T
    try {
      await options.onAcquire?.(hold)
      value = await runWithHold(hold, () => fn(hold))
    } catch (error) {
      // The body's error wins: a loss was told by the signal, and a release that failed goes on in the background.
      await hold.unlock().catch(() => {})
      try {
        await options.onRelease?.(hold)
      } catch (failure) {
        this.#context.emit('warning', failure instanceof Error ? failure : new Error(String(failure)))
      }
      throw error
    }
    try {
      await hold.unlock()
    } catch (error) {
      // The body was alone to its end; only the release is uncertain, and goes on in the background.
      if (!(error instanceof OutcomeUnknownError)) throw error
      this.#context.emit('warning', error)
    }
    await options.onRelease?.(hold)
    return value
  }

  #inScope(hold: Hold): Hold {
    currentScope(this.#context)?.add(hold)
    return hold
  }

  #owner(): Owner {
    return currentScope(this.#context)?.ownerFor(this.name) ?? this.#context.owners.next()
  }

  #reentered(within: Hold | undefined): Possession | undefined {
    if (within === undefined) return enclosingPossession(this.#context, this.name)
    if (!(within instanceof Hold) || within.lockName !== this.name || within.possession.context !== this.#context) {
      throw new ConfigError('within', undefined, 'a hold on the same lock of the same client', { lockName: this.name })
    }
    within.assertHeld()
    return within.possession
  }

  #terms(options: HoldOptions): HoldTerms {
    const { maxHoldMs = this.#context.maxHoldMs, warnAfterMs = this.#context.warnAfterMs } = options
    return {
      leaseTimeMs: checkOptionalDuration('leaseTimeMs', options.leaseTimeMs, LEAST_LEASE_MS, this.name),
      maxHoldMs: checkOptionalDuration('maxHoldMs', maxHoldMs, 1, this.name),
      warnAfterMs: checkOptionalDuration('warnAfterMs', warnAfterMs, 1, this.name),
      label: checkLabel(options.label, this.name),
    }
  }

  #optionsAndBody<T>(first: WithLockOptions | Guarded<T>, second?: Guarded<T>): [WithLockOptions, Guarded<T>] {
    const [options, fn] = typeof first === 'function' ? [{}, first] : [first, second]
    if (typeof fn !== 'function')
      throw new ConfigError('fn', fn, 'a function to run with the lock', { lockName: this.name })
    const own = ownOptions(options, WITH_LOCK_OPTIONS, this.name)
    checkFunction('onAcquire', own.onAcquire, this.name)
    checkFunction('onRelease', own.onRelease, this.name)
    return [own, fn]
  }

  #warnOfLongWait({ warnAfterMs, label }: HoldTerms): (() => void) | undefined {
    if (warnAfterMs === undefined) return undefined
    const details = { lockName: this.name, label, waitedMs: warnAfterMs }
    return this.#context.clock.after(warnAfterMs, () => this.#context.emit('longWait', details), false)
  }

  #assertCurrentOwner(call: string): void {
    if (hasCurrentOwner(this.#context)) return
    throw new NotHeldError(
      `${call}() on lock ${JSON.stringify(this.name)} needs a current owner, and this call is inside no hold and no scope: ` +
        'use the hold that lock() answered, or run the code with client.runInScope()',
      this.name,
    )
  }
}
