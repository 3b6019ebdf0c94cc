// The waiters of one client for one lock.
import type { Clock } from '../util/clock.js'
import { NameMap } from '../util/collections.js'
import type { Inbox, TurnMessage } from './inbox.js'
import { TurnQueue, type TurnRequest, type TurnTicket } from './turn-queue.js'
import type { Waiter } from './waiter.js'
import type { Subscription, Wakeups } from './wakeups.js'

/** How soon a queue that relies on wake-ups polls nevertheless, ms: the delay that a lost message causes. */
const POLL_MS = 5_000
/** The same while it is another client's turn, ms: the delay if that client has died. */
const OTHERS_TURN_MS = 1_000
/** How long a queue stays subscribed after its last waiter has left, ms: often the next one comes soon. */
const LINGER_MS = 500

/** How the waiters of one client learn of a release. */
export interface WakeUpSource {
  /** The channel that announces releases to every client; undefined: there is none. */
  readonly channel: string | undefined
  /** Gives up a place in the turn queue. Undefined: there is no turn queue, and a release wakes every client. */
  readonly leaveTurnQueue?: ((ticket: string) => void) | undefined
}

/** The result of an attempt that was not granted. */
export interface Refusal {
  /** What is left of the present lease, ms; below 0: it has no end. */
  readonly heldForMs: number
  /** The place of this client in the turn queue, if the release is known to notify the first client. */
  readonly place?: 'first' | 'behind' | undefined
}

/** What a queue needs of its subscription to the lock's channel. */
type LockSubscription = Omit<Subscription, 'isRefused'>

/** Other clients go first. */
interface Pause {
  /** Whether the queue would have been woken meanwhile. */
  isWoken: boolean
  cancel?: () => void
}

/**
 * The callers of one client that wait for one lock, first come first served. Only the head sends commands to Redis, so a
 * thousand waiters cost as much as one. The queue owns the subscription, which wakes the head: it subscribes when the head
 * is first refused, and unsubscribes a little after the last waiter has left.
 *
 * If there is a turn queue, the client receives its turns on its inbox. It subscribes to the lock's channel, too, while the
 * holder may be a thread of Redisson, whose release notifies no inbox.
 */
export class WaitQueue {
  readonly #clock: Clock
  readonly #turns: TurnQueue | undefined
  readonly #subscribe: (listener: () => void) => LockSubscription
  readonly #onClose: () => void
  readonly #waiters = new Set<Waiter>()
  #subscription: LockSubscription | undefined
  /** The earliest time to leave the lock's channel, on the clock. */
  #subscribedUntil = 0
  #hasRivals = false
  /** How the last attempt used the turn queue; undefined: it did not. */
  #lastRequest: TurnRequest | undefined
  /** The next attempt is a poll. */
  #isPoll = false
  #pause: Pause | undefined
  /** Until when a grant to a waiter of this queue is certain to keep the lock, on the clock; 0: unknown. */
  #takenUntil = 0
  #pollAt = 0
  #timer: { readonly firesAt: number; readonly cancel: () => void } | undefined
  #cancelLinger: (() => void) | undefined

  constructor(
    clock: Clock,
    inbox: Inbox,
    leaveTurnQueue: WakeUpSource['leaveTurnQueue'],
    subscribe: (listener: () => void) => LockSubscription,
    onClose: () => void,
  ) {
    this.#clock = clock
    this.#turns = leaveTurnQueue && new TurnQueue(inbox, leaveTurnQueue, (message) => this.#receive(message))
    this.#subscribe = subscribe
    this.#onClose = onClose
  }

  get waiters(): Iterable<Waiter> {
    return this.#waiters
  }

  join(waiter: Waiter): void {
    this.#cancelLinger?.()
    this.#cancelLinger = undefined
    this.#waiters.add(waiter)
  }

  isHead(waiter: Waiter): boolean {
    return this.#head() === waiter
  }

  /** Whether the client is subscribed to whatever announces a release, so that it misses none. */
  get isListening(): boolean {
    if (!this.#usableTurns) return this.#subscription?.isLive ?? false
    return this.#usableTurns.isListening && this.#subscription?.isLive !== false
  }

  /** How many receivers of a message on the lock's channel are this queue. */
  get ownReceivers(): number {
    return this.#subscription?.ownReceivers ?? 0
  }

  /** The ticket of this client in the turn queue, if Redis has it. */
  get ticket(): string | undefined {
    return this.#turns?.queuedTicket
  }

  get #usableTurns(): TurnQueue | undefined {
    return this.#turns?.isAllowed ? this.#turns : undefined
  }

