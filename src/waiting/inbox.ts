// The channel on which a client receives its turns.
import { INBOX_PREFIX } from '../wire/keys.js'
import type { Subscription, Wakeups } from './wakeups.js'

/** `turn`: the client is next; `next`: it is the one after. Undefined: messages may have been missed. */
export type TurnMessage = 'turn' | 'next' | undefined

/** How many messages for tickets that are not open yet are remembered. */
const MAX_EARLY = 1_000

/** A place in a turn queue. */
export interface Ticket {
  readonly id: string
  close(): void
}

/**
 * The channel on which a client receives its turns, for every lock, and requests for its state.
 * Subscribed while the client has any ticket, and while it is kept open.
 */
export class Inbox {
  readonly #clientId: string
  readonly #wakeups: Wakeups
  readonly #listeners = new Map<string, Set<(message: TurnMessage) => void>>()
  #subscription: Subscription | undefined
  readonly #onMessage: (text: string) => void
  #issued = 0
  /** Changes whenever messages may have been missed. */
  #epoch = 0
  /** Tickets that got a message before they were opened, in the present epoch. */
  readonly #early = new Set<string>()
  #isKeptOpen = false

  /** @param onMessage  called with each message that is an object in JSON */
  constructor(clientId: string, wakeups: Wakeups, onMessage: (text: string) => void = () => {}) {
    this.#clientId = clientId
    this.#wakeups = wakeups
    this.#onMessage = onMessage
  }

  get isLive(): boolean {
    return this.#subscription?.isLive ?? false
  }

  /** For `open`: what was requested in the present epoch is notified. Undefined: nothing is, as yet. */
  get epoch(): number | undefined {
    return this.isLive ? this.#epoch : undefined
  }

  /** Whether Redis denies the subscription: then the client cannot use turn queues. */
  get isRefused(): boolean {
    return this.#subscription?.isRefused ?? false
  }

  /**
   * @param listener  called with each message for this ticket, and once the subscription is confirmed or denied
   * @param number  of the ticket; default: a new one. Several may have the same: an owner that waits for several locks
   * @param since  the epoch in which Redis learned of the ticket: in the same one no message is missed
   */
  open(listener: (message: TurnMessage) => void, number = String(++this.#issued), since?: number): Ticket {
    const listeners = this.#listeners.get(number) ?? new Set()
    this.#listeners.set(number, listeners.add(listener))
    const isInTime = since === this.epoch && !this.#early.delete(number)
    if (this.isLive && !isInTime) listener(undefined)
    this.#subscribe()
    return { id: `${this.#clientId}:${number}`, close: () => this.#close(number, listener) }
  }

  /** Whether this is the channel of the inbox. */
  is(channel: string): boolean {
    return channel === INBOX_PREFIX + this.#clientId
  }

  /** Whether the client needs it for its turns. */
  get hasTickets(): boolean {
    return this.#listeners.size > 0
  }

  /** Subscribes until `release`, also without tickets. */
  keepOpen(): void {
    this.#isKeptOpen = true
    this.#subscribe()
  }

  release(): void {
    this.#isKeptOpen = false
    this.#leaveIfUnused()
  }

  #subscribe(): void {
    this.#subscription ??= this.#wakeups.listen(INBOX_PREFIX + this.#clientId, (message) => this.#receive(message))
  }

  #close(number: string, listener: (message: TurnMessage) => void): void {
    const listeners = this.#listeners.get(number)
    listeners?.delete(listener)
    if (listeners?.size === 0) this.#listeners.delete(number)
    this.#leaveIfUnused()
  }

  #leaveIfUnused(): void {
    if (this.hasTickets || this.#isKeptOpen) return
    this.#subscription?.leave()
    this.#subscription = undefined
  }

  #receive(text: string | undefined): void {
    if (text === undefined) {
      this.#epoch++
      this.#early.clear()
      for (const listeners of [...this.#listeners.values()]) for (const listener of [...listeners]) listener(undefined)
      return
    }
    if (text.startsWith('{')) {
      this.#onMessage(text)
      return
    }
    const [message, number = ''] = text.split(' ', 2)
    if (message !== 'turn' && message !== 'next') return
    const listeners = this.#listeners.get(number)
    if (!listeners) this.#keep(number)
    for (const listener of [...(listeners ?? [])]) listener(message)
  }

  /** The reply that tells its caller of the ticket has yet to arrive. */
  #keep(number: string): void {
    if (this.#early.size >= MAX_EARLY) {
      this.#early.clear()
      this.#epoch++
    }
    this.#early.add(number)
  }
}
