// Everything that a Redis has, for comparisons.

/** A key, with what is there; texts are strings of bytes. */
export interface Dumped {
  readonly key: string
  readonly type: string
  /** Epoch ms; -1: never. */
  readonly expiresAt: number
  /** Of a hash and a sorted set in pairs. */
  readonly words: readonly string[]
}

/** Every key with its type, its expiry and its content, after the time. */
export const DUMP = `
local found = { redis.call('time') }
local READ = { string = { 'get' }, hash = { 'hgetall' }, list = { 'lrange', 0, -1 }, zset = { 'zrange', 0, -1, 'withscores' } }
for _, key in ipairs(redis.call('keys', '*')) do
  local type = redis.call('type', key).ok
  local words = redis.call(READ[type][1], key, unpack(READ[type], 2))
  table.insert(found, { key, type, redis.call('pexpiretime', key), words })
end
return found`

/** The reply of `DUMP`, as buffers. */
export function parsed([time, ...found]: readonly unknown[]): { at: number; keys: Dumped[] } {
  const words = (value: unknown): string[] => [value].flat().map((word) => (word as Buffer).toString('latin1'))
  return {
    at: toUs(words(time)),
    keys: (found as unknown[][]).map(([key, type, expiresAt, content]) => ({
      key: words(key)[0] as string,
      type: words(type)[0] as string,
      expiresAt: Number(expiresAt),
      words: words(content),
    })),
  }
}

export function toUs([seconds, us]: readonly unknown[]): number {
  return Number(seconds) * 1e6 + Number(us)
}
