import type { RedisPort } from '../adapters/port.js'
import { withoutSecrets } from '../util/secrets.js'

/** Told each message; undefined: messages may have been missed. */
type Listener = (message?: string) => void

/** A channel that somebody listens on. */
interface Channel {
  readonly listeners: Set<Listener>
  isHeard: boolean
  isRefused: boolean
}

/** One listener's place on a channel. */
export interface Subscription {
  /** Whether Redis confirmed that we hear the channel. The listener is called when that is or becomes true. */
  readonly isLive: boolean
  /** Whether Redis forbids it. The listener is called when that becomes true. */
  readonly isRefused: boolean
  /**
   * How often a message on it is counted as heard because of this listener alone: in a cluster on both kinds of channels.
   * 0 if others of this client listen, too.
   */
  readonly ears: number
  leave(): void
}

/**
 * Wake-ups by pub/sub, counted: one SUBSCRIBE for a channel however many listen, one UNSUBSCRIBE when the last leaves.
 * A listener is called for each message, once when the channel is heard, when the subscription is lost, and after each
 * re-subscription, because messages may have been missed. All of them are hints to try again.
 */
export class Wakeups {
  readonly #port: RedisPort
  readonly #onRefused: (channel: string, error: unknown) => void
  readonly #channels = new Map<string, Channel>()

  /** @param onRefused  told when Redis refuses a subscription (an ACL): its waiters poll instead */
  constructor(port: RedisPort, onRefused: (channel: string, error: unknown) => void) {
    this.#port = port
    this.#onRefused = (channel, error) => onRefused(channel, withoutSecrets(error))
  }

  listen(name: string, listener: Listener): Subscription {
    const channel = this.#channels.get(name) ?? this.#open(name)
    channel.listeners.add(listener)
    if (channel.isHeard) listener() // what came before it listened went to the others only
    const ears = this.#port.isCluster ? 2 : 1
    return {
      get isLive() {
        return channel.isHeard
      },
      get isRefused() {
        return channel.isRefused
      },
      get ears() {
        return channel.isHeard && channel.listeners.size === 1 ? ears : 0
      },
      leave: () => {
        channel.listeners.delete(listener)
        if (channel.listeners.size > 0 || this.#channels.get(name) !== channel) return
        this.#channels.delete(name)
        void this.#port.unsubscribe(name)
      },
    }
  }

  /** The channel is not heard any more: a message may have been missed already, so its listeners look for themselves. */
  subscriptionLost(name: string): void {
    const channel = this.#channels.get(name)
    if (!channel?.isHeard) return
    channel.isHeard = false
    wakeAll(channel)
  }

  /** The channel is heard again after a reconnect, unless Redis refuses it now. */
  resubscribed(name: string, refusal?: unknown): void {
    const channel = this.#channels.get(name)
    if (!channel) return
    channel.isRefused = refusal !== undefined
    channel.isHeard = !channel.isRefused
    if (!channel.isHeard) this.#onRefused(name, refusal)
    wakeAll(channel)
  }

  #open(name: string): Channel {
    const channel: Channel = { listeners: new Set(), isHeard: false, isRefused: false }
    this.#channels.set(name, channel)
    this.#port
      .subscribe(name, (message) => wakeAll(channel, message))
      .then(
        () => {
          channel.isHeard = true
          wakeAll(channel)
        },
        (error: unknown) => {
          if (!this.#port.isErrorReply(error)) return
          channel.isRefused = true
          this.#onRefused(name, error)
          wakeAll(channel)
        },
      )
    return channel
  }
}

function wakeAll({ listeners }: Channel, message?: string): void {
  const [first] = listeners
  for (const listener of [...listeners]) listener(message)
  // Another one is first the next time: none is always late.
  if (first && listeners.size > 1 && listeners.delete(first)) listeners.add(first)
}
