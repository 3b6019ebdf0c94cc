// createTestRedis: clients on a Redis in memory.
import { Client } from '../client.js'
import type { ClientOptions } from '../client-options.js'
import { ConfigError } from '../errors.js'
import { type Clock, SystemClock } from '../util/clock.js'
import { ownOptions } from '../util/validate.js'
import { fromBytes, toBytes } from './engine.js'
import { type Fault, MemoryPort, type Sent } from './memory-port.js'
import { MemoryRedis } from './memory-redis.js'
import { SeededRandom } from './seeded-random.js'
import { FakedClock, type VirtualTime, virtualTimeOf } from './test-time.js'
import { turn, VirtualClock } from './virtual-clock.js'

export interface TestRedisOptions {
  /**
   * `'real'` (default): time passes by itself. `'virtual'`: only by `redis.time`. `'faked'`: that of the fake timers of your
   * test framework, which must replace `setTimeout` and `Date`.
   */
  time?: 'real' | 'virtual' | 'faked' | undefined
  /** For client ids and random delays; default 1. In virtual time the same seed gives the same run. */
  seed?: number | undefined
}

/** The content of a key in Redis. */
export interface TestKey {
  readonly key: string
  readonly type: 'string' | 'hash' | 'list' | 'zset'
  /** Ms; undefined: it does not expire. */
  readonly expiresInMs: number | undefined
}

/** Faults between one client and Redis. */
export interface Faults {
  /**
   * Applies a fault to the next operation of this name that this client sends.
   * @param operation  as in `redis.sent(client)`: `lock/acquire`, `lock/renew`, `SUBSCRIBE`; `message`: the next that arrives
   */
  next(operation: string, fault: Fault): void
  /** Called for each operation and each message that `next` says nothing about; undefined: nothing happens to it. */
  each(decide: (sent: Sent) => Fault | undefined): void
  /** From now on no request, reply or message gets through, until `reconnect`. */
  disconnect(): void
  /** The client's connections are back, as after a failure of the network. */
  reconnect(): void
}

/** Keys that are no lock: they outlast those who used them, and expire by themselves. */
const BOOKKEEPING = /^holdfast_/
const TIMES = ['real', 'virtual', 'faked']
/** The time of day at which virtual time begins. */
const VIRTUAL_EPOCH = Date.UTC(2026, 0, 1)
/** Waiting clients let others go first for this long when they leave, ms. */
const REST_MS = 10

/**
 * A Redis in memory for unit tests: each client that it connects is a process of its own, and runs the same scripts as on a
 * real Redis. It is a single server without memory limits, persistence, replicas, ACLs; clusters and a watchdog thread are
 * not supported. Test those, and your Redis, with a real one.
 *
 * ```ts
 * const redis = createTestRedis({ time: 'virtual' })
 * const shop = redis.connect()
 * const rival = redis.connect()
 * const hold = await shop.getLock('order').lock({ leaseTimeMs: 10_000 })
 * const waiting = rival.getLock('order').lock()
 * await redis.time.advance(10_001)
 * assert(hold.signal.aborted)
 * await (await waiting).unlock()
 * await redis.close()
 * ```
 * @throws {ConfigError} an option cannot work
 */
export function createTestRedis(options: TestRedisOptions = {}): TestRedis {
  const { time = 'real', seed = 1 } = ownOptions(options, { time: 1, seed: 1 })
  if (!TIMES.includes(time)) throw new ConfigError('time', time, "'real', 'virtual' or 'faked'")
  if (!Number.isSafeInteger(seed)) throw new ConfigError('seed', seed, 'a whole number')
  return new TestRedis(time, seed)
}

/** A Redis in memory; made by `createTestRedis`. */
export class TestRedis implements AsyncDisposable {
  readonly #virtual: VirtualClock | undefined
  readonly #clock: Clock
  readonly #random: SeededRandom
  readonly #redis: MemoryRedis
  readonly #ports = new Map<Client, MemoryPort>()
  #closing: Promise<void> | undefined

