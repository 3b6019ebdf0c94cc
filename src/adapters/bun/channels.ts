// The channels that we subscribe to through Bun's client.
import { PeriodicTask } from '../periodic-task.js'
import type { PortEvents } from '../port.js'
import { type BunRedisLike, isErrorReply, OwnConnection } from './connection.js'

/** How often to look whether the connection is still there, ms. */
const CHECK_MS = 500

interface Subscription {
  readonly onMessage: (message: string) => void
  /** Ends the wait for the first confirmation; undefined: that is over. */
  settle: ((refusal?: unknown) => void) | undefined
  isConfirmed: boolean
  /** Bun's client keeps a listener although Redis refused the channel. */
  listener?: (message: string) => void
}

/**
 * Subscriptions on a connection of their own.
 *
 * While anything is subscribed to, Bun's client (1.4.5) takes the refusal of another channel for a failure of the connection:
 * it closes that, and leaves `subscribe` pending. So each new connection begins with a channel that has not been confirmed.
 */
export class Channels {
  readonly #subscriptions = new Map<string, Subscription>()
  readonly #connection: OwnConnection
  readonly #events: () => PortEvents | undefined
  #checks: PeriodicTask | undefined

  constructor(template: Promise<BunRedisLike>, events: () => PortEvents | undefined) {
    this.#events = events
    this.#connection = new OwnConnection(template, {
      opened: (client) => void this.#subscribeToAll(client),
      lost: () => {
        for (const channel of this.#subscriptions.keys()) events()?.subscriptionLost?.(channel)
      },
    })
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    this.#checks ??= new PeriodicTask(CHECK_MS, async () => this.#connection.check())
    await new Promise<void>((resolve, reject) => {
      const settle = (refusal?: unknown): void => (refusal === undefined ? resolve() : reject(refusal))
      this.#subscriptions.get(channel)?.settle?.()
      this.#subscriptions.set(channel, { onMessage, settle, isConfirmed: false })
      this.#connection.check()
      const { current } = this.#connection
      if (current) void this.#subscribe(current, channel)
      else this.#connection.ready().catch(reject) // it begins with all channels
    })
  }

  async unsubscribe(channel: string): Promise<void> {
    this.#subscriptions.get(channel)?.settle?.()
    this.#subscriptions.delete(channel)
    await this.#leave(this.#connection.current, channel)
  }

  async ping(): Promise<void> {
    if (this.#connection.current) await this.#connection.send(['PING'])
  }

  close(): void {
    this.#checks?.stop()
    this.#connection.close()
    for (const { settle } of this.#subscriptions.values()) settle?.()
    this.#subscriptions.clear()
  }

  async #subscribeToAll(client: BunRedisLike): Promise<void> {
    const subscriptions = [...this.#subscriptions].sort(([, a], [, b]) => Number(a.isConfirmed) - Number(b.isConfirmed))
    for (const [, subscription] of subscriptions) subscription.isConfirmed = false
    let isSubscriber = false
    for (const [channel] of subscriptions) {
      const confirmed = this.#subscribe(client, channel)
      if (!isSubscriber) isSubscriber = await confirmed
    }
  }

  /** @returns whether Redis has confirmed */
  async #subscribe(client: BunRedisLike, channel: string): Promise<boolean> {
    const subscription = this.#subscriptions.get(channel)
    if (!subscription) return false
    const listener = (message: string): void => {
      if (subscription.listener === listener) subscription.onMessage(message)
    }
    subscription.listener = listener
    try {
      await client.subscribe(channel, listener)
      if (!this.#subscriptions.has(channel)) await this.#leave(client, channel) // which was not possible before
      subscription.isConfirmed = true
      this.#settled(channel, subscription)
      return true
    } catch (error) {
      // Otherwise it was lost with its connection, perhaps by the refusal of another one, which it then rejects with.
      if (isErrorReply(error) && client.connected) this.#settled(channel, subscription, error)
      return false
    }
  }

  async #leave(client: BunRedisLike | undefined, channel: string): Promise<void> {
    try {
      await client?.unsubscribe(channel)
    } catch {
      // the first SUBSCRIBE is in flight, or the connection was lost
    }
  }

  #settled(channel: string, subscription: Subscription, refusal?: unknown): void {
    const { settle } = subscription
    subscription.settle = undefined
    if (settle) settle(refusal)
    else if (this.#subscriptions.get(channel) === subscription) this.#events()?.resubscribed(channel, refusal)
  }
}
