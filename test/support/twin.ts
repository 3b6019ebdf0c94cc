import { randomBytes, randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { waitUntil } from './wait-until.js'

/** Redisson's defaults: `timeout`, and (`timeout` + the middle of `retryDelay`) x `retryAttempts`. */
const RESPONSE_TIMEOUT_MS = 3_000
const LATCH_MS = 18_000
const UNLOCKED = '0'

// KEYS lock, channel · ARGV holder, lease · nil: acquired; else the lease left. RedissonLock.tryLockInnerAsync
const ACQUIRE = `
local mine = redis.call('hexists', KEYS[1], ARGV[1]) == 1
if not mine and redis.call('exists', KEYS[1]) == 1 then
  return redis.call('pttl', KEYS[1])
end
redis.call('hincrby', KEYS[1], ARGV[1], 1)
redis.call('pexpire', KEYS[1], ARGV[2])
return nil`

// KEYS lock, channel, latch · ARGV holder, lease, message, latch ms · 1 free, 0 still held, nil not the holder's.
// RedissonLock.unlockInnerAsync
const RELEASE = `
local answered = redis.call('get', KEYS[3])
if answered then
  return tonumber(answered)
end
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return nil
end
local released = 0
if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then
  redis.call('pexpire', KEYS[1], ARGV[2])
else
  redis.call('del', KEYS[1])
  redis.call('publish', KEYS[2], ARGV[3])
  released = 1
end
redis.call('set', KEYS[3], released, 'px', ARGV[4])
return released`

// KEYS lock · ARGV holder, lease · 1 renewed, 0 not the holder's. LockTask.renew
const RENEW = `
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
  return 0
end
return redis.call('pexpire', KEYS[1], ARGV[2])`

// KEYS lock, channel · ARGV message · 1 was held, 0 was free. RedissonLock.forceUnlockAsync
const FORCE = `
local existed = redis.call('del', KEYS[1])
if existed == 1 then
  redis.call('publish', KEYS[2], ARGV[1])
end
return existed`

/** What a plain lock is called in Redis. RedissonObject.prefixName: a name with a `{` keeps its own braces. */
export function keyNames(name: string): { lock: string; channel: string; latch: (requestId: string) => string } {
  const tagged = name.includes('{') ? name : `{${name}}`
  return {
    lock: name,
    channel: `redisson_lock__channel:${tagged}`,
    latch: (requestId) => `redisson_unlock_latch:${tagged}:${requestId}`,
  }
}

/** Stands in for a Java process with Redisson: the plain lock as RedissonLock speaks it, on connections of its own. */
export async function startTwin(url: string): Promise<Twin> {
  const twin = new Twin(url)
  await twin.connected()
  return twin
}

/** One published message. */
export interface Message {
  readonly channel: string
  readonly payload: string
  /** `performance.now()` when it arrived. */
  readonly at: number
}

export interface Listening {
  /** All messages so far, in order of arrival. */
  readonly messages: readonly Message[]
  /** The oldest message that `next` has not answered yet, waiting for it up to 5 s. */
  next(): Promise<Message>
  stop(): Promise<void>
}

/** Redisson's plain lock, for one client id. Thread ids are the caller's. */
export class Twin implements AsyncDisposable {
  readonly clientId = randomUUID()
  readonly keyNames = keyNames
  readonly #commands: Redis
  readonly #subscriptions: Subscriptions

  constructor(url: string) {
    // Redisson in single mode sends neither an acquire nor an unlock twice.
    const options = { lazyConnect: true, autoResendUnfulfilledCommands: false, commandTimeout: RESPONSE_TIMEOUT_MS }
    this.#commands = new Redis(url, options)
    this.#subscriptions = new Subscriptions(new Redis(url, options))
    this.#commands.on('error', () => {})
  }

  async connected(): Promise<void> {
    await Promise.all([this.#commands.connect(), this.#subscriptions.connected()])
  }

  /** `<client id>:<thread id>`: the field of the lock's hash. */
  holder(threadId: number): string {
    return `${this.clientId}:${threadId}`
  }

  /** Takes the lock, again if this thread holds it. Answers null if acquired, else the lease left, ms (-1: no expiry). */
  async acquire(name: string, threadId: number, leaseMs: number): Promise<number | null> {
    const { lock, channel } = keyNames(name)
    return number(await this.#commands.eval(ACQUIRE, 2, lock, channel, this.holder(threadId), leaseMs))
  }

  /** Gives one hold back. Answers 1 if the lock is free now, 0 if still held, null if it is not this thread's. */
  async release(name: string, threadId: number, leaseMs = 30_000): Promise<0 | 1 | null> {
    const { lock, channel, latch } = keyNames(name)
    const latchKey = latch(randomBytes(16).toString('hex'))
    const args = [this.holder(threadId), leaseMs, UNLOCKED, LATCH_MS]
    const released = number(await this.#commands.eval(RELEASE, 3, lock, channel, latchKey, ...args))
    await this.#commands.del(latchKey)
    return released === null ? null : flag(released)
  }

  /** One tick of the watchdog. Answers 1 if renewed, 0 if the lock is not this thread's. */
  async renew(name: string, threadId: number, leaseMs: number): Promise<0 | 1> {
    return flag(number(await this.#commands.eval(RENEW, 1, name, this.holder(threadId), leaseMs)))
  }

  /** Frees the lock, whoever holds it. Answers 1 if somebody did. */
  async force(name: string): Promise<0 | 1> {
    const { lock, channel } = keyNames(name)
    return flag(number(await this.#commands.eval(FORCE, 2, lock, channel, UNLOCKED)))
  }

  /**
   * RedissonLock.tryLock(waitTime, leaseTime): try, subscribe, try again, then sleep until a message or the end of the
   * lease that was told, whichever comes first.
   * @param waitMs longest wait, ms; `Infinity` waits as RedissonLock.lock does
   * @returns whether the lock was acquired
   */
  async lock(name: string, threadId: number, leaseMs: number, waitMs: number): Promise<boolean> {
    const endsAt = performance.now() + waitMs
    if ((await this.acquire(name, threadId, leaseMs)) === null) return true
    if (performance.now() >= endsAt) return false
    const entry = await this.#subscriptions.join(keyNames(name).channel)
    entry.waiters += 1
    try {
      while (performance.now() < endsAt) {
        const leftMs = await this.acquire(name, threadId, leaseMs)
        if (leftMs === null) return true
        await entry.wakeUp(Math.min(leftMs < 0 ? Infinity : leftMs, endsAt - performance.now()))
      }
      return false
    } finally {
      entry.waiters -= 1
      await this.#subscriptions.leave(entry)
    }
  }

  /** Hears what is published on the lock's channel, from the moment this resolves. */
  async listen(name: string): Promise<Listening> {
    const entry = await this.#subscriptions.join(keyNames(name).channel)
    const messages: Message[] = []
    const hear = (message: Message) => messages.push(message)
    entry.listeners.add(hear)
    let read = 0
    return {
      messages,
      next: () => {
        const index = read++
        return waitUntil(() => messages[index], { message: `a message on ${entry.channel}` })
      },
      stop: async () => {
        if (entry.listeners.delete(hear)) await this.#subscriptions.leave(entry)
      },
    }
  }

  /** Ends the connections; holds stay until their lease ends, as those of a dead Java process. */
  close(): void {
    this.#commands.disconnect()
    this.#subscriptions.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.close()
  }
}

/** PublishSubscribe: one subscription a channel, counted; gone when the last one leaves. */
class Subscriptions {
  readonly #redis: Redis
  readonly #entries = new Map<string, ChannelEntry>()

  constructor(redis: Redis) {
    this.#redis = redis
    redis.on('error', () => {})
    redis.on('message', (channel: string, payload: string) => {
      this.#entries.get(channel)?.hear({ channel, payload, at: performance.now() })
    })
  }

  async connected(): Promise<void> {
    await this.#redis.connect()
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

/** RedissonLockEntry: a `0` wakes one waiter of this process; if none sleeps just now, the next one that would. */
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

  hear(message: Message): void {
    for (const listener of this.listeners) listener(message)
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

function number(reply: unknown): number | null {
  if (reply === null || typeof reply === 'number') return reply
  throw new TypeError(`expected an integer or nil, not ${String(reply)}`)
}

function flag(reply: number | null): 0 | 1 {
  if (reply === 0 || reply === 1) return reply
  throw new TypeError(`expected 0 or 1, not ${reply}`)
}
