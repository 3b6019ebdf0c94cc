import { onAbort } from '../util/abort.js'
import type { Clock } from '../util/clock.js'

/**
 * One caller's wait: a place to pause that ends with a wake-up, after a time, at the caller's deadline, by the caller's
 * signal, or when the client closes. A wake-up that comes while nobody pauses is kept for the next pause.
 */
export class Waiter<T = unknown> {
  /** What is waited for. */
  readonly lockName: string
  /** When the caller's wait time ends, on the clock; Infinity: no limit. */
  readonly deadlineAt: number
  readonly #clock: Clock
  readonly #letGo: (() => void) | undefined
  readonly #takeOver: ((offered: unknown) => T | undefined) | undefined
  #woken = false
  /** A pause does not end with a wake-up before this, on the clock. */
  #sleepsUntil = 0
  #given: { readonly granted: T } | undefined
  #resume: (() => void) | undefined
  /** Let the pause end after so many ms. */
  #endIn: ((ms: number) => void) | undefined
  #dismissal: { readonly reason: unknown } | undefined
  #onDismissed: ((reason: unknown) => void) | undefined

  /** @param takeOver  makes of what a caller of this client lets go what is waited for; undefined: it cannot */
  constructor(
    clock: Clock,
    lockName: string,
    deadlineAt: number,
    signal: AbortSignal | undefined,
    takeOver?: (offered: unknown) => T | undefined,
  ) {
    this.#takeOver = takeOver
    this.lockName = lockName
    this.deadlineAt = deadlineAt
    this.#clock = clock
    this.#letGo = signal && onAbort(signal, () => this.dismiss(signal.reason))
  }

  get isTimeOver(): boolean {
    return this.#clock.now() >= this.deadlineAt
  }

  throwIfDismissed(): void {
    if (this.#dismissal && !this.#given) throw this.#dismissal.reason
  }

  /** Send the caller away with an error: the caller's own reason for an abort, or that the client closes. */
  dismiss(reason: unknown): void {
    if (this.#dismissal) return
    this.#dismissal = { reason }
    this.#onDismissed?.(reason)
    this.#resume?.()
  }

  /**
   * Give the caller what somebody else in this client lets go, without asking Redis. Only while it pauses: an attempt in
   * flight may bring a second one.
   * @returns whether it was taken: then the wait is over, whatever comes before the caller runs
   */
  offer(offered: unknown): boolean {
    if (!this.#resume || this.isTimeOver) return false
    const granted = this.#takeOver?.(offered)
    if (granted === undefined) return false
    this.#given = { granted }
    // What it takes over may have ended a hold, and with it the pause.
    this.#resume?.()
    return true
  }

  /** What it was given. */
  get given(): { readonly granted: T } | undefined {
    return this.#given
  }

  wake(): void {
    const isFirst = !this.#woken
    this.#woken = true
    const restMs = this.#resume ? this.#sleepsUntil - this.#clock.now() : 0
    if (restMs <= 0) this.#resume?.()
    else if (isFirst) this.#endIn?.(restMs)
  }

  /** Whether a wake-up came that no attempt has answered yet. */
  get isWoken(): boolean {
    return this.#woken
  }

  /** Forget wake-ups up to now: what they tell is covered by the attempt that follows. */
  clearWakeUp(): void {
    this.#woken = false
  }

  /**
   * Pause for at most `maxMs`, and never beyond the deadline.
   * @param sleepsUntil  a wake-up does not end it before this, on the clock
   */
  pause(maxMs: number, sleepsUntil = 0): Promise<void> {
    const now = this.#clock.now()
    const ms = Math.min(this.#woken ? sleepsUntil - now : maxMs, maxMs, this.deadlineAt - now)
    if (this.#dismissal || this.#given || ms <= 0) return Promise.resolve()
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

  /** The outcome of `pending`, unless the caller is sent away first: then `giveBack` gets what it still brings. */
  unlessDismissed<A>(pending: Promise<A>, giveBack: (value: A) => void): Promise<A> {
    return new Promise((resolve, reject) => {
      let isTooLate = false
      this.#onDismissed = (reason) => {
        isTooLate = true
        reject(reason)
      }
      pending.then(
        (value) => {
          this.#onDismissed = undefined
          if (isTooLate) giveBack(value)
          else resolve(value)
        },
        (error: unknown) => {
          this.#onDismissed = undefined
          reject(error)
        },
      )
    })
  }

  /** The wait is over: let go of the signal. */
  end(): void {
    this.#letGo?.()
  }
}
