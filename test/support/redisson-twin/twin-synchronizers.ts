import { randomBytes } from 'node:crypto'
import { Redis } from 'ioredis'
import type { AnyFixture } from '../fixture.js'
import { AS_ADMIN } from '../rights.js'
import {
  COUNT_DOWN,
  PERMIT_ACQUIRE,
  PERMIT_RELEASE,
  SEMAPHORE_ACQUIRE,
  SEMAPHORE_RELEASE,
  SET_COUNT,
  SET_PERMITS,
} from './synchronizer-scripts.js'

/** Redisson's lease that never ends, as a score. */
const NEVER = 922_337_203_685_477

const tagged = (name: string): string => (name.includes('{') ? name : `{${name}}`)

/**
 * What a Java process with Redisson does to semaphores and latches: its keys, messages, and ways to wait. Started on the
 * server of a fixture, until the end of the test.
 */
export async function openSynchronizerTwin({ server: { url }, onEnd }: AnyFixture): Promise<SynchronizerTwin> {
  const options = { ...AS_ADMIN, lazyConnect: true }
  const [commands, subscriber] = [new Redis(url, options), new Redis(url, options)]
  for (const redis of [commands, subscriber]) redis.on('error', () => {})
  await Promise.all([commands.connect(), subscriber.connect()])
  const twin = new SynchronizerTwin(commands, subscriber)
  onEnd(() => twin.close())
  return twin
}

export class SynchronizerTwin {
  readonly #commands: Redis
  readonly #subscriber: Redis
  readonly #entries = new Map<string, Entry>()

  constructor(commands: Redis, subscriber: Redis) {
    this.#commands = commands
    this.#subscriber = subscriber
    subscriber.on('message', (channel: string, payload: string) => this.#entries.get(channel)?.receive(payload))
  }

  /** How many of its waiters sleep until a message. */
  get sleeping(): number {
    return [...this.#entries.values()].reduce((sum, { sleeping }) => sum + sleeping, 0)
  }

  async trySetPermits(name: string, permits: number): Promise<boolean> {
    return (await this.#commands.eval(SET_PERMITS, 2, name, channelOf(name), permits)) === 1
  }

  async tryAcquire(name: string, permits = 1): Promise<boolean> {
    return (await this.#commands.eval(SEMAPHORE_ACQUIRE, 1, name, permits)) === 1
  }

  async release(name: string, permits = 1): Promise<void> {
    await this.#commands.eval(SEMAPHORE_RELEASE, 2, name, channelOf(name), permits)
  }

  /** RedissonSemaphore.acquire: without any limit but messages. */
  async acquire(name: string, permits = 1): Promise<void> {
    if (await this.tryAcquire(name, permits)) return
    await this.#waiting(new SemaphoreEntry(channelOf(name)), async (entry) => {
      while (!(await this.tryAcquire(name, permits))) await entry.wakeUp()
    })
  }

  /** @returns the ids, 32 hexadecimal digits each; else when the next lease ends, epoch ms, or null if that is not known */
  async tryAcquirePermits(name: string, count: number, leaseMs: number): Promise<string[] | number | null> {
    const ids = Array.from({ length: count }, () => randomBytes(16))
    const expiry = leaseMs === -1 ? NEVER : Date.now() + leaseMs
    const keys = [name, leasesOf(name), channelOf(name)]
    const reply = await this.#commands.eval(PERMIT_ACQUIRE, 3, ...keys, Date.now(), count, expiry, NEVER, ...ids)
    if (reply === 'OK') return ids.map((id) => id.toString('hex'))
    return reply === null ? null : Number(String(reply).slice(1))
  }

  /** RedissonPermitExpirableSemaphore.acquire: until a message, or until the next lease ends. */
  async acquirePermits(name: string, count: number, leaseMs: number): Promise<string[]> {
    const first = await this.tryAcquirePermits(name, count, leaseMs)
    if (Array.isArray(first)) return first
    return await this.#waiting(new SemaphoreEntry(channelOf(name)), async (entry) => {
      while (true) {
        const reply = await this.tryAcquirePermits(name, count, leaseMs)
        if (Array.isArray(reply)) return reply
        await entry.wakeUp(reply === null ? Number.POSITIVE_INFINITY : reply - Date.now())
      }
    })
  }

