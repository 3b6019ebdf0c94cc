/**
 * The other half of a fencing token: the check at the data. The lock cannot stop a holder that was paused beyond its lease,
 * but a store that remembers the highest token can reject its later writes.
 */
import { ConfigError } from './errors.js'
import { ownOptions } from './util/validate.js'

/** The largest integer of a Redis counter, an SQL BIGINT and a 64-bit INTEGER of SQLite. */
const MAX_TOKEN = 2n ** 63n - 1n

/** A column, optionally with its table, optionally quoted. Nothing that could end the name and continue as SQL. */
const COLUMN = /^(?:(?:[A-Za-z_]\w*|"\w+"|`\w+`)\.)*(?:[A-Za-z_]\w*|"\w+"|`\w+`)$/

/** `?`, `?2`, `$2`, `:token`, `@token`, `$token`. */
const PLACEHOLDER = /^(?:\?\d*|[$:@]\w+)$/

export interface FencedUpdateOptions {
  /**
   * The column that remembers the highest token; default `fencing_token`. A 64-bit integer: text would be compared as text.
   * If the statement involves several tables, also name the table: `stock.fencing_token`.
   */
  column?: string
  /** The placeholder of the token in your statement: `$2`, `:token` …; default `?`. */
  placeholder?: string
}

export interface FencedUpdate {
  /** For SET: stores the token. */
  readonly set: string
  /** For WHERE, joined with AND: true unless the row has seen a higher token. */
  readonly where: string
  /** To bind to the placeholder: the token in decimal, which every driver accepts as a BIGINT. */
  readonly token: string
}

/**
 * Returns the fragments for an UPDATE that is applied only if no later holder of the lock has already written the row.
 *
 * ```ts
 * // Once: ALTER TABLE stock ADD COLUMN fencing_token BIGINT
 * const { set, where, token } = fencedUpdate(hold.fencingToken, { placeholder: '$2' })
 * const { rowCount } = await postgres.query(
 *   `UPDATE stock SET pieces = pieces - 1, ${set} WHERE id = $1 AND ${where}`,
 *   [id, token],
 * )
 * if (rowCount === 0) throw new Error('stale: another holder has written since')
 * ```
 *
 * **A stale write is not a database error: it affects 0 rows.** Check that number (`rowCount`, `affectedRows`, `changes`) in
 * the result of the same statement. It is also 0 if the row does not exist, and with MySQL drivers that count changed rows
 * instead of found ones (mysql2 counts found ones) if the write changes nothing.
 *
 * With the placeholder `?`, bind the token twice: both fragments contain it. Equal tokens pass, since one hold may write
 * often, and a row that has seen none (NULL) accepts any. The row is protected only if every statement that writes it is
 * fenced. Tokens of different locks cannot be compared: always protect a row with the same lock.
 *
 * The row knows only stored tokens. Until you write, a stale write can still succeed, even between your read and your write.
 * If what you write depends on what you read, store the token with the read:
 * `UPDATE stock SET ${set} WHERE id = $1 AND ${where} RETURNING pieces`.
 *
 * If the lock's Redis loses its data, tokens may start again below those in the table. Then all writes are rejected until
 * you reset the column to NULL while nobody holds the lock.
 * @param token  `hold.fencingToken` of a fenced lock
 * @throws {ConfigError} the token, the column or the placeholder cannot work
 */
export function fencedUpdate(token: bigint, options: FencedUpdateOptions = {}): FencedUpdate {
  const { column = 'fencing_token', placeholder = '?' } = ownOptions(options, { column: 1, placeholder: 1 })
  checkPattern(
    'column',
    column,
    COLUMN,
    'the name of a column, e.g. fencing_token, stock.fencing_token, "fencingToken"',
  )
  checkPattern('placeholder', placeholder, PLACEHOLDER, 'the placeholder of a parameter, e.g. ?, $2, :token')
  // SET takes no table.
  const bare = column.slice(column.lastIndexOf('.') + 1)
  return {
    set: `${bare} = ${placeholder}`,
    // No COALESCE: without the column's type SQLite would compare text with a number, and let everything pass.
    where: `(${column} IS NULL OR ${column} <= ${placeholder})`,
    token: decimalOf(token),
  }
}

