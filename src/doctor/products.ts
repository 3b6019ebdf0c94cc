// Recognizes Redis, Valkey and others by INFO.
import { type Finding, note, warning } from './finding.js'

/** A server that speaks the Redis protocol, recognized by INFO. */
export interface Product {
  readonly name: string
  /** Its own version; empty if unknown. */
  readonly version: string
  /** Advice for using it for locks. */
  readonly finding: Finding | undefined
}

const UNTESTED = 'test your program with it: Holdfast is tested only with Redis and Valkey'

/** Each with a line of INFO that only it has. A group in the pattern is its version; otherwise that of Redis is reported. */
const PRODUCTS: readonly [name: string, line: RegExp, finding?: Finding][] = [
  ['Valkey', /^valkey_version:(.*)/m],
  ['Valkey', /^server_name:valkey$/m],
  ['Redict', /^redict_version:(.*)/m],
  [
    'Dragonfly',
    /^dragonfly_version:(?:df-)?v?(.*)/m,
    warning(
      'Dragonfly: the scripts of read locks use keys that they do not declare',
      'start it with --default_lua_flags=allow-undeclared-keys',
    ),
  ],
  [
    'KeyDB',
    /^(?:server_name:.*keydb|executable:.*keydb|mvcc_depth:)/im,
    warning('KeyDB: with active replication, two masters grant the same lock', 'use active-replica no, and one master'),
  ],
  ['Kvrocks', /^kvrocks_version:(.*)/m, note('Kvrocks', UNTESTED)],
  ['Garnet', /^garnet_version:(.*)/m, note('Garnet', UNTESTED)],
  ['Upstash', /^upstash_version:(.*)/m, note('Upstash', UNTESTED)],
  // A service, not a server: it runs Valkey or Redis.
  [
    'Redis',
    /^os:.*ElastiCache/im,
    note('Amazon ElastiCache: its settings are in the parameter group, and CONFIG is refused', UNTESTED),
  ],
]

/** @param info  the fields of INFO */
export function productOf(info: ReadonlyMap<string, string>): Product {
  const text = [...info].map(([name, value]) => `${name}:${value}`).join('\n')
  const shown = PRODUCTS.flatMap(([name, line, finding]) => {
    const match = line.exec(text)
    return match ? [{ name, version: match[1], finding }] : []
  })
  const [first] = shown
  return {
    name: first?.name ?? 'Redis',
    version: first?.version ?? info.get('redis_version') ?? '',
    finding: shown.find(({ finding }) => finding)?.finding,
  }
}
