// Permits with leases. What one call took is a lease of permit-lease.ts.
import { toArray, toInteger } from '../delivery/replies.js'
import { ConfigError, NotHeldError } from '../errors.js'
import { runScript } from '../locks/inspection.js'
import type { LeaseContext } from '../locks/lease.js'
import {
  HOLD_OPTIONS,
  type HoldOptions,
  type LockedCallback,
  type MaybeRan,
  type OrderOptions,
  type WithLockOptions,
} from '../locks/options.js'
import { runOnce } from '../locks/run-once.js'
import { optionsAndFunction } from '../locks/with-lock.js'
import {
  permitInspect,
  permitRelease,
  permitReleaseAll,
  permitSetPermits,
  permitUpdateLease,
  semaphoreDelete,
  semaphoreSetPermits,
} from '../lua/generated.js'
import { checkCount, checkDuration, MIN_LEASE_MS, ownOptions } from '../util/validate.js'
import { publishRefused } from '../warnings.js'
import { permitLeases, semaphoreChannel } from '../wire/keys.js'
import { addPermits, countOnce } from './count-once.js'
import { type Permit, PermitKind, PermitTaker } from './permit-lease.js'
import { callFirst, OrderedPermitKind, orderOf, type PermitOrder, releaseInOrder } from './permits-in-order.js'

export interface PermitOptions extends HoldOptions {
  /** How many permits at once, all or none; default 1. */
  permits?: number | undefined
  /** Longest wait, ms, from this call; 0 tries once. Default: no limit for `acquire`, 0 for `tryAcquire`. */
  waitTimeMs?: number | undefined
  /** Aborts the wait: the call rejects with the signal's reason. Ignored once the permits are granted. */
  signal?: AbortSignal | undefined
  /** Who waits with a higher priority goes first, −1,000 to 1,000. Only for ordered semaphores. Default 0. */
  priority?: number | undefined
}

export interface WithPermitOptions
  extends PermitOptions,
    Pick<WithLockOptions<Permit>, 'release' | 'onAcquire' | 'onRelease'> {}

const PERMIT_OPTIONS = { ...HOLD_OPTIONS, permits: 1, waitTimeMs: 1, signal: 1, priority: 1 }
const WITH_PERMIT_OPTIONS = { ...PERMIT_OPTIONS, release: 1, onAcquire: 1, onRelease: 1 }
/** One script call acquires or releases them all. */
const MAX_PERMITS = 1_000
/** Also in upper case, as Redisson accepts it. */
const PERMIT_ID = /^[\da-f]{32}$/i

/**
 * A number of permits shared by everyone who uses the name: Node processes, and Java processes that use Redisson. Each held
 * permit has an id and a lease; the permits of a crashed holder are free again when their lease ends.
 *
 * Without `order: 'fifo'` permits are not granted in the order of requests: a caller that wants many may be overtaken by
 * callers that want few.
 * @see Redisson `RPermitExpirableSemaphore`
 */
export class PermitExpirableSemaphore {
  readonly name: string
  /** @internal What Redis has: the name, or what `nameMapper` makes of it. */
  readonly key: string
  readonly #context: LeaseContext
  readonly #order: PermitOrder | undefined

  /** @internal Semaphores come from a client. */
  constructor(context: LeaseContext, name: string, key: string, options?: OrderOptions) {
    this.#order = orderOf(context, options, name)
    this.name = name
    this.key = key
    this.#context = context
  }

  /**
   * Creates the semaphore with `permits` permits if it does not exist.
   * @returns false if it existed
   * @throws {OutcomeUnknownError} Redis did not reply; the call is retried in the background for a minute: do not repeat it
   * @throws {ConfigError} an argument cannot work; nothing was sent
   * @example `await semaphore.trySetPermits(10)`
   * @see Redisson `RPermitExpirableSemaphore.trySetPermits`
   */
  async trySetPermits(permits: number): Promise<boolean> {
    const { name, key: semaphore } = this
    checkCount('permits', permits, 0, name)
    const reply = await countOnce(this.#context, this, 'trySetPermits', ({ key, number, openedAt }) =>
      semaphoreSetPermits(semaphore, key, semaphore, permits, 0, semaphoreChannel(semaphore), number, openedAt),
    )
    this.#callFirst()
    return reply === 1
  }

