// The API of every lock: lock, tryLock, withLock, unlock.
import { ConfigError, SelfDeadlockError, WaitTimeoutError } from '../errors.js'
import type { KnownHolder, WaitDetails } from '../holder-info.js'
import {
  checkFunction,
  checkLabel,
  checkLeaseTime,
  checkOneOf,
  checkOptionalDuration,
  checkSignal,
  MIN_LEASE_MS,
  ownOptions,
} from '../util/validate.js'
import { Unfinished } from '../waiting/wait-loop.js'
import type { Context } from './context.js'
import { assertCurrentOwner, notHeldByCurrentOwner, type Subject } from './current-owner.js'
import { Hold, type HoldTerms } from './hold.js'
import {
  type HoldOptions,
  LOCK_OPTIONS,
  type LockedCallback,
  type LockOptions,
  type MaybeRan,
  NO_OPTIONS,
  type Request,
  WITH_LOCK_OPTIONS,
  type WithLockOptions,
} from './options.js'
import { currentScope, isOutsideAll, type Scope } from './ownership.js'
import { watchDropped } from './reporting/dropped-holds.js'
import { observeRequest, reportGranted, settled } from './reporting/observation.js'
import { checkCallback, optionsAndFunction, withLock } from './with-lock.js'

/** What the first attempt of a call brought. */
type Asked<H> = H | undefined | Unfinished<H>

const NO_SCOPES: readonly Scope[] = []

/** The API of every lock, including those made of other locks: acquire and release it, run a function with it held. */
export abstract class BaseLock<H extends Hold = Hold> {
  /** The name that the program passed to `getLock` or a similar method, also in errors and events. */
  readonly name: string
  /** @internal The name of its kind. */
  abstract readonly title: string
  /** @internal The client whose clock, defaults and events it uses. */
  readonly context: Context

  /** @internal */
  constructor(context: Context, name: string) {
    this.context = context
    this.name = name
  }

  /**
   * Every hold comes from here.
   * @internal
   * @returns undefined if the wait time ended first
   */
  abstract acquire(request: Request): Promise<H | undefined>

  /** @internal The first attempt of `acquire`, and the rest for the caller to go on with; or all of it. */
  ask(request: Request): Promise<Asked<H>> {
    return this.acquire(request)
  }

  /**
   * Acquire the lock, and wait as long as that takes.
   *
   * Inside `withLock` on the same lock, or after `lock()` in the same scope, this re-enters: same owner, hold count + 1.
   * Everywhere else it is a new owner, even on the same lock object. The wait rides out a Redis outage of up to 15 s.
   * @returns the hold; release it with `hold.unlock()` or `await using`
   * @throws {WaitTimeoutError} `waitTimeMs` ended first
   * @throws {SelfDeadlockError} the call chain holds it in a way that this kind of lock cannot re-enter
   * @throws {OutcomeUnknownError} Redis did not reply; what it may have granted is released in the background
   * @throws {QuorumError} of a `RedLock`: too few servers could be asked
   * @throws {LeaseLostError} the hold to re-enter was lost, or the lease is too short for its grant to arrive in time
   * @throws {ClientClosedError} the client is closed, or was closed during the wait
   * @throws {ConfigError} an argument cannot work; nothing was sent
   * @throws the reason of `signal`, if it aborts during the wait
   * @example `await using hold = await lock.lock({ waitTimeMs: 5_000 })`
   * @see Redisson `RLock.lock`, `RLock.lockInterruptibly`: same key, field and channel
   */
  async lock(options?: LockOptions): Promise<H> {
    const own = options === undefined ? NO_OPTIONS : ownOptions(options, LOCK_OPTIONS, this.name)
    const request = this.request(own, this.context.waitTimeMs, true)
    const asked = await this.#take(request)
    const hold = asked instanceof Unfinished ? await asked.goOn() : asked
    return this.#inScope(hold ?? (await this.timeOut(request)), request)
  }

  /**
   * Acquire the lock if it becomes free in time; without `waitTimeMs` try once.
   * @returns the hold, or null if the wait time ended first; null at once, whatever the wait time, if the call would wait for
   *   its own call chain
   * @throws as `lock`, but never `WaitTimeoutError` or `SelfDeadlockError`
   * @example `const hold = await lock.tryLock(); if (hold === null) return 'busy'`
   * @see Redisson `RLock.tryLock(waitTime, leaseTime, unit)`: same key, field and channel
   */
  async tryLock(options?: LockOptions): Promise<H | null> {
    const own = options === undefined ? NO_OPTIONS : ownOptions(options, LOCK_OPTIONS, this.name)
    const request = this.request(own, 0, false)
    const asked = await this.#take(request)
    const hold = asked instanceof Unfinished ? await asked.goOn() : asked
    return hold === undefined ? this.missed(request, null) : this.#inScope(hold, request)
  }