  /** @internal */
  constructor(time: 'real' | 'virtual' | 'faked', seed: number) {
    this.#virtual = time === 'virtual' ? new VirtualClock() : undefined
    this.#clock = this.#virtual ?? (time === 'faked' ? new FakedClock() : new SystemClock())
    this.#random = new SeededRandom(seed)
    this.#redis = new MemoryRedis(this.#clock, (this.#virtual ? VIRTUAL_EPOCH : Date.now()) - this.#clock.now())
  }

  /**
   * Opens a client, as another process does. The default of `inspection` is false here, so that only what a test does is
   * in `keys()` and `sent()`.
   * @throws {ConfigError} an option cannot work
   */
  connect(options: ClientOptions = {}): Client {
    const port = new MemoryPort(this.#clock, this.#redis)
    const client = new Client(port, { inspection: false, ...options }, { clock: this.#clock, random: this.#random })
    this.#ports.set(client, port)
    return client
  }

  /**
   * Virtual time.
   * @throws {ConfigError} the time of this Redis is not virtual
   */
  get time(): VirtualTime {
    if (!this.#virtual) throw new ConfigError('time', undefined, "'virtual', to let time pass by redis.time")
    return virtualTimeOf(this.#virtual)
  }

  /** The faults between a client and Redis. */
  faults(client: Client): Faults {
    const port = this.#portOf(client)
    return {
      next: (operation, fault) => port.once(operation, fault),
      each: (decide) => {
        port.fault = decide
      },
      disconnect: () => {
        port.isDisconnected = true
        port.loseSubscriber()
      },
      reconnect: () => {
        port.isDisconnected = false
        port.resubscribe()
        port.reconnect()
      },
    }
  }

  /** Every operation that a client sent, in order. */
  sent(client: Client): readonly Sent[] {
    return this.#portOf(client).sent
  }

  /** Every key. */
  keys(): TestKey[] {
    const { keyspace } = this.#redis
    keyspace.tick()
    return keyspace.names().map((bytes) => {
      const { type, expiresAt } = keyspace.content(bytes) as { type: TestKey['type']; expiresAt: number | undefined }
      return {
        key: fromBytes(bytes),
        type,
        expiresInMs: expiresAt === undefined ? undefined : expiresAt - keyspace.now,
      }
    })
  }

  /**
   * Deletes a key, as an eviction or an operator does: the client that holds a lock there is not notified.
   * @returns whether there was one
   */
  forceExpire(key: string): boolean {
    this.#redis.keyspace.tick()
    return this.#redis.keyspace.remove(toBytes(key))
  }

  /** Deletes all keys, as a Redis without persistence that was started again. */
  loseData(): void {
    this.#redis.flush()
  }

  /** Forgets all scripts, as a Redis that was started again: clients send their texts again. */
  forgetScripts(): void {
    this.#redis.forgetScripts()
  }

  /**
   * Closes all clients, which releases what they hold. Idempotent. Virtual and faked time pass as far as that needs.
   * @throws {Error} a lock, a subscription or, in virtual time, a timer is left: nobody would have ended it in production either
   */
  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  /** Closes at the end of an `await using` block. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #close(): Promise<void> {
    const clients = Promise.all([...this.#ports.keys()].map((client) => client.close()))
    await (this.#clock instanceof VirtualClock ? this.#clock.until(clients) : clients)
    await (this.#virtual ? this.#virtual.advance(REST_MS) : turn())
    const timers = this.#virtual?.pending ?? 0
    const left = [
      ...this.keys()
        .filter(({ key, expiresInMs }) => expiresInMs !== undefined && !BOOKKEEPING.test(key))
        .map(({ key, expiresInMs }) => `the key "${key}", for ${expiresInMs} ms`),
      ...[...this.#ports.values()].flatMap(({ channels }) =>
        channels.map((channel) => `a subscription to "${channel}"`),
      ),
      ...(timers > 0 ? [`${timers} timers`] : []),
    ]
    if (left.length > 0) throw new Error(`After all clients were closed there is left: ${left.join('; ')}`)
  }

  #portOf(client: Client): MemoryPort {
    const port = this.#ports.get(client)
    if (!port) throw new ConfigError('client', undefined, 'a client that this Redis connected')
    return port
  }
}
