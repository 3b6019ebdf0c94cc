// Permits that do not expire.
import { toInteger } from '../delivery/replies.js'
import { ClientClosedError, ConfigError, WaitTimeoutError } from '../errors.js'
import { isTransient } from '../locks/acquisition.js'
import type { Context } from '../locks/context.js'
import { asLockError, runScript } from '../locks/inspection.js'
import { checkPriority, checkWait, type MaybeRan, type OrderOptions } from '../locks/options.js'
import { LongWait } from '../locks/reporting/long-wait.js'
import { waitBegan } from '../locks/reporting/waiting-calls.js'
import { runOnce } from '../locks/run-once.js'
import { optionsAndFunction, refuseUnread } from '../locks/with-lock.js'
import {
  semaphoreDelete,
  semaphoreDrainPermits,
  semaphoreInspect,
  semaphoreRelease,
  semaphoreReleaseInOrder,
  semaphoreSetPermits,
} from '../lua/generated.js'
import { checkCount, checkOptionalDuration, ownOptions } from '../util/validate.js'
import { tryOnce, waitFor } from '../waiting/wait-loop.js'
import { publishRefused } from '../warnings.js'
import { generationKey, INBOX_PREFIX, queueKeys, semaphoreChannel } from '../wire/keys.js'
import { addPermits, countOnce } from './count-once.js'
import { whyNoPermits } from './no-permits.js'
import { callFirst, orderOf, type PermitOrder } from './permits-in-order.js'
import { type PermitSection, SemaphoreAcquisition } from './semaphore-acquisition.js'

export interface SemaphoreOptions {
  /** How many permits; default 1. */
  permits?: number | undefined
  /**
   * Longest wait, ms, from this call; 0 tries once. Default: for `acquire` the client's `waitTimeMs`, which is no limit by
   * default, and 0 for `tryAcquire`.
   */
  waitTimeMs?: number | undefined
  /** Aborts the wait: the call rejects with the signal's reason. Ignored once the permits are granted. */
  signal?: AbortSignal | undefined
  /** Reports a longer wait as `longWait`, ms. Default: that of the client, which is 60 000 unless set. */
  warnAfterMs?: number | undefined
  /** Describes the call; shown in events. */
  label?: string | undefined
  /** Who waits with a higher priority goes first, −1,000 to 1,000. Only for ordered semaphores. Default 0. */
  priority?: number | undefined
}

const SEMAPHORE_OPTIONS = { permits: 1, waitTimeMs: 1, signal: 1, warnAfterMs: 1, label: 1, priority: 1 }

/** A function that runs with permits. @param signal  aborts if the client closes meanwhile: the permits are released then */
export type WithPermits<T> = (signal: AbortSignal) => T | PromiseLike<T>

/**
 * A number of permits shared by everyone who uses the name: Node processes, and Java processes that use Redisson.
 *
 * Permits are only counted: they have no holder and no lease, anyone may release one, and those of a crashed process are
 * lost. Use a `PermitExpirableSemaphore` where that is not acceptable. Without `order: 'fifo'` permits are not granted in the
 * order of requests: a caller that wants many may be overtaken by callers that want few.
 * @see Redisson `RSemaphore`
 */
export class Semaphore {
  readonly name: string
  /** @internal What Redis has: the name, or what `nameMapper` makes of it. */
  readonly key: string
  readonly #context: Context
  readonly #order: PermitOrder | undefined

  /** @internal Semaphores come from a client. */
  constructor(context: Context, name: string, key: string, options?: OrderOptions) {
    this.#order = orderOf(context, options, name)
    this.name = name
    this.key = key
    this.#context = context
  }

