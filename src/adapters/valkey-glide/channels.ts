import type { PortEvents } from '../port.js'
import { Ticks } from '../ticks.js'
import { Connections, type GlideLike, isCluster, LOOK_MS, Refusal } from './client.js'

/** Of an enum of glide. */
const PLAIN = 0
const SHARDED = 2

/** How often to ask glide whether Redis confirmed a subscription, ms. It usually has when asked first. */
const CONFIRM_MS = 10
/** Then it is left to the looks. */
const MAX_CONFIRMS = 100
/** After so many looks that Redis answered without confirming a subscription it refuses it. Glide tries every 3 s. */
const LOOKS_UNTIL_REFUSED = 10
const NOT_CONFIRMED = 'Redis answers, but does not confirm the subscription; the log of valkey-glide says why'

interface Channel {
  readonly onMessage: (message: string) => void
  readonly settle: (refusal?: unknown) => void
  isSettled: boolean
  /** Looks that Redis answered, without confirming it. */
  looks: number
}

/**
 * Channels, on a client that only listens. Glide subscribes again by itself after a reconnect; that is seen by the
 * connection being another one, or by channels that were missing for a while.
 */
export class Channels {
  readonly #make: () => Promise<GlideLike>
  readonly #isCluster: boolean
  readonly #channels = new Map<string, Channel>()
  readonly #leaving = new Map<string, Promise<void>>()
  #isSharded: boolean
  #subscriber: Promise<Subscriber> | undefined
  #state: Promise<Heard> | undefined
  /** How often to say that messages may be missing: twice after a reconnect, as glide may learn of it after us. */
  #untold = 0
  #isClosed = false
  #events: PortEvents | undefined
  #looks: Ticks | undefined

  constructor(make: () => Promise<GlideLike>, isClusterWanted: boolean) {
    this.#make = make
    this.#isCluster = isClusterWanted
    this.#isSharded = isClusterWanted
  }

  listen(events: PortEvents): void {
    this.#events = events
    this.#looks = new Ticks(LOOK_MS, () => this.#look().catch(() => this.#lost(this.#channels.keys())))
  }

  async subscribe(name: string, onMessage: (message: string) => void): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const channel: Channel = {
        onMessage,
        settle(refusal) {
          channel.isSettled = true
          if (refusal === undefined) resolve()
          else reject(refusal)
        },
        isSettled: false,
        looks: 0,
      }
      this.#channels.get(name)?.settle()
      this.#channels.set(name, channel)
      this.#join(name, channel).catch((error: unknown) => {
        if (error instanceof Refusal) this.#refused(name, channel, error) // else the looks go on trying
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
    this.#looks?.stop()
    for (const { settle } of this.#channels.values()) settle()
    this.#channels.clear()
    const subscriber = this.#subscriber
    this.#subscriber = undefined
    // It may still be connecting: then it is closed when it is there.
    void subscriber?.then(({ client }) => client.close()).catch(() => {})
  }