  async releasePermit(name: string, id: string): Promise<boolean> {
    const keys = [name, leasesOf(name), channelOf(name)]
    return (await this.#commands.eval(PERMIT_RELEASE, 3, ...keys, Buffer.from(id, 'hex'), Date.now())) === 1
  }

  async trySetCount(name: string, count: number): Promise<boolean> {
    return (await this.#commands.eval(SET_COUNT, 2, name, latchChannelOf(name), count, '1')) === 1
  }

  async countDown(name: string): Promise<void> {
    await this.#commands.eval(COUNT_DOWN, 2, name, latchChannelOf(name), '0')
  }

  /** RedissonCountDownLatch.await: at a gate that `0` opens and `1` closes. */
  async await(name: string): Promise<void> {
    const isOpen = async () => Number((await this.#commands.get(name)) ?? 0) === 0
    if (await isOpen()) return
    await this.#waiting(new LatchEntry(latchChannelOf(name)), async (entry) => {
      while (!(await isOpen())) await entry.wakeUp()
    })
  }

  /** Ends the connections, as a Java process that dies. */
  close(): void {
    this.#commands.disconnect()
    this.#subscriber.disconnect()
  }

  /** PublishSubscribe: one subscription for a channel, counted. */
  async #waiting<T>(fresh: Entry, fn: (entry: Entry) => Promise<T>): Promise<T> {
    const entry = this.#entries.get(fresh.channel) ?? fresh
    this.#entries.set(entry.channel, entry)
    entry.members += 1
    await this.#subscriber.subscribe(entry.channel)
    try {
      return await fn(entry)
    } finally {
      entry.members -= 1
      if (entry.members === 0) {
        this.#entries.delete(entry.channel)
        await this.#subscriber.unsubscribe(entry.channel)
      }
    }
  }
}

function channelOf(name: string): string {
  return `redisson_sc:${tagged(name)}`
}

function leasesOf(name: string): string {
  return `${tagged(name)}:timeout`
}

function latchChannelOf(name: string): string {
  return `redisson_countdownlatch__channel__{${name}}`
}

abstract class Entry {
  readonly channel: string
  members = 0
  protected sleepers: (() => void)[] = []

  constructor(channel: string) {
    this.channel = channel
  }

  get sleeping(): number {
    return this.sleepers.length
  }

  abstract receive(payload: string): void

  /** Sleeps until a message wakes it, at most `ms`. */
  abstract wakeUp(ms?: number): Promise<void>

  protected async sleep(ms: number): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = Number.isFinite(ms) ? setTimeout(() => wake(), Math.max(0, ms)) : undefined
      const wake = () => {
        clearTimeout(timer)
        this.sleepers = this.sleepers.filter((other) => other !== wake)
        resolve()
      }
      this.sleepers.push(wake)
    })
  }
}

/** SemaphorePubSub: a message adds as many permits to a counting latch as it says, at most as many as there are waiters. */
class SemaphoreEntry extends Entry {
  #permits = 0

  override receive(payload: string): void {
    const released = Math.min(this.members, Number(payload))
    if (!(released >= 0)) throw new TypeError(`Java's latch throws at ${payload}`)
    this.#permits += released
    for (const wake of this.sleepers.slice(0, this.#permits)) wake()
  }

  override async wakeUp(ms = Number.POSITIVE_INFINITY): Promise<void> {
    if (this.#permits === 0) await this.sleep(ms)
    if (this.#permits > 0) this.#permits -= 1
  }
}

/** RedissonCountDownLatchEntry: `0` opens its gate, `1` closes it. */
class LatchEntry extends Entry {
  #isOpen = false

  override receive(payload: string): void {
    if (payload === '1') this.#isOpen = false
    if (payload !== '0') return
    this.#isOpen = true
    for (const wake of [...this.sleepers]) wake()
  }

  override async wakeUp(ms = Number.POSITIVE_INFINITY): Promise<void> {
    if (!this.#isOpen) await this.sleep(ms)
  }
}
