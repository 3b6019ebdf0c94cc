// The waiters of one client for one lock.
import type { Clock } from '../util/clock.js'
import { NameMap } from '../util/collections.js'
import type { Inbox, TurnMessage } from './inbox.js'
import { IDLE_MS, Listening, type LockSubscription, OTHERS_TURN_MS } from './listening.js'
import { type OwnTicket, TurnQueue, type TurnRequest, type TurnTicket } from './turn-queue.js'
import { Waiter } from './waiter.js'
import type { Wakeups } from './wakeups.js'

/** How the waiters of one client learn of a release. */
export interface WakeUpSource {
  /** The channel that announces releases to every client; undefined: there is none. */
  readonly channel: string | undefined
  /** Leaves the turn queue. Undefined: there is no turn queue, and a release wakes every client. */
  readonly leaveTurnQueue?: ((ticket: string) => void) | undefined
  /** For a waiter with a place of its own in Redis. */
  readonly ownTicket?: OwnTicket | undefined
}

/** The result of an attempt that was not granted. */
export interface Refusal {
  /** Remaining lease, ms; negative: no expiry. */
  readonly heldForMs: number
  /** The place of this client in the turn queue, if the release is known to notify the first client. */
  readonly place?: 'first' | 'behind' | undefined
  /** The place in the queue of an ordered lock, to return to. */
  readonly rank?: string | undefined
}

/** Other clients go first. */
interface Pause {
  /** Whether the queue would have been woken meanwhile. */
  isWoken: boolean
  cancel?: () => void
}

/**
 * The callers of one client that wait for one lock, first come first served. Only the head sends commands to Redis, so a
 * thousand waiters cost as much as one. The queue subscribes when the head is first refused, and unsubscribes a little after
 * the last waiter has left.
 */
export class WaitQueue {
  readonly #clock: Clock
  readonly #turns: TurnQueue | undefined
  readonly #listening: Listening
  readonly #onClose: () => void
  /** Whether nobody will join it again. */
  readonly #isForOne: boolean
  readonly #waiters = new Set<Waiter>()
  #hasRivals = false
  /** How the last attempt used the turn queue; undefined: it did not. */
  #lastRequest: TurnRequest | undefined
  #pause: Pause | undefined
  /** Until when a grant to a waiter of this queue is certain to keep the lock, on the clock; 0: unknown. */
  #takenUntil = 0
  #cancelClose: (() => void) | undefined

