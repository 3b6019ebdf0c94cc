import { LeaseLostError, OutcomeUnknownError, WaitTimeoutError } from '../errors.js'
import {
  checkFunction,
  checkLabel,
  checkOptionalDuration,
  checkSignal,
  LEAST_LEASE_MS,
  ownOptions,
} from '../util/validate.js'
import type { Context } from './context.js'
import type { Hold, HoldTerms } from './hold.js'
import { checkBody, refuseUnread, releaseFailed } from './locked-callback.js'
import { currentScope, runWithHold } from './ownership.js'

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
  /** Re-enter this hold, for code that passes holds by hand: same owner, hold count + 1. Not for locks made of others. */
  within?: Hold | undefined
}

export interface WithLockOptions<H extends Hold = Hold> extends LockOptions {
  /** Called with the hold before the body. */
  onAcquire?: ((hold: H) => unknown) | undefined
  /** Called with the hold after the release, however the body ended. */
  onRelease?: ((hold: H) => unknown) | undefined
}

export type LockedCallback<T, H extends Hold = Hold> = (hold: H) => T | PromiseLike<T>

export const HOLD_OPTIONS = ['leaseTimeMs', 'maxHoldMs', 'warnAfterMs', 'label']
const LOCK_OPTIONS = [...HOLD_OPTIONS, 'waitTimeMs', 'signal', 'within']
const WITH_LOCK_OPTIONS = [...LOCK_OPTIONS, 'onAcquire', 'onRelease']

/** What a caller asked for, checked. */
export interface Request {
  readonly terms: HoldTerms
  /** From the call, ms; 0: try once; undefined: no limit. */
  readonly waitTimeMs: number | undefined
  readonly signal: AbortSignal | undefined
  readonly within: Hold | undefined
  /** Called whenever somebody else has it, or waits for it before this caller. */
  readonly onRefused?: (() => void) | undefined
}

/** What can be done with every lock, whatever it is made of: take it, and run something with it. */
export abstract class BaseLock<H extends Hold = Hold> {
  /** What errors and events call it. */
  readonly name: string
  /** @internal The client whose clock, defaults and events it uses. */
  readonly context: Context

  /** @internal */
  constructor(context: Context, name: string) {
    this.context = context
    this.name = name
  }

  /**
   * The way to every hold.
   * @internal
   * @returns undefined when the wait time ended first
   */
  abstract acquire(request: Request): Promise<H | undefined>

  /**
   * Take the lock, and wait as long as it takes.
   *
   * Inside `withLock` on the same lock, or after `lock()` in the same scope, this re-enters: same owner, hold count + 1.
   * Anywhere else it is a new owner, also on the same lock object. Redis being away is ridden out for up to 15 s.
   * @returns the hold; release it with `hold.unlock()` or `await using`
   * @throws {WaitTimeoutError} `waitTimeMs` ended first
   * @throws {SelfDeadlockError} the call chain holds it in a way that this kind cannot take again
   * @throws {OutcomeUnknownError} Redis did not answer; what it may have granted is released in the background
   * @throws {QuorumError} of a `RedLock`: too few servers could be asked
   * @throws {LeaseLostError} the hold to re-enter was lost, or the lease is too short for its grant to arrive in time
   * @throws {ClientClosedError} the client is closed, or was closed during the wait
   * @throws {ConfigError} an argument cannot work; nothing was sent
   * @throws the reason of `signal`, when it aborts during the wait
   * @see Redisson `RLock.lock`, `RLock.lockInterruptibly`: same key, field and channel
   */
  async lock(options: LockOptions = {}): Promise<H> {
    const own = ownOptions(options, LOCK_OPTIONS, this.name)
    return this.#inScope(this.#inTime(await this.acquire(this.#request(own)), own))
  }

