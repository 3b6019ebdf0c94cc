import type { Waiter } from './waiter.js'
import type { Subscription, Wakeups } from './wakeups.js'

/**
 * The callers of one client who wait for one lock, first come first served. Only the head talks to Redis, so a
 * thousand waiters cost what one costs. The line owns the subscription: it is taken when the head is first refused, kept
 * while anybody waits, and wakes the head.
 */
export class Line {
  readonly #waiters = new Set<Waiter>()
  readonly #listen: (listener: () => void) => Subscription
  readonly #onEmpty: () => void
  #subscription: Subscription | undefined
  /** Until when the lock is surely taken because a waiter of this line got it, by what the line heard on its channel. */
  #takenUntil = 0

  constructor(listen: (listener: () => void) => Subscription, onEmpty: () => void) {
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

  /** Begin to listen, once; the head is woken when the channel is heard, as it may have been free until then. */
  subscribe(): void {
    this.#subscription ??= this.#listen(() => this.#head()?.wake())
  }

  /** When a waiter of this line took the lock: the next head may wait for a message instead of asking at once. */
  get takenUntil(): number {
    return this.#takenUntil
  }

  /** @param takenUntil  if it leaves with the lock: when its lease ends, on the clock */
  leave(waiter: Waiter, takenUntil: number | undefined): void {
    const wasHead = this.isHead(waiter)
    this.#waiters.delete(waiter)
    if (this.#waiters.size === 0) {
      this.#subscription?.leave()
      this.#subscription = undefined
      this.#onEmpty()
      return
    }
    if (!wasHead) return
    // Only what was heard all along counts: without a live subscription, or with a message that came during the last
    // attempt, the lock may be free again already.
    this.#takenUntil = this.isListening && !waiter.isWoken ? (takenUntil ?? 0) : 0
    this.#head()?.wake()
  }

  #head(): Waiter | undefined {
    return this.#waiters.values().next().value
  }
}

const NOTHING_HEARD: Subscription = { isLive: false, leave: () => {} }

/** The lines of one client. Not by channel: the locks `a` and `{a}` have the same one. */
export class Lines {
  readonly #wakeups: Wakeups
  readonly #lines = new Map<unknown, Line>()
  readonly #waiters = new Set<Waiter>()

  constructor(wakeups: Wakeups) {
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
      (listener) => (channel === undefined ? NOTHING_HEARD : this.#wakeups.listen(channel, listener)),
      () => this.#lines.delete(name),
    )
    this.#lines.set(name, line)
    return line
  }
}
