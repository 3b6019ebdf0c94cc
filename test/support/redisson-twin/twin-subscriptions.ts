import type { Redis } from 'ioredis'

/** The messages of an unlock. */
export const UNLOCKED = '0'
export const WRITE_UNLOCKED = '1'

/** One published message. */
export interface Message {
  readonly channel: string
  readonly payload: string
  /** `performance.now()` when it arrived. */
  readonly at: number
}

/** PublishSubscribe: one subscription a channel, counted; gone when the last one leaves. */
export class Subscriptions {
  readonly #redis: Redis
  readonly #entries = new Map<string, ChannelEntry>()

  constructor(redis: Redis) {
    this.#redis = redis
    redis.on('error', () => {})
    redis.on('message', (channel: string, payload: string) => {
      this.#entries.get(channel)?.receive({ channel, payload, at: performance.now() })
    })
  }

  async connected(): Promise<void> {
    await this.#redis.connect()
  }

  get sleeping(): number {
    return [...this.#entries.values()].reduce((sum, { sleeping }) => sum + sleeping, 0)
  }

  async join(channel: string): Promise<ChannelEntry> {
    const entry = this.#entries.get(channel) ?? new ChannelEntry(channel)
    this.#entries.set(channel, entry)
    entry.members += 1
    await this.#redis.subscribe(channel)
    return entry
  }

  async leave(entry: ChannelEntry): Promise<void> {
    entry.members -= 1
    if (entry.members > 0) return
    this.#entries.delete(entry.channel)
    await this.#redis.unsubscribe(entry.channel)
  }

  close(): void {
    this.#redis.disconnect()
    for (const entry of this.#entries.values()) entry.wakeAll()
  }
}

/**
 * RedissonLockEntry: a `0` wakes one waiter of this process; if none sleeps just now, the next one that would. A `1` wakes
 * all that sleep.
 */
class ChannelEntry {
  readonly channel: string
  readonly listeners = new Set<(message: Message) => void>()
  /** Waiters and listeners. */
  members = 0
  waiters = 0
  #permits = 0
  #sleeping: (() => void)[] = []

  constructor(channel: string) {
    this.channel = channel
  }

  get sleeping(): number {
    return this.#sleeping.length
  }

  receive(message: Message): void {
    for (const listener of this.listeners) listener(message)
    if (message.payload === WRITE_UNLOCKED) this.wakeAll() // those that sleep just now, all of them
    if (message.payload !== UNLOCKED || this.waiters === 0) return
    this.#permits += 1
    this.#sleeping.shift()?.()
  }

  /** Sleeps until a message, at most `ms`. */
  async wakeUp(ms: number): Promise<void> {
    if (this.#permits === 0) {
      await new Promise<void>((resolve) => {
        const timer = Number.isFinite(ms) ? setTimeout(() => wake(), ms) : undefined
        const wake = () => {
          clearTimeout(timer)
          this.#sleeping = this.#sleeping.filter((other) => other !== wake)
          resolve()
        }
        this.#sleeping.push(wake)
      })
    }
    if (this.#permits > 0) this.#permits -= 1
  }

  wakeAll(): void {
    for (const wake of [...this.#sleeping]) wake()
  }
}
