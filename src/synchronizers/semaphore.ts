import { NoReplyError, toInteger } from '../delivery/replies.js'
import { ClientClosedError, OutcomeUnknownError, WaitTimeoutError } from '../errors.js'
import { isTransient } from '../locks/acquisition.js'
import { checkWait, warnOfLongWait } from '../locks/base-lock.js'
import type { Context } from '../locks/context.js'
import { ask } from '../locks/inspection.js'
import { publishRefused } from '../locks/lease.js'
import { checkBody, refuseUnread } from '../locks/locked-callback.js'
import {
  semaphoreDelete,
  semaphoreDrainPermits,
  semaphoreInspect,
  semaphoreRelease,
  semaphoreSetPermits,
} from '../lua/generated.js'
import { checkCount, checkName, checkOptionalDuration, ownOptions } from '../util/validate.js'
import { tryOnce, waitFor } from '../waiting/wait-loop.js'
import { generationKey, semaphoreChannel } from '../wire/keys.js'
import { addPermits, countOnce } from './count-once.js'
import { type PermitSection, PermitsAcquisition } from './permits-acquisition.js'

export interface SemaphoreOptions {
  /** How many; default 1. */
  permits?: number | undefined
  /** Longest wait, ms, from this call; 0 tries once. Absent: no limit for `acquire`, 0 for `tryAcquire`. */
  waitTimeMs?: number | undefined
  /** Ends the wait: the call throws the signal's reason at once. Has no say once the permits are there. */
  signal?: AbortSignal | undefined
  /** Report a longer wait as `longWait`, ms. Default: the client's, which is never by default. */
  warnAfterMs?: number | undefined
  /** What it is for; shown in events. */
  label?: string | undefined
}

const SEMAPHORE_OPTIONS = ['permits', 'waitTimeMs', 'signal', 'warnAfterMs', 'label']

/** What runs with permits. @param signal  aborts if the client is closed meanwhile: the permits are given back then */
export type WithPermits<T> = (signal: AbortSignal) => T | PromiseLike<T>

/**
 * A number of permits that everybody who uses the name shares: Node and Java processes that use Redisson.
 *
 * A permit is a number, not a thing: it has no holder and no lease, anybody may give one back, and who crashes takes his
 * along. Where that must not be, take a `PermitExpirableSemaphore`. Nobody is served in the order of asking; who wants many
 * may be overtaken by those who want few.
 * @see Redisson `RSemaphore`
 */
export class Semaphore {
  readonly name: string
  readonly #context: Context

  /** @internal Semaphores come from a client. */
  constructor(context: Context, name: string) {
    this.name = checkName(name, 'semaphore name')
    this.#context = context
  }

  /**
   * Create the semaphore with so many permits, if it does not exist.
   * @param options  `timeToLiveMs`: the semaphore ends after that, ms; default never
   * @returns false if it existed
   * @throws {OutcomeUnknownError} Redis did not answer; it goes on in the background for a minute: do not repeat it
   * @throws {ConfigError} an argument cannot work; nothing was sent
   * @see Redisson `RSemaphore.trySetPermits`
   */
  async trySetPermits(permits: number, options: { timeToLiveMs?: number } = {}): Promise<boolean> {
    const { timeToLiveMs } = ownOptions(options, ['timeToLiveMs'], this.name)
    const ttl = checkOptionalDuration('timeToLiveMs', timeToLiveMs, 1, this.name) ?? 0
    checkCount('permits', permits, 0, this.name)
    const { name } = this
    const reply = await countOnce(this.#context, name, 'trySetPermits', ({ key, number, openedAt }) =>
      semaphoreSetPermits(name, key, generationKey(name), permits, ttl, semaphoreChannel(name), number, openedAt),
    )
    return reply === 1
  }

