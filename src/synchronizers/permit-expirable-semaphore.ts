import { toArray, toInteger } from '../delivery/replies.js'
import { ConfigError, NotHeldError, publishRefused, WaitTimeoutError } from '../errors.js'
import type { Hold } from '../locks/hold.js'
import { ask } from '../locks/inspection.js'
import type { AcquireRequest, Inspection, Nesting } from '../locks/kinds/lock-kind.js'
import { PlainKind } from '../locks/kinds/plain.js'
import type { KindTraits } from '../locks/kinds/table.js'
import type { LeaseContext } from '../locks/lease.js'
import { Lock } from '../locks/lock.js'
import { HOLD_OPTIONS, type HoldOptions, type LockedCallback, type WithLockOptions } from '../locks/options.js'
import {
  permitAcquire,
  permitInspect,
  permitRelease,
  permitRenew,
  permitSetPermits,
  permitUpdateLease,
  semaphoreDelete,
  semaphoreSetPermits,
} from '../lua/generated.js'
import type { ScriptCall } from '../lua/script.js'
import type { Random } from '../util/random.js'
import { checkCount, checkDuration, checkName, LEAST_LEASE_MS, ownOptions } from '../util/validate.js'
import { permitLeases, semaphoreChannel } from '../wire/keys.js'
import { addPermits, countOnce } from './count-once.js'

/**
 * One or more permits, as a value. As every hold it knows until when it is surely valid, its `signal` aborts when it is
 * lost, and it is released once, all of it, by `unlock()` or at the end of an `await using` block.
 */
export type Permit = Hold & { readonly permitIds: readonly string[] }

export interface PermitOptions extends HoldOptions {
  /** How many at once, all or none; default 1. */
  permits?: number | undefined
  /** Longest wait, ms, from this call; 0 tries once. Absent: no limit for `acquire`, 0 for `tryAcquire`. */
  waitTimeMs?: number | undefined
  /** Ends the wait: the call throws the signal's reason at once. Has no say once the permits are there. */
  signal?: AbortSignal | undefined
}

export interface WithPermitOptions extends PermitOptions, Pick<WithLockOptions<Permit>, 'onAcquire' | 'onRelease'> {}

const PERMIT_OPTIONS = { ...HOLD_OPTIONS, permits: 1, waitTimeMs: 1, signal: 1 }
const WITH_PERMIT_OPTIONS = { ...PERMIT_OPTIONS, onAcquire: 1, onRelease: 1 }
/** One script call takes them all. */
const MOST_PERMITS = 1_000

const PERMIT_TRAITS: KindTraits = { title: 'permit', isShared: true }

/** The permits of one call: each has a random id, which says who holds it. */
class PermitKind extends PlainKind {
  override readonly id = 'permit'
  override readonly noun = 'A permit of semaphore'
  override readonly isDivisible = true
  override readonly tracesHolds = false
  override readonly adopt = undefined
  readonly permitIds: readonly string[]

  constructor(random: Random, permits: number) {
    super()
    this.permitIds = Array.from({ length: permits }, () => random.uuid().replaceAll('-', ''))
  }

  override get traits(): KindTraits {
    return PERMIT_TRAITS
  }

  /** Those who want the same: who wants few is not kept back by somebody who wants many. */
  override get queue(): string {
    return `${this.permitIds.length} permits`
  }

  override is(): boolean {
    return false
  }

  override nestingIn(): Nesting {
    return 'apart'
  }

  override holder(): string {
    return this.permitIds.join()
  }

  override channel(lockName: string): string {
    return semaphoreChannel(lockName)
  }

  override acquire({ lockName, leaseTimeMs }: AcquireRequest): ScriptCall {
    return permitAcquire(lockName, permitLeases(lockName), leaseTimeMs, semaphoreChannel(lockName), this.permitIds)
  }

  override renew(lockName: string, holder: string, leaseTimeMs: number): ScriptCall {
    return permitRenew([permitLeases(lockName)], [holder, leaseTimeMs])
  }

  override release(lockName: string): ScriptCall {
    return permitRelease(lockName, permitLeases(lockName), semaphoreChannel(lockName), this.permitIds)
  }

