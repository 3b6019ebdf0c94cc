import { after, before } from 'node:test'
import { Client } from '../../src/client.js'
import { fromBytes, toBytes } from '../../src/testing/bytes.js'
import { MemoryPort } from '../../src/testing/memory-port.js'
import { MemoryRedis } from '../../src/testing/memory-redis.js'
import { SystemClock } from '../../src/util/clock.js'
import { type AnyFixture, type Driver, type FixtureOptions, setUpFixtureAt } from './fixture.js'
import type { Admin, Place } from './places.js'

/** A fixture with a Redis in memory, in real time. */
export function setUpMemoryFixture(options: FixtureOptions = {}): AnyFixture {
  let place: MemoryPlace | undefined
  before(() => {
    place = new MemoryPlace()
  })
  after(() => {
    place = undefined
  })
  const existing = (): MemoryPlace => {
    if (!place) throw new Error('it is set up when the tests run')
    return place
  }
  const driver: Driver = { name: 'memory', open: async (_url, options) => existing().open(options) }
  return setUpFixtureAt(existing, driver, options)
}

/** A command takes a moment, in which its caller may leave. */
const NEARBY = { requestMs: 0 }

class MemoryPlace implements Place {
  readonly url = 'memory:'
  readonly admin: Admin
  readonly #clock = new SystemClock()
  readonly #redis = new MemoryRedis(this.#clock, Date.now() - this.#clock.now())
  readonly #ports = new Set<MemoryPort>()

  constructor() {
    this.admin = adminOf(this.#redis, () => [...this.#ports])
  }

  async connections(): Promise<string[]> {
    return [...this.#ports].filter((port) => !port.isClosed).map((_, index) => `port ${index}`)
  }

  open(options: ConstructorParameters<typeof Client>[1]): { client: Client; end: () => Promise<void> } {
    const port = new MemoryPort(this.#clock, this.#redis)
    port.fault = ({ name }) => (name === 'message' ? undefined : NEARBY)
    this.#ports.add(port)
    return { client: new Client(port, options), end: async () => void this.#ports.delete(port) }
  }
}

/** The commands of the suites. */
function adminOf(redis: MemoryRedis, ports: () => readonly MemoryPort[]): Admin {
  const { keyspace } = redis
  const counts = countCommandsOf(redis)
  const run = async (...command: unknown[]): Promise<unknown> =>
    counts.without(() => redis.execute(command.map(String)))
  const listening = (): string[] => ports().flatMap((port) => port.confirmedChannels)
  const pairs = (words: readonly string[]): [string, string][] =>
    words.flatMap((word, at): [string, string][] => (at % 2 === 0 ? [[word, words[at + 1] as string]] : []))
  const names = (): string[] => {
    keyspace.tick()
    return keyspace.names().map(fromBytes)
  }
  return {
    config: async () => counts.reset(),
    del: (...keys: string[]) => run('DEL', ...keys),
    exists: (...keys: string[]) => run('EXISTS', ...keys),
    flushall: async () => redis.flush(),
    get: (key: string) => run('GET', key),
    hgetall: async (key: string) => Object.fromEntries(pairs((await run('HGETALL', key)) as string[])),
    hset: (...words: string[]) => run('HSET', ...words),
    incr: (key: string) => run('INCR', key),
    info: async () => counts.stats(),
    keys: async () => names(),
    lpop: (key: string) => run('LPOP', key),
    lpush: async (key: string, element: string) => keyspace.write(toBytes(key), 'list').unshift(toBytes(element)),
    mget: (...keys: string[]) => Promise.all(keys.map((key) => run('GET', key))),
    pttl: (key: string) => run('PTTL', key),
    pubsub: async (what: string, ...channels: string[]) => {
      if (what === 'SHARDCHANNELS') return []
      if (what === 'CHANNELS') return [...new Set(listening())]
      return channels.flatMap((channel) => [channel, listening().filter((other) => other === channel).length])
    },
    script: async () => redis.forgetScripts(),
    set: (...words: unknown[]) => run('SET', ...words),
    zcard: (key: string) => run('ZCARD', key),
    zrem: (...words: string[]) => run('ZREM', ...words),
  } as unknown as Admin
}

/** How often each command ran, also inside scripts, as INFO commandstats shows it. */
function countCommandsOf(redis: MemoryRedis) {
  const { keyspace } = redis
  const calls = new Map<string, number>()
  let isCounting = true
  const count = (name: string): void => {
    if (isCounting) calls.set(name, (calls.get(name) ?? 0) + 1)
  }
  const [execute, inside] = [redis.execute.bind(redis), keyspace.execute.bind(keyspace)]
  redis.execute = (command) => {
    if (/^eval/i.test(command[0] ?? '')) count(String(command[0]).toLowerCase())
    return execute(command)
  }
  keyspace.execute = (name, args) => {
    count(name.toLowerCase())
    return inside(name, args)
  }
  return {
    reset: (): void => calls.clear(),
    stats: (): string => [...calls].map(([name, number]) => `cmdstat_${name}:calls=${number},`).join('\r\n'),
    without<T>(run: () => T): T {
      isCounting = false
      try {
        return run()
      } finally {
        isCounting = true
      }
    },
  }
}