  /**
   * Creates the semaphore with `permits` permits if it does not exist.
   * @param options  `timeToLiveMs`: the semaphore ends after that, ms; default never
   * @returns false if it existed
   * @throws {OutcomeUnknownError} Redis did not reply; the call is retried in the background for a minute: do not repeat it
   * @throws {ConfigError} an argument cannot work; nothing was sent
   * @example `await semaphore.trySetPermits(10)`
   * @see Redisson `RSemaphore.trySetPermits`
   */
  async trySetPermits(permits: number, options: { timeToLiveMs?: number } = {}): Promise<boolean> {
    const { timeToLiveMs } = ownOptions(options, { timeToLiveMs: 1 }, this.name)
    const ttl = checkOptionalDuration('timeToLiveMs', timeToLiveMs, 1, this.name) ?? 0
    checkCount('permits', permits, 0, this.name)
    const { key: semaphore } = this
    const [generation, channel] = [generationKey(semaphore), semaphoreChannel(semaphore)]
    const reply = await countOnce(this.#context, this, 'trySetPermits', ({ key, number, openedAt }) =>
      semaphoreSetPermits(semaphore, key, generation, permits, ttl, channel, number, openedAt),
    )
    this.#callFirst()
    return reply === 1
  }

  /**
   * Acquires permits, waiting as long as necessary. A semaphore that does not exist has none.
   * @throws {WaitTimeoutError} `waitTimeMs` ended first
   * @throws {OutcomeUnknownError} Redis did not reply; what it may have granted is released in the background
   * @throws {ClientClosedError} the client is closed, or was closed during the wait
   * @throws {ConfigError} an argument cannot work; nothing was sent
   * @throws the reason of `signal`, when it aborts during the wait
   * @example `await semaphore.acquire({ waitTimeMs: 5_000 })`
   * @see Redisson `RSemaphore.acquire(permits)`
   */
  async acquire(options: SemaphoreOptions = {}): Promise<void> {
    const own = ownOptions(options, SEMAPHORE_OPTIONS, this.name)
    await this.#takeInTime(own)
  }

  /**
   * Acquires permits if enough become free in time; without `waitTimeMs` it tries once.
   * @returns whether they were acquired
   * @throws as `acquire`, but never `WaitTimeoutError`
   * @example `if (!(await semaphore.tryAcquire())) return 'busy'`
   * @see Redisson `RSemaphore.tryAcquire(permits, waitTime, unit)`
   */
  async tryAcquire(options: SemaphoreOptions = {}): Promise<boolean> {
    const own = ownOptions(options, SEMAPHORE_OPTIONS, this.name)
    const { waitTimeMs = 0 } = own
    return await this.#take(Object.assign(own, { waitTimeMs }))
  }

  /**
   * Runs `fn` with permits and releases them when it ends, unless the semaphore has ended or was replaced by then. If the
   * client is closed and drained before, they are released then, and `signal` aborts.
   * @returns what `fn` returned
   * @throws what `fn` threw
   * @throws {ClientClosedError} `fn` succeeded, but the client was closed meanwhile: the limit may have been exceeded
   * @throws as `acquire`
   * @example `await semaphore.withPermit({ waitTimeMs: 5_000 }, async (signal) => await fetch(url, { signal }))`
   */
  withPermit<T>(fn: WithPermits<T>): Promise<T>
  withPermit<T>(options: SemaphoreOptions, fn: WithPermits<T>): Promise<T>
  async withPermit<T>(first: SemaphoreOptions | WithPermits<T>, second?: WithPermits<T>): Promise<T> {
    const [options, fn] = this.#optionsAndBody(first, second)
    const section = this.#section(options)
    await this.#takeInTime(options, section)
    return await section.run(fn)
  }

