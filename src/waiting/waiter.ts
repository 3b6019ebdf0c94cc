// One caller's wait: wake-up, deadline, abort.
import { onAbort } from '../util/abort.js'
import type { Clock } from '../util/clock.js'

/** The caller, as an attempt sees it. */
export interface Caller {
  /** Whether the caller was dismissed, so that the result of the attempt will be released. */
  readonly hasLeft: boolean
}

/** What learns at once that the caller is sent away. */
export interface Dismissed {
  failed(reason: unknown): void
}

/** Turns what a caller of this client releases into what is waited for; undefined: it does not fit, or nothing does. */
export interface Taker<T> {
  readonly takeOver?: ((offered: unknown) => T | undefined) | undefined
}

/**
 * One caller's wait: a pause that ends with a wake-up, after a time, at the caller's deadline, by the caller's signal, or
 * when the client closes. A wake-up that arrives outside a pause is kept for the next one.
 */
export class Waiter<T = unknown> implements Caller {
  readonly lockName: string
  /** When the caller's wait time ends, on the clock; Infinity: no limit. */
  readonly deadlineAt: number
  readonly #clock: Clock
  readonly #stopListening: (() => void) | undefined
  readonly #taker: Taker<T> | undefined
  hasLeft = false
  /** The attempt in flight, if it is to learn that the caller is sent away. */
  inFlight: Dismissed | undefined
  #woken = false
  /** A wake-up does not end the pause before this, on the clock. */
  #sleepsUntil = 0
  #taken: { readonly granted: T } | undefined
  #resume: (() => void) | undefined
  /** Ends the pause after this many ms. */
  #endIn: ((ms: number) => void) | undefined
  #reason: unknown

  constructor(clock: Clock, lockName: string, deadlineAt: number, signal: AbortSignal | undefined, taker?: Taker<T>) {
    this.#taker = taker
    this.lockName = lockName
    this.deadlineAt = deadlineAt
    this.#clock = clock
    if (signal?.aborted) this.dismiss(signal.reason)
    else this.#stopListening = signal && onAbort(signal, () => this.dismiss(signal.reason))
  }

  get isTimeOver(): boolean {
    return this.#clock.now() >= this.deadlineAt
  }

  throwIfDismissed(): void {
    if (this.hasLeft && !this.#taken) throw this.#reason
  }

  /** Sends the caller away with an error: the signal's reason, or that the client closes. */
  dismiss(reason: unknown): void {
    if (this.hasLeft) return
    this.hasLeft = true
    this.#reason = reason
    this.inFlight?.failed(reason)
    this.#resume?.()
  }

  /**
   * Offers the caller what another caller of this client releases, without asking Redis. Only during a pause: an attempt
   * in flight might bring a second grant.
   * @returns whether it was taken: then the wait is over, whatever happens before the caller runs
   */
  offer(offered: unknown): boolean {
    if (!this.#resume || this.isTimeOver) return false
    const granted = this.#taker?.takeOver?.(offered)
    if (granted === undefined) return false
    this.#taken = { granted }
    // Taking it over may have ended a hold, and with it the pause.
    this.#resume?.()
    return true
  }

  /** The grant that it took over from another caller. */
  get taken(): { readonly granted: T } | undefined {
    return this.#taken
  }

  wake(): void {
    const isFirst = !this.#woken
    this.#woken = true
    const restMs = this.#resume ? this.#sleepsUntil - this.#clock.now() : 0
    if (restMs <= 0) this.#resume?.()
    else if (isFirst) this.#endIn?.(restMs)
  }

  /** Whether a wake-up came since the last attempt began. */
  get isWoken(): boolean {
    return this.#woken
  }

  /** Forgets the wake-ups so far: the attempt that follows covers them. */
  clearWakeUp(): void {
    this.#woken = false
  }

  /**
   * Pauses for at most `maxMs`, and never beyond the deadline.
   * @param sleepsUntil  a wake-up does not end it before this, on the clock
   */
  pause(maxMs: number, sleepsUntil = 0): Promise<void> {
    const now = this.#clock.now()
    const ms = Math.min(this.#woken ? sleepsUntil - now : maxMs, maxMs, this.deadlineAt - now)
    if (this.hasLeft || this.#taken || ms <= 0) return Promise.resolve()
    this.#sleepsUntil = Math.min(sleepsUntil, now + ms)
    return new Promise((resolve) => {
      let cancel: (() => void) | undefined
      this.#endIn = (inMs) => {
        cancel?.()
        if (inMs < Number.POSITIVE_INFINITY) cancel = this.#clock.after(inMs, () => this.#resume?.())
      }
      this.#resume = () => {
        this.#resume = undefined
        cancel?.()
        resolve()
      }
      this.#endIn(ms)
    })
  }

  /**
   * Settles like `pending`, but rejects as soon as the caller is sent away.
   * @param onSettled  called when `pending` settles, even after the caller has left; undefined: it was rejected
   */
  unlessDismissed<A>(pending: Promise<A>, onSettled?: (value?: A) => void): Promise<A> {
    return new Promise((resolve, reject) => {
      this.inFlight = { failed: reject }
      pending.then(
        (value) => {
          this.inFlight = undefined
          onSettled?.(value)
          resolve(value)
        },
        (error: unknown) => {
          this.inFlight = undefined
          onSettled?.()
          reject(error)
        },
      )
    })
  }

  /** The wait is over: stops listening to the signal. */
  end(): void {
    this.#stopListening?.()
  }
}
