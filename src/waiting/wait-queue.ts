import type { Clock } from '../util/clock.js'
import { NameMap } from '../util/collections.js'
import { Inbox, type News, type Ticket } from './inbox.js'

import type { Waiter } from './waiter.js'
import type { Subscription, Wakeups } from './wakeups.js'

/** A line that trusts to be woken looks for itself after this, ms: what a message costs that got lost. */
const TRUST_MS = 5_000
/** The same while it is another client's turn: what it costs that this client died. */
const OTHERS_TURN_MS = 1_000
/** How long to go on listening when there is no more need to, ms: often it comes back soon. */
const LINGER_MS = 500

/** How the callers of one client stand in line with other clients. */
export interface Place {
  /** Where a release is announced to all; undefined: nowhere. */
  readonly channel: string | undefined
  /** Tells Redis that nobody waits any more under a ticket. Undefined: Redis knows of no line, and wakes all clients. */
  readonly quit?: ((ticket: string) => void) | undefined
}

/** What an attempt came to that got nothing. */
export interface Refusal {
  /** What is left of the present lease, ms; below 0: it has no end. */
  readonly heldForMs: number
  /** Where this client stands in line, if the release is known to tell the first. */
  readonly place?: 'first' | 'behind' | undefined
}

/** As what the head asks Redis, if it has a turn queue. */
export interface Standing {
  readonly ticket: string
  /** It asks because it heard nothing for long: if it is granted the lock, the one whose turn it was is not there. */
  readonly isLook: boolean
  /** Others of this client wait behind it: if it is granted the lock, they stand in line. */
  readonly waits: boolean
}

interface Pause {
  isWoken: boolean
  cancel?: () => void
}

/**
 * The callers of one client who wait for one lock, first come first served. Only the head talks to Redis, so a
 * thousand waiters cost what one costs. The line owns the subscription: it is taken when the head is first refused, kept
 * while anybody waits and a little longer, and wakes the head.
 *
 * If Redis has a turn queue, this one stands there under its ticket: a release tells the first of them, on its inbox,
 * and the others sleep on. It listens on the lock's channel, too, while somebody holds the lock whose release says nothing
 * on inboxes: a thread of Redisson.
 */
export class WaitQueue {
  readonly #clock: Clock
  readonly #inbox: Inbox
  #ticket: Ticket | undefined
  readonly #quit: Place['quit']
  readonly #listen: (listener: (message?: string) => void) => Subscription
  readonly #onClose: () => void
  readonly #waiters = new Set<Waiter>()
  #subscription: Subscription | undefined
  /** Whether Redis has the ticket, as far as we know. */
  #isQueued = false
  #hasRivals = false
  /** It is our turn, and nobody has asked yet. */
  #isOurTurn = false
  /** How the last attempt was made: without the ticket, under it, or under it because nothing was heard for long. */
  #asked: 'plainly' | 'in line' | 'to look' = 'plainly'
  /** The next attempt is made because nothing was heard for long. */
  #isLook = false
  /** Until when to listen on the lock's channel, too, on the clock. */
  #listenUntil = 0
  /** Others go first; whether the line would have been woken meanwhile. */
  #standsBack: Pause | undefined
  /** Whether Redis has the ticket also if the attempt that is under way is granted. */
  #staysQueued = false
  /** Until when the lock is surely taken because a waiter of this line got it, by what the line heard on its channel. */
  #takenUntil = 0
  #lookAt = 0
  #timer: { readonly firesAt: number; readonly cancel: () => void } | undefined
  #cancelLinger: (() => void) | undefined