  /**
   * Like `withPermit`, but resolves if there are not enough permits; without `waitTimeMs` it tries once.
   * @returns `{ ran: true, value }`, or `{ ran: false }`
   * @example `const { ran } = await semaphore.tryWithPermit(async () => await print())`
   */
  tryWithPermit<T>(fn: WithPermits<T>): Promise<MaybeRan<T>>
  tryWithPermit<T>(options: SemaphoreOptions, fn: WithPermits<T>): Promise<MaybeRan<T>>
  async tryWithPermit<T>(first: SemaphoreOptions | WithPermits<T>, second?: WithPermits<T>): Promise<MaybeRan<T>> {
    const [options, fn] = this.#optionsAndBody(first, second)
    const { waitTimeMs = 0 } = options
    const section = this.#section(options)
    if (!(await this.#take(Object.assign(options, { waitTimeMs }), section))) return { ran: false }
    return { ran: true, value: await section.run(fn) }
  }

  /**
   * Releases permits and wakes the waiters. Releasing more than were acquired adds permits; a semaphore that does not exist
   * is created.
   * @throws {OutcomeUnknownError} Redis did not reply; the call is retried in the background for a minute: do not repeat it
   * @throws {ConfigError} an argument cannot work; nothing was sent
   * @example `await semaphore.release()`
   * @see Redisson `RSemaphore.release(permits)`
   */
  async release(permits = 1): Promise<void> {
    await this.#release(permits, 'create')
  }

  /**
   * Releases permits if the semaphore exists: one that was created with `timeToLiveMs` may have ended.
   * @returns whether it exists
   * @throws as `release`
   * @example `const exists = await semaphore.releaseIfExists()`
   * @see Redisson `RSemaphore.releaseIfExists`
   */
  async releaseIfExists(permits = 1): Promise<boolean> {
    return await this.#release(permits, 'any')
  }

  /**
   * Adds `permits` permits.
   * @throws as `release`
   * @example `await semaphore.addPermits(5)`
   * @see Redisson `RSemaphore.addPermits`, which ends the expiry of the semaphore
   */
  async addPermits(permits: number): Promise<void> {
    const by = checkCount('permits', permits, 0, this.name)
    await addPermits(this.#context, this, generationKey(this.key), 'addPermits', by)
    if (by > 0) this.#callFirst()
  }

  /**
   * Removes `permits` permits. The number of free permits becomes negative if more are taken than remain.
   * @throws as `release`
   * @example `await semaphore.reducePermits(5)`
   * @see Redisson `RSemaphore.addPermits` with a negative number
   */
  async reducePermits(permits: number): Promise<void> {
    const by = -checkCount('permits', permits, 0, this.name)
    await addPermits(this.#context, this, generationKey(this.key), 'reducePermits', by)
  }

  /**
   * Acquires all free permits. A negative number of free permits becomes 0.
   * @returns how many were free
   * @throws as `release`
   * @example `const taken = await semaphore.drainPermits()`
   * @see Redisson `RSemaphore.drainPermits`
   */
  async drainPermits(): Promise<number> {
    return await countOnce(this.#context, this, 'drainPermits', ({ key, number, openedAt }) =>
      semaphoreDrainPermits(this.key, key, number, openedAt),
    )
  }

  /**
   * How many permits are free right now. The result may be outdated when it arrives.
   * @throws {OutcomeUnknownError} Redis did not reply
   * @example `console.log(await semaphore.availablePermits())`
   * @see Redisson `RSemaphore.availablePermits`
   */
  async availablePermits(): Promise<number> {
    const call = semaphoreInspect(this.key)
    return (await runScript(this.#context, this, 'availablePermits', call, toInteger)) ?? 0
  }

  /**
   * Deletes the semaphore. Its waiters keep waiting for someone to create it again.
   * @returns whether it existed
   * @throws {OutcomeUnknownError} Redis did not reply
   * @example `await semaphore.delete()`
   * @see Redisson `RSemaphore.delete`
   */
  async delete(): Promise<boolean> {
    const call = semaphoreDelete(this.key, this.key, generationKey(this.key))
    return (await runOnce(this.#context, this, 'delete', call)) === 1
  }

  /** @throws {WaitTimeoutError} the wait time ended first */
  async #takeInTime(options: SemaphoreOptions, section?: PermitSection): Promise<void> {
    const { waitTimeMs = this.#context.waitTimeMs } = options
    if (await this.#take(Object.assign(options, { waitTimeMs }), section)) return
    throw new WaitTimeoutError(this.name, waitTimeMs ?? 0, true, await whyNoPermits(this.#context, this.key))
  }

  /** @param section  begins with the grant, in the same turn of the event loop: the client may be closed in the next */
  async #take(options: SemaphoreOptions, section?: PermitSection): Promise<boolean> {
    const context = this.#context
    const { name, key } = this
    const { permits: wanted = 1 } = options
    const permits = checkCount('permits', wanted, 0, name)
    const { waitTimeMs, warnAfterMs, signal, label } = checkWait(context, name, options)
    const priority = this.#checkPriority(options.priority)
    context.assertOpen(name)
    signal?.throwIfAborted()
    if (permits === 0) {
      if (section) context.sections.add(section)
      return true
    }
    const longWait = new LongWait(context, name, { warnAfterMs, label }, () => whyNoPermits(context, key))
    let endWait: (() => void) | undefined
    const attempt = new SemaphoreAcquisition(context, this, permits, section)
    const ticket = this.#order && attempt.queueIn(this.#order, { waitTimeMs, priority })
    const wait = {
      lockName: name,
      onRefused: () => {
        endWait ??= waitBegan(context, key, label, wait.deadlineAt)
        longWait.refused()
      },
      attempt,
      isTransient,
      // Callers that want the same number: one that wants few is not held up by one that wants many. Never callers that want
      // permits with leases: their attempts free the permits that have expired.
      queue: `${ticket?.number ?? `${permits} permits without leases`}/${key}`,
      ownTicket: ticket,
      leaveTurnQueue: ticket && (() => {}), // what its attempts leave behind, the last of them undoes
      channel: semaphoreChannel(key),
      isShared: true,
      deadlineAt: context.clock.now() + (waitTimeMs ?? Number.POSITIVE_INFINITY),
      signal,
    }
    try {
      const operation = waitTimeMs === 0 ? await tryOnce(wait, context) : await waitFor(wait, context)
      if (operation) context.idempotencyKeys.close(operation)
      return operation !== undefined
    } catch (error) {
      throw await asLockError(context, this, 'acquire', error)
    } finally {
      longWait.end()
      endWait?.()
    }
  }

  /** @param into  a semaphore that is created if there is none, any existing one, or only the one of a generation */
  async #release(permits: number, into: 'create' | 'any' | number): Promise<boolean> {
    const { name, key: semaphore } = this
    const context = this.#context
    if (checkCount('permits', permits, 0, name) === 0) return false
    const [generation, channel] = [generationKey(semaphore), semaphoreChannel(semaphore)]
    const receivers = await countOnce(context, this, 'release', ({ key, number, openedAt }) => {
      if (!this.#order) return semaphoreRelease(semaphore, key, generation, permits, into, channel, number, openedAt)
      const keys = [semaphore, key, ...queueKeys(semaphore), generation] as const
      return semaphoreReleaseInOrder(...keys, permits, into, channel, INBOX_PREFIX, number, openedAt)
    })
    if (receivers === -1) context.emit('warning', publishRefused(name))
    return receivers !== -2
  }

  /** Runs a function with permits and releases them at its end, or earlier if the client closes. */
  #section({ permits = 1 }: SemaphoreOptions) {
    const { sections, emit } = this.#context
    const abort = new AbortController()
    const release = async (): Promise<void> => {
      sections.delete(section)
      // The limit was kept until the function ended; only the release is uncertain, and it is retried in the background.
      await this.#release(permits, section.generation).catch((error: Error) => emit('warning', error))
    }
    const section = {
      generation: 0,
      end: (): void => {
        abort.abort(new ClientClosedError(this.name))
        void release()
      },
      run: async <T>(fn: WithPermits<T>): Promise<T> => {
        abort.signal.throwIfAborted()
        try {
          const value = await fn(abort.signal)
          refuseUnread(value, this.name)
          abort.signal.throwIfAborted()
          return value
        } finally {
          if (!abort.signal.aborted) await release()
        }
      },
    }
    return section
  }

  #callFirst(): void {
    if (this.#order) callFirst(this.#context, this.key)
  }

  #checkPriority(priority: unknown): number | undefined {
    if (this.#order || priority === undefined) return checkPriority(priority, this.name)
    throw new ConfigError('priority', priority, "a semaphore with `order: 'fifo'`", { lockName: this.name })
  }

  #optionsAndBody<T>(
    first: SemaphoreOptions | WithPermits<T>,
    second: WithPermits<T> | undefined,
  ): [SemaphoreOptions, WithPermits<T>] {
    return optionsAndFunction<SemaphoreOptions, WithPermits<T>>(first, second, SEMAPHORE_OPTIONS, this.name, 'permits')
  }
}
