// The keys, and the commands that the scripts call.
import { general, tonumber } from './lua.js'

/** An error reply of Redis; the message begins with its code. */
export class ReplyError extends Error {}

/** A status reply, such as OK. */
export class Status {
  readonly ok: string

  constructor(ok: string) {
    this.ok = ok
  }
}

export type Reply = number | string | null | Status | readonly Reply[]

type Content =
  | { readonly type: 'string'; value: string }
  | { readonly type: 'hash'; readonly value: Map<string, string> }
  | { readonly type: 'list'; readonly value: string[] }
  | { readonly type: 'zset'; readonly value: Map<string, number> }
type Type = Content['type']
type ValueOf<T extends Type> = Extract<Content, { type: T }>['value']
type Key = Content & { expiresAt: number | undefined }

const WRONG_TYPE = 'WRONGTYPE Operation against a key holding the wrong kind of value'
const NOT_AN_INTEGER = 'ERR value is not an integer or out of range'
const OK = new Status('OK')
const MOST = 2n ** 63n - 1n
const LEAST = -(2n ** 63n)

/** An integer as Redis reads it: 64 bits, and no other spelling. */
function integer(text: string | undefined): bigint {
  if (text === undefined || !/^(0|-?[1-9]\d{0,18})$/.test(text)) throw new ReplyError(NOT_AN_INTEGER)
  const value = BigInt(text)
  if (value < LEAST || value > MOST) throw new ReplyError(NOT_AN_INTEGER)
  return value
}

/** The score of a sorted set. */
function score(text: string | undefined): number {
  const value = /^\s|\s$/.test(text ?? '') ? undefined : tonumber(text)
  if (value === undefined || Number.isNaN(value)) throw new ReplyError('ERR value is not a valid float')
  return value
}

/** From the `from`-th to the `to`-th, both included; negative ones count from the end. */
function range<T>(items: readonly T[], from: string | undefined, to: string | undefined): T[] {
  const [first, last] = [from, to].map((text) => {
    const at = Number(integer(text))
    return at < 0 ? Math.max(-1, at + items.length) : at
  }) as [number, number]
  return items.slice(Math.max(0, first), last + 1)
}

/**
 * The keys of a Redis, with the commands that our scripts call. Texts are strings of bytes. The time, epoch in ms, stands
 * still during a command, also during a script.
 */
export class Keyspace {
  readonly #keys = new Map<string, Key>()
  readonly #nowUs: () => number
  readonly #publish: (channel: string, message: string, isSharded: boolean) => number
  /** The instant of the current command, epoch µs. */
  #instantUs = 0

  constructor(nowUs: () => number, publish: (channel: string, message: string, isSharded: boolean) => number) {
    this.#nowUs = nowUs
    this.#publish = publish
  }

  /** From now on the time is that of the clock again: at the beginning of a command or a script. */
  tick(): void {
    this.#instantUs = this.#nowUs()
  }

