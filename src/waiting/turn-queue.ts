// The place of one client among others, in Redis.
import type { Inbox, Ticket, TurnMessage } from './inbox.js'

/** A client's ticket, as a release or a request passes it to Redis. */
export interface TurnTicket {
  readonly ticket: string
  /** Whether callers of the client continue to wait under the ticket after this command. */
  readonly staysQueued: boolean
}

/** A request for the lock that queues the client if it is refused. */
export interface TurnRequest extends TurnTicket {
  /** No message came for a while: if the request is granted, the client whose turn it was is gone. */
  readonly isPoll: boolean
}

/** The ticket of a waiter that has a place of its own. */
export interface OwnTicket {
  readonly number: string
  /** The epoch of the inbox in which Redis may have learned of it. */
  readonly since: number | undefined
}

/**
 * The place of one client in the turn queue of one lock, which Redis keeps: a release notifies the first client in the
 * queue, and the others sleep. The ticket stands for all callers of the client.
 */
export class TurnQueue {
  readonly #inbox: Inbox
  readonly #leaveTurnQueue: (ticket: string) => void
  readonly #onMessage: (message: TurnMessage) => void
  #ticket: Ticket | undefined
  /** Whether Redis has the ticket, or has given it the turn, as far as this client knows. */
  #isQueued = false

  readonly #own: OwnTicket | undefined

  /** @param own  its ticket; default: any */
  constructor(
    inbox: Inbox,
    leaveTurnQueue: (ticket: string) => void,
    onMessage: (message: TurnMessage) => void,
    own?: OwnTicket,
  ) {
    this.#own = own
    this.#inbox = inbox
    this.#leaveTurnQueue = leaveTurnQueue
    this.#onMessage = onMessage
  }

  /** Whether Redis lets this client receive its turns. */
  get isAllowed(): boolean {
    return !this.#inbox.isRefused
  }

  get hasTicket(): boolean {
    return this.#ticket !== undefined
  }

  /** Whether this client would receive its turn. */
  get isListening(): boolean {
    return this.#ticket !== undefined && this.#inbox.isLive
  }

  get isQueued(): boolean {
    return this.#isQueued
  }

  /** Takes a ticket, for the next request. */
  takeTicket(): void {
    this.#ticket ??= this.#inbox.open((message) => this.#receive(message), this.#own?.number, this.#own?.since)
  }

  /**
   * The client is about to request the lock.
   * @param hasMore  whether more callers of the client wait than the one that gets the lock
   * @returns undefined: without the queue, as the client would not receive its turn yet
   */
  request(isPoll: boolean, hasMore: boolean): TurnRequest | undefined {
    if (!this.#ticket || !this.#inbox.isLive) return undefined
    this.#isQueued = true // from now on: its turn may come before the reply
    return { ticket: this.#ticket.id, isPoll, staysQueued: hasMore }
  }

  /** A request with the ticket was granted. @param staysQueued  as in that request */
  granted(staysQueued: boolean): void {
    this.#isQueued &&= staysQueued
  }

  /** The ticket, if Redis has it. */
  get queuedTicket(): string | undefined {
    return this.#isQueued ? this.#ticket?.id : undefined
  }

  /** The next release also leaves the queue. @returns the ticket, if Redis has it */
  leaveWithRelease(): string | undefined {
    const ticket = this.queuedTicket
    this.#isQueued = false
    return ticket
  }

  /** Leaves the queue, and passes the turn on if it is this client's. */
  leave(): void {
    if (this.#ticket && this.#isQueued) this.#leaveTurnQueue(this.#ticket.id)
    this.#isQueued = false
  }

  close(): void {
    this.leave()
    this.#ticket?.close()
    this.#ticket = undefined
  }

  #receive(message: TurnMessage): void {
    if (message === 'turn') this.#isQueued = true // even if it has left the queue: Redis may not know
    this.#onMessage(message)
  }
}