  override inspect(lockName: string): ScriptCall {
    return permitInspect(lockName, permitLeases(lockName), semaphoreChannel(lockName), this.permitIds)
  }

  override parseInspection(reply: unknown): Inspection {
    const [, , ...left] = toArray(reply).map(toInteger)
    const isHeld = left.every((ms) => ms !== null && ms !== -2)
    return { remainingLeaseMs: 0, holders: isHeld ? [{ holder: this.holder(), holdCount: 1 }] : [] }
  }
}

/** Takes the permits of one call, as a lock would be taken. */
class PermitTaker extends Lock<Permit> {
  override waitTimeout(waitTimeMs: number): WaitTimeoutError {
    return new WaitTimeoutError(this.name, waitTimeMs, true)
  }
}

/**
 * A number of permits that everybody who uses the name shares, Node and Java processes that use Redisson: at most so many
 * at once. Each permit that is held has an id and a lease; what a crashed holder had comes back when its lease ends.
 *
 * Nobody is served in the order of asking; who wants many may be overtaken by those who want few.
 * @see Redisson `RPermitExpirableSemaphore`
 */
export class PermitExpirableSemaphore {
  readonly name: string
  readonly #context: LeaseContext

  /** @internal Semaphores come from a client. */
  constructor(context: LeaseContext, name: string) {
    this.name = checkName(name, 'semaphore name')
    this.#context = context
  }

  /**
   * Create the semaphore with so many permits, if it does not exist.
   * @returns false if it existed
   * @throws {OutcomeUnknownError} Redis did not answer; it goes on in the background for a minute: do not repeat it
   * @throws {ConfigError} an argument cannot work; nothing was sent
   * @see Redisson `RPermitExpirableSemaphore.trySetPermits`
   */
  async trySetPermits(permits: number): Promise<boolean> {
    const { name } = this
    checkCount('permits', permits, 0, name)
    const reply = await countOnce(this.#context, name, 'trySetPermits', ({ key, number, openedAt }) =>
      semaphoreSetPermits(name, key, name, permits, 0, semaphoreChannel(name), number, openedAt),
    )
    return reply === 1
  }

  /**
   * Let there be so many permits in all, held or not, and create the semaphore if it does not exist. If more are held,
   * they stay held, and nobody gets one until there are fewer.
   * @throws as `trySetPermits`
   * @see Redisson `RPermitExpirableSemaphore.setPermits`
   */
  async setPermits(permits: number): Promise<void> {
    const { name } = this
    checkCount('permits', permits, 0, name)
    await countOnce(this.#context, name, 'setPermits', ({ key, number, openedAt }) =>
      permitSetPermits(name, permitLeases(name), key, permits, semaphoreChannel(name), number, openedAt),
    )
  }

