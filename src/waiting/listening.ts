// When a client subscribes to the channel of a lock that it waits for, and when it polls.
import type { Clock } from '../util/clock.js'
import type { TurnQueue, TurnRequest } from './turn-queue.js'
import type { Subscription } from './wakeups.js'

/** Poll interval of a queue that relies on wake-ups, ms: the longest delay that a lost message causes. */
const POLL_MS = 5_000
/** The same while it is another client's turn, ms: the delay if that client has died. */
export const OTHERS_TURN_MS = 1_000
/** How long a queue stays subscribed after its last waiter has left, ms: often the next one comes soon. */
export const IDLE_MS = 500

/** The subscription to a lock's channel. */
export type LockSubscription = Omit<Subscription, 'isRefused'>

/**
 * How the head of a wait queue learns that it should try again: by the lock's channel, by its turn, or by polling.
 *
 * If there is a turn queue, the client receives its turns on its inbox. It also subscribes to the lock's channel while the
 * holder may be a thread of Redisson, whose release notifies no inbox.
 */
export class Listening {
  readonly #clock: Clock
  readonly #turns: TurnQueue | undefined
  readonly #subscribe: () => LockSubscription
  readonly #wake: () => void
  #subscription: LockSubscription | undefined
  /** The earliest time to leave the lock's channel, on the clock. */
  #subscribedUntil = 0
  /** The next attempt is a poll. */
  #isPoll = false
  #pollAt = 0
  #timer: { readonly firesAt: number; readonly cancel: () => void } | undefined

  /** @param wake  wakes the head */
  constructor(clock: Clock, turns: TurnQueue | undefined, subscribe: () => LockSubscription, wake: () => void) {
    this.#clock = clock
    this.#turns = turns
    this.#subscribe = subscribe
    this.#wake = wake
  }

  /** The turn queue, if Redis lets this client receive its turns. */
  get turns(): TurnQueue | undefined {
    return this.#turns?.isAllowed ? this.#turns : undefined
  }

  /** Whether the client is subscribed, so that it misses no release. */
  get isLive(): boolean {
    const { turns } = this
    if (!turns) return this.#subscription?.isLive ?? false
    return turns.isListening && this.#subscription?.isLive !== false
  }

  /** Whether the client has subscribed to the lock's channel. */
  get isSubscribed(): boolean {
    return this.#subscription !== undefined
  }

  /** How many subscribers of the lock's channel this queue is. */
  get ownReceivers(): number {
    return this.#subscription?.ownReceivers ?? 0
  }

  /** No wake-up came for a while: the next request is a poll. */
  markPoll(): void {
    this.#isPoll = true
  }

  /** @returns whether this request is a poll */
  takePoll(): boolean {
    const isPoll = this.#isPoll
    this.#isPoll = false
    return isPoll
  }

  /**
   * The head was refused: subscribe. The head is woken once the subscription is confirmed, as the lock may have been free
   * until then.
   * @param place  the place of this client in the turn queue
   * @param request  how the attempt used the turn queue
   */
  refused(place: 'first' | 'behind' | undefined, request: TurnRequest | undefined): void {
    const { turns } = this
    turns?.takeTicket()
    const now = this.#clock.now()
    const isFirst = place === 'first'
    // Some releases give no turn: those of Redisson, and `forceUnlock` by others. The first client in the queue listens for
    // them on behalf of all; not at once, as usually its turn comes soon.
    const mayMissRelease = request !== undefined && !place
    if (!turns || mayMissRelease || (isFirst && request?.isPoll)) {
      this.#subscribedUntil = now + IDLE_MS
      this.#subscription ??= this.#subscribe()
    } else if (isFirst) {
      if (!this.#subscription) this.pollSoon()
    } else if (this.#subscription && now >= this.#subscribedUntil) {
      this.#unsubscribe()
    }
  }

  /** It is another client's turn, which may have died. */
  pollSoon(): void {
    this.#pollWithin(OTHERS_TURN_MS)
  }

  /** A caller of this client got the lock: its release wakes the next one, or the message is lost. */
  pollLater(): void {
    this.#pollWithin(this.#subscription ? POLL_MS : OTHERS_TURN_MS)
  }

  close(): void {
    this.#timer?.cancel()
    this.#turns?.close()
    this.#unsubscribe()
  }

  #unsubscribe(): void {
    this.#subscription?.leave()
    this.#subscription = undefined
  }

  /** Wakes the head after `ms` unless something else does. One timer however often this is called. */
  #pollWithin(ms: number): void {
    this.#pollAt = this.#clock.now() + ms
    if (this.#timer && this.#timer.firesAt <= this.#pollAt) return
    this.#timer?.cancel()
    const poll = (): void => {
      this.#timer = undefined
      const leftMs = this.#pollAt - this.#clock.now()
      if (leftMs > 0) {
        this.#pollWithin(leftMs)
      } else {
        this.markPoll()
        this.#wake()
      }
    }
    this.#timer = { firesAt: this.#pollAt, cancel: this.#clock.after(ms, poll) }
  }
}