  /**
   * Run `fn` with the lock held, and release it when `fn` ends. The recommended form: what `fn` calls can re-enter the lock,
   * and a loss cannot go unnoticed.
   * @returns what `fn` returned
   * @throws what `fn` threw, whether or not the release succeeded
   * @throws {ConfigError} `fn` is a generator function; or it returned a generator or a stream, which would be read only
   *   after the release
   * @throws {LeaseLostError} `fn` succeeded, but the lock was lost meanwhile: another owner may have been inside
   * @throws as `lock`
   * @example `await lock.withLock({ waitTimeMs: 5_000 }, async (hold) => await charge(order, { signal: hold.signal }))`
   */
  withLock<T>(fn: LockedCallback<T, H>): Promise<T>
  withLock<T>(options: WithLockOptions<H>, fn: LockedCallback<T, H>): Promise<T>
  withLock<T>(first: WithLockOptions<H> | LockedCallback<T, H>, second?: LockedCallback<T, H>): Promise<T> {
    try {
      const [options, fn] = optionsAndCallback(this.name, first, second)
      const request = this.request(options, this.context.waitTimeMs, true)
      const pending = {
        asked: this.#take(request),
        holdOf: (asked: Asked<H>) =>
          asked instanceof Hold ? this.#runs(asked, request) : this.#whenGranted(asked, request),
      }
      return withLock(this.context, this.name, pending, options, fn)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /**
   * Like `withLock`, but without an error if the lock is not acquired, as with `tryLock`; without `waitTimeMs` tries once.
   * With `atLeastMs` at most once per period, for jobs that every instance starts.
   * @returns `{ ran: true, value }`, or `{ ran: false }`
   * @example
   * const { ran, value } = await lock.tryWithLock({ atLeastMs: 10 * 60_000 }, async () => await report())
   */
  tryWithLock<T>(fn: LockedCallback<T, H>): Promise<MaybeRan<T>>
  tryWithLock<T>(options: WithLockOptions<H>, fn: LockedCallback<T, H>): Promise<MaybeRan<T>>
  async tryWithLock<T>(
    first: WithLockOptions<H> | LockedCallback<T, H>,
    second?: LockedCallback<T, H>,
  ): Promise<MaybeRan<T>> {
    const [options, fn] = optionsAndCallback(this.name, first, second)
    const request = this.request(options, 0, false)
    const asked = await this.#take(request)
    const hold = asked instanceof Unfinished ? await asked.goOn() : asked
    if (hold === undefined) return this.missed(request, { ran: false })
    const pending = { asked: hold, holdOf: (held: H) => this.#runs(held, request) }
    return { ran: true, value: await withLock(this.context, this.name, pending, options, fn) }
  }

  /**
   * Releases the hold on this lock that the current owner took last, inside `client.runInScope` or `withLock`; of a lock made
   * of others, with any lock of the same kind made of the same ones. For code ported from Java. If that hold was lost, this
   * frees what Redis may still have of it, and throws.
   * @throws {NotHeldError} the current owner did not take it or has released it, or there is no current owner
   * @throws as `Hold.unlock`
   * @example `await client.runInScope(async () => { await lock.lock(); await lock.unlock() })`
   * @see Redisson `RLock.unlock`; that of a `RedissonMultiLock` also releases locks that were taken one by one
   */
  async unlock(): Promise<void> {
    assertCurrentOwner('unlock', this.subject)
    const hold = this.toUnlock()
    if (!hold) throw notHeldByCurrentOwner(this.subject)
    await hold.unlock()
  }

  /** @internal For calls about the current owner. */
  abstract get subject(): Subject

  /** @internal The hold that the caller took last and has not released, live or lost. */
  abstract toUnlock(): Hold | undefined

  /** @internal The terms of a hold, checked. */
  terms(options: HoldOptions & Pick<WithLockOptions, 'atLeastMs'>): HoldTerms {
    const { maxHoldMs = this.context.maxHoldMs, warnAfterMs = this.context.warnAfterMs } = options
    return {
      leaseTimeMs: checkLeaseTime(options.leaseTimeMs, this.name),
      maxHoldMs: checkOptionalDuration('maxHoldMs', maxHoldMs, 1, this.name),
      warnAfterMs: checkOptionalDuration('warnAfterMs', warnAfterMs, 1, this.name),
      label: checkLabel(options.label, this.name),
      atLeastMs: checkOptionalDuration('atLeastMs', options.atLeastMs, MIN_LEASE_MS, this.name),
    }
  }

  /** @internal @throws {ConfigError} it has no order, or no such priority */
  checkPriority(priority: unknown): number | undefined {
    if (priority === undefined) return undefined
    throw new ConfigError('priority', priority, `an ordered lock, which a ${this.title} is not`, {
      lockName: this.name,
    })
  }

  /** @internal Who holds it. @param waitedMs  how long the call that asks has waited */
  abstract whoHolds(waitedMs: number): Promise<WaitDetails>

  /** @internal Who of this client holds it, without asking Redis. */
  ownHolders(): readonly KnownHolder[] {
    return []
  }

  /** @internal */
  waitTimeout(waitTimeMs: number, details: WaitDetails): WaitTimeoutError {
    return new WaitTimeoutError(this.name, waitTimeMs, false, details)
  }

  /** Acquires the lock for the caller of the API, rather than as a member of another lock. */
  #take(request: Request): Promise<Asked<H>> {
    const { observed, signal, isRequired } = request
    // An observed request is acquired as a whole, so that its observer sees every step.
    const pending = observed ? this.acquire(request) : this.ask(request)
    const acquiring = isRequired ? pending : pending.catch(refuseDeadlock)
    return observed ? settled(observed, acquiring as Promise<H | undefined>, signal) : acquiring
  }

  /** @internal The request of one call, whose options are checked here. @param isRequired  as of `Request` */
  request(options: WithLockOptions<H>, defaultWaitMs: number | undefined, isRequired: boolean): Request {
    const isOutside = isOutsideAll()
    if (options === NO_OPTIONS) {
      const terms = this.context.defaultTerms
      const observed = observeRequest(this, terms, defaultWaitMs)
      return { terms, waitTimeMs: defaultWaitMs, signal: undefined, within: undefined, isOutside, isRequired, observed }
    }
    const { within, waitTimeMs: givenMs = defaultWaitMs } = options
    const priority = this.checkPriority(options.priority)
    const terms = this.terms(options)
    const waitTimeMs = checkOptionalDuration('waitTimeMs', givenMs, 0, this.name)
    const signal = checkSignal(options.signal, this.name)
    const observed = observeRequest(this, terms, waitTimeMs)
    return {
      terms,
      waitTimeMs,
      signal,
      within,
      priority,
      isOutside: isOutside && within === undefined,
      isRequired,
      observed,
    }
  }

  /** @internal The wait time ended first. @throws {WaitTimeoutError} */
  async timeOut(request: Request): Promise<never> {
    const { waitTimeMs = 0, observed } = request
    const details = await (request.details ?? this.whoHolds(waitTimeMs))
    observed?.setHolders(details.holders)
    observed?.missed('timeout')
    throw this.waitTimeout(waitTimeMs, details)
  }

  /** @internal The same, for a call that says so by its result. @returns `result` */
  missed<T>({ observed }: Request, result: T): T {
    observed?.setHolders(this.ownHolders())
    observed?.missed('timeout')
    return result
  }

  /** The first attempt did not bring the hold. */
  async #whenGranted(asked: Unfinished<H> | undefined, request: Request): Promise<H> {
    const hold = await asked?.goOn()
    return this.#runs(hold ?? (await this.timeOut(request)), request)
  }

  /** The function of `withLock` is about to run. */
  #runs(hold: H, { observed }: Request): H {
    this.#trace(hold)
    return reportGranted(hold, observed)
  }

