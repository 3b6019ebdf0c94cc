// The channel on which a client receives its turns.
import { INBOX_PREFIX } from '../wire/keys.js'
import type { Subscription, Wakeups } from './wakeups.js'

/** `turn`: the client is next; `next`: it is the one after. Undefined: messages may have been missed. */
export type TurnMessage = 'turn' | 'next' | undefined

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

  /** Whether Redis denies the subscription: then the client cannot use turn queues. */
  get isRefused(): boolean {
    return this.#subscription?.isRefused ?? false
  }

  /**
   * @param listener  called with each message for this ticket, and once the subscription is confirmed or denied
   * @param number  of the ticket; default: a new one. Several may have the same: an owner that waits for several locks
   */
  open(listener: (message: TurnMessage) => void, number = String(++this.#issued)): Ticket {
    const listeners = this.#listeners.get(number) ?? new Set()
    this.#listeners.set(number, listeners.add(listener))
    if (this.isLive) listener(undefined)
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
      for (const listeners of [...this.#listeners.values()]) for (const listener of [...listeners]) listener(undefined)
      return
    }
    if (text.startsWith('{')) {
      this.#onMessage(text)
      return
    }
    const [message, number = ''] = text.split(' ', 2)
    if (message !== 'turn' && message !== 'next') return
    for (const listener of [...(this.#listeners.get(number) ?? [])]) listener(message)
  }
}
