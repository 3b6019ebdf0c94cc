import { Redis } from 'ioredis'

/**
 * What the locks guard: for each lock a counter in a store that never fails, with the highest fencing token that it has
 * seen. Each access gets a position, so that the order of accesses is known without a clock.
 */
export class GuardedRecord {
  readonly #redis: Redis

  constructor(url: string) {
    this.#redis = new Redis(url, { maxRetriesPerRequest: null })
  }

  /** Position and value of each lock's counter; undefined if the store has seen a higher token. */
  async read(locks: readonly string[], token: string): Promise<{ positions: number[]; values: number[] } | undefined> {
    const reply = (await this.#redis.eval(READ, locks.length, ...locks, token)) as number[] | null
    if (!reply) return undefined
    return { positions: everyOther(reply, 0), values: everyOther(reply, 1) }
  }

  /** Sets each counter. @returns position and previous value; undefined if the store has seen a higher token */
  async write(
    locks: readonly string[],
    token: string,
    values: readonly number[],
  ): Promise<{ positions: number[]; values: number[] } | undefined> {
    const reply = (await this.#redis.eval(WRITE, locks.length, ...locks, token, ...values)) as number[] | null
    if (!reply) return undefined
    return { positions: everyOther(reply, 0), values: everyOther(reply, 1) }
  }

  end(): void {
    this.#redis.disconnect()
  }
}

/** One token guards all of KEYS: locks with tokens are taken alone. */
const CHECK = `
for _, key in ipairs(KEYS) do
  if ARGV[1] ~= '' then
    if tonumber(ARGV[1]) < tonumber(redis.call('hget', key, 'token') or '0') then return false end
    redis.call('hset', key, 'token', ARGV[1])
  end
end
local reply = {}
`
const READ = `${CHECK}
for _, key in ipairs(KEYS) do
  reply[#reply + 1] = redis.call('hincrby', key, 'position', 1)
  reply[#reply + 1] = tonumber(redis.call('hget', key, 'value') or '0')
end
return reply`
const WRITE = `${CHECK}
for i, key in ipairs(KEYS) do
  reply[#reply + 1] = redis.call('hincrby', key, 'position', 1)
  reply[#reply + 1] = tonumber(redis.call('hget', key, 'value') or '0')
  redis.call('hset', key, 'value', ARGV[1 + i])
end
return reply`

const everyOther = (all: readonly number[], from: number): number[] => all.filter((_, at) => at % 2 === from)