  /**
   * Let there be so many more permits.
   * @throws as `trySetPermits`
   * @see Redisson `RPermitExpirableSemaphore.addPermits`
   */
  async addPermits(permits: number): Promise<void> {
    await addPermits(this.#context, this.name, this.name, 'addPermits', checkCount('permits', permits, 0, this.name))
  }

  /**
   * Let there be so many fewer permits: fewer than none, if more are held than there shall be.
   * @throws as `trySetPermits`
   * @see Redisson `RPermitExpirableSemaphore.addPermits` with a negative number
   */
  async reducePermits(permits: number): Promise<void> {
    await addPermits(
      this.#context,
      this.name,
      this.name,
      'reducePermits',
      -checkCount('permits', permits, 0, this.name),
    )
  }

  /**
   * Take permits, and wait as long as it takes. A semaphore that does not exist has none.
   * @returns the permits as one hold; release it with `unlock()` or `await using`
   * @throws {WaitTimeoutError} `waitTimeMs` ended first
   * @throws {OutcomeUnknownError} Redis did not answer; what it may have given is given back in the background
   * @throws {LeaseLostError} the lease is too short for the answer to arrive in time
   * @throws {ClientClosedError} the client is closed, or was closed during the wait
   * @throws {ConfigError} an argument cannot work; nothing was sent
   * @throws the reason of `signal`, when it aborts during the wait
   * @see Redisson `RPermitExpirableSemaphore.acquire(permits, leaseTime, unit)`, whose permits without a lease never end
   */
  async acquire(options: PermitOptions = {}): Promise<Permit> {
    const { permits, ...rest } = ownOptions(options, PERMIT_OPTIONS, this.name)
    return await this.#taker(permits).lock(rest)
  }

  /**
   * Take permits if there are enough in time; without `waitTimeMs` ask once.
   * @returns the permits as one hold, or null when the wait ended first
   * @throws as `acquire`, but never `WaitTimeoutError`
   * @see Redisson `RPermitExpirableSemaphore.tryAcquire(permits, waitTime, leaseTime, unit)`
   */
  async tryAcquire(options: PermitOptions = {}): Promise<Permit | null> {
    const { permits, ...rest } = ownOptions(options, PERMIT_OPTIONS, this.name)
    return await this.#taker(permits).tryLock(rest)
  }

  /**
   * Run `fn` with permits, and release them when it ends.
   * @returns what `fn` returned
   * @throws what `fn` threw, whatever becomes of the release
   * @throws {LeaseLostError} `fn` succeeded, but its permits were lost meanwhile: there may have been too many
   * @throws as `acquire`
   */
  withPermit<T>(fn: LockedCallback<T, Permit>): Promise<T>
  withPermit<T>(options: WithPermitOptions, fn: LockedCallback<T, Permit>): Promise<T>
  async withPermit<T>(
    first: WithPermitOptions | LockedCallback<T, Permit>,
    second?: LockedCallback<T, Permit>,
  ): Promise<T> {
    const [taker, options, fn] = this.#takerAndBody(first, second)
    return await taker.withLock(options, fn)
  }

  /**
   * Like `withPermit`, but answers when there were not enough; without `waitTimeMs` asks once.
   * @returns `{ ran: true, value }`, or `{ ran: false }`
   */
  tryWithPermit<T>(fn: LockedCallback<T, Permit>): Promise<{ ran: true; value: T } | { ran: false }>
  tryWithPermit<T>(
    options: WithPermitOptions,
    fn: LockedCallback<T, Permit>,
  ): Promise<{ ran: true; value: T } | { ran: false }>
  async tryWithPermit<T>(
    first: WithPermitOptions | LockedCallback<T, Permit>,
    second?: LockedCallback<T, Permit>,
  ): Promise<{ ran: true; value: T } | { ran: false }> {
    const [taker, options, fn] = this.#takerAndBody(first, second)
    return await taker.tryWithLock(options, fn)
  }

  /**
   * Release a permit by its id, whoever took it: another process, or Java. Who has it as a hold calls `unlock()` instead.
   * @throws {NotHeldError} nobody holds it: it was released, or its lease has ended
   * @throws {OutcomeUnknownError} Redis did not answer; call it again
   * @see Redisson `RPermitExpirableSemaphore.release`
   */
  async release(permitId: string): Promise<void> {
    if (await this.tryRelease(permitId)) return
    const why = 'it was released, or its lease has ended'
    throw new NotHeldError(
      `Permit ${permitId} of semaphore ${JSON.stringify(this.name)} is not held: ${why}`,
      this.name,
    )
  }

  /**
   * Release a permit by its id, whoever took it.
   * @returns false if nobody held it
   * @throws {OutcomeUnknownError} Redis did not answer; call it again
   * @see Redisson `RPermitExpirableSemaphore.tryRelease`
   */
  async tryRelease(permitId: string): Promise<boolean> {
    const { name } = this
    const context = this.#context
    const call = permitRelease(name, permitLeases(name), semaphoreChannel(name), [checkId(permitId, name)])
    const heard = await ask(context, name, 'release', call, toInteger)
    if (heard === -1) context.emit('warning', publishRefused(name))
    return heard !== null
  }

  /**
   * Let the lease of a permit end then, be it sooner or later. The holds of this process do not learn of it: this is for
   * permits of others.
   * @param leaseTimeMs  from now, ms; at least 10
   * @returns false if nobody holds it
   * @throws {OutcomeUnknownError} Redis did not answer; call it again
   * @see Redisson `RPermitExpirableSemaphore.updateLeaseTime`
   */
  async updateLeaseTime(permitId: string, leaseTimeMs: number): Promise<boolean> {
    const { name } = this
    checkDuration('leaseTimeMs', leaseTimeMs, LEAST_LEASE_MS, name)
    const call = permitUpdateLease(permitLeases(name), checkId(permitId, name), leaseTimeMs)
    return (await ask(this.#context, name, 'updateLeaseTime', call, toInteger)) === 1
  }

  /**
   * What is left of the lease of a permit, ms; Infinity if it never ends, which is so only for permits of Redisson.
   * @throws {NotHeldError} nobody holds it: it was released, or its lease has ended
   * @throws {OutcomeUnknownError} Redis did not answer
   * @see Redisson `RPermitExpirableSemaphore.getLeaseTime`
   */
  async getLeaseTime(permitId: string): Promise<number> {
    const [, , left] = await this.#inspect('getLeaseTime', [checkId(permitId, this.name)])
    if (left === -1) return Number.POSITIVE_INFINITY
    if (left !== undefined && left > 0) return left
    const why = 'it was released, or its lease has ended'
    throw new NotHeldError(
      `Permit ${permitId} of semaphore ${JSON.stringify(this.name)} is not held: ${why}`,
      this.name,
    )
  }

  /**
   * How many permits are free right now; below 0 while more are held than there shall be. Old news when it arrives.
   * @throws {OutcomeUnknownError} Redis did not answer
   * @see Redisson `RPermitExpirableSemaphore.availablePermits`
   */
  async availablePermits(): Promise<number> {
    const [available = 0] = await this.#inspect('availablePermits')
    return available
  }

  /**
   * How many permits are held right now. Old news when it arrives.
   * @throws {OutcomeUnknownError} Redis did not answer
   * @see Redisson `RPermitExpirableSemaphore.acquiredPermits`
   */
  async acquiredPermits(): Promise<number> {
    const [, acquired = 0] = await this.#inspect('acquiredPermits')
    return acquired
  }

  /**
   * How many permits there are in all, held or not.
   * @throws {OutcomeUnknownError} Redis did not answer
   * @see Redisson `RPermitExpirableSemaphore.getPermits`
   */
  async getPermits(): Promise<number> {
    const [available = 0, acquired = 0] = await this.#inspect('getPermits')
    return available + acquired
  }

  /**
   * Delete the semaphore. What is held is lost; those who wait go on waiting: for somebody to create it again.
   * @returns whether it existed
   * @throws {OutcomeUnknownError} Redis did not answer
   * @see Redisson `RPermitExpirableSemaphore.delete`
   */
  async delete(): Promise<boolean> {
    const call = semaphoreDelete(this.name, permitLeases(this.name), this.name)
    return (await ask(this.#context, this.name, 'delete', call, toInteger)) === 1
  }

  #taker(permits = 1): PermitTaker {
    checkCount('permits', permits, 1, this.name, MOST_PERMITS)
    return new PermitTaker(this.#context, new PermitKind(this.#context.random, permits), this.name)
  }

  #takerAndBody<T>(
    first: WithPermitOptions | LockedCallback<T, Permit>,
    second: LockedCallback<T, Permit> | undefined,
  ): [PermitTaker, Omit<WithPermitOptions, 'permits'>, LockedCallback<T, Permit>] {
    const [options, fn] = typeof first === 'function' ? [{}, first] : [first, second]
    const { permits, ...rest } = ownOptions(options, WITH_PERMIT_OPTIONS, this.name)
    return [this.#taker(permits), rest, fn as LockedCallback<T, Permit>]
  }

  async #inspect(operation: string, ids: readonly string[] = []): Promise<readonly number[]> {
    const { name } = this
    const call = permitInspect(name, permitLeases(name), semaphoreChannel(name), ids)
    return await ask(this.#context, name, operation, call, (reply) =>
      toArray(reply).map((word) => toInteger(word) ?? 0),
    )
  }
}

function checkId(permitId: unknown, lockName: string): string {
  if (typeof permitId === 'string' && /^[\da-f]{32}$/.test(permitId)) return permitId
  throw new ConfigError('permitId', permitId, 'the id of a permit, 32 lower-case hexadecimal digits', { lockName })
}