  /** The head is about to request the lock. @returns how it uses the turn queue; undefined: not at all */
  request(): TurnRequest | undefined {
    const isPoll = this.#isPoll
    this.#isPoll = false
    this.#lastRequest = this.#turns?.request(isPoll, this.#waiters.size > 1)
    return this.#lastRequest
  }

  /** No wake-up came for a while: the next request is a poll. */
  markPoll(): void {
    this.#isPoll = true
  }

  /**
   * The head was refused: subscribe. The head is woken once the subscription is confirmed, as the lock may have been free
   * until then.
   */
  refused(place: Refusal['place']): void {
    this.#usableTurns?.takeTicket()
    const now = this.#clock.now()
    const isFirst = place === 'first'
    // Some releases give no turn: those of Redisson, and `forceUnlock` by others. The first client in the queue listens for
    // them on behalf of all; not at once, as usually its turn comes soon.
    const mayMissRelease = this.#lastRequest !== undefined && !place
    if (!this.#usableTurns || mayMissRelease || (isFirst && this.#lastRequest?.isPoll)) {
      this.#subscribedUntil = now + LINGER_MS
      this.#subscription ??= this.#subscribe(() => this.wake())
    } else if (isFirst) {
      if (!this.#subscription) this.#pollWithin(OTHERS_TURN_MS)
    } else if (this.#subscription && now >= this.#subscribedUntil) {
      this.#subscription.leave()
      this.#subscription = undefined
    }
  }

  /**
   * A caller of this client is about to release the lock.
   * @param isBusy  the lock was handed off from caller to caller: they are likely to be back before the turn of this client
   *   comes again, so it keeps its place
   * @returns the ticket to keep or to take back; undefined: none
   */
  ticketForRelease(isBusy: boolean): TurnTicket | undefined {
    const isEmpty = this.#waiters.size === 0
    const staysQueued = !isEmpty || (isBusy && this.#hasRivals)
    const ticket = staysQueued ? this.request()?.ticket : this.#turns?.leaveWithRelease()
    if (ticket === undefined) return undefined
    if (isEmpty && staysQueued) this.#takenUntil = this.#clock.now() + OTHERS_TURN_MS
    return { ticket, staysQueued }
  }

  /** The lock was released. @param receivers  how many subscribers were notified, apart from the inbox of this client */
  released(receivers: number): void {
    this.#hasRivals = receivers > this.ownReceivers
  }

  /** Whether others were subscribed when the lock was released last. */
  get hasRivals(): boolean {
    return this.#hasRivals
  }

  /** Until when the next head may wait for a message instead of requesting the lock at once. */
  get takenUntil(): number {
    return this.#takenUntil
  }

  /**
   * Hands the head what a caller of this client releases. The next waiter sleeps on: the new holder hands it off in turn, or
   * its release wakes the queue.
   * @returns whether the head took it
   */
  offer(offered: unknown): boolean {
    const head = this.#head()
    if (!head?.offer(offered)) return false
    this.#waiters.delete(head)
    // The ticket may stay in Redis: the next release takes it back.
    if (this.#waiters.size === 0) this.#linger()
    else if (this.isListening) this.#pollWithin(this.#subscription ? POLL_MS : OTHERS_TURN_MS)
    else this.wake()
    return true
  }

  /** Lets other clients go first: no waiter requests the lock until the returned function is called, and `forMs` are over. */
  yieldToOthers(): (forMs: number) => void {
    const pause: Pause = { isWoken: false }
    this.#pause = pause
    return (forMs) => {
      const resume = (): void => {
        if (this.#pause === pause) this.#pause = undefined
        if (pause.isWoken || !this.#turns?.isQueued) this.wake()
      }
      if (forMs > 0 && this.#waiters.size > 0) pause.cancel = this.#clock.after(forMs, resume)
      else resume()
    }
  }

  /** @param takenUntil  if the waiter got the lock: when its lease ends, on the clock */
  leave(waiter: Waiter, takenUntil: number | undefined): void {
    const wasHead = this.isHead(waiter)
    // After a hand-off the waiter has left already.
    if (!this.#waiters.delete(waiter)) return
    if (takenUntil !== undefined && this.#lastRequest) this.#turns?.granted(this.#lastRequest.staysQueued)
    if (this.#waiters.size === 0) {
      this.#leaveTurnQueue()
      this.#linger()
    }
    if (this.#waiters.size === 0 || !wasHead) return
    // Without a live subscription, without a place in the queue, or after a message during the last attempt, the lock may be
    // free again already.
    const isQueued = !this.#usableTurns || this.#usableTurns.isQueued
    this.#takenUntil = this.isListening && isQueued && !waiter.isWoken ? (takenUntil ?? 0) : 0
    // Redisson announces `forceUnlock` on the lock's channel alone, to which the first client subscribes after a while.
    if (this.#takenUntil > 0 && this.#usableTurns && !this.#subscription) this.#pollWithin(OTHERS_TURN_MS)
    this.#head()?.wake()
  }

  /** Unsubscribes and gives up the place in the turn queue, if nobody waits. */
  close(): void {
    if (this.#waiters.size > 0) return
    this.#cancelLinger?.()
    this.#pause?.cancel?.()
    this.#timer?.cancel()
    this.#turns?.close()
    this.#subscription?.leave()
    this.#subscription = undefined
    this.#onClose()
  }

  /** Wakes the head, or does so once other clients have gone first. */
  wake(): void {
    this.#takenUntil = 0
    if (this.#pause) this.#pause.isWoken = true
    else this.#head()?.wake()
  }

  #receive(message: TurnMessage): void {
    if (message === 'next') this.#pollWithin(OTHERS_TURN_MS)
    else if (message === undefined || this.#waiters.size > 0) this.wake()
    else this.#leaveTurnQueue()
  }

  /** The last waiter has left. */
  #linger(): void {
    this.#takenUntil = 0
    if (!this.#turns || !(this.#subscription || this.#turns.hasTicket)) this.close()
    else this.#cancelLinger = this.#clock.after(LINGER_MS, () => this.close(), false)
  }

  #leaveTurnQueue(): void {
    this.#turns?.leave()
    this.#takenUntil = 0
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
        this.wake()
      }
    }
    this.#timer = { firesAt: this.#pollAt, cancel: this.#clock.after(ms, poll) }
  }

  #head(): Waiter | undefined {
    return this.#waiters.values().next().value
  }
}

const NO_SUBSCRIPTION: LockSubscription = { isLive: false, ownReceivers: 0, leave: () => {} }

/** The wait queues of one client. Not by channel: the locks `a` and `{a}` have the same channel. */
export class WaitQueues {
  readonly #clock: Clock
  readonly #wakeups: Wakeups
  readonly #inbox: Inbox
  readonly #queues = new NameMap<WaitQueue>()

  constructor(clock: Clock, wakeups: Wakeups, inbox: Inbox) {
    this.#clock = clock
    this.#wakeups = wakeups
    this.#inbox = inbox
  }

  /** Adds a waiter at the end of a queue. */
  join(name: PropertyKey, source: WakeUpSource, waiter: Waiter): WaitQueue {
    const queue = this.#queues.get(name) ?? this.#open(name, source)
    queue.join(waiter)
    return queue
  }

  /** The queue of this name, if a caller waits there or did a moment ago. */
  at(name: PropertyKey): WaitQueue | undefined {
    return this.#queues.get(name)
  }

  /** How many callers wait. */
  get size(): number {
    return this.#all().length
  }

  /** Rejects every wait. */
  dismissAll(reason: (lockName: string) => unknown): void {
    for (const waiter of this.#all()) waiter.dismiss(reason(waiter.lockName))
  }

  /** Closes the queues without waiters. */
  close(): void {
    for (const queue of this.#queues.values()) queue.close()
  }

  #all(): Waiter[] {
    return this.#queues.values().flatMap((queue) => [...queue.waiters])
  }

  #open(name: PropertyKey, { channel, leaveTurnQueue }: WakeUpSource): WaitQueue {
    const queue = new WaitQueue(
      this.#clock,
      this.#inbox,
      leaveTurnQueue,
      (listener) => (channel === undefined ? NO_SUBSCRIPTION : this.#wakeups.listen(channel, listener)),
      () => this.#queues.delete(name),
    )
    this.#queues.set(name, queue)
    return queue
  }
}
