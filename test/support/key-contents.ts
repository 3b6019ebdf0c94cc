import assert from 'node:assert/strict'
import { recordMonitor } from './command-stats.js'
import type { Fixture } from './fixture.js'
import type { RedisServer } from './servers/redis-server.js'
import { waitUntil } from './wait-until.js'

/** Names, and what Redisson's naming rule makes of them where something belongs to the lock: `redisson_…:<tagged>`. */
export const NAMES: readonly (readonly [name: string, tagged: string])[] = [
  ['order', '{order}'],
  ['lock:order:1001', '{lock:order:1001}'],
  ['{shop}:order', '{shop}:order'],
  ['a{t}b', 'a{t}b'],
  ['a{b', 'a{b'],
  ['a}b', '{a}b}'],
  ['{}', '{}'],
  ['Schloß 锁 🔒', '{Schloß 锁 🔒}'],
]

/** One key: its type with its content, and its TTL. Of a sorted set the members alone, lowest score first. */
export type KeyContent = (
  | { readonly hash: Readonly<Record<string, string>> }
  | { readonly string: string }
  | { readonly list: readonly string[] }
  | { readonly zset: readonly string[] }
) & {
  /** ms that it lasts at most; it may have got shorter by a few seconds since. Absent: it has no TTL. */
  readonly ttl?: number
}

/** The content of the key of one read hold. */
export function lasting(ttl: number) {
  return { string: '1', ttl } as const
}

/** By how much a TTL may be shorter than it was set, ms: the time until the test read it, on a busy machine. */
const SLACK_MS = 4_000
/** The clock of a virtual machine may step back a little. */
const CLOCK_MS = 50

/** Fails unless Redis has exactly these keys, of these types, with these contents and TTLs, but for `others`. */
export async function expectKeys(
  server: RedisServer,
  expected: Readonly<Record<string, KeyContent>>,
  others?: RegExp,
): Promise<void> {
  const { admin } = server
  const found: Record<string, unknown> = {}
  const ttls: Record<string, number> = {}
  for (const key of await admin.keys('*')) {
    if (others?.test(key)) continue
    const type = await admin.type(key)
    ttls[key] = await admin.pttl(key)
    if (type === 'hash') found[key] = { hash: await admin.hgetall(key) }
    else if (type === 'string') found[key] = { string: await admin.get(key) }
    else if (type === 'list') found[key] = { list: await admin.lrange(key, 0, -1) }
    else if (type === 'zset') found[key] = { zset: await admin.zrange(key, 0, '-1') }
    else found[key] = type
  }
  const contents = Object.entries(expected).map(([key, { ttl: _, ...content }]) => [key, content])
  assert.deepEqual(found, Object.fromEntries(contents))
  for (const [key, { ttl }] of Object.entries(expected)) {
    const left = ttls[key] ?? -2
    if (ttl === undefined) assert.equal(left, -1, `${key} should have no TTL`)
    else
      assert(left > ttl - SLACK_MS && left > 0 && left <= ttl + CLOCK_MS, `PTTL of ${key} is ${left}, not about ${ttl}`)
  }
}

/** Waits until the replies of what ran once have been deleted: soon after they arrived. */
export async function repliesForgotten({ admin }: RedisServer): Promise<void> {
  const stored = async (): Promise<string[]> => await admin.keys('holdfast_idempotency:*')
  await waitUntil(async () => (await stored()).length === 0, { message: 'the stored replies are deleted' })
}

/** Records what is published from now on. The function it resolves to ends that, and resolves to channels and messages. */
export async function recordMessages(fixture: Fixture): Promise<() => Promise<[channel: string, message: string][]>> {
  const record = await recordMonitor(fixture.server)
  let stopped: ReturnType<typeof record.stop> | undefined
  const stop = () => {
    stopped ??= record.stop()
    return stopped
  }
  fixture.onEnd(stop)
  return async () => {
    const lines = await stop()
    return lines
      .filter(({ args }) => /^s?publish$/i.test(args[0] ?? ''))
      .map(({ args }) => [unescaped(args[1] ?? ''), args[2] ?? ''])
  }
}

/** MONITOR shows bytes beyond ASCII as `\xNN`. */
function unescaped(text: string): string {
  const bytes = text.replace(/\\x([0-9a-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
  return Buffer.from(bytes, 'latin1').toString()
}
