import { COMMANDS, Keyspace, ReplyError } from '../../src/testing/keyspace.js'
import { Table } from '../../src/testing/lua.js'
import { type Command, command, patched, type Undo } from './patched.js'

const plus =
  (by: number) =>
  (original: Command): Command =>
  (keys, args) => {
    const reply = original(keys, args)
    return typeof reply === 'number' && reply > 0 ? reply + by : reply
  }

/** Ignores the arguments from the `count`-th on. */
const only =
  (count: number) =>
  (original: Command): Command =>
  (keys, args) =>
    original(keys, args.slice(0, count))

/** Errors that the differential test must find: each changes the Redis in memory until it is undone. */
export const PLANTED: Readonly<Record<string, () => Undo>> = {
  'an expiry off by one': () =>
    patched(
      Keyspace.prototype,
      'expire',
      (original) =>
        function (this: Keyspace, key, at) {
          return original.call(this, key, at + 1)
        },
    ),
  'PTTL off by one': command('pttl', plus(1)),
  'PTTL of a key without expiry as of a missing key': command('pttl', (original) => (keys, args) => {
    const reply = original(keys, args)
    return reply === -1 ? -2 : reply
  }),
  'types that are not enforced': () =>
    patched(
      Keyspace.prototype,
      'read',
      (original) =>
        function (this: Keyspace, key, type) {
          return this.content(key)?.type === type ? original.call(this, key, type) : undefined
        } as typeof original,
    ),
  'another error text': () =>
    patched(
      Keyspace.prototype,
      'read',
      (original) =>
        function (this: Keyspace, key, type) {
          try {
            return original.call(this, key, type)
          } catch {
            throw new ReplyError('ERR wrong type')
          }
        } as typeof original,
    ),
  'empty collections that stay': () => patched(Keyspace.prototype, 'removeIfEmpty', () => () => {}),
  'a SET that keeps the expiry': () =>
    patched(
      Keyspace.prototype,
      'put',
      (original) =>
        function (this: Keyspace, key, value, expiresAt) {
          original.call(this, key, value, expiresAt ?? this.content(key)?.expiresAt)
        },
    ),
  'numbers that lose the expiry': () =>
    patched(
      Keyspace.prototype,
      'add',
      (original) =>
        function (this: Keyspace, key, by) {
          const sum = original.call(this, key, by)
          this.put(key, String(sum), undefined)
          return sum
        },
    ),
  'counters in doubles': command('incr', () => (keys, [key = '']) => {
    const next = Number(keys.read(key, 'string') ?? 0) + 1
    if (!Number.isFinite(next)) throw new ReplyError('ERR value is not an integer or out of range')
    keys.put(key, String(next), keys.content(key)?.expiresAt)
    return next
  }),
  'DECRBY that adds': () => patched(COMMANDS as Record<string, Command>, 'decrby', () => COMMANDS['incrby'] as Command),
  'DEL of the first key only': command('del', only(1)),
  'HDEL of the first field only': command('hdel', only(2)),
  'HSET of the first field only': command('hset', only(3)),
  'HGET of nothing as empty text': command('hget', (original) => (keys, args) => original(keys, args) ?? ''),
  'HGETALL from the end': command('hgetall', (original) => (keys, args) => {
    const words = original(keys, args) as string[]
    return words.flatMap((_, at) => (at % 2 === 0 ? words.slice(words.length - at - 2).slice(0, 2) : []))
  }),
  'RPUSH at the front': command('rpush', () => (keys, [key = '', ...elements]) => {
    return keys.write(key, 'list').unshift(...elements)
  }),
  'LPOS from one': command('lpos', (original) => (keys, args) => {
    const at = original(keys, args)
    return typeof at === 'number' ? at + 1 : at
  }),
  'LRANGE without its last': command(
    'lrange',
    (original) => (keys, args) => (original(keys, args) as string[]).slice(0, -1),
  ),
  'LREM of one only': command(
    'lrem',
    (original) =>
      (keys, [key = '', , element = '']) =>
        original(keys, [key, '-1', element]),
  ),
  'ZADD in whole numbers': command(
    'zadd',
    (original) =>
      (keys, [key = '', score = '', member = '']) =>
        original(keys, [key, score.replace(/\.\d+$/, ''), member]),
  ),
  'ZRANGEBYSCORE without the highest': command(
    'zrangebyscore',
    (original) =>
      (keys, [key = '', least = '', most = '', ...rest]) =>
        original(keys, [key, least, String(Number(most) - 1), ...rest]),
  ),
  'ZREM that removes nothing': command('zrem', () => () => 0),
  'ZSCORE in whole numbers': command('zscore', (original) => (keys, args) => {
    const score = original(keys, args)
    return typeof score === 'string' ? String(Math.floor(Number(score))) : score
  }),
  'a time in whole seconds': command('time', (original) => (keys, args) => [
    (original(keys, args) as string[])[0] as string,
    '0',
  ]),
  'PUBLISH that counts one more': command(
    'publish',
    (original) => (keys, args) => (original(keys, args) as number) + 1,
  ),
  'messages that are lost': command('publish', () => () => 0),
  'SPUBLISH on the plain channel': command(
    'spublish',
    () => (keys, args) => (COMMANDS['publish'] as Command)(keys, args),
  ),
  'TYPE in capitals': command('type', (original) => (keys, args) => {
    const reply = original(keys, args) as { ok: string }
    return { ok: reply.ok.toUpperCase() } as never
  }),
  'nil where Lua has false': () =>
    patched(
      Table.prototype,
      'set',
      (original) =>
        function (this: Table, key, value) {
          original.call(this, key, value === false ? undefined : value)
        },
    ),
}