  /**
   * Take permits, and wait as long as it takes. A semaphore that does not exist has none.
   * @throws {WaitTimeoutError} `waitTimeMs` ended first
   * @throws {OutcomeUnknownError} Redis did not answer; what it may have given is given back in the background
   * @throws {ClientClosedError} the client is closed, or was closed during the wait
   * @throws {ConfigError} an argument cannot work; nothing was sent
   * @throws the reason of `signal`, when it aborts during the wait
   * @see Redisson `RSemaphore.acquire(permits)`
   */
  async acquire(options: SemaphoreOptions = {}): Promise<void> {
    const own = ownOptions(options, SEMAPHORE_OPTIONS, this.name)
    if (!(await this.#take(own))) throw new WaitTimeoutError(this.name, own.waitTimeMs ?? 0, true)
  }

  /**
   * Take permits if there are enough in time; without `waitTimeMs` ask once.
   * @returns whether they were taken
   * @throws as `acquire`, but never `WaitTimeoutError`
   * @see Redisson `RSemaphore.tryAcquire(permits, waitTime, unit)`
   */
  async tryAcquire(options: SemaphoreOptions = {}): Promise<boolean> {
    const own = ownOptions(options, SEMAPHORE_OPTIONS, this.name)
    const { waitTimeMs = 0 } = own
    return await this.#take(Object.assign(own, { waitTimeMs }))
  }

  /**
   * Run `fn` with permits, and give them back when it ends, unless the semaphore has ended or was replaced by then. If the
   * client is closed and drained before, they are given back then, and `signal` aborts.
   * @returns what `fn` returned
   * @throws what `fn` threw
   * @throws {ClientClosedError} `fn` succeeded, but the client was closed meanwhile: there may have been too many
   * @throws as `acquire`
   */
  withPermit<T>(fn: WithPermits<T>): Promise<T>
  withPermit<T>(options: SemaphoreOptions, fn: WithPermits<T>): Promise<T>
  async withPermit<T>(first: SemaphoreOptions | WithPermits<T>, second?: WithPermits<T>): Promise<T> {
    const [options, fn] = this.#optionsAndBody(first, second)
    const section = this.#section(options)
    if (!(await this.#take(options, section))) throw new WaitTimeoutError(this.name, options.waitTimeMs ?? 0, true)
    return await section.run(fn)
  }

  /**
   * Like `withPermit`, but answers when there were not enough; without `waitTimeMs` asks once.
   * @returns `{ ran: true, value }`, or `{ ran: false }`
   */
  tryWithPermit<T>(fn: WithPermits<T>): Promise<{ ran: true; value: T } | { ran: false }>
  tryWithPermit<T>(options: SemaphoreOptions, fn: WithPermits<T>): Promise<{ ran: true; value: T } | { ran: false }>
  async tryWithPermit<T>(
    first: SemaphoreOptions | WithPermits<T>,
    second?: WithPermits<T>,
  ): Promise<{ ran: true; value: T } | { ran: false }> {
    const [options, fn] = this.#optionsAndBody(first, second)
    const { waitTimeMs = 0 } = options
    const section = this.#section(options)
    if (!(await this.#take(Object.assign(options, { waitTimeMs }), section))) return { ran: false }
    return { ran: true, value: await section.run(fn) }
  }

  /**
   * Give permits back, and wake those who wait for them. More than were taken make more permits; a semaphore that does
   * not exist is created.
   * @throws {OutcomeUnknownError} Redis did not answer; it goes on in the background for a minute: do not repeat it
   * @throws {ConfigError} an argument cannot work; nothing was sent
   * @see Redisson `RSemaphore.release(permits)`
   */
  async release(permits = 1): Promise<void> {
    await this.#release(permits, 'create')
  }

  /**
   * Give permits back if the semaphore exists: one that was created with `timeToLiveMs` may have ended.
   * @returns whether it exists
   * @throws as `release`
   * @see Redisson `RSemaphore.releaseIfExists`
   */
  async releaseIfExists(permits = 1): Promise<boolean> {
    return await this.#release(permits, 'any')
  }

  /**
   * Let there be so many more permits.
   * @throws as `release`
   * @see Redisson `RSemaphore.addPermits`, which ends the expiry of the semaphore
   */
  async addPermits(permits: number): Promise<void> {
    const by = checkCount('permits', permits, 0, this.name)
    await addPermits(this.#context, this.name, generationKey(this.name), 'addPermits', by)
  }

  /**
   * Let there be so many fewer permits: fewer than none, if more are taken than there shall be.
   * @throws as `release`
   * @see Redisson `RSemaphore.addPermits` with a negative number
   */
  async reducePermits(permits: number): Promise<void> {
    const by = -checkCount('permits', permits, 0, this.name)
    await addPermits(this.#context, this.name, generationKey(this.name), 'reducePermits', by)
  }

  /**
   * Take all permits that there are. If there are fewer than none, there are none afterwards.
   * @returns how many there were
   * @throws as `release`
   * @see Redisson `RSemaphore.drainPermits`
   */
  async drainPermits(): Promise<number> {
    return await countOnce(this.#context, this.name, 'drainPermits', ({ key, number, openedAt }) =>
      semaphoreDrainPermits(this.name, key, number, openedAt),
    )
  }

  /**
   * How many permits there are right now. Old news when it arrives.
   * @throws {OutcomeUnknownError} Redis did not answer
   * @see Redisson `RSemaphore.availablePermits`
   */
  async availablePermits(): Promise<number> {
    const call = semaphoreInspect(this.name)
    return (await ask(this.#context, this.name, 'availablePermits', call, toInteger)) ?? 0
  }

  /**
   * Delete the semaphore. Those who wait go on waiting: for somebody to create it again.
   * @returns whether it existed
   * @throws {OutcomeUnknownError} Redis did not answer
   * @see Redisson `RSemaphore.delete`
   */
  async delete(): Promise<boolean> {
    const call = semaphoreDelete(this.name, this.name, generationKey(this.name))
    return (await ask(this.#context, this.name, 'delete', call, toInteger)) === 1
  }

  /** @param section  what begins with the grant, in the same turn: the client may be closed in the next */
  async #take(options: SemaphoreOptions, section?: PermitSection): Promise<boolean> {
    const context = this.#context
    const { name } = this
    const { permits: wanted = 1 } = options
    const permits = checkCount('permits', wanted, 0, name)
    const { waitTimeMs, warnAfterMs, signal, label } = checkWait(context, name, options)
    context.assertOpen(name)
    signal?.throwIfAborted()
    if (permits === 0) {
      if (section) context.sections.add(section)
      return true
    }
    const wait = {
      lockName: name,
      attempt: new PermitsAcquisition(context, name, permits, section),
      isTransient,
      // Callers who want the same number: one who wants few is not held up by one who wants many. Never those who want
      // permits with leases: their attempts return what has expired.
      queue: `${permits} permits without leases/${name}`,
      channel: semaphoreChannel(name),
      isShared: true,
      deadlineAt: context.clock.now() + (waitTimeMs ?? Number.POSITIVE_INFINITY),
      signal,
    }
    const stopWarning = warnOfLongWait(context, name, { warnAfterMs, label })
    try {
      const operation = waitTimeMs === 0 ? await tryOnce(wait, context) : await waitFor(wait, context)
      if (operation) context.idempotencyKeys.close(operation)
      return operation !== undefined
    } catch (error) {
      throw error instanceof NoReplyError ? new OutcomeUnknownError(name, 'acquire', error) : error
    } finally {
      stopWarning?.()
    }
  }

  /** @param into  a semaphore that is created if there is none, any that is there, or that of a generation alone */
  async #release(permits: number, into: 'create' | 'any' | number): Promise<boolean> {
    const { name } = this
    const context = this.#context
    if (checkCount('permits', permits, 0, name) === 0) return into === 'create'
    const heard = await countOnce(context, name, 'release', ({ key, number, openedAt }) =>
      semaphoreRelease(name, key, generationKey(name), permits, into, semaphoreChannel(name), number, openedAt),
    )
    if (heard === -1) context.emit('warning', publishRefused(name))
    return heard !== -2
  }

  /** What runs with permits: it ends by giving them back, or does so early when the client closes. */
  #section({ permits = 1 }: SemaphoreOptions) {
    const { sections, emit } = this.#context
    const abort = new AbortController()
    const release = async (): Promise<void> => {
      sections.delete(section)
      // The body was not one too many to its end; only the release is uncertain, and goes on in the background.
      await this.#release(permits, section.generation).catch((error: Error) => emit('warning', error))
    }
    const section = {
      generation: 0,
      giveUp: (): void => {
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

  #optionsAndBody<T>(
    first: SemaphoreOptions | WithPermits<T>,
    second: WithPermits<T> | undefined,
  ): [SemaphoreOptions, WithPermits<T>] {
    const [options, body] = typeof first === 'function' ? [{}, first] : [first, second]
    const fn = checkBody(body, this.name, 'permits')
    return [ownOptions(options, SEMAPHORE_OPTIONS, this.name), fn]
  }
}
