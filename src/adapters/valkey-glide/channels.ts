// Subscriptions of valkey-glide.
import { sleep } from '../../util/sleep.js'
import { PeriodicTask } from '../periodic-task.js'
import type { PortEvents } from '../port.js'
import { CHECK_MS, Connections, cannotSubscribe, type GlideLike, isCluster, Refusal } from './client.js'

/** Values of an enum of glide. */
const PLAIN = 0
const SHARDED = 2

/** How often to ask glide whether Redis has confirmed a subscription, ms. It usually has when first asked. */
const CONFIRM_MS = 10
/** After this many times, confirmation is left to the periodic check. */
const MAX_CONFIRMS = 100
/**
 * After this many checks to which Redis replied without confirming, a subscription counts as refused. Glide retries
 * every 3 s.
 */
const CHECKS_UNTIL_REFUSED = 10
/** Glide does not pass the error reply on: this is for good, as NOPERM is. */
const NOT_CONFIRMED = 'NOPERM or the like: Redis replies but does not confirm, and the log of valkey-glide says why'

interface GlideChannel {
  readonly onMessage: (message: string) => void
  readonly settle: (refusal?: unknown) => void
  isSettled: boolean
  /** Checks to which Redis replied without confirming it. */
  checks: number
}

/**
 * Channels, on a client that only subscribes. Glide resubscribes by itself after a reconnect; this notices it by a new
 * connection, or by channels that were missing for a while.
 */
export class Channels {
  readonly #make: () => Promise<GlideLike>
  readonly #isCluster: boolean
  readonly #channels = new Map<string, GlideChannel>()
  readonly #leaving = new Map<string, Promise<void>>()
  #isSharded: boolean
  #subscriber: Promise<Subscriber> | undefined
  #state: Promise<Confirmed> | undefined
  /**
   * How many more times to report that messages may be missing: twice after a reconnect, as glide may notice it after
   * us.
   */
  #reportsDue = 0
  #isClosed = false
  #events: PortEvents | undefined
  #checks: PeriodicTask | undefined

  constructor(make: () => Promise<GlideLike>, isClusterWanted: boolean) {
    this.#make = make
    this.#isCluster = isClusterWanted
    this.#isSharded = isClusterWanted
  }

  listen(events: PortEvents): void {
    this.#events = events
    this.#checks = new PeriodicTask(CHECK_MS, () => this.#check().catch(() => this.#lost(this.#channels.keys())))
  }

