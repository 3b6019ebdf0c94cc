import { INBOX_PREFIX } from '../wire/keys.js'
import type { Subscription, Wakeups } from './wakeups.js'

/** `turn`: the client is next; `next`: it is the one after. Undefined: messages may have been missed. */
export type TurnMessage = 'turn' | 'next' | undefined

/** A place in a turn queue. */
export interface Ticket {
  readonly id: string
  close(): void
}

/** The channel on which one client receives its turns, for every lock. Subscribed while the client has any ticket. */
export class Inbox {
  readonly #clientId: string
  readonly #wakeups: Wakeups
  readonly #listeners = new Map<string, (message: TurnMessage) => void>()
  #subscription: Subscription | undefined
  #issued = 0

  constructor(clientId: string, wakeups: Wakeups) {
    this.#clientId = clientId
    this.#wakeups = wakeups
  }

  get isLive(): boolean {
    return this.#subscription?.isLive ?? false
  }

  /** Whether Redis denies the subscription: then the client cannot use turn queues. */
  get isRefused(): boolean {
    return this.#subscription?.isRefused ?? false
  }

  /** @param listener  called with each message for this ticket, and once the subscription is confirmed or denied */
  open(listener: (message: TurnMessage) => void): Ticket {
    const number = String(++this.#issued)
    this.#listeners.set(number, listener)
    if (this.isLive) listener(undefined)
    this.#subscription ??= this.#wakeups.listen(INBOX_PREFIX + this.#clientId, (message) => this.#receive(message))
    return { id: `${this.#clientId}:${number}`, close: () => this.#close(number) }
  }

  #close(number: string): void {
    this.#listeners.delete(number)
    if (this.#listeners.size > 0) return
    this.#subscription?.leave()
    this.#subscription = undefined
  }

  #receive(text: string | undefined): void {
    if (text === undefined) {
      for (const listener of [...this.#listeners.values()]) listener(undefined)
      return
    }
    const [message, number = ''] = text.split(' ', 2)
    if (message === 'turn' || message === 'next') this.#listeners.get(number)?.(message)
  }
}
