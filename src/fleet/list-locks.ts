// Finds locks by SCAN, or by their channels.
import { toArray } from '../delivery/replies.js'
import type { Scripts } from '../delivery/scripts.js'
import { globToRegExp } from '../util/glob.js'
import { generationKey, jobKey, permitLeases } from '../wire/keys.js'
import type { ClientReports } from './client-reports.js'
import { type Doubt, HiddenLocks } from './doubts.js'
import { listContended, untagged } from './lock-channels.js'
import { type LockCollector, PAGE } from './lock-collector.js'
import { countWaiters, type LockInfo, mayHaveMoreWaiters } from './lock-info.js'

/** How many keys a step of SCAN looks at: well under a millisecond of Redis. */
const SCAN_COUNT = 500

/** How the keys of jobs begin, which are hashes and no locks. */
const JOBS = jobKey('')

/** Keys by which locks are found: their own, or keys beside them. */
interface Pass {
  readonly type: string
  readonly match?: string | undefined
  /** The keys of the locks that a found key may belong to. */
  keysOf(found: string): readonly string[]
}

/**
 * Locks are hashes. String locks, semaphores and latches are texts, of which there may be millions of others: they are read
 * only if the caller limits the keys; otherwise semaphores are found by the keys beside them, and string locks only if a
 * client reports them.
 */
function passesFor(match: string | undefined): readonly Pass[] {
  const hashes: Pass = { type: 'hash', match, keysOf: (found) => (found.startsWith(JOBS) ? [] : [found]) }
  if (match !== undefined) return [hashes, { ...hashes, type: 'string' }]
  const generation = generationKey('{').slice(0, -1)
  const leases = permitLeases('{').slice(1)
  return [
    hashes,
    { type: 'string', match: `${generation}*`, keysOf: (found) => untagged(found.slice(generation.length)) },
    { type: 'zset', match: `*${leases}`, keysOf: (found) => untagged(found.slice(0, -leases.length)) },
  ]
}

export interface ListRequest {
  /** A pattern of keys. */
  readonly match: string | undefined
  readonly contended: boolean
  readonly timeoutMs: number
  readonly signal: AbortSignal | undefined
}

/**
 * Every lock once, in no particular order, read while the caller iterates.
 * @param doubt  called with what the list does not say, as soon as it is known, and again when there is more of it
 */
export async function* listLocks(
  scripts: Scripts,
  collector: LockCollector,
  request: ListRequest,
  doubt: (doubts: readonly Doubt[]) => void,
): AsyncGenerator<LockInfo> {
  const reports = await collector.askAll(request.timeoutMs)
  doubt(reports.doubts)
  const hidden = new HiddenLocks()
  const seen = new Set<string>()
  const { match, contended, signal } = request
  for await (const keys of contended ? contendedKeys(scripts, reports, match) : allKeys(scripts, reports, match)) {
    signal?.throwIfAborted()
    const fresh = keys.filter((key) => !seen.has(key))
    for (const key of fresh) seen.add(key)
    for (let at = 0; at < fresh.length; at += PAGE) {
      signal?.throwIfAborted()
      const read = await collector.read(fresh.slice(at, at + PAGE), reports, hidden)
      doubt(hidden.doubts)
      for (const info of read) {
        if (contended ? !mayBeWaitedFor(info) : info.kind === 'unknown') continue
        doubt(info.doubts)
        yield info
      }
    }
  }
}

/** Whether anyone may wait for it. Listeners do not prove that: clients that only watch a lock also listen. */
function mayBeWaitedFor(info: LockInfo): boolean {
  return countWaiters(info) > 0 || mayHaveMoreWaiters(info)
}

/**
 * The keys of all locks. Those that clients report come first: SCAN misses what looks like any text, such as a string lock.
 */
async function* allKeys(
  scripts: Scripts,
  reports: ClientReports,
  match: string | undefined,
): AsyncGenerator<readonly string[]> {
  yield matching(reports.locks, match)
  yield* scannedKeys(scripts, match)
}

/** Pages of SCAN of every master. */
async function* scannedKeys(scripts: Scripts, match: string | undefined): AsyncGenerator<string[]> {
  for (const master of await scripts.masters()) {
    for (const { type, match: keysLike, keysOf } of passesFor(match)) {
      const pattern = keysLike === undefined ? [] : ['MATCH', keysLike]
      let cursor = '0'
      do {
        const command = ['SCAN', cursor, ...pattern, 'COUNT', String(SCAN_COUNT), 'TYPE', type]
        const [next, found] = toArray(await scripts.commandAt(master, command))
        cursor = String(next)
        yield toArray(found).flatMap((key) => keysOf(String(key)))
      } while (cursor !== '0')
    }
  }
}

/** The keys with a listener, and those that a client waits for on its inbox alone. */
async function* contendedKeys(
  scripts: Scripts,
  reports: ClientReports,
  match: string | undefined,
): AsyncGenerator<readonly string[]> {
  yield matching([...(await listContended(scripts)), ...reports.waitedFor], match)
}

/** Each key once. */
function matching(keys: readonly string[], match: string | undefined): string[] {
  const pattern = match === undefined ? undefined : globToRegExp(match)
  return [...new Set(keys)].filter((key) => pattern?.test(key) ?? true)
}
