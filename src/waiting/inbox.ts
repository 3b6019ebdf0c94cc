import { INBOX_PREFIX } from '../wire/keys.js'
import type { Subscription, Wakeups } from './wakeups.js'

/** What a release says to a client in line: it is its turn, or it is the one after. Undefined: messages may have been missed. */
export type News = 'turn' | 'next' | undefined

/** A place in line, under one ticket. */
export interface Ticket {
  readonly ticket: string
  close(): void
}

/**
 * The channel of one client, on which it hears of all its places in line, whatever the lock. Listened on while it has any.
 */
export class Inbox {
  readonly #clientId: string
  readonly #wakeups: Wakeups
  readonly #listeners = new Map<string, (news: News) => void>()
  #subscription: Subscription | undefined
  #issued = 0

  constructor(clientId: string, wakeups: Wakeups) {
    this.#clientId = clientId
    this.#wakeups = wakeups
  }

  get isLive(): boolean {
    return this.#subscription?.isLive ?? false
  }

  /** Whether Redis forbids to listen on it: then there is no standing in line. */
  get isRefused(): boolean {
    return this.#subscription?.isRefused ?? false
  }

  /** @param listener  told of this place, and once when the inbox is heard or found to be refused */
  open(listener: (news: News) => void): Ticket {
    const number = String(++this.#issued)
    this.#listeners.set(number, listener)
    if (this.isLive) listener(undefined)
    this.#subscription ??= this.#wakeups.listen(INBOX_PREFIX + this.#clientId, (message) => this.#hear(message))
    return { ticket: `${this.#clientId}:${number}`, close: () => this.#close(number) }
  }

  #close(number: string): void {
    this.#listeners.delete(number)
    if (this.#listeners.size > 0) return
    this.#subscription?.leave()
    this.#subscription = undefined
  }

  #hear(message: string | undefined): void {
    if (message === undefined) {
      for (const listener of [...this.#listeners.values()]) listener(undefined)
      return
    }
    const [news, number = ''] = message.split(' ', 2)
    if (news === 'turn' || news === 'next') this.#listeners.get(number)?.(news)
  }
}