  constructor(
    clock: Clock,
    inbox: Inbox,
    quit: Place['quit'],
    listen: (listener: (message?: string) => void) => Subscription,
    onClose: () => void,
  ) {
    this.#clock = clock
    this.#inbox = inbox
    this.#quit = quit
    this.#listen = listen
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

  /** Whether what announces a release is heard, so that none can be missed. */
  get isListening(): boolean {
    if (!this.#canStandInLine) return this.#subscription?.isLive ?? false
    return this.#ticket !== undefined && this.#inbox.isLive && this.#subscription?.isLive !== false
  }

  /** How many of those who hear a message on the lock's channel are this line alone. */
  get ears(): number {
    return this.#subscription?.ears ?? 0
  }

  get #canStandInLine(): boolean {
    return this.#quit !== undefined && !this.#inbox.isRefused
  }

  /**
   * The head was refused: listen from now on. It is woken when that is heard, as the lock may have been free until then.
   * @param place  in line, if the release is known to tell the first
   */
  refused(place: Refusal['place']): void {
    if (this.#canStandInLine) this.#ticket ??= this.#inbox.open((news) => this.#notified(news))
    const now = this.#clock.now()
    // The first in line hears of releases that give no turn, too, for all: by another who forces it. Not at once, as mostly it
    // is its turn before long.
    const isFirst = place === 'first'
    if (!this.#canStandInLine || (this.#asked !== 'plainly' && !place) || (isFirst && this.#asked === 'to look')) {
      this.#listenUntil = now + LINGER_MS
      this.#subscription ??= this.#listen(() => this.wake())
    } else if (isFirst) {
      if (!this.#subscription) this.#lookWithin(OTHERS_TURN_MS)
    } else if (this.#subscription && now >= this.#listenUntil) {
      this.#subscription.leave()
      this.#subscription = undefined
    }
  }

  /** The head asks Redis now: under this ticket, if it would hear when it is its turn. */
  ask(): Standing | undefined {
    const isLook = this.#isLook
    this.#isLook = false
    this.#isOurTurn = false
    this.#asked = 'plainly'
    this.#staysQueued = false
    if (!this.#ticket || !this.#inbox.isLive) return undefined
    this.#asked = isLook ? 'to look' : 'in line'
    this.#isQueued = true // from now on: it may be our turn before the answer is here
    this.#staysQueued = this.#waiters.size > 1
    return { ticket: this.#ticket.ticket, isLook, waits: this.#staysQueued }
  }

  /** The head heard nothing for long, and is about to ask all the same. */
  look(): void {
    this.#isLook = true
  }

  /**
   * Somebody in this client lets the lock go: the ticket of those who wait here, or that nobody waits under any more.
   * @param isBusy  callers of this client took turns with it: they are likely to be back before it is our turn again, and
   *   need not ask then. If not, it is passed on
   */
  onRelease(isBusy: boolean): { readonly ticket: string; readonly waits: boolean } | undefined {
    const isEmpty = this.#waiters.size === 0
    const waits = !isEmpty || (isBusy && this.#hasRivals)
    const ticket = waits ? this.ask()?.ticket : this.#isQueued ? this.#ticket?.ticket : undefined
    this.#isQueued &&= waits
    if (isEmpty && waits && ticket !== undefined) this.#takenUntil = this.#clock.now() + OTHERS_TURN_MS
    return ticket === undefined ? undefined : { ticket, waits }
  }

  /** @param heard  how many heard a release, apart from the inbox of this client */
  released(heard: number): void {
    this.#hasRivals = heard > this.ears
  }

  /** Whether others than this line listened when the lock was released last. */
  get hasRivals(): boolean {
    return this.#hasRivals
  }

  /** When a waiter of this line took the lock: the next head may wait for a message instead of asking at once. */
  get takenUntil(): number {
    return this.#takenUntil
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
    // The ticket may stay in line: whoever lets the lock go takes it back.
    if (this.#waiters.size === 0) this.#linger()
    else if (this.isListening) this.#lookWithin(this.#subscription ? TRUST_MS : OTHERS_TURN_MS)
    else this.wake()
    return true
  }

  /** Others are to go first: nobody of this line asks until the answer is called, and then after so many ms. */
  standBack(): (forMs: number) => void {
    const pause: Pause = { isWoken: false }
    this.#standsBack = pause
    return (forMs) => {
      const goOn = (): void => {
        if (this.#standsBack === pause) this.#standsBack = undefined
        if (pause.isWoken || !this.#isQueued) this.wake()
      }
      if (forMs > 0 && this.#waiters.size > 0) pause.cancel = this.#clock.after(forMs, goOn)
      else goOn()
    }
  }

  /** @param takenUntil  if it leaves with the lock: when its lease ends, on the clock */
  leave(waiter: Waiter, takenUntil: number | undefined): void {
    const wasHead = this.isHead(waiter)
    // Who was given what somebody else let go has left already.
    if (!this.#waiters.delete(waiter)) return
    if (takenUntil !== undefined) this.#isQueued &&= this.#staysQueued // as its script has done
    if (this.#waiters.size === 0) {
      this.#leaveQueue()
      this.#linger()
    }
    if (this.#waiters.size === 0 || !wasHead) return
    // Only what was heard all along counts: without a live subscription, out of line, or with a message that came during the
    // last attempt, the lock may be free again already.
    const isHeard = this.isListening && (this.#isQueued || !this.#canStandInLine) && !waiter.isWoken
    this.#takenUntil = isHeard ? (takenUntil ?? 0) : 0
    // Redisson's forceUnlock is announced on the lock's channel alone, which the first in line hears after a while.
    if (this.#takenUntil > 0 && this.#canStandInLine && !this.#subscription) this.#lookWithin(OTHERS_TURN_MS)
    this.#head()?.wake()
  }

  /** Nobody waits any more, and nobody will: the client closes. */
  close(): void {
    if (this.#waiters.size > 0) return
    this.#leaveQueue()
    this.#cancelLinger?.()
    this.#standsBack?.cancel?.()
    this.#timer?.cancel()
    this.#ticket?.close()
    this.#ticket = undefined
    this.#subscription?.leave()
    this.#subscription = undefined
    this.#onClose()
  }

  #notified(news: News): void {
    if (news === 'turn') {
      this.#isQueued = false
      this.#isOurTurn = true
    }
    if (news === 'next') this.#lookWithin(OTHERS_TURN_MS)
    else if (news === undefined || this.#waiters.size > 0) this.wake()
    else this.#leaveQueue()
  }

  /** The head asks, or does so when others have gone first. */
  wake(): void {
    this.#takenUntil = 0
    if (this.#standsBack) this.#standsBack.isWoken = true
    else this.#head()?.wake()
  }

  /** The last one has left. */
  #linger(): void {
    this.#takenUntil = 0
    if (!this.#quit || !(this.#subscription || this.#ticket)) this.close()
    else this.#cancelLinger = this.#clock.after(LINGER_MS, () => this.close(), false)
  }

  #leaveQueue(): void {
    if (this.#ticket && (this.#isQueued || this.#isOurTurn)) this.#quit?.(this.#ticket.ticket)
    this.#isQueued = false
    this.#isOurTurn = false
    this.#takenUntil = 0
  }

  /** Wake the head if nothing does for so long. One timer however often this is called. */
  #lookWithin(ms: number): void {
    this.#lookAt = this.#clock.now() + ms
    if (this.#timer && this.#timer.firesAt <= this.#lookAt) return
    this.#timer?.cancel()
    const look = (): void => {
      this.#timer = undefined
      const leftMs = this.#lookAt - this.#clock.now()
      this.#isLook = leftMs <= 0
      if (leftMs > 0 && this.#waiters.size > 0) this.#lookWithin(leftMs)
      else this.wake()
    }
    this.#timer = { firesAt: this.#lookAt, cancel: this.#clock.after(ms, look) }
  }

  #head(): Waiter | undefined {
    return this.#waiters.values().next().value
  }
}

const NOTHING_HEARD: Subscription = { isLive: false, isRefused: false, ears: 0, leave: () => {} }

/** The lines of one client. Not by channel: the locks `a` and `{a}` have the same one. */
export class WaitQueues {
  readonly #clock: Clock
  readonly #wakeups: Wakeups
  readonly #inbox: Inbox
  readonly #lines = new NameMap<WaitQueue>()

  constructor(clock: Clock, wakeups: Wakeups, clientId: string) {
    this.#clock = clock
    this.#wakeups = wakeups
    this.#inbox = new Inbox(clientId, wakeups)
  }

  /** Join the end of a line. */
  join(name: PropertyKey, place: Place, waiter: Waiter): WaitQueue {
    const line = this.#lines.get(name) ?? this.#open(name, place)
    line.join(waiter)
    return line
  }

  /** Those who wait there, if anybody does or did a moment ago. */
  at(name: PropertyKey): WaitQueue | undefined {
    return this.#lines.get(name)
  }

  /** How many callers wait. */
  get size(): number {
    return this.#all().length
  }

  /** Send all waiters away. */
  dismissAll(reason: (lockName: string) => unknown): void {
    for (const waiter of this.#all()) waiter.dismiss(reason(waiter.lockName))
  }

  /** Stop listening where nobody waits any more. */
  close(): void {
    for (const line of this.#lines.values()) line.close()
  }

  #all(): Waiter[] {
    return this.#lines.values().flatMap((line) => [...line.waiters])
  }

  #open(name: PropertyKey, { channel, quit }: Place): WaitQueue {
    const line = new WaitQueue(
      this.#clock,
      this.#inbox,
      quit,
      (listener) => (channel === undefined ? NOTHING_HEARD : this.#wakeups.listen(channel, listener)),
      () => this.#lines.delete(name),
    )
    this.#lines.set(name, line)
    return line
  }
}
