import { randomBytes, randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import type { AnyFixture } from '../fixture.js'
import { AS_ADMIN } from '../rights.js'
import { waitUntil } from '../wait-until.js'
import {
  ACQUIRE,
  FAIR_ACQUIRE,
  FAIR_LEAVE,
  FAIR_RELEASE,
  FENCED_ACQUIRE,
  FORCE,
  GROUP_ACQUIRE,
  GROUP_RELEASE,
  READ_ACQUIRE,
  READ_RELEASE,
  RELEASE,
  RENEW,
  WRITE_ACQUIRE,
  WRITE_RELEASE,
} from './twin-scripts.js'
import { type Message, Subscriptions, UNLOCKED, WRITE_UNLOCKED } from './twin-subscriptions.js'

/** Redisson's defaults: `timeout`, and (`timeout` + the middle of `retryDelay`) x `retryAttempts`. */
const RESPONSE_TIMEOUT_MS = 3_000
const LATCH_MS = 18_000
/** What a waiter without a wait time adds to its deadline, ms. RedissonFairLock: `fairLockWaitTimeout`. */
export const FAIR_WAIT_MS = 300_000

/** The keys and channels of a lock in Redis. RedissonObject.prefixName: a name with a `{` keeps its own braces. */
export function keyNames(name: string) {
  const tagged = name.includes('{') ? name : `{${name}}`
  const channel = `redisson_lock__channel:${tagged}`
  return {
    lock: name,
    channel,
    latch: (requestId: string) => `redisson_unlock_latch:${tagged}:${requestId}`,
    queue: `redisson_lock_queue:${tagged}`,
    deadlines: `redisson_lock_timeout:${tagged}`,
    fairChannel: (holder: string) => `${channel}:${holder}`,
    readWriteChannel: `redisson_rwlock:${tagged}`,
    readHold: (holder: string, index: number) => `${tagged}:${holder}:rwlock_timeout:${index}`,
    tokens: `redisson_lock_token:${tagged}`,
  }
}

/** Plays a Java process with Redisson 4.7: locks with the commands of its scripts, on separate connections. */
export async function startTwin(url: string): Promise<Twin> {
  const twin = new Twin(url)
  await twin.connected()
  return twin
}

/** Starts a twin on the server of a fixture, until the end of the test. */
export async function openTwin({ server, onEnd }: AnyFixture): Promise<Twin> {
  const twin = await startTwin(server.url)
  onEnd(() => twin.close())
  return twin
}

export interface Listening {
  /** All messages so far, in order of arrival. */
  readonly messages: readonly Message[]
  /** The oldest message that `next` has not resolved to yet, waiting for it up to 5 s. */
  next(): Promise<Message>
  stop(): Promise<void>
}

/** Redisson's locks, for one client id. Thread ids are the caller's. */
export class Twin implements AsyncDisposable {
  readonly clientId = randomUUID()
  readonly keyNames = keyNames
  readonly #commands: Redis
  readonly #subscriptions: Subscriptions

  constructor(url: string) {
    // Redisson in single mode sends neither an acquire nor an unlock twice.
    const options = {
      ...AS_ADMIN,
      lazyConnect: true,
      autoResendUnfulfilledCommands: false,
      commandTimeout: RESPONSE_TIMEOUT_MS,
    }
    this.#commands = new Redis(url, options)
    this.#subscriptions = new Subscriptions(new Redis(url, options))
    this.#commands.on('error', () => {})
  }

  async connected(): Promise<void> {
    await Promise.all([this.#commands.connect(), this.#subscriptions.connected()])
  }

  /** How many of its threads sleep until a message or the end of a lease. */
  get sleeping(): number {
    return this.#subscriptions.sleeping
  }

  /** `<client id>:<thread id>`: the field of the lock's hash. */
  holder(threadId: number): string {
    return `${this.clientId}:${threadId}`
  }

  /** Acquires the lock, re-entering it if this thread holds it. @returns null if acquired, else the remaining lease, ms (-1: no expiry) */
  async acquire(name: string, threadId: number, leaseMs: number): Promise<number | null> {
    const { lock, channel } = keyNames(name)
    return number(await this.#commands.eval(ACQUIRE, 2, lock, channel, this.holder(threadId), leaseMs))
  }

  /** Releases one hold. @returns 1 if the lock is free now, 0 if still held, null if it is not this thread's */
  async release(name: string, threadId: number, leaseMs = 30_000): Promise<0 | 1 | null> {
    const { lock, channel } = keyNames(name)
    return await this.#release(name, RELEASE, [lock, channel], [this.holder(threadId), leaseMs, UNLOCKED, LATCH_MS])
  }

  /** One tick of the watchdog. @returns 1 if renewed, 0 if the lock is not this thread's */
  async renew(name: string, threadId: number, leaseMs: number): Promise<0 | 1> {
    return flag(number(await this.#commands.eval(RENEW, 1, name, this.holder(threadId), leaseMs)))
  }

  /** Frees the lock, whoever holds it. @returns 1 if it was held */
  async force(name: string): Promise<0 | 1> {
    const { lock, channel } = keyNames(name)
    return flag(number(await this.#commands.eval(FORCE, 2, lock, channel, UNLOCKED)))
  }

  /**
   * RedissonLock.tryLock(waitTime, leaseTime): try, subscribe, try again, then sleep until a message or the end of the
   * lease in the reply, whichever comes first.
   * @param waitMs longest wait, ms; `Infinity` waits as RedissonLock.lock does
   * @returns whether the lock was acquired
   */
  async lock(name: string, threadId: number, leaseMs: number, waitMs: number): Promise<boolean> {
    return await this.#wait(keyNames(name).channel, waitMs, () => this.acquire(name, threadId, leaseMs))
  }

  /**
   * RedissonFairLock: acquires the lock when it is this thread's turn, else queues it. Returns null if acquired, else for
   * how long to sleep at most.
   * @param waitMs what is added to the deadlines; default Redisson's `fairLockWaitTimeout`
   */
  async fairAcquire(name: string, threadId: number, leaseMs: number, waitMs = FAIR_WAIT_MS): Promise<number | null> {
    return await this.#fairAcquire(name, threadId, leaseMs, waitMs, 1)
  }

  /** RedissonFairLock.tryLock() without a wait: never queues. */
  async fairTry(name: string, threadId: number, leaseMs: number): Promise<boolean> {
    return (await this.#fairAcquire(name, threadId, leaseMs, FAIR_WAIT_MS, 0)) === null
  }

  async #fairAcquire(name: string, threadId: number, leaseMs: number, waitMs: number, isQueueing: number) {
    const { lock, queue, deadlines } = keyNames(name)
    const args = [this.holder(threadId), leaseMs, waitMs, Date.now(), isQueueing]
    return number(await this.#commands.eval(FAIR_ACQUIRE, 3, lock, queue, deadlines, ...args))
  }

  /** As `release`; also 1 if nobody holds the lock. */
  async fairRelease(name: string, threadId: number, leaseMs = 30_000): Promise<0 | 1 | null> {
    const { lock, queue, deadlines, fairChannel } = keyNames(name)
    const args = [this.holder(threadId), leaseMs, fairChannel(''), UNLOCKED, Date.now(), LATCH_MS]
    return await this.#release(name, FAIR_RELEASE, [lock, queue, deadlines], args)
  }

  /** Leaves the queue. */
  async fairLeave(name: string, threadId: number, waitMs = FAIR_WAIT_MS): Promise<void> {
    const { lock, queue, deadlines } = keyNames(name)
    await this.#commands.eval(FAIR_LEAVE, 3, lock, queue, deadlines, this.holder(threadId), waitMs)
  }

  /** As `lock`, in the order of the requests. */
  async fairLock(name: string, threadId: number, leaseMs: number, waitMs: number): Promise<boolean> {
    const channel = keyNames(name).fairChannel(this.holder(threadId))
    const patience = Number.isFinite(waitMs) ? waitMs : FAIR_WAIT_MS
    const held = await this.#wait(channel, waitMs, () => this.fairAcquire(name, threadId, leaseMs, patience))
    if (!held) await this.fairLeave(name, threadId, patience)
    return held
  }

  /** RedissonReadLock: as `acquire`. */
  async readAcquire(name: string, threadId: number, leaseMs: number): Promise<number | null> {
    const { lock, readHold } = keyNames(name)
    const holder = this.holder(threadId)
    const prefix = readHold(holder, 1).split(holder)[0] ?? ''
    return number(await this.#commands.eval(READ_ACQUIRE, 1, lock, holder, leaseMs, prefix))
  }

  /** @returns 1 if the lock is free now, 0 if it is still held, null if it is not this thread's */
  async readRelease(name: string, threadId: number): Promise<0 | 1 | null> {
    const { lock, readHold, readWriteChannel } = keyNames(name)
    const holder = this.holder(threadId)
    const prefix = readHold(holder, 1).split(holder)[0] ?? ''
    return await this.#release(name, READ_RELEASE, [lock], [holder, prefix, readWriteChannel, UNLOCKED, LATCH_MS])
  }

  /** As `lock`, for a reader. */
  async readLock(name: string, threadId: number, leaseMs: number, waitMs: number): Promise<boolean> {
    return await this.#wait(keyNames(name).readWriteChannel, waitMs, () => this.readAcquire(name, threadId, leaseMs))
  }

  /** RedissonWriteLock: as `acquire`. */
  async writeAcquire(name: string, threadId: number, leaseMs: number): Promise<number | null> {
    return number(await this.#commands.eval(WRITE_ACQUIRE, 1, name, `${this.holder(threadId)}:write`, leaseMs))
  }

  /** As `release`; a thread that also reads keeps reading. */
  async writeRelease(name: string, threadId: number, leaseMs = 30_000): Promise<0 | 1 | null> {
    const { lock, readWriteChannel } = keyNames(name)
    const args = [`${this.holder(threadId)}:write`, leaseMs, readWriteChannel, WRITE_UNLOCKED, LATCH_MS]
    return await this.#release(name, WRITE_RELEASE, [lock], args)
  }

  /** As `lock`, for a writer. */
  async writeLock(name: string, threadId: number, leaseMs: number, waitMs: number): Promise<boolean> {
    return await this.#wait(keyNames(name).readWriteChannel, waitMs, () => this.writeAcquire(name, threadId, leaseMs))
  }

  /** RedissonFencedLock.tryLockAndGetToken: the token, or null if refused. Released as a plain lock. */
  async fencedAcquire(name: string, threadId: number, leaseMs: number): Promise<number | null> {
    const { lock, tokens } = keyNames(name)
    const reply = await this.#commands.eval(FENCED_ACQUIRE, 2, lock, tokens, this.holder(threadId), leaseMs)
    const [left, token] = reply as [number, number]
    return left === -1 ? token : null
  }

  /** RedissonFasterMultiLock: as `acquire`, for values of a group given as digests. */
  async groupAcquire(group: string, digests: string[], threadId: number, leaseMs: number): Promise<number | null> {
    const args = [leaseMs, this.holder(threadId), Date.now(), ...digests]
    return number(await this.#commands.eval(GROUP_ACQUIRE, 1, group, ...args))
  }

  /** As `release`, for the same values. */
  async groupRelease(group: string, digests: string[], threadId: number, leaseMs = 30_000): Promise<0 | 1 | null> {
    const args = [this.holder(threadId), leaseMs, Date.now(), keyNames(group).channel, UNLOCKED, LATCH_MS, ...digests]
    return await this.#release(group, GROUP_RELEASE, [group], args)
  }

  /** As `lock`, for values of a group. */
  async groupLock(
    group: string,
    digests: string[],
    threadId: number,
    leaseMs: number,
    waitMs: number,
  ): Promise<boolean> {
    const attempt = () => this.groupAcquire(group, digests, threadId, leaseMs)
    return await this.#wait(keyNames(group).channel, waitMs, attempt)
  }

  /** An unlock and its latch, which is deleted right after. */
  async #release(name: string, script: string, keys: string[], args: (string | number)[]): Promise<0 | 1 | null> {
    const latchKey = keyNames(name).latch(randomBytes(16).toString('hex'))
    const released = number(await this.#commands.eval(script, keys.length + 1, ...keys, latchKey, ...args))
    await this.#commands.del(latchKey)
    return released === null ? null : flag(released)
  }

  async #wait(channel: string, waitMs: number, attempt: () => Promise<number | null>): Promise<boolean> {
    const endsAt = performance.now() + waitMs
    if ((await attempt()) === null) return true
    if (performance.now() >= endsAt) return false
    const entry = await this.#subscriptions.join(channel)
    entry.waiters += 1
    try {
      while (performance.now() < endsAt) {
        const leftMs = await attempt()
        if (leftMs === null) return true
        await entry.wakeUp(Math.min(leftMs < 0 ? Infinity : leftMs, endsAt - performance.now()))
      }
      return false
    } finally {
      entry.waiters -= 1
      await this.#subscriptions.leave(entry)
    }
  }

  /** Receives what is published on the lock's channel, or on another one, once this has resolved. */
  async listen(name: string, channel = keyNames(name).channel): Promise<Listening> {
    const entry = await this.#subscriptions.join(channel)
    const messages: Message[] = []
    const receive = (message: Message) => messages.push(message)
    entry.listeners.add(receive)
    let read = 0
    return {
      messages,
      next: () => {
        const index = read++
        return waitUntil(() => messages[index], { message: `a message on ${entry.channel}` })
      },
      stop: async () => {
        if (entry.listeners.delete(receive)) await this.#subscriptions.leave(entry)
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

function number(reply: unknown): number | null {
  if (reply === null || typeof reply === 'number') return reply
  throw new TypeError(`expected an integer or nil, not ${String(reply)}`)
}

function flag(reply: number | null): 0 | 1 {
  if (reply === 0 || reply === 1) return reply
  throw new TypeError(`expected 0 or 1, not ${reply}`)
}
