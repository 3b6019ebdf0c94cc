// Reference-counted subscriptions.
import type { RedisPort } from '../adapters/port.js'
import { isLasting } from '../delivery/replies.js'
import { backoffMs } from '../util/backoff.js'
import type { Clock } from '../util/clock.js'
import type { Random } from '../util/random.js'
import { queueMicrotask } from '../util/real-time.js'
import { withoutSecrets } from '../util/secrets.js'

/** Called with each message; undefined: messages may have been missed. */
type Listener = (message?: string) => void

/** A channel with at least one listener. */
interface Channel {
  readonly listeners: Set<Listener>
  isSubscribed: boolean
  isRefused: boolean
  /** Whether an attempt to subscribe is in flight. */
  isSubscribing: boolean
  /** Cancels the next attempt, if one is due. */
  cancelRetry: () => void
}

/** The delays between attempts to subscribe, ms. */
const RETRY_MS = { least: 50, most: 5_000 }

/** One listener of a channel. */
export interface Subscription {
  /** Whether Redis confirmed the subscription. The listener is called when that is or becomes true. */
  readonly isLive: boolean
  /** Whether Redis denies the subscription. The listener is called when that becomes true. */
  readonly isRefused: boolean
  /**
   * How many of the receivers that PUBLISH counts are due to this listener alone: in a cluster 2, for both kinds of
   * channels. 0 if the client also has other listeners of the channel.
   */
  readonly ownReceivers: number
  leave(): void
}

/** Of a connection without messages. */
const NEVER: Subscription = { isLive: false, isRefused: true, ownReceivers: 0, leave: () => {} }

export interface WakeupHooks {
  /** Once, when the first channel has been subscribed to: from then on there is a connection for messages. */
  onFirst?(): void
  /** Redis denies a subscription (an ACL): its waiters poll instead. */
  onRefused(channel: string, error: unknown): void
}

/**
 * Wake-ups by pub/sub. Subscriptions are reference-counted: one SUBSCRIBE for a channel however many listeners it has, and
 * one UNSUBSCRIBE when the last one leaves. A listener is called for each message, and, because messages may have been
 * missed, when the subscription is confirmed, lost or restored. Every call is only a hint to try again. An error reply to
 * SUBSCRIBE is a refusal only if it lasts, as NOPERM does; after any other it is tried again.
 */
export class Wakeups {
  readonly #port: RedisPort
  readonly #clock: Clock
  readonly #random: Random
  readonly #hooks: WakeupHooks
  #hasOpened = false
  readonly #channels = new Map<string, Channel>()

  constructor(port: RedisPort, clock: Clock, random: Random, hooks: WakeupHooks) {
    this.#port = port
    this.#clock = clock
    this.#random = random
    this.#hooks = hooks
  }

  isListening(name: string): boolean {
    return this.#channels.has(name)
  }

  listen(name: string, listener: Listener): Subscription {
    if (this.#port.hasMessages === false) return NEVER
    const channel = this.#channels.get(name) ?? this.#open(name)
    channel.listeners.add(listener)
    if (channel.isSubscribed) listener() // earlier messages went to the other listeners only
    const receivers = this.#port.isCluster ? 2 : 1
    return {
      get isLive() {
        return channel.isSubscribed
      },
      get isRefused() {
        return channel.isRefused
      },
      get ownReceivers() {
        return channel.isSubscribed && channel.listeners.size === 1 ? receivers : 0
      },
      leave: () => {
        channel.listeners.delete(listener)
        if (channel.listeners.size > 0 || this.#channels.get(name) !== channel) return
        this.#channels.delete(name)
        channel.cancelRetry()
        void this.#port.unsubscribe(name)
      },
    }
  }

  /** A subscription was lost: its listeners may have missed a message already. */
  subscriptionLost(name: string): void {
    const channel = this.#channels.get(name)
    if (!channel?.isSubscribed) return
    channel.isSubscribed = false
    wakeAll(channel)
  }

  /** A channel was subscribed to again after a reconnect, unless Redis refuses it now. */
  resubscribed(name: string, refusal?: unknown): void {
    const channel = this.#channels.get(name)
    if (!channel) return
    if (refusal === undefined) this.#confirmed(channel)
    else this.#failed(name, channel, refusal, 0)
  }

  #open(name: string): Channel {
    const channel: Channel = {
      listeners: new Set(),
      isSubscribed: false,
      isRefused: false,
      isSubscribing: false,
      cancelRetry: () => {},
    }
    this.#channels.set(name, channel)
    if (!this.#hasOpened) queueMicrotask(() => this.#hooks.onFirst?.())
    this.#hasOpened = true
    this.#subscribe(name, channel)
    return channel
  }

  /** @param failures  how many attempts have failed with an error that passes */
  #subscribe(name: string, channel: Channel, failures = 0): void {
    channel.isSubscribing = true
    this.#port
      .subscribe(name, (message) => wakeAll(channel, message))
      .then(
        () => {
          channel.isSubscribing = false
          this.#confirmed(channel)
        },
        (error: unknown) => {
          channel.isSubscribing = false
          // Without an error reply the connection was lost: the port subscribes again.
          if (this.#port.isErrorReply(error)) this.#failed(name, channel, error, failures)
        },
      )
  }

  #failed(name: string, channel: Channel, error: unknown, failures: number): void {
    if (this.#channels.get(name) !== channel) return
    channel.isSubscribed = false
    if (isLasting(error)) {
      channel.isRefused = true
      this.#hooks.onRefused(name, withoutSecrets(error))
      wakeAll(channel)
    } else if (!channel.isSubscribing) {
      const delayMs = backoffMs(failures, RETRY_MS.least, RETRY_MS.most, this.#random)
      channel.cancelRetry()
      channel.cancelRetry = this.#clock.after(delayMs, () => this.#subscribe(name, channel, failures + 1), false)
    }
  }

  #confirmed(channel: Channel): void {
    channel.cancelRetry()
    channel.isRefused = false
    channel.isSubscribed = true
    wakeAll(channel)
  }
}

function wakeAll({ listeners }: Channel, message?: string): void {
  const [first, second] = listeners
  for (const listener of [...listeners]) listener(message)
  // Another listener is first the next time, so that none is always the last.
  if (first && second && listeners.delete(first)) listeners.add(first)
}
