// The stock that the buyers share, in Redis.
import type { Redis } from 'ioredis'

/** If the demo is killed before it deletes its keys, they expire after this time. */
const EXPIRE_S = 3_600

/** The shop's data in Redis: how many units are left, and how many orders there are. */
export class Stock {
  readonly lockName: string
  readonly #redis: Redis
  readonly #leftKey: string
  readonly #ordersKey: string

  /** @param keyPrefix  unique to this demo */
  constructor(redis: Redis, keyPrefix: string) {
    this.#redis = redis
    this.#leftKey = `${keyPrefix}:stock`
    this.#ordersKey = `${keyPrefix}:orders`
    this.lockName = `${keyPrefix}:lock`
  }

  async fill(units: number): Promise<void> {
    await this.write(units)
    await this.#redis.set(this.#ordersKey, 0, 'EX', EXPIRE_S)
  }

  async read(): Promise<number> {
    return Number(await this.#redis.get(this.#leftKey))
  }

  async write(units: number): Promise<void> {
    await this.#redis.set(this.#leftKey, units, 'EX', EXPIRE_S)
  }

  /** Atomic: no order is lost, with a lock or without. */
  async recordOrder(): Promise<void> {
    await this.#redis.incr(this.#ordersKey)
  }

  async countOrders(): Promise<number> {
    return Number(await this.#redis.get(this.#ordersKey))
  }

  /** Deletes everything in Redis. */
  async clear(): Promise<void> {
    await this.#redis.del(this.#leftKey, this.#ordersKey, this.lockName)
  }
}