  /**
   * Take the lock if it comes free in time; without `waitTimeMs` ask once.
   * @returns the hold, or null when the wait ended first
   * @throws as `lock`, but never `WaitTimeoutError`
   * @see Redisson `RLock.tryLock(waitTime, leaseTime, unit)`: same key, field and channel
   */
  async tryLock(options: LockOptions = {}): Promise<H | null> {
    const own = ownOptions(options, LOCK_OPTIONS, this.name)
    const { waitTimeMs = 0 } = own
    const hold = await this.acquire(this.#request(own, waitTimeMs))
    return hold === undefined ? null : this.#inScope(hold)
  }

  /**
   * Run `fn` with the lock held, and release it when `fn` ends. The form we recommend: what `fn` calls may take the same
   * lock again, and a loss cannot go unnoticed.
   * @returns what `fn` returned
   * @throws what `fn` threw, whatever becomes of the release
   * @throws {ConfigError} `fn` is a generator function; or it returned a generator or a stream, which would only be read
   *   after the release
   * @throws {LeaseLostError} `fn` succeeded, but the lock was lost meanwhile: it may not have been alone
   * @throws as `lock`
   */
  withLock<T>(fn: LockedCallback<T, H>): Promise<T>
  withLock<T>(options: WithLockOptions<H>, fn: LockedCallback<T, H>): Promise<T>
  async withLock<T>(first: WithLockOptions<H> | LockedCallback<T, H>, second?: LockedCallback<T, H>): Promise<T> {
    const [options, fn] = optionsAndBody(this.name, first, second)
    const hold = this.#inTime(await this.acquire(this.#request(options)), options)
    return await this.#runLocked(hold, options, fn)
  }

  /**
   * Like `withLock`, but answers when the lock was not to be had; without `waitTimeMs` asks once.
   * @returns `{ ran: true, value }`, or `{ ran: false }`
   */
  tryWithLock<T>(fn: LockedCallback<T, H>): Promise<{ ran: true; value: T } | { ran: false }>
  tryWithLock<T>(
    options: WithLockOptions<H>,
    fn: LockedCallback<T, H>,
  ): Promise<{ ran: true; value: T } | { ran: false }>
  async tryWithLock<T>(
    first: WithLockOptions<H> | LockedCallback<T, H>,
    second?: LockedCallback<T, H>,
  ): Promise<{ ran: true; value: T } | { ran: false }> {
    const [options, fn] = optionsAndBody(this.name, first, second)
    const { waitTimeMs = 0 } = options
    const hold = await this.acquire(this.#request(options, waitTimeMs))
    return hold === undefined ? { ran: false } : { ran: true, value: await this.#runLocked(hold, options, fn) }
  }

  /** @internal The terms of a hold, checked. */
  terms(options: HoldOptions): HoldTerms {
    const { maxHoldMs = this.context.maxHoldMs, warnAfterMs = this.context.warnAfterMs } = options
    return {
      leaseTimeMs: checkOptionalDuration('leaseTimeMs', options.leaseTimeMs, LEAST_LEASE_MS, this.name),
      maxHoldMs: checkOptionalDuration('maxHoldMs', maxHoldMs, 1, this.name),
      warnAfterMs: checkOptionalDuration('warnAfterMs', warnAfterMs, 1, this.name),
      label: checkLabel(options.label, this.name),
    }
  }

  /** @internal */
  waitTimeout(waitTimeMs: number): WaitTimeoutError {
    return new WaitTimeoutError(this.name, waitTimeMs)
  }

  #request(options: LockOptions, waitTimeMs = options.waitTimeMs): Request {
    return {
      terms: this.terms(options),
      waitTimeMs: checkOptionalDuration('waitTimeMs', waitTimeMs, 0, this.name),
      signal: checkSignal(options.signal, this.name),
      within: options.within,
    }
  }

  /** @throws {WaitTimeoutError} the wait time ended first */
  #inTime(hold: H | undefined, { waitTimeMs = 0 }: LockOptions): H {
    if (hold === undefined) throw this.waitTimeout(waitTimeMs)
    return hold
  }

  async #runLocked<T>(hold: H, options: WithLockOptions<H>, fn: LockedCallback<T, H>): Promise<T> {
    const { onAcquire } = options
    let value: T
    this.#trace(hold)
    try {
      if (onAcquire) await runWithHold(hold, () => onAcquire(hold))
      value = await runWithHold(hold, () => fn(hold))
      refuseUnread(value, this.name)
    } catch (error) {
      // The body's error wins. A loss was reported by the signal and the client.
      await hold.unlock().catch((cause: unknown) => {
        if (!(cause instanceof LeaseLostError)) this.context.emit('warning', releaseFailed(this.name, cause))
      })
      await this.#released(hold, options)
      throw error
    }
    try {
      await hold.unlock()
    } catch (error) {
      // The body was alone to its end; only the release is uncertain, and goes on in the background.
      if (!(error instanceof OutcomeUnknownError)) {
        await this.#released(hold, options)
        throw error
      }
      this.context.emit('warning', error)
    }
    await this.#released(hold, options)
    return value
  }

  /** What became of the body counts, not what `onRelease` throws. */
  async #released(hold: H, { onRelease }: WithLockOptions<H>): Promise<void> {
    try {
      await onRelease?.(hold)
    } catch (failure) {
      this.context.emit('warning', failure instanceof Error ? failure : new Error(String(failure)))
    }
  }

  #inScope(hold: H): H {
    for (const member of hold.members) {
      const scope = currentScope(member.lease.context)
      if (!scope) continue
      this.#trace(member)
      scope.add(member)
    }
    return hold
  }

  /** Only a hold that what follows may run into: inside `withLock`, and in a scope. */
  #trace(hold: Hold): void {
    for (const member of hold.members) {
      if (!member.lease.tracesHolds) continue
      member.takenAt = {}
      Error.captureStackTrace(member.takenAt, this.#trace)
    }
  }
}

function optionsAndBody<T, H extends Hold>(
  lockName: string,
  first: WithLockOptions<H> | LockedCallback<T, H>,
  second: LockedCallback<T, H> | undefined,
): [WithLockOptions<H>, LockedCallback<T, H>] {
  const [options, body] = typeof first === 'function' ? [{}, first] : [first, second]
  const fn = checkBody(body, lockName)
  const own = ownOptions(options, WITH_LOCK_OPTIONS, lockName)
  checkFunction('onAcquire', own.onAcquire, lockName)
  checkFunction('onRelease', own.onRelease, lockName)
  return [own, fn]
}

/** Reports a long wait; answers how to stop that. */
export function warnOfLongWait(
  context: Context,
  lockName: string,
  { warnAfterMs, label }: Pick<HoldTerms, 'warnAfterMs' | 'label'>,
): (() => void) | undefined {
  if (warnAfterMs === undefined) return undefined
  const details = { lockName, label, waitedMs: warnAfterMs }
  return context.clock.after(warnAfterMs, () => context.emit('longWait', details), false)
}

/** What every call that waits for something without a lease may be told, checked. */
export function checkWait(
  context: Context,
  name: string,
  options: Pick<LockOptions, 'waitTimeMs' | 'signal' | 'warnAfterMs' | 'label'>,
) {
  const { warnAfterMs = context.warnAfterMs } = options
  return {
    waitTimeMs: checkOptionalDuration('waitTimeMs', options.waitTimeMs, 0, name),
    warnAfterMs: checkOptionalDuration('warnAfterMs', warnAfterMs, 1, name),
    signal: checkSignal(options.signal, name),
    label: checkLabel(options.label, name),
  }
}