  /**
   * Sets the total number of permits, held or not, and creates the semaphore if it does not exist. If more are held, they
   * stay held, and no more are granted until fewer are.
   * @throws as `trySetPermits`
   * @example `await semaphore.setPermits(20)`
   * @see Redisson `RPermitExpirableSemaphore.setPermits`
   */
  async setPermits(permits: number): Promise<void> {
    const { name, key: semaphore } = this
    checkCount('permits', permits, 0, name)
    const [leases, channel] = [permitLeases(semaphore), semaphoreChannel(semaphore)]
    await countOnce(this.#context, this, 'setPermits', ({ key, number, openedAt }) =>
      permitSetPermits(semaphore, leases, key, permits, channel, number, openedAt),
    )
    this.#callFirst()
  }

  /**
   * Adds `permits` permits.
   * @throws as `trySetPermits`
   * @example `await semaphore.addPermits(5)`
   * @see Redisson `RPermitExpirableSemaphore.addPermits`
   */
  async addPermits(permits: number): Promise<void> {
    const by = checkCount('permits', permits, 0, this.name)
    await addPermits(this.#context, this, this.key, 'addPermits', by)
    if (by > 0) this.#callFirst()
  }

  /**
   * Removes `permits` permits. The number of free permits becomes negative if more are held than remain.
   * @throws as `trySetPermits`
   * @example `await semaphore.reducePermits(5)`
   * @see Redisson `RPermitExpirableSemaphore.addPermits` with a negative number
   */
  async reducePermits(permits: number): Promise<void> {
    await addPermits(this.#context, this, this.key, 'reducePermits', -checkCount('permits', permits, 0, this.name))
  }

  /**
   * Acquires permits, waiting as long as necessary. A semaphore that does not exist has none.
   * @returns the permits as one hold; release it with `unlock()` or `await using`
   * @throws {WaitTimeoutError} `waitTimeMs` ended first
   * @throws {OutcomeUnknownError} Redis did not reply; what it may have granted is released in the background
   * @throws {LeaseLostError} the lease is too short for the reply to arrive in time
   * @throws {ClientClosedError} the client is closed, or was closed during the wait
   * @throws {ConfigError} an argument cannot work; nothing was sent
   * @throws the reason of `signal`, when it aborts during the wait
   * @example `await using permit = await semaphore.acquire({ waitTimeMs: 5_000 })`
   * @see Redisson `RPermitExpirableSemaphore.acquire(permits, leaseTime, unit)`, whose permits without a lease never end
   */
  async acquire(options: PermitOptions = {}): Promise<Permit> {
    const { permits, ...rest } = ownOptions(options, PERMIT_OPTIONS, this.name)
    return await this.#taker(permits).lock(rest)
  }

  /**
   * Acquires permits if enough become free in time; without `waitTimeMs` it tries once.
   * @returns the permits as one hold, or null when the wait ended first
   * @throws as `acquire`, but never `WaitTimeoutError`
   * @example `const permit = await semaphore.tryAcquire(); if (permit === null) return 'busy'`
   * @see Redisson `RPermitExpirableSemaphore.tryAcquire(permits, waitTime, leaseTime, unit)`
   */
  async tryAcquire(options: PermitOptions = {}): Promise<Permit | null> {
    const { permits, ...rest } = ownOptions(options, PERMIT_OPTIONS, this.name)
    return await this.#taker(permits).tryLock(rest)
  }

  /**
   * Runs `fn` with permits and releases them when it ends.
   * @returns what `fn` returned
   * @throws what `fn` threw, whatever becomes of the release
   * @throws {LeaseLostError} `fn` succeeded, but its permits were lost meanwhile: the limit may have been exceeded
   * @throws as `acquire`
   * @example `await semaphore.withPermit(async ({ signal }) => await fetch(url, { signal }))`
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
   * Like `withPermit`, but resolves if there are not enough permits; without `waitTimeMs` it tries once.
   * @returns `{ ran: true, value }`, or `{ ran: false }`
   * @example `const { ran } = await semaphore.tryWithPermit(async () => await callApi())`
   */
  tryWithPermit<T>(fn: LockedCallback<T, Permit>): Promise<MaybeRan<T>>
  tryWithPermit<T>(options: WithPermitOptions, fn: LockedCallback<T, Permit>): Promise<MaybeRan<T>>
  async tryWithPermit<T>(
    first: WithPermitOptions | LockedCallback<T, Permit>,
    second?: LockedCallback<T, Permit>,
  ): Promise<MaybeRan<T>> {
    const [taker, options, fn] = this.#takerAndBody(first, second)
    return await taker.tryWithLock(options, fn)
  }

  /**
   * Releases a permit by its id, or several by theirs, all or none, whoever acquired them: another process, or Java. If you
   * have the hold, call `unlock()` instead.
   * @param permitIds  an id, or an array of 1 to 1,000 different ones
   * @throws {NotHeldError} nobody holds one of them: it was released, its lease has ended, or it is not the id of a permit.
   *   Then none is released
   * @throws {OutcomeUnknownError} Redis did not reply. One id: call it again. Several: all or none were released
   * @throws {ConfigError} no id, one that is not a string, the same one twice, or too many; nothing was sent
   * @example `await semaphore.release(job.permitIds)`
   * @see Redisson `RPermitExpirableSemaphore.release`
   */
  async release(permitIds: string | readonly string[]): Promise<void> {
    if (!(await this.tryRelease(permitIds))) throw this.#notHeld(permitIds)
  }

  /**
   * Releases a permit by its id, or several by theirs, all or none, whoever acquired them.
   * @param permitIds  as for `release`
   * @returns false, and none is released, if nobody held one of them, or it is not the id of a permit
   * @throws as `release`, but never `NotHeldError`
   * @example `const wasHeld = await semaphore.tryRelease(job.permitId)`
   * @see Redisson `RPermitExpirableSemaphore.tryRelease`, which replies to a list with how many it released
   */
  async tryRelease(permitIds: string | readonly string[]): Promise<boolean> {
    const receivers = Array.isArray(permitIds)
      ? await this.#releaseAll([...permitIds])
      : await this.#releaseOne(permitIds as string)
    if (receivers === -1) this.#context.emit('warning', publishRefused(this.name))
    return receivers !== null
  }

  /**
   * Sets a new end for a permit's lease, earlier or later. Holds of this process are not updated: use it for
   * permits of other processes.
   * @param leaseTimeMs  from now, ms; at least 10
   * @returns false if nobody holds it, or this is not the id of a permit
   * @throws {OutcomeUnknownError} Redis did not reply; call it again
   * @throws {ConfigError} the id is not a string, or the duration cannot work
   * @example `await semaphore.updateLeaseTime(job.permitId, 60_000)`
   * @see Redisson `RPermitExpirableSemaphore.updateLeaseTime`
   */
  async updateLeaseTime(permitId: string, leaseTimeMs: number): Promise<boolean> {
    checkDuration('leaseTimeMs', leaseTimeMs, MIN_LEASE_MS, this.name)
    if (!this.#mayBeHeld(permitId)) return false
    const call = permitUpdateLease(permitLeases(this.key), permitId, leaseTimeMs)
    return (await runOnce(this.#context, this, 'updateLeaseTime', call)) === 1
  }

  /**
   * The remaining lease of a permit, ms; Infinity if it never ends, as only permits of Redisson can.
   * @throws {NotHeldError} nobody holds it: it was released, its lease has ended, or this is not the id of a permit
   * @throws {OutcomeUnknownError} Redis did not reply
   * @throws {ConfigError} the id is not a string
   * @example `console.log(await semaphore.getLeaseTime(job.permitId))`
   * @see Redisson `RPermitExpirableSemaphore.getLeaseTime`
   */
  async getLeaseTime(permitId: string): Promise<number> {
    if (!this.#mayBeHeld(permitId)) throw this.#notHeld(permitId)
    const [, , left] = await this.#inspect('getLeaseTime', [permitId])
    if (left === -1) return Number.POSITIVE_INFINITY
    if (left !== undefined && left > 0) return left
    throw this.#notHeld(permitId)
  }

  /**
   * How many permits are free right now; negative while more are held than the total. The result may be outdated when it arrives.
   * @throws {OutcomeUnknownError} Redis did not reply
   * @example `console.log(await semaphore.availablePermits())`
   * @see Redisson `RPermitExpirableSemaphore.availablePermits`
   */
  async availablePermits(): Promise<number> {
    const [available = 0] = await this.#inspect('availablePermits')
    return available
  }

  /**
   * How many permits are held right now. The result may be outdated when it arrives.
   * @throws {OutcomeUnknownError} Redis did not reply
   * @example `console.log(await semaphore.acquiredPermits())`
   * @see Redisson `RPermitExpirableSemaphore.acquiredPermits`
   */
  async acquiredPermits(): Promise<number> {
    const [, acquired = 0] = await this.#inspect('acquiredPermits')
    return acquired
  }

  /**
   * The total number of permits, held or not.
   * @throws {OutcomeUnknownError} Redis did not reply
   * @example `console.log(await semaphore.getPermits())`
   * @see Redisson `RPermitExpirableSemaphore.getPermits`
   */
  async getPermits(): Promise<number> {
    const [available = 0, acquired = 0] = await this.#inspect('getPermits')
    return available + acquired
  }

  /**
   * Deletes the semaphore. Held permits are lost; waiters keep waiting for someone to create it again.
   * @returns whether it existed
   * @throws {OutcomeUnknownError} Redis did not reply
   * @example `await semaphore.delete()`
   * @see Redisson `RPermitExpirableSemaphore.delete`
   */
  async delete(): Promise<boolean> {
    const call = semaphoreDelete(this.key, permitLeases(this.key), this.key)
    return (await runOnce(this.#context, this, 'delete', call)) === 1
  }

  #taker(permits = 1): PermitTaker {
    checkCount('permits', permits, 1, this.name, MAX_PERMITS)
    const { random } = this.#context
    const kind = this.#order ? new OrderedPermitKind(random, permits, this.#order) : new PermitKind(random, permits)
    return new PermitTaker(this.#context, kind, this.name, this.key)
  }

  #takerAndBody<T>(
    first: WithPermitOptions | LockedCallback<T, Permit>,
    second: LockedCallback<T, Permit> | undefined,
  ): [PermitTaker, Omit<WithPermitOptions, 'permits'>, LockedCallback<T, Permit>] {
    const [options, fn] = optionsAndFunction<WithPermitOptions, LockedCallback<T, Permit>>(
      first,
      second,
      WITH_PERMIT_OPTIONS,
      this.name,
      'permits',
    )
    const { permits, ...rest } = options
    return [this.#taker(permits), rest, fn]
  }

  /**
   * Whether it is the id of a permit. Another one came over the wire, and is the id of a permit that nobody holds: no command
   * is needed to know that.
   * @throws {ConfigError} it is not a string
   * @throws {ClientClosedError} the client is closed
   */
  #mayBeHeld(permitId: unknown, path = 'permitId'): boolean {
    this.#context.assertUsable(this.name)
    if (typeof permitId === 'string') return PERMIT_ID.test(permitId)
    throw new ConfigError(path, permitId, 'the id of a permit, a string', { lockName: this.name })
  }

  /** @returns how many received the message; null: nothing was released */
  async #releaseOne(permitId: string): Promise<number | null> {
    const { key } = this
    if (!this.#mayBeHeld(permitId)) return null
    const call = this.#order
      ? releaseInOrder(key, [permitId])
      : permitRelease(key, permitLeases(key), semaphoreChannel(key), [permitId])
    return await runScript(this.#context, this, 'release', call, toInteger)
  }

  /** The same for several. A copy of the command must not reply that none of them was held. */
  async #releaseAll(permitIds: readonly string[]): Promise<number | null> {
    const { key, name: lockName } = this
    if (permitIds.length === 0 || permitIds.length > MAX_PERMITS) {
      throw new ConfigError('permitIds', undefined, `1 to ${MAX_PERMITS} ids`, { lockName })
    }
    const mayBeHeld = permitIds.map((id, index) => this.#mayBeHeld(id, `permitIds[${index}]`))
    if (new Set(permitIds.map((id) => id.toLowerCase())).size < permitIds.length) {
      throw new ConfigError('permitIds', undefined, 'different ids', { lockName })
    }
    if (mayBeHeld.includes(false)) return null
    const call = permitReleaseAll(key, permitLeases(key), semaphoreChannel(key), permitIds)
    const receivers = await runOnce(this.#context, this, 'release', call)
    this.#callFirst()
    return receivers
  }

  #callFirst(): void {
    if (this.#order) callFirst(this.#context, this.key)
  }

  #notHeld(permitIds: string | readonly string[]): NotHeldError {
    const semaphore = `semaphore ${JSON.stringify(this.name)}`
    const why = 'released, or its lease has ended'
    if (typeof permitIds !== 'string') {
      const which = `Not all of these ${permitIds.length} permits of ${semaphore} are held, so none was released`
      return new NotHeldError(`${which}: one was already ${why}, or it is not the id of a permit`, this.name)
    }
    const message = PERMIT_ID.test(permitIds)
      ? `Permit ${permitIds} of ${semaphore} is not held: it was ${why}`
      : `No permit of ${semaphore} has this id, which is not 32 hexadecimal digits`
    return new NotHeldError(message, this.name)
  }

  async #inspect(operation: string, ids: readonly string[] = []): Promise<readonly number[]> {
    const { key } = this
    const call = permitInspect(key, permitLeases(key), semaphoreChannel(key), ids)
    return await runScript(this.#context, this, operation, call, (reply) =>
      toArray(reply).map((word) => toInteger(word) ?? 0),
    )
  }
}