  async #join(name: string, channel: Channel): Promise<void> {
    // Else glide would still say that the channel is heard.
    await this.#leaving.get(name)
    if (this.#channels.get(name) !== channel) return
    const subscriber = await this.#open()
    if (this.#channels.get(name) !== channel) return
    await this.#ask(name, subscriber)
    for (let tries = 0; tries < MAX_CONFIRMS && this.#channels.get(name) === channel; tries++) {
      const { all } = await this.#heard(subscriber.client)
      if (all.has(name)) return channel.settle()
      await pause(CONFIRM_MS)
    }
  }

  /** The blocking ways to subscribe would ask thousands of times a second what Redis refuses. */
  async #ask(name: string, { client, asked }: Subscriber): Promise<void> {
    asked.add(name)
    try {
      await Promise.all([client.subscribeLazy([name]), this.#isSharded && client.ssubscribeLazy?.([name])])
    } catch (error) {
      asked.delete(name)
      throw error
    }
  }

  async #leave(name: string, opening: Promise<Subscriber>): Promise<void> {
    const { client, asked } = await opening
    if (this.#channels.has(name) || this.#isClosed) return
    asked.delete(name)
    await Promise.all([client.unsubscribeLazy([name]), this.#isSharded && client.sunsubscribeLazy?.([name])])
    for (let tries = 0; tries < MAX_CONFIRMS && !this.#isClosed; tries++) {
      const { any } = await this.#heard(client)
      if (!any.has(name)) return
      await pause(CONFIRM_MS)
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
        throw new Refusal(`the subscriber of valkeyGlide has to make ${wanted}, like the other client`)
      }
      void this.#hear(client)
      const connections = new Connections(client)
      await connections.look().catch(() => {}) // else the first look would not know that it is another one
      return { client, connections, asked: new Set() }
    })
    const opening = this.#subscriber
    opening.catch(() => {
      if (this.#subscriber === opening) this.#subscriber = undefined // the next look tries again
    })
    return opening
  }

  async #hear(client: GlideLike): Promise<void> {
    try {
      for (;;) {
        const { channel, message } = await client.getPubSubMessage()
        this.#channels.get(String(channel))?.onMessage(String(message))
      }
    } catch (error) {
      if (this.#isClosed) return
      this.#subscriber = undefined // closed by somebody else: the next look opens another one
      if ((error as Error).name !== 'ConfigurationError') return
      client.close()
      const refusal = new Refusal('the subscriber of valkeyGlide has a callback for messages', { cause: error })
      for (const [name, channel] of this.#channels) this.#refused(name, channel, refusal)
    }
  }

  /** Keep what is listened on in step with what is wanted, and tell when messages are or may have been missed. */
  async #look(): Promise<void> {
    if (this.#channels.size === 0) return
    const subscriber = await this.#open()
    for (const name of this.#channels.keys()) {
      if (subscriber.asked.has(name) || this.#leaving.has(name)) continue
      await this.#ask(name, subscriber)
      this.#untold = 1
    }
    const others = await subscriber.connections.look()
    const { all, any } = await this.#heard(subscriber.client)
    const missing: string[] = []
    for (const [name, channel] of this.#channels) {
      if (this.#leaving.has(name)) continue
      if (all.has(name)) channel.settle()
      else if (channel.isSettled) missing.push(name)
      else if (++channel.looks >= LOOKS_UNTIL_REFUSED) {
        if (any.has(name)) await this.#doWithoutSharded(subscriber)
        else this.#refused(name, channel, new Refusal(NOT_CONFIRMED))
      }
    }
    if (others.length > 0) {
      this.#lost(this.#channels.keys())
      this.#untold = 2
    }
    if (missing.length > 0) return this.#lost(missing)
    if (this.#untold === 0) return
    this.#untold--
    for (const name of this.#channels.keys()) this.#events?.resubscribed(name)
  }

  /** Nothing is heard there for now. */
  #lost(names: Iterable<string>): void {
    for (const name of names) this.#events?.subscriptionLost?.(name)
    this.#untold = Math.max(this.#untold, 1)
  }

  #refused(name: string, channel: Channel, why: unknown): void {
    if (channel.isSettled || this.#channels.get(name) !== channel) return
    channel.settle(why)
    void this.unsubscribe(name)
  }

  /** Before Redis 7 there are no sharded channels, and nobody publishes on them. */
  async #doWithoutSharded({ client, asked }: Subscriber): Promise<void> {
    this.#isSharded = false
    await client.sunsubscribeLazy?.([...asked])
  }

  /** The channels that Redis confirmed. One question serves all who ask meanwhile. */
  #heard(client: GlideLike): Promise<Heard> {
    this.#state ??= this.#confirmed(client).finally(() => {
      this.#state = undefined
    })
    return this.#state
  }

  async #confirmed(client: GlideLike): Promise<Heard> {
    const { actualSubscriptions } = await client.getSubscriptions()
    const plain = new Set([...(actualSubscriptions[PLAIN] ?? [])].map(String))
    if (!this.#isSharded) return { all: plain, any: plain }
    const sharded = new Set([...(actualSubscriptions[SHARDED] ?? [])].map(String))
    return { all: new Set([...plain].filter((name) => sharded.has(name))), any: new Set([...plain, ...sharded]) }
  }
}

/** What Redis confirmed. */
interface Heard {
  /** In each way that was asked for. */
  readonly all: ReadonlySet<string>
  /** In one way at least. */
  readonly any: ReadonlySet<string>
}

interface Subscriber {
  readonly client: GlideLike
  readonly connections: Connections
  /** The channels that glide was told to listen on. */
  readonly asked: Set<string>
}

async function pause(ms: number): Promise<void> {
  await new Promise<void>((resolve) => setTimeout(resolve, ms).unref())
}