  async subscribe(name: string, onMessage: (message: string) => void): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const channel: GlideChannel = {
        onMessage,
        settle(refusal) {
          channel.isSettled = true
          if (refusal === undefined) resolve()
          else reject(refusal)
        },
        isSettled: false,
        checks: 0,
      }
      this.#channels.get(name)?.settle()
      this.#channels.set(name, channel)
      this.#join(name, channel).catch((error: unknown) => {
        if (error instanceof Refusal) this.#refused(name, channel, error) // else the periodic check keeps trying
      })
    })
  }

  async unsubscribe(name: string): Promise<void> {
    this.#channels.get(name)?.settle()
    this.#channels.delete(name)
    if (!this.#subscriber || this.#leaving.has(name)) return
    const left = this.#leave(name, this.#subscriber).catch(() => {})
    this.#leaving.set(name, left)
    await left
    this.#leaving.delete(name)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#checks?.stop()
    for (const { settle } of this.#channels.values()) settle()
    this.#channels.clear()
    const subscriber = this.#subscriber
    this.#subscriber = undefined
    // It may still be connecting: then it is closed once it is connected.
    void subscriber?.then(({ client }) => client.close()).catch(() => {})
  }

  async #join(name: string, channel: GlideChannel): Promise<void> {
    // Otherwise glide would still report the channel as subscribed.
    await this.#leaving.get(name)
    if (this.#channels.get(name) !== channel) return
    const subscriber = await this.#open()
    if (this.#channels.get(name) !== channel) return
    await this.#requestSubscription(name, subscriber)
    for (let tries = 0; tries < MAX_CONFIRMS && this.#channels.get(name) === channel; tries++) {
      const { inAllWays } = await this.#confirmed(subscriber.client)
      if (inAllWays.has(name)) return channel.settle()
      await sleep(CONFIRM_MS, { keepAlive: false })
    }
  }

  /** The blocking methods would retry a subscription that Redis refuses thousands of times per second. */
  async #requestSubscription(name: string, { client, requested }: Subscriber): Promise<void> {
    requested.add(name)
    try {
      await Promise.all([client.subscribeLazy([name]), this.#isSharded && client.ssubscribeLazy?.([name])])
    } catch (error) {
      requested.delete(name)
      throw error
    }
  }

  async #leave(name: string, opening: Promise<Subscriber>): Promise<void> {
    const { client, requested } = await opening
    if (this.#channels.has(name) || this.#isClosed) return
    requested.delete(name)
    await Promise.all([client.unsubscribeLazy([name]), this.#isSharded && client.sunsubscribeLazy?.([name])])
    for (let tries = 0; tries < MAX_CONFIRMS && !this.#isClosed; tries++) {
      const { inAnyWay } = await this.#confirmed(client)
      if (!inAnyWay.has(name)) return
      await sleep(CONFIRM_MS, { keepAlive: false })
    }
  }

  #open(): Promise<Subscriber> {
    this.#subscriber ??= this.#make().then(async (client) => {
      if (this.#isClosed) {
        client.close()
        throw new Error('closed meanwhile')
      }
      if (isCluster(client) !== this.#isCluster) {
        client.close()
        const wanted = this.#isCluster ? 'a GlideClusterClient' : 'a GlideClient'
        throw cannotSubscribe(`the subscriber of valkeyGlide must create ${wanted}, like the other client`)
      }
      void this.#receive(client)
      const connections = new Connections(client)
      await connections.check().catch(() => {}) // otherwise the first check could not recognize a new connection
      return { client, connections, requested: new Set() }
    })
    const opening = this.#subscriber
    opening.catch(() => {
      if (this.#subscriber === opening) this.#subscriber = undefined // the next check tries again
    })
    return opening
  }

  async #receive(client: GlideLike): Promise<void> {
    try {
      for (;;) {
        const { channel, message } = await client.getPubSubMessage()
        this.#channels.get(String(channel))?.onMessage(String(message))
      }
    } catch (error) {
      if (this.#isClosed) return
      this.#subscriber = undefined // it was closed elsewhere: the next check opens another one
      if ((error as Error).name !== 'ConfigurationError') return
      client.close()
      const refusal = cannotSubscribe('the subscriber of valkeyGlide has a callback for messages', error)
      for (const [name, channel] of this.#channels) this.#refused(name, channel, refusal)
    }
  }

  /** Subscribes to what is missing, and reports when messages are or may have been missed. */
  async #check(): Promise<void> {
    if (this.#channels.size === 0) return
    const subscriber = await this.#open()
    for (const name of this.#channels.keys()) {
      if (subscriber.requested.has(name) || this.#leaving.has(name)) continue
      await this.#requestSubscription(name, subscriber)
      this.#reportsDue = 1
    }
    const newConnections = await subscriber.connections.check()
    const missing = await this.#missingAt(subscriber)
    if (newConnections.length > 0) {
      this.#lost(this.#channels.keys())
      this.#reportsDue = 2
    }
    if (missing.length > 0) return this.#lost(missing)
    if (this.#reportsDue === 0) return
    this.#reportsDue--
    for (const name of this.#channels.keys()) this.#events?.resubscribed(name)
  }

  /**
   * Settles the subscriptions that Redis has confirmed or refused. @returns the confirmed channels that are missing now
   */
  async #missingAt(subscriber: Subscriber): Promise<string[]> {
    const { inAllWays, inAnyWay } = await this.#confirmed(subscriber.client)
    const missing: string[] = []
    for (const [name, channel] of this.#channels) {
      if (this.#leaving.has(name)) continue
      if (inAllWays.has(name)) channel.settle()
      else if (channel.isSettled) missing.push(name)
      else if (++channel.checks >= CHECKS_UNTIL_REFUSED) {
        if (inAnyWay.has(name)) await this.#doWithoutSharded(subscriber)
        else this.#refused(name, channel, new Refusal(NOT_CONFIRMED))
      }
    }
    return missing
  }

  /** These channels currently receive nothing. */
  #lost(names: Iterable<string>): void {
    for (const name of names) this.#events?.subscriptionLost?.(name)
    this.#reportsDue = Math.max(this.#reportsDue, 1)
  }

  #refused(name: string, channel: GlideChannel, why: unknown): void {
    if (channel.isSettled || this.#channels.get(name) !== channel) return
    channel.settle(why)
    void this.unsubscribe(name)
  }

  /** Before Redis 7 there are no sharded channels, so nothing is published on them. */
  async #doWithoutSharded({ client, requested }: Subscriber): Promise<void> {
    this.#isSharded = false
    await client.sunsubscribeLazy?.([...requested])
  }

  /** The channels that Redis has confirmed. One request serves all callers meanwhile. */
  #confirmed(client: GlideLike): Promise<Confirmed> {
    this.#state ??= this.#readConfirmed(client).finally(() => {
      this.#state = undefined
    })
    return this.#state
  }

  async #readConfirmed(client: GlideLike): Promise<Confirmed> {
    const { actualSubscriptions } = await client.getSubscriptions()
    const plain = new Set([...(actualSubscriptions[PLAIN] ?? [])].map(String))
    if (!this.#isSharded) return { inAllWays: plain, inAnyWay: plain }
    const sharded = new Set([...(actualSubscriptions[SHARDED] ?? [])].map(String))
    return {
      inAllWays: new Set([...plain].filter((name) => sharded.has(name))),
      inAnyWay: new Set([...plain, ...sharded]),
    }
  }
}

/** The channels that Redis has confirmed. */
interface Confirmed {
  /** In each way that was requested, plain and sharded. */
  readonly inAllWays: ReadonlySet<string>
  /** In at least one way. */
  readonly inAnyWay: ReadonlySet<string>
}

interface Subscriber {
  readonly client: GlideLike
  readonly connections: Connections
  /** The channels that glide was asked to subscribe to. */
  readonly requested: Set<string>
}
