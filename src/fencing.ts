/**
 * The other half of a fencing token: the check where the data is. The lock cannot stop a holder that was paused past its
 * lease; a store that remembers the highest token can refuse what it writes afterwards.
 */
import { ConfigError } from './errors.js'
import { ownOptions } from './util/validate.js'

/** The last that a Redis counter, a BIGINT of SQL and a 64-bit INTEGER of SQLite can hold. */
const MAX_TOKEN = 2n ** 63n - 1n

/** A column, perhaps with its table, perhaps quoted. Nothing that could end the name and go on as SQL. */
const COLUMN = /^(?:(?:[A-Za-z_]\w*|"\w+"|`\w+`)\.)*(?:[A-Za-z_]\w*|"\w+"|`\w+`)$/

/** `?`, `?2`, `$2`, `:token`, `@token`, `$token`. */
const PLACEHOLDER = /^(?:\?\d*|[$:@]\w+)$/

export interface FencedUpdateOptions {
  /**
   * The column that remembers the highest token; default `fencing_token`. An integer of 64 bits: text would be compared as
   * text. Name the table, too, where the statement knows several: `stock.fencing_token`.
   */
  column?: string
  /** What your statement has in the place of the token: `$2`, `:token` …; default `?`. */
  placeholder?: string
}

export interface FencedUpdate {
  /** To go into SET: it stores our token. */
  readonly set: string
  /** To go into WHERE, joined by AND: it holds unless the row has seen a higher token. */
  readonly where: string
  /** What to bind to the placeholder: the token in decimal, which every driver takes for a BIGINT. */
  readonly token: string
}

/**
 * What an UPDATE needs so that it is applied only if no later holder of the lock has written the row before.
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
 * **A stale write is no error of the database: it affects 0 rows.** Look at that number (`rowCount`, `affectedRows`,
 * `changes`), in the same statement's answer. A row that does not exist gives 0, too; so does, where a MySQL driver counts
 * changed rows instead of found ones (mysql2 counts found ones), a write that changes nothing.
 *
 * With the placeholder `?`, bind the token twice: both fragments have one. Equal tokens pass, as one hold may write often;
 * a row that has seen none (NULL) takes any. Every statement that writes the row must be fenced, or it is not guarded.
 * Tokens of different locks do not compare: always guard a row by the same lock.
 *
 * The row knows only tokens that were stored. Before you write, a stale write can still land, also between your read and
 * your write. Where what you write depends on what you read, store the token as you read:
 * `UPDATE stock SET ${set} WHERE id = $1 AND ${where} RETURNING pieces`.
 *
 * If the lock's Redis loses its data, tokens may begin again below those in the table. All writes are refused then, until
 * you set the column back to NULL with no holder around.
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
 * A Redis script that writes a value unless a higher fencing token has written it before. `fencedSet` makes the command; use
 * the text itself for `SCRIPT LOAD`, `defineCommand`, or a binary value.
 *
 * `KEYS[1]` value, `KEYS[2]` highest token seen, `ARGV[1]` token in decimal, `ARGV[2]` what to write. Replies 1 when it was
 * written and 0 when it was refused.
 */
export const FENCED_SET = `\
--[[ Write a value unless a higher fencing token has written it before. Runs twice without harm.
     KEYS[1] value        string
     KEYS[2] highest      string: the highest token seen, decimal
     ARGV[1] token        decimal, without leading zeros
     ARGV[2] value        what to write
     Reply   integer      1 written, 0 refused: a higher token was seen ]]
local token = ARGV[1]
local highest = redis.call('get', KEYS[2]) or '0'
for name, text in pairs({ ['ARGV[1]'] = token, ['KEYS[2]'] = highest }) do
  if text ~= '0' and not string.find(text, '^[1-9]%d*$') then
    return redis.error_reply('ERR ' .. name .. ' is not a fencing token in decimal')
  end
end
-- As text, the shorter one is lower: Lua's numbers are exact to 2^53 only.
if #highest > #token or (#highest == #token and highest > token) then
  return 0
end
-- First the token: if the second command is refused, the value is old, but guarded.
redis.call('set', KEYS[2], token)
redis.call('set', KEYS[1], ARGV[2])
return 1
`

export interface FencedSetOptions {
  /** The key to write. */
  key: string
  /**
   * The key that remembers the highest token. Several values guarded by one lock may share it. In a cluster it needs the
   * hash tag of `key`: `{report}` and `{report}:token`.
   */
  tokenKey: string
  /** What to write. As with SET, an expiry of the key ends. */
  value: string
}

/**
 * The Redis command that writes a value only if no later holder of the lock has written it before, for any client.
 *
 * ```ts
 * const set = fencedSet(hold.fencingToken, { key: 'report', tokenKey: 'report:token', value })
 * const written = await ioredis.call(...set) // or: await nodeRedis.sendCommand(set)
 * if (written === 0) throw new Error('stale: another holder has written since')
 * ```
 *
 * **A stale write is no error: the reply is 0,** and nothing was written. 1 means written. Equal tokens pass, as one hold
 * may write often. Every write of the key must be fenced, or it is not guarded. Tokens of different locks do not compare:
 * one `tokenKey`, one lock name. Only tokens that came with a write are known: before your first one a stale write can
 * still land, and yours then replaces it.
 *
 * The guard is as durable as this Redis: `tokenKey` must not expire or be evicted. If the lock's Redis loses its data and
 * this one does not, tokens may begin again below the one seen. All writes are refused then, until you delete `tokenKey`
 * with no holder around.
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
  throw new ConfigError('token', token, `a bigint from 1 to ${MAX_TOKEN}, the fencingToken of a fenced lock's hold`)
}

function checkPattern(path: string, value: unknown, pattern: RegExp, allowed: string): void {
  if (typeof value !== 'string' || !pattern.test(value)) throw new ConfigError(path, value, allowed)
}