  constructor(
    clock: Clock,
    inbox: Inbox,
    { leaveTurnQueue, ownTicket }: WakeUpSource,
    subscribe: (listener: () => void) => LockSubscription,
    onClose: () => void,
  ) {
    this.#clock = clock
    const onMessage = (message: TurnMessage): void => this.#receive(message)
    this.#turns = leaveTurnQueue && new TurnQueue(inbox, leaveTurnQueue, onMessage, ownTicket)
    this.#isForOne = ownTicket !== undefined
    this.#listening = new Listening(
      clock,
      this.#turns,
      () => subscribe(() => this.wake()),
      () => this.wake(),
    )
    this.#onClose = onClose
  }

  get waiters(): Iterable<Waiter> {
    return this.#waiters
  }

  get hasWaiters(): boolean {
    return this.#waiters.size > 0
  }

  join(waiter: Waiter): void {
    this.#cancelClose?.()
    this.#cancelClose = undefined
    this.#waiters.add(waiter)
  }

  isHead(waiter: Waiter): boolean {
    return this.#head() === waiter
  }

  /** Whether the client is subscribed, so that it misses no release. */
  get isListening(): boolean {
    return this.#listening.isLive
  }

  /** How many subscribers of the lock's channel this queue is. */
  get ownReceivers(): number {
    return this.#listening.ownReceivers
  }

  /** The ticket of this client in the turn queue, if Redis has it. */
  get ticket(): string | undefined {
    return this.#turns?.queuedTicket
  }

  /** The head is about to request the lock. @returns how it uses the turn queue; undefined: not at all */
  request(): TurnRequest | undefined {
    this.#lastRequest = this.#turns?.request(this.#listening.takePoll(), this.#waiters.size > 1)
    return this.#lastRequest
  }

  /** No wake-up came for a while: the next request is a poll. */
  markPoll(): void {
    this.#listening.markPoll()
  }

  /** The head was refused. */
  refused(place: Refusal['place']): void {
    this.#listening.refused(place, this.#lastRequest)
  }

  /**
   * A caller of this client is about to release the lock.
   * @param isBusy  the lock was handed off from caller to caller: they are likely to be back before this client's turn comes
   *   again, so it keeps its place
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

  /** Until when the next head may wait for a message before it requests the lock. */
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
    if (this.#waiters.size === 0) this.#closeSoon()
    else if (this.isListening) this.#listening.pollLater()
    else this.wake()
    return true
  }

  /** Lets other clients go first: no waiter requests the lock until `forMs` after the returned function is called. */
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
      this.#closeSoon()
    }
    if (this.#waiters.size === 0 || !wasHead) return
    // Without a live subscription, without a place in the queue, or after a message during the last attempt, the lock may be
    // free again already.
    const { turns, isSubscribed } = this.#listening
    const isQueued = !turns || turns.isQueued
    this.#takenUntil = this.isListening && isQueued && !waiter.isWoken ? (takenUntil ?? 0) : 0
    // Redisson announces `forceUnlock` on the lock's channel alone, to which the first client subscribes after a while.
    if (this.#takenUntil > 0 && turns && !isSubscribed) this.#listening.pollSoon()
    this.#head()?.wake()
  }

  /** Unsubscribes and leaves the turn queue, if nobody waits. */
  close(): void {
    if (this.#waiters.size > 0) return
    this.#cancelClose?.()
    this.#pause?.cancel?.()
    this.#listening.close()
    this.#onClose()
  }

  /** Wakes the head, or does so once other clients have gone first. */
  wake(): void {
    this.#takenUntil = 0
    if (this.#pause) this.#pause.isWoken = true
    else this.#head()?.wake()
  }

  #receive(message: TurnMessage): void {
    if (message === 'next') this.#listening.pollSoon()
    else if (message === undefined || this.#waiters.size > 0) this.wake()
    else this.#leaveTurnQueue()
  }

  /** The last waiter has left. */
  #closeSoon(): void {
    this.#takenUntil = 0
    const isUnused = !this.#turns || !(this.#listening.isSubscribed || this.#turns.hasTicket)
    if (isUnused || this.#isForOne) this.close()
    else this.#cancelClose = this.#clock.after(IDLE_MS, () => this.close(), false)
  }

  #leaveTurnQueue(): void {
    this.#turns?.leave()
    this.#takenUntil = 0
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
  /** The queue of a name, or the only caller of this client that requests the lock. */
  readonly #queues = new NameMap<WaitQueue | Waiter>()

  constructor(clock: Clock, wakeups: Wakeups, inbox: Inbox) {
    this.#clock = clock
    this.#wakeups = wakeups
    this.#inbox = inbox
  }

  /** Adds a waiter at the end of a queue, behind the one that asks alone. */
  join(name: PropertyKey, source: WakeUpSource, waiter: Waiter): WaitQueue {
    const present = this.#queues.get(name)
    const queue = present instanceof WaitQueue ? present : this.#open(name, source)
    if (present instanceof Waiter) queue.join(present)
    queue.join(waiter)
    return queue
  }

  /**
   * A caller is about to ask for the lock. As long as nobody else of this client wants it, it needs no queue.
   * @returns false: somebody does
   */
  askAlone(name: PropertyKey, waiter: Waiter): boolean {
    if (this.#queues.get(name) !== undefined) return false
    this.#queues.set(name, waiter)
    return true
  }

  /** It got the lock. @param leaseMs  undefined: others may have it at the same time */
  answered(name: PropertyKey, waiter: Waiter, leaseMs: number | undefined): void {
    const queue = this.#queues.get(name)
    if (queue === waiter) this.#queues.delete(name)
    else this.at(name)?.leave(waiter, leaseMs === undefined ? undefined : this.#clock.now() + leaseMs)
  }

  /** Whether a caller of this client waits or asks for the lock. */
  isWanted(name: PropertyKey): boolean {
    const queue = this.#queues.get(name)
    return queue instanceof WaitQueue ? queue.hasWaiters : queue !== undefined
  }

  /** The queue of this name, if a caller waits there or did a moment ago. */
  at(name: PropertyKey): WaitQueue | undefined {
    const queue = this.#queues.get(name)
    return queue instanceof WaitQueue ? queue : undefined
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
    for (const queue of this.#queues.values()) if (queue instanceof WaitQueue) queue.close()
  }

  #all(): Waiter[] {
    return this.#queues.values().flatMap((queue) => (queue instanceof WaitQueue ? [...queue.waiters] : [queue]))
  }

  #open(name: PropertyKey, source: WakeUpSource): WaitQueue {
    const { channel } = source
    const queue = new WaitQueue(
      this.#clock,
      this.#inbox,
      source,
      (listener) => (channel === undefined ? NO_SUBSCRIPTION : this.#wakeups.listen(channel, listener)),
      () => this.#queues.delete(name),
    )
    this.#queues.set(name, queue)
    return queue
  }
}