  get now(): number {
    return Math.floor(this.#instantUs / 1000)
  }

  /** Keys that exist now. */
  names(): string[] {
    return [...this.#keys.keys()].filter((key) => this.#find(key))
  }

  /** The content of a key; undefined if it does not exist. */
  content(key: string): Readonly<Key> | undefined {
    return this.#find(key)
  }

  clear(): void {
    this.#keys.clear()
  }

  /** @throws {ReplyError} */
  execute(name: string, args: readonly string[]): Reply {
    const command = COMMANDS[name.toLowerCase()]
    if (!command)
      throw new ReplyError(`ERR unknown command '${name}': the in-memory Redis has what Holdfast's scripts need`)
    return command(this, args)
  }

  #find(key: string): Key | undefined {
    const found = this.#keys.get(key)
    // A key lives as long as its deadline has not passed.
    if (found?.expiresAt !== undefined && this.now > found.expiresAt) this.#keys.delete(key)
    else return found
    return undefined
  }

  /** The value of a key of this type; undefined if there is none. */
  read<T extends Type>(key: string, type: T): ValueOf<T> | undefined {
    const found = this.#find(key)
    if (found && found.type !== type) throw new ReplyError(WRONG_TYPE)
    return found?.value as ValueOf<T> | undefined
  }

  /** The same, created if there is none. */
  write<T extends 'hash' | 'list' | 'zset'>(key: string, type: T): ValueOf<T> {
    const found = this.read(key, type)
    if (found !== undefined) return found
    const value = type === 'list' ? [] : new Map()
    this.#keys.set(key, { type, value, expiresAt: undefined } as Key)
    return value as ValueOf<T>
  }

  /** Replaces whatever is there. */
  put(key: string, value: string, expiresAt: number | undefined): void {
    this.#keys.set(key, { type: 'string', value, expiresAt })
  }

  remove(key: string): boolean {
    return this.#find(key) !== undefined && this.#keys.delete(key)
  }

  /** A collection without elements is none. */
  removeIfEmpty(key: string): void {
    const found = this.#find(key)
    const isEmpty =
      found?.type === 'list' ? found.value.length === 0 : found?.type !== 'string' && found?.value.size === 0
    if (isEmpty) this.#keys.delete(key)
  }

  expire(key: string, at: number): boolean {
    const found = this.#find(key)
    if (!found) return false
    if (at <= this.now) this.#keys.delete(key)
    else found.expiresAt = at
    return true
  }

  /** The time `ms` from now. */
  deadline(ms: bigint, command: string): number {
    if (ms > MOST - BigInt(this.now)) throw new ReplyError(`ERR invalid expire time in '${command}' command`)
    return this.now + Number(ms)
  }

  time(): [seconds: string, microseconds: string] {
    const us = Math.floor(this.#instantUs)
    return [String(Math.floor(us / 1e6)), String(us % 1e6)]
  }

  add(key: string, by: bigint): number {
    const sum = integer(this.read(key, 'string') ?? '0') + by
    if (sum < LEAST || sum > MOST) throw new ReplyError('ERR increment or decrement would overflow')
    this.put(key, String(sum), this.#find(key)?.expiresAt)
    return Number(sum)
  }

  publish(channel: string, message: string, isSharded: boolean): number {
    return this.#publish(channel, message, isSharded)
  }
}

type Command = (keys: Keyspace, args: readonly string[]) => Reply

const asText = (value: number | undefined): string | null => (value === undefined ? null : general(value, 17))

/** By score, and of one score by their bytes. */
function sorted(keys: Keyspace, key: string): [member: string, score: number][] {
  const byRank = ([one, first]: [string, number], [other, second]: [string, number]): number =>
    first - second || (one < other ? -1 : 1)
  return [...(keys.read(key, 'zset') ?? [])].sort(byRank)
}

/** How many of `members` were in a hash or a sorted set, which lacks them from now on. */
function removeMembers(keys: Keyspace, type: 'hash' | 'zset', [key = '', ...members]: readonly string[]): number {
  const value = keys.read(key, type)
  const removed = members.filter((member) => value?.delete(member)).length
  keys.removeIfEmpty(key)
  return removed
}

/** The first of a list; at an empty key none. */
function shift(keys: Keyspace, key: string): string | null {
  const first = keys.read(key, 'list')?.shift()
  keys.removeIfEmpty(key)
  return first ?? null
}

/** At most |count| of them, from the end if it is negative; 0: all. */
function removeFromList(keys: Keyspace, key: string, count: number, element: string): number {
  const list = keys.read(key, 'list') ?? []
  const found = list.flatMap((other, at) => (other === element ? [at] : []))
  const removed = count < 0 ? found.slice(count) : found.slice(0, count || undefined)
  for (const at of removed.reverse()) list.splice(at, 1)
  keys.removeIfEmpty(key)
  return removed.length
}

function setString(keys: Keyspace, [key = '', value = '', unit, amount]: readonly string[]): Reply {
  if (unit === undefined) keys.put(key, value, undefined)
  else {
    if (unit.toLowerCase() !== 'px') throw new ReplyError('ERR syntax error')
    const ms = integer(amount)
    if (ms <= 0n) throw new ReplyError("ERR invalid expire time in 'set' command")
    keys.put(key, value, keys.deadline(ms, 'set'))
  }
  return OK
}

/** ZRANGEBYSCORE with numbers, and LIMIT from the first. */
function rangeByScore(keys: Keyspace, [key = '', least, most, , from, count]: readonly string[]): string[] {
  const [lowest, highest] = [score(least), score(most)]
  const members = sorted(keys, key).flatMap(([member, value]) => (value >= lowest && value <= highest ? [member] : []))
  return count === undefined ? members : members.slice(Number(from), Number(from) + Number(count))
}

/** Every command that a script may call, in lower case. */
export const COMMANDS: Readonly<Record<string, Command>> = {
  decr: (keys, [key = '']) => keys.add(key, -1n),
  decrby(keys, [key = '', by]) {
    const amount = integer(by)
    if (amount === LEAST) throw new ReplyError('ERR decrement would overflow')
    return keys.add(key, -amount)
  },
  del: (keys, args) => args.filter((key) => keys.remove(key)).length,
  exists: (keys, args) => args.filter((key) => keys.content(key)).length,
  get: (keys, [key = '']) => keys.read(key, 'string') ?? null,
  hdel: (keys, args) => removeMembers(keys, 'hash', args),
  hexists: (keys, [key = '', field = '']) => (keys.read(key, 'hash')?.has(field) ? 1 : 0),
  hget: (keys, [key = '', field = '']) => keys.read(key, 'hash')?.get(field) ?? null,
  hgetall: (keys, [key = '']) => [...(keys.read(key, 'hash') ?? [])].flat(),
  // as of a hash that is stored as a list, however large
  hscan: (keys, [key = '']) => ['0', [...(keys.read(key, 'hash') ?? [])].flat()],
  hlen: (keys, [key = '']) => keys.read(key, 'hash')?.size ?? 0,
  hset(keys, [key = '', ...words]) {
    const hash = keys.write(key, 'hash')
    const before = hash.size
    for (let at = 0; at < words.length; at += 2) hash.set(words[at] as string, words[at + 1] as string)
    return hash.size - before
  },
  incr: (keys, [key = '']) => keys.add(key, 1n),
  incrby: (keys, [key = '', by]) => keys.add(key, integer(by)),
  lindex: (keys, [key = '', at]) => keys.read(key, 'list')?.at(Number(integer(at))) ?? null,
  llen: (keys, [key = '']) => keys.read(key, 'list')?.length ?? 0,
  lpop: (keys, [key = '']) => shift(keys, key),
  lpos(keys, [key = '', element = '']) {
    const at = keys.read(key, 'list')?.indexOf(element) ?? -1
    return at === -1 ? null : at
  },
  lpush: (keys, [key = '', ...elements]) => keys.write(key, 'list').unshift(...elements.reverse()),
  lrange: (keys, [key = '', from, to]) => range(keys.read(key, 'list') ?? [], from, to),
  lrem: (keys, [key = '', count, element = '']) => removeFromList(keys, key, Number(integer(count)), element),
  pexpire(keys, [key = '', ms]) {
    return keys.expire(key, keys.deadline(integer(ms), 'pexpire')) ? 1 : 0
  },
  pttl(keys, [key = '']) {
    const found = keys.content(key)
    if (!found) return -2
    return found.expiresAt === undefined ? -1 : found.expiresAt - keys.now
  },
  ltrim: (keys, [key = '', from, to]) => {
    const list = keys.read(key, 'list')
    if (list) list.splice(0, list.length, ...range(list, from, to))
    keys.removeIfEmpty(key)
    return OK
  },
  publish: (keys, [channel = '', message = '']) => keys.publish(channel, message, false),
  rpush(keys, [key = '', ...elements]) {
    return keys.write(key, 'list').push(...elements)
  },
  set: setString,
  spublish: (keys, [channel = '', message = '']) => keys.publish(channel, message, true),
  time: (keys) => keys.time(),
  type: (keys, [key = '']) => new Status(keys.content(key)?.type ?? 'none'),
  zadd(keys, [key = '', value, member = '']) {
    const number = score(value)
    const members = keys.write(key, 'zset')
    const isNew = !members.has(member)
    members.set(member, number)
    return isNew ? 1 : 0
  },
  zcount: (keys, args) => rangeByScore(keys, args).length,
  zcard: (keys, [key = '']) => keys.read(key, 'zset')?.size ?? 0,
  zrange(keys, [key = '', from, to, withScores]) {
    const found = range(sorted(keys, key), from, to)
    return found.flatMap(([member, value]) => (withScores ? [member, general(value, 17)] : [member]))
  },
  zrangebyscore: rangeByScore,
  zrem: (keys, args) => removeMembers(keys, 'zset', args),
  zscore: (keys, [key = '', member = '']) => asText(keys.read(key, 'zset')?.get(member)),
}
