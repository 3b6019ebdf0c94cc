// Asks clients by their inboxes.
import { publish } from '../delivery/publish.js'
import type { LeaseContext } from '../locks/lease.js'
import { randomUuid } from '../platform.js'
import type { Subscription } from '../waiting/wakeups.js'
import { INBOX_PREFIX, REPLY_PREFIX } from '../wire/keys.js'
import { ownState } from './own-state.js'
import { MAX_READ_BYTES, readStateReply, type StateReply, type StateRequest, writeStateRequest } from './protocol.js'

/** How many messages are published at once. */
const AT_ONCE = 100

export interface TimedReply extends StateReply {
  /** On the clock. */
  readonly at: number
}

/** The replies of some clients, and which of them did not reply. */
export interface Answers {
  /** By client id. */
  readonly replies: ReadonlyMap<string, TimedReply>
  /** Connected, and without a reply in time. */
  readonly silent: ReadonlySet<string>
  /** Nobody listens on their inboxes. */
  readonly absent: ReadonlySet<string>
  /** This client could not publish to them, or could receive no replies. */
  readonly unasked: ReadonlySet<string>
  /** Somebody else received the request as well, or replied too. */
  readonly overheard: ReadonlySet<string>
  /** Every client with an inbox, if all of them were asked; `hidden`: Redis does not list them for this user. */
  readonly listed?: ReadonlySet<string> | 'hidden' | undefined
}

/**
 * Asks clients for their holds and waits, by their inboxes. This client replies from memory.
 * @param timeoutMs  how long to wait for the replies, ms, once the requests are published
 */
export async function askClients(
  context: LeaseContext,
  ids: Iterable<string>,
  what: Pick<StateRequest, 'locks' | 'limit'>,
  timeoutMs: number,
): Promise<Answers> {
  const inquiry = new Inquiry(context, new Set(ids))
  return await inquiry.run(what, timeoutMs)
}

class Inquiry {
  readonly #context: LeaseContext
  /** The nonce that each client must repeat, so that no other client can reply for it. */
  readonly #nonces: ReadonlyMap<string, string>
  readonly #replies = new Map<string, TimedReply>()
  readonly #absent = new Set<string>()
  /** Without a reply so far. */
  readonly #pending: Set<string>
  /** Somebody received the request. */
  readonly #reached = new Set<string>()
  /** More than one did, or replied. */
  readonly #overheard = new Set<string>()
  #readBytes = 0
  #onChange: () => void = () => {}

  constructor(context: LeaseContext, asked: ReadonlySet<string>) {
    this.#context = context
    this.#nonces = new Map([...asked].map((id) => [id, randomId()]))
    this.#pending = new Set(asked)
  }

  async run(what: Pick<StateRequest, 'locks' | 'limit'>, timeoutMs: number): Promise<Answers> {
    const { clientId, wakeups, commandTimeoutMs } = this.#context
    if (this.#pending.has(clientId)) this.#accept(ownState(this.#context, what))
    if (this.#pending.size > 0) {
      const reply = REPLY_PREFIX + randomId()
      const subscription = wakeups.listen(reply, (text) => this.#receive(text))
      try {
        const isSettled = (): boolean => subscription.isLive || subscription.isRefused
        await this.#until(isSettled, commandTimeoutMs)
        if (subscription.isLive) await this.#publish({ ...what, reply }, subscription, timeoutMs)
      } finally {
        subscription.leave()
      }
    }
    const [replies, silent, absent, overheard] = [this.#replies, this.#reached, this.#absent, this.#overheard]
    const isAsked = (id: string): boolean => replies.has(id) || silent.has(id) || absent.has(id)
    const unasked = new Set([...this.#nonces.keys()].filter((id) => !isAsked(id)))
    return { replies, silent, absent, unasked, overheard }
  }

  async #publish(request: StateRequest, subscription: Subscription, timeoutMs: number): Promise<void> {
    const ids = [...this.#pending]
    for (let at = 0; at < ids.length; at += AT_ONCE) {
      await Promise.all(ids.slice(at, at + AT_ONCE).map((id) => this.#publishTo(id, request)))
    }
    await this.#until(() => this.#pending.size === 0 || !subscription.isLive, timeoutMs)
  }

  async #publishTo(id: string, request: StateRequest): Promise<void> {
    const message = writeStateRequest({ ...request, nonce: this.#nonces.get(id) })
    const receivers = await publish(this.#context.scripts, INBOX_PREFIX + id, message).catch(() => 'refused' as const)
    if (receivers === 0) this.#absent.add(id)
    if (typeof receivers === 'number' && receivers > 1) this.#overheard.add(id)
    if (receivers === 0 || receivers === 'refused') this.#pending.delete(id)
    else if (this.#pending.has(id)) this.#reached.add(id)
  }

  #receive(text: string | undefined): void {
    this.#readBytes += text?.length ?? 0
    const reply = text === undefined || this.#readBytes > MAX_READ_BYTES ? undefined : readStateReply(text)
    if (reply?.nonce !== undefined && reply.nonce === this.#nonces.get(reply.client)) this.#accept(reply)
    this.#onChange()
  }

  /** The first reply of a client counts. Who listens on its inbox as well could have sent either. */
  #accept(reply: StateReply): void {
    if (this.#replies.has(reply.client)) this.#overheard.add(reply.client)
    if (!this.#pending.delete(reply.client)) return
    this.#reached.delete(reply.client)
    this.#replies.set(reply.client, { ...reply, at: this.#context.clock.now() })
  }

  /** Waits for a condition, which only messages make true. */
  async #until(isTrue: () => boolean, timeoutMs: number): Promise<void> {
    if (isTrue()) return
    const { clock } = this.#context
    await new Promise<void>((resolve) => {
      const cancel = clock.after(timeoutMs, () => clock.afterPoll(resolve))
      this.#onChange = () => {
        if (!isTrue()) return
        cancel()
        resolve()
      }
    })
    this.#onChange = () => {}
  }
}

function randomId(): string {
  return randomUuid().replaceAll('-', '')
}
