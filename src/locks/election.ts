// Leader election: campaigns for a fenced lock, leads, resigns.
import { isLasting } from '../delivery/replies.js'
import { ClientClosedError, ConfigError, LeaseLostError, NotDurableError, toError, WrongTypeError } from '../errors.js'
import { mayHaveManyListeners } from '../platform.js'
import { onAbort } from '../util/abort.js'
import { backoffMs } from '../util/backoff.js'
import { sleep } from '../util/sleep.js'
import { checkFunction, MAX_DURATION_MS, ownOptions } from '../util/validate.js'
import { campaignFailed, leaderStillRunning } from '../warnings.js'
import { runOutside } from './call-chain.js'
import type { FencedHold, FencedLock } from './fenced-lock.js'
import type { HoldTerms } from './hold.js'
import { isInsideOf } from './ownership.js'
import { checkCallback, withLock } from './with-lock.js'

/** Renewed until it is given up, whatever the defaults of the client: neither waiting nor leading is ever too long. */
const TERMS: HoldTerms = {
  leaseTimeMs: undefined,
  maxHoldMs: undefined,
  warnAfterMs: MAX_DURATION_MS,
  label: undefined,
}

/** Pauses before the next campaign, ms: the first one, and the longest. */
const PAUSE_MS = { base: 1_000, longest: 30_000 }

export interface ElectionOptions {
  /**
   * Called each time this process is elected. Leadership does not end with this function: it lasts until it is lost or
   * resigned. Nobody else is elected by a resignation, and this process does not campaign again, before the promise that it
   * returns has settled.
   * @param signal  aborts the moment leadership ends: with a `LeaseLostError` if it was lost, with an `AbortError` if it was
   *   resigned. Stop working then. Pass it to whatever takes it: `fetch(url, { signal })`
   * @param hold  what makes this process the leader. Its `fencingToken` is higher than that of every earlier leader, and
   *   `hold.assertHeld()` throws even before the signal can abort after a pause
   */
  onElected: (signal: AbortSignal, hold: FencedHold) => unknown
  /** Called when leadership was lost, right after the signal aborted; not when it was resigned. */
  onLost?: ((error: LeaseLostError) => unknown) | undefined
}

/** The candidacy of this process in an election, and its leadership while it is elected: from `client.elect`. */
export class Election {
  readonly name: string
  /**
   * Resolves when the election is over for this process: after `resign()`, or when the client closes. Rejects with what
   * `onElected` threw before its signal aborted, once leadership has passed on, and with an error that will not go away
   * (WRONGTYPE, NOPERM, an unknown command); any other one is a `warning`, and the candidacy stays. Leave it unhandled to
   * let that end the process, as any unhandled rejection does.
   */
  readonly finished: Promise<void>
  readonly #lock: FencedLock
  readonly #onElected: ElectionOptions['onElected']
  readonly #onLost: ElectionOptions['onLost']
  readonly #resigned = new AbortController()
  #term: { readonly hold: FencedHold; readonly signal: AbortSignal } | undefined

