import type { BunRedisLike } from '../../src/adapters/bun/port.js'

const { Bun } = globalThis as unknown as { Bun: { RedisClient: new (url: string, options: object) => BunRedisLike } }

/** Whether this is Bun, which has a Redis client: `npm run verify -- consumers` runs the tests of it there. */
export const isBun = Bun !== undefined

export function openBun(url: string, options: object = {}): BunRedisLike {
  return new Bun.RedisClient(url, options)
}
