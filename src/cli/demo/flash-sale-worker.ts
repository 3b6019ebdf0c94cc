/**
 * One shop server of the flash sale: a process forked by `flash-sale.ts` that serves several buyers at the same time. They
 * run the same code with the lock and without it.
 */
import { Redis } from 'ioredis'
import type { Client } from '../../client.js'
import { ioredisArguments } from '../../config/redis-url.js'
import { connect } from '../../connect.js'
import { sleep } from '../../util/sleep.js'
import { Stock } from './flash-sale-stock.js'

/** The data that a worker needs before the sale. It is sent as a message because the URL may contain a password. */
export interface Shop {
  redisUrl: string
  keyPrefix: string
  buyers: number
}

/** The times of one purchase, in ms of the machine's monotonic clock, which all processes share. */
export interface Visit {
  askedAt: number
  enteredAt: number
  leftAt: number
}

export interface Progress {
  orders: number
  /** Buyers in the critical section. */
  inside: number
  waiting: number
}

export type WorkerCommand = { do: 'open'; shop: Shop } | { do: 'sell'; isLocked: boolean } | { do: 'close' }

export type WorkerMessage =
  | { is: 'open' }
  | { is: 'selling'; progress: Progress }
  | { is: 'soldOut'; progress: Progress; visits: Visit[] }
  | { is: 'failed'; message: string }

/** How long it takes to charge a card. */
const CHARGE_MS = 1
const PROGRESS_EVERY_MS = 50

class Worker {
  readonly #buyers: number
  readonly #redis: Redis
  readonly #stock: Stock
  readonly #client: Client

  private constructor(shop: Shop, redis: Redis, client: Client) {
    this.#buyers = shop.buyers
    this.#redis = redis
    this.#stock = new Stock(redis, shop.keyPrefix)
    this.#client = client
  }

  static async open(shop: Shop): Promise<Worker> {
    const [place, found] = ioredisArguments(shop.redisUrl)
    const redis = new Redis(place, { lazyConnect: true, retryStrategy: () => null, ...found })
    redis.on('error', () => {}) // the failing command rejects
    await redis.connect()
    return new Worker(shop, redis, await connect({ client: redis, inspection: { name: 'shop', host: false } }))
  }

  async sell(isLocked: boolean): Promise<void> {
    const lock = this.#client.getLock(this.#stock.lockName)
    // The lock is the only difference between the two sales.
    const guarded = isLocked
      ? (buy: () => Promise<boolean>) => lock.withLock(buy)
      : (buy: () => Promise<boolean>) => buy()

    const visits: Visit[] = []
    const progress: Progress = { orders: 0, inside: 0, waiting: 0 }
    const visit = async (): Promise<boolean> => {
      const askedAt = now()
      progress.waiting++
      return await guarded(async () => {
        const enteredAt = now()
        progress.waiting--
        progress.inside++
        const hasBought = await this.#buy()
        progress.inside--
        if (hasBought) progress.orders++
        visits.push({ askedAt, enteredAt, leftAt: now() })
        return hasBought
      })
    }
    const buyer = async (): Promise<void> => {
      while (await visit()) {}
    }

    const ticker = setInterval(() => report({ is: 'selling', progress }), PROGRESS_EVERY_MS)
    try {
      await Promise.all(Array.from({ length: this.#buyers }, buyer))
    } finally {
      clearInterval(ticker)
    }
    report({ is: 'soldOut', progress, visits })
  }

  async close(): Promise<void> {
    await this.#client.close()
    this.#redis.disconnect()
  }

  /**
   * Reads, charges, writes: correct for one buyer at a time, wrong for two.
   * @returns false once the stock is sold out
   */
  async #buy(): Promise<boolean> {
    const left = await this.#stock.read()
    if (left <= 0) return false
    await sleep(CHARGE_MS)
    await this.#stock.write(left - 1)
    await this.#stock.recordOrder()
    return true
  }
}

let worker: Worker | undefined

async function execute(command: WorkerCommand): Promise<void> {
  if (command.do === 'open') {
    worker = await Worker.open(command.shop)
    report({ is: 'open' })
  } else if (command.do === 'sell') {
    await worker?.sell(command.isLocked)
  } else {
    await worker?.close()
    process.disconnect()
  }
}

function report(message: WorkerMessage): void {
  if (process.connected) process.send?.(message)
}

function now(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

process.on('message', (command: WorkerCommand) => {
  execute(command).catch((error: unknown) => report({ is: 'failed', message: String(error) }))
})
// The worker ends with its parent, which alone handles Ctrl-C; the terminal sends that to every process.
process.on('disconnect', () => process.exit())
process.on('SIGINT', () => {})
