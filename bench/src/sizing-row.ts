// One row of sizing.ts, in a process of its own, which holds all of its clients, and with an empty Redis. Prints one line of JSON.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Client, connect, type Hold } from '../../dist/index.js'
import type { Figures } from './bench.js'
import { cpuSince } from './machine.js'
import { RedisPlace } from './redis-place.js'
import type { SizingRow } from './sizing.js'

/** How long to measure, ms. */
const MEASURED_MS = 5_000
const WARM_UP_MS = 2_000
/** Locks that are taken at once. */
const AT_ONCE = 1_000
/** Each lock is renewed twice meanwhile. */
const RENEWED_MS = 25_000

const MEASURES: Record<SizingRow, (place: Place, count: number) => Promise<Figures>> = {
  uncontended,
  held,
  idle,
  waiting,
  hot,
}

interface Usage {
  readonly ms: number
  readonly clientMs: number
  readonly redisMs: number
  readonly clientBytes: number
  readonly redisBytes: number
}

/** The Redis of this row, and what its clients cost. */
class Place {
  readonly #redis: RedisPlace

  constructor(redis: RedisPlace) {
    this.#redis = redis
  }

  async open(): Promise<Client> {
    return await connect({ url: this.#redis.url })
  }

  /** What `fn` takes of processors and memory, in this process and in Redis. */
  async during(fn: () => Promise<unknown>): Promise<Usage> {
    const redisBytes = await this.#redis.memory()
    const redisMs = await this.#redis.cpuMs()
    globalThis.gc?.()
    const { heapUsed } = process.memoryUsage()
    const cpu = process.cpuUsage()
    const began = performance.now()
    await fn()
    const ms = performance.now() - began
    const clientMs = cpuSince(cpu)
    const redisUsedMs = (await this.#redis.cpuMs()) - redisMs
    globalThis.gc?.()
    return {
      ms,
      clientMs,
      redisMs: redisUsedMs,
      clientBytes: process.memoryUsage().heapUsed - heapUsed,
      redisBytes: (await this.#redis.memory()) - redisBytes,
    }
  }
}

async function uncontended(place: Place, tasks: number): Promise<Figures> {
  const client = await place.open()
  return await sections(
    place,
    Array.from({ length: tasks }, (_, task) => () => client.getLock(`lock:${task}`).withLock(() => {})),
  )
}

async function held(place: Place, count: number): Promise<Figures> {
  const client = await place.open()
  let lost = 0
  client.on('lost', () => lost++)
  const holds: Hold[][] = []
  const taken = await place.during(async () => {
    for (let first = 0; first < count; first += AT_ONCE) {
      const locks = Array.from({ length: AT_ONCE }, (_, at) => client.getLock(`lock:${first + at}`))
      holds.push(await Promise.all(locks.map((lock) => lock.lock())))
    }
  })
  const renewed = await place.during(() => sleep(RENEWED_MS))
  for (const hold of holds.flat()) hold.assertHeld()
  return {
    redisBytesEach: taken.redisBytes / count,
    clientBytesEach: taken.clientBytes / count,
    redisCores: renewed.redisMs / renewed.ms,
    clientCores: renewed.clientMs / renewed.ms,
    lost,
  }
}

async function idle(place: Place, count: number): Promise<Figures> {
  const { redisBytes, clientBytes } = await place.during(() => opened(place, count))
  return { redisBytesEach: redisBytes / count, clientBytesEach: clientBytes / count }
}

/** Each client has one task, so that every section goes to another client. */
async function waiting(place: Place, count: number): Promise<Figures> {
  const clients = await opened(place, count)
  let figures: Figures = {}
  const tasks = clients.map((client) => () => client.getLock('lock').withLock(() => {}))
  const { redisBytes } = await place.during(async () => {
    figures = await sections(place, tasks, WARM_UP_MS + 10 * count)
  })
  return { ...figures, redisBytesEach: redisBytes / count }
}

/** Two clients with four tasks for each lock. */
async function hot(place: Place, count: number): Promise<Figures> {
  const tasks = (await opened(place, 2)).flatMap((client) =>
    Array.from({ length: 4 * count }, (_, task) => () => client.getLock(`lock:${task % count}`).withLock(() => {})),
  )
  return await sections(place, tasks, WARM_UP_MS + 5 * count)
}

async function opened(place: Place, count: number): Promise<Client[]> {
  const clients: Client[] = []
  while (clients.length < count) {
    const more = Math.min(100, count - clients.length)
    clients.push(...(await Promise.all(Array.from({ length: more }, () => place.open()))))
  }
  return clients
}

/** Each task runs one section after the other, until this process ends. */
async function sections(place: Place, tasks: (() => Promise<unknown>)[], warmUpMs = WARM_UP_MS): Promise<Figures> {
  let count = 0
  const run = async (task: () => Promise<unknown>): Promise<never> => {
    for (;;) {
      await task()
      count++
    }
  }
  for (const task of tasks) void run(task)
  await sleep(warmUpMs)
  count = 0
  const { ms, clientMs, redisMs } = await place.during(() => sleep(MEASURED_MS))
  return {
    perSecond: (count / ms) * 1_000,
    clientMicrosEach: (clientMs / count) * 1_000,
    redisMicrosEach: (redisMs / count) * 1_000,
  }
}

const [row, count] = process.argv.slice(2)
const redis = await RedisPlace.start('--maxclients', '12000')
const figures = await MEASURES[row as SizingRow](new Place(redis), Number(count))
process.stdout.write(JSON.stringify(figures), () => process.exit(0)) // what it opened ends with it
