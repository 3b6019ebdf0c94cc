import type { Clock } from '../clock.js'
import type { Waiter } from './waiter.js'
import type { Subscription, Wakeups } from './wakeups.js'

/** A line whose head never asked Redis looks up this often, ms: what a lost message costs. */
const GUARD_MS = 5_000

/**
 * The callers of one client who wait for one lock, first come first served. Only the head talks to Redis, so a
 * thousand waiters cost what one costs. The line owns the subscription: it is taken when the head is first refused, kept
 * while anybody waits, and wakes the head.
 */
export class Line {
  readonly #waiters = new Set<Waiter>()
  readonly #clock: Clock
  readonly #listen: (listener: () => void) => Subscription
  readonly #onEmpty: () => void
  #subscription: Subscription | undefined
  #isStandingBack = false
  #cancelGuard: (() => void) | undefined
  /** Until when the lock is surely taken because a waiter of this line got it, by what the line heard on its channel. */
  #takenUntil = 0

  constructor(clock: Clock, listen: (listener: () => void) => Subscription, onEmpty: () => void) {
    this.#clock = clock
    this.#listen = listen
    this.#onEmpty = onEmpty
  }

  join(waiter: Waiter): void {
    this.#waiters.add(waiter)
  }

  isHead(waiter: Waiter): boolean {
    return this.#head() === waiter
  }

  /** Whether the channel is heard, so that a release cannot be missed. */
  get isListening(): boolean {
    return this.#subscription?.isLive ?? false
  }

  /** How many of those who hear a message are this line alone. */
  get ears(): number {
    return this.#subscription?.ears ?? 0
  }

  /** Begin to listen, once; the head is woken when the channel is heard, as it may have been free until then. */
  subscribe(): void {
    this.#subscription ??= this.#listen(() => this.wake())
  }

  /** Let the head ask Redis: the lock may be free, whatever was known before. */
  wake(): void {
    this.#takenUntil = 0
    if (!this.#isStandingBack) this.#head()?.wake()
  }

  /**
   * Offer the head what a caller of this client lets go. The next one goes on sleeping: who has it now will offer it, or
   * its release wakes the line.
   * @returns whether it was taken
   */
  offer(offered: unknown): boolean {
    const head = this.#head()
    if (!head?.offer(offered)) return false
    this.#waiters.delete(head)
    if (this.#waiters.size === 0) {
      this.#close()
      return true
    }
    if (!this.isListening) this.wake()
    this.#cancelGuard ??= this.#clock.after(GUARD_MS, () => {
      this.#cancelGuard = undefined
      this.wake()
    })
    return true
  }

  /** Others are to go first: nobody of this line asks until the answer is called, and then after so many ms. */
  standBack(): (forMs: number) => void {
    this.#isStandingBack = true
    return (forMs) => {
      const goOn = (): void => {
        this.#isStandingBack = false
        this.wake()
      }
      if (forMs > 0) this.#clock.after(forMs, goOn)
      else goOn()
    }
  }

  /** When a waiter of this line took the lock: the next head may wait for a message instead of asking at once. */
  get takenUntil(): number {
    return this.#takenUntil
  }

  /** @param takenUntil  if it leaves with the lock: when its lease ends, on the clock */
  leave(waiter: Waiter, takenUntil: number | undefined): void {
    const wasHead = this.isHead(waiter)
    // Who was given what somebody else let go has left already.
    if (!this.#waiters.delete(waiter)) return
    if (this.#waiters.size === 0) {
      this.#close()
      return
    }
    if (!wasHead) return
    // Only what was heard all along counts: without a live subscription, or with a message that came during the last
    // attempt, the lock may be free again already.
    this.#takenUntil = this.isListening && !waiter.isWoken ? (takenUntil ?? 0) : 0
    this.#head()?.wake()
  }

  #close(): void {
    this.#cancelGuard?.()
    this.#subscription?.leave()
    this.#subscription = undefined
    this.#onEmpty()
  }

  #head(): Waiter | undefined {
    return this.#waiters.values().next().value
  }
}

const NOTHING_HEARD: Subscription = { isLive: false, ears: 0, leave: () => {} }

/** The lines of one client. Not by channel: the locks `a` and `{a}` have the same one. */
export class Lines {
  readonly #clock: Clock
  readonly #wakeups: Wakeups
  readonly #lines = new Map<unknown, Line>()
  readonly #waiters = new Set<Waiter>()

  constructor(clock: Clock, wakeups: Wakeups) {
    this.#clock = clock
    this.#wakeups = wakeups
  }

  /**
   * Join the end of a line. The answer leaves it again; `takenUntil` as in `Line.leave`.
   * @param channel  where what the line waits for is announced; undefined: nowhere
   */
  join(
    name: unknown,
    channel: string | undefined,
    waiter: Waiter,
  ): { line: Line; leave: (takenUntil: number | undefined) => void } {
    const line = this.#lines.get(name) ?? this.#open(name, channel)
    line.join(waiter)
    this.#waiters.add(waiter)
    return {
      line,
      leave: (takenUntil) => {
        this.#waiters.delete(waiter)
        line.leave(waiter, takenUntil)
      },
    }
  }

  /** Those who wait there, if anybody does. */
  at(name: unknown): Line | undefined {
    return this.#lines.get(name)
  }

  /** How many callers wait. */
  get size(): number {
    return this.#waiters.size
  }

  /** Send all waiters away. */
  dismissAll(reason: (lockName: string) => unknown): void {
    for (const waiter of [...this.#waiters]) waiter.dismiss(reason(waiter.lockName))
  }

  #open(name: unknown, channel: string | undefined): Line {
    const line = new Line(
      this.#clock,
      (listener) => (channel === undefined ? NOTHING_HEARD : this.#wakeups.listen(channel, listener)),
      () => this.#lines.delete(name),
    )
    this.#lines.set(name, line)
    return line
  }
}