/**
 * A Redis script that writes a value unless it was already written with a higher fencing token. `fencedSet` builds the
 * command; use the text itself for `SCRIPT LOAD`, `defineCommand`, or a binary value.
 *
 * `KEYS[1]` value, `KEYS[2]` highest token seen, `ARGV[1]` token in decimal, `ARGV[2]` what to write. Replies with 1 if it
 * was written, 0 if it was rejected.
 */
export const FENCED_SET = `\
--[[ Write a value unless it was already written with a higher fencing token. Idempotent.
     KEYS[1] value        string
     KEYS[2] highest      string: the highest token seen, decimal
     ARGV[1] token        decimal, without leading zeros
     ARGV[2] value        what to write
     Reply   integer      1 written, 0 rejected: a higher token was seen ]]
local token = ARGV[1]
local highest = redis.call('get', KEYS[2]) or '0'
for name, text in pairs({ ['ARGV[1]'] = token, ['KEYS[2]'] = highest }) do
  if text ~= '0' and not string.find(text, '^[1-9]%d*$') then
    return redis.error_reply('ERR ' .. name .. ' is not a fencing token in decimal')
  end
end
-- Compared as text, since Lua's numbers are exact to 2^53 only: a shorter one is lower.
if #highest > #token or (#highest == #token and highest > token) then
  return 0
end
-- The token first: if Redis refuses the second command, the value is old, but protected.
redis.call('set', KEYS[2], token)
redis.call('set', KEYS[1], ARGV[2])
return 1
`

export interface FencedSetOptions {
  /** The key to write. */
  key: string
  /**
   * The key that remembers the highest token. Several values protected by one lock may share it. In a cluster it must have
   * the hash tag of `key`: `{report}` and `{report}:token`.
   */
  tokenKey: string
  /** The value to write. Like SET, the write removes an expiry of the key. */
  value: string
}

/**
 * Returns the Redis command that writes a value only if no later holder of the lock has already written it, for any Redis
 * client.
 *
 * ```ts
 * const set = fencedSet(hold.fencingToken, { key: 'report', tokenKey: 'report:token', value })
 * const written = await ioredis.call(...set) // or: await nodeRedis.sendCommand(set)
 * if (written === 0) throw new Error('stale: another holder has written since')
 * ```
 *
 * **A stale write is not an error: the reply is 0,** and nothing was written. 1 means written. Equal tokens pass, since one
 * hold may write often. The key is protected only if every write is fenced. Tokens of different locks cannot be compared:
 * one `tokenKey`, one lock name. Only tokens of writes are known: until your first write a stale one can still succeed, and
 * yours then replaces it.
 *
 * The protection is as durable as this Redis: `tokenKey` must not expire or be evicted. If the lock's Redis loses its data
 * and this one does not, tokens may start again below the highest seen. Then all writes are rejected until you delete
 * `tokenKey` while nobody holds the lock.
 * @param token  `hold.fencingToken` of a fenced lock
 * @returns EVAL and its arguments
 * @throws {ConfigError} the token or an option cannot work
 */
export function fencedSet(token: bigint, options: FencedSetOptions): [command: 'EVAL', ...args: string[]] {
  const { key, tokenKey, value } = ownOptions(options, { key: 1, tokenKey: 1, value: 1 })
  for (const [path, text] of Object.entries({ key, tokenKey, value })) {
    if (typeof text !== 'string') throw new ConfigError(path, text, 'a string')
  }
  if (tokenKey === key) throw new ConfigError('tokenKey', tokenKey, 'another key than that of the value')
  return ['EVAL', FENCED_SET, '2', key, tokenKey, decimalOf(token), value]
}

function decimalOf(token: unknown): string {
  if (typeof token === 'bigint' && token >= 1n && token <= MAX_TOKEN) return String(token)
  throw new ConfigError('token', token, `a bigint from 1 to ${MAX_TOKEN}: the fencingToken of a hold of a fenced lock`)
}

function checkPattern(path: string, value: unknown, pattern: RegExp, allowed: string): void {
  if (typeof value !== 'string' || !pattern.test(value)) throw new ConfigError(path, value, allowed)
}
