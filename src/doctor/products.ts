import { type Finding, note, warning } from './finding.js'

/** A server that speaks the protocol of Redis, as INFO shows it. */
export interface Product {
  readonly name: string
  /** Its own version; empty if it does not say. */
  readonly version: string
  /** What matters before locks are kept in it. */
  readonly finding: Finding | undefined
}

const UNTESTED = 'run the tests of your program against it: Holdfast is tested with Redis and Valkey'

/** Each with a line of INFO that only it has. A group in the pattern is its version; without one it reports that of Redis. */
const PRODUCTS: readonly [name: string, line: RegExp, finding?: Finding][] = [
  ['Valkey', /^valkey_version:(.*)/m],
  ['Valkey', /^server_name:valkey$/m],
  ['Redict', /^redict_version:(.*)/m],
  [
    'Dragonfly',
    /^dragonfly_version:(?:df-)?v?(.*)/m,
    warning(
      'Dragonfly: read locks touch keys that their scripts do not declare',
      '--default_lua_flags=allow-undeclared-keys',
    ),
  ],
  [
    'KeyDB',
    /^(?:server_name:.*keydb|executable:.*keydb|mvcc_depth:)/im,
    warning('KeyDB: with active replication two masters grant the same lock', 'active-replica no, and one master'),
  ],
  ['Kvrocks', /^kvrocks_version:(.*)/m, note('Kvrocks', UNTESTED)],
  ['Garnet', /^garnet_version:(.*)/m, note('Garnet', UNTESTED)],
  ['Upstash', /^upstash_version:(.*)/m, note('Upstash', UNTESTED)],
  // A service rather than a server: it runs Valkey or Redis.
  [
    'Redis',
    /^os:.*ElastiCache/im,
    note('Amazon ElastiCache: settings are in its parameter group; CONFIG is not answered', UNTESTED),
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