  /** @internal Elections come from `client.elect`. */
  constructor(lock: FencedLock, options: ElectionOptions) {
    const { name } = lock
    const { onElected, onLost } = ownOptions(options, { onElected: 1, onLost: 1 }, name)
    if (typeof onElected !== 'function') {
      throw new ConfigError('onElected', onElected, 'a function to call when elected', { lockName: name })
    }
    checkFunction('onLost', onLost, name)
    this.#onElected = checkCallback(onElected, name)
    this.#onLost = onLost
    this.#lock = lock
    this.name = name
    lock.context.assertOpen(name)
    // An election inside a hold of the same lock must not re-enter that.
    this.finished = runOutside(() => this.#run())
  }

  /** Whether this process is the leader right now: elected, within its lease, and not resigned. Synchronous, without I/O. */
  get isLeader(): boolean {
    return this.#term?.hold.isLive === true && !this.#term.signal.aborted
  }

  /**
   * Give up leadership or candidacy, for good. The signal aborts at once; when `onElected` has ended, the lock is released,
   * and the next leader is elected within milliseconds. Idempotent. To lead again later, call `client.elect` again.
   * @returns a promise that settles as `finished`. Called by `onElected` itself it resolves at once, as leadership passes on
   *   only when that has ended
   * @throws what `finished` rejects with
   * @example
   * const election = client.elect('lock:leader:invoices', { onElected: sendInvoices })
   * await election.resign() // others lead from here on
   */
  async resign(): Promise<void> {
    const term = this.#term
    this.#cancel()
    if (!term || !isInsideOf(term.hold)) await this.finished
  }

  /** Resigns at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.resign()
  }

  #cancel(): void {
    const message = `This process resigned from the election ${JSON.stringify(this.name)}`
    this.#resigned.abort(new DOMException(message, 'AbortError'))
  }

  async #run(): Promise<void> {
    const { clock, random, sections } = this.#lock.context
    const { signal } = this.#resigned
    const section = { closing: () => this.#cancel(), end: () => {} }
    sections.add(section)
    try {
      for (let failures = 0; !signal.aborted; ) {
        const hold = await this.#campaign()
        if (hold) await this.#lead(hold)
        failures = hold ? 0 : failures + 1
        // Also after a loss: an operator who forces the lock open wants another leader.
        await sleep(backoffMs(failures, PAUSE_MS.base, PAUSE_MS.longest, random), { clock, signal })
      }
    } finally {
      sections.delete(section)
    }
  }

  /**
   * @returns undefined: resigned, or Redis could not be asked
   * @throws an error that will not go away
   */
  async #campaign(): Promise<FencedHold | undefined> {
    const { signal } = this.#resigned
    try {
      return await this.#lock.acquire({ terms: TERMS, waitTimeMs: undefined, signal, within: undefined })
    } catch (error) {
      if (signal.aborted) return undefined
      if (isFinal(error)) throw error
      this.#warn(campaignFailed(this.name, error))
      return undefined
    }
  }

  /** @throws what `onElected` threw before its signal aborted; by then the lock is released */
  async #lead(hold: FencedHold): Promise<void> {
    let hasFailed = false
    const serve = async (): Promise<void> => {
      try {
        await this.#serve(hold)
      } catch (error) {
        hasFailed = true
        throw error
      }
    }
    try {
      await withLock(this.#lock.context, this.#lock.name, { asked: hold, holdOf: (one) => one }, {}, serve)
    } catch (error) {
      if (hasFailed) throw error
      // The loss of leadership is already known, or no longer matters. A release is repeated until the lease is over.
      if (!(error instanceof LeaseLostError)) this.#warn(toError(error))
    }
  }

  /** One term of office, which ends when `onElected` and leadership have both ended. */
  async #serve(hold: FencedHold): Promise<void> {
    const { context } = this.#lock
    const resigned = this.#resigned.signal
    if (resigned.aborted || !hold.isLive) return
    const term = new AbortController()
    const { signal } = term
    mayHaveManyListeners(signal) // the work may pass it to more than ten calls
    this.#term = { hold, signal }
    let stopWarning: (() => void) | undefined
    const end = (reason: unknown): void => {
      if (signal.aborted) return
      const warn = (): void => this.#warn(leaderStillRunning(this.name, context.watchdogTimeoutMs))
      stopWarning = context.clock.after(context.watchdogTimeoutMs, warn, false)
      runOutside(() => term.abort(reason))
      if (reason !== undefined && reason === hold.lostError) void this.#reportLoss(hold.lostError)
    }
    const stopListening = onAbort(resigned, () => end(resigned.reason))
    hold.onEnd = () => end(hold.lostError) // or it was unlocked by `onElected`
    try {
      await this.#onElected(signal, hold)
      if (!signal.aborted) await new Promise<void>((resolve) => onAbort(signal, resolve))
    } catch (error) {
      const wasLeader = hold.isLive && !signal.aborted
      end(error)
      if (wasLeader) throw error
      const isAbort = (error as Error | null)?.name === 'AbortError' || error instanceof LeaseLostError
      if (!isAbort) this.#warn(toError(error))
    } finally {
      hold.onEnd = undefined
      stopListening()
      stopWarning?.()
      this.#term = undefined
    }
  }

  async #reportLoss(error: LeaseLostError): Promise<void> {
    try {
      await runOutside(() => this.#onLost?.(error))
    } catch (cause) {
      this.#warn(toError(cause))
    }
  }

  #warn(warning: Error): void {
    this.#lock.context.emit('warning', warning)
  }
}

/** Whether no later campaign can succeed: what is asked for cannot work, or this user may not do it. */
function isFinal(error: unknown): boolean {
  if (error instanceof NotDurableError) return error.reason === 'refused'
  return [WrongTypeError, ConfigError, ClientClosedError].some((kind) => error instanceof kind) || isLasting(error)
}