  /** Leaves the hold to the caller: to its scope, or to the code that has the object. */
  #inScope(hold: H, { observed, terms, isOutside }: Request): H {
    const scopes = isOutside ? NO_SCOPES : this.#scopesOf(hold)
    for (const scope of scopes) scope.add(hold)
    if (scopes.length > 0 || this.context.keepsStacks) this.#trace(hold)
    if (scopes.length > 0) return reportGranted(hold, observed)
    return reportGranted(watchDropped(this.context, hold, terms), observed)
  }

  /** The scopes around the caller, of the client; of a lock made of others of each client, even if its server refused. */
  #scopesOf({ lease }: H): readonly Scope[] {
    if (lease.key !== undefined) {
      const scope = currentScope(this.context)
      return scope ? [scope] : []
    }
    return [...new Set(this.subject.locks.flatMap(({ context }) => currentScope(context) ?? []))]
  }

  /** Records where a hold was taken, if a later call can deadlock with it (inside `withLock`, and in a scope) or all are. */
  #trace(hold: Hold): void {
    for (const member of hold.members) {
      if (!member.lease.kind.tracesHolds && !this.context.keepsStacks) continue
      member.takenAt = {}
      Error.captureStackTrace(member.takenAt, this.#trace)
    }
  }
}

/** A `tryLock` that would wait for its own call chain is refused, as if another owner held the lock. */
function refuseDeadlock(error: unknown): undefined {
  if (!(error instanceof SelfDeadlockError)) throw error
}

function optionsAndCallback<T, H extends Hold>(
  lockName: string,
  first: WithLockOptions<H> | LockedCallback<T, H>,
  second: LockedCallback<T, H> | undefined,
): [WithLockOptions<H>, LockedCallback<T, H>] {
  if (typeof first === 'function' && second === undefined) return [NO_OPTIONS, checkCallback(first, lockName)]
  const [own, fn] = optionsAndFunction<WithLockOptions<H>, LockedCallback<T, H>>(
    first,
    second,
    WITH_LOCK_OPTIONS,
    lockName,
  )
  checkOneOf('release', own.release, ['await', 'background'], lockName)
  checkFunction('onAcquire', own.onAcquire, lockName)
  checkFunction('onRelease', own.onRelease, lockName)
  return [own, fn]
}
