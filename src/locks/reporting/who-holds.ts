// Describes the holder of a lock in words: who, since when, and whether it is a deadlock.
import { toInteger } from '../../delivery/replies.js'
import type { KnownHolder, WaitDetails } from '../../holder-info.js'
import { defined } from '../../util/defined.js'
import { visible } from '../../util/visible.js'
import { isMarked } from '../../wire/client-id.js'
import type { Named } from '../../wire/names.js'
import type { RecordedClient } from '../context.js'
import type { Hold } from '../hold.js'
import { inspect } from '../inspection.js'
import type { Holder, LockKind } from '../kinds/lock-kind.js'
import type { Lease, LeaseContext } from '../lease.js'
import { holdsAround } from '../ownership.js'
import { openClient, waitsFor } from './waiting-calls.js'

/** Where a call that waits is queued in Redis. */
export interface QueuePlace {
  /** A list, or a sorted set. */
  readonly key: string
  readonly entry: string
  /** Its score in the set. */
  readonly score?: string
}

export const NOT_KNOWN: WaitDetails = { heldBy: undefined, holders: [], position: undefined }

/** How long Redis may take to say who holds a lock, ms: it is asked when the caller has waited long enough. */
const TIMEOUT_MS = 250
/** Shortest wait for which naming the holder's process is worth a round trip, ms. */
const WORTH_NAMING_MS = 1_000
/** A read lock may have any number of holders. */
const MAX_HOLDERS = 100
/** Maximum number of client records to read. */
const MAX_NAMED = 8

/**
 * Says who holds a lock, for a call that has waited for it. What this client holds it knows; otherwise Redis is asked once,
 * and after a long wait also for the records of the clients that hold it, and for the place of the call in a queue.
 * @param waitedMs  how long the call has waited
 * @param place  where it is queued
 * @returns nothing known if Redis does not reply in time, or nobody holds it any more
 */
export async function whoHolds(
  context: LeaseContext,
  kind: LockKind,
  lock: Named,
  waitedMs: number,
  place?: QueuePlace,
): Promise<WaitDetails> {
  const [first] = ownLeases(context, kind, lock.key)
  if (first) {
    const heldBy = `held by this client${detailsOf(first)}${deadlock(first, holdsAround(context))}`
    return { ...NOT_KNOWN, heldBy, holders: ownHolders(context, kind, lock.key) }
  }
  const isLong = waitedMs >= WORTH_NAMING_MS
  const [held, position] = await Promise.all([
    whoHoldsInRedis(context, kind, lock, isLong).catch(() => NOT_KNOWN),
    isLong && place ? positionAt(context, place) : undefined,
  ])
  return { ...held, position }
}

/** This client's own holds that exclude a waiting call. */
export function ownHolders(context: LeaseContext, kind: LockKind, key: string): KnownHolder[] {
  return ownLeases(context, kind, key).slice(0, MAX_HOLDERS).map(holderOf)
}

function ownLeases({ leases }: LeaseContext, kind: LockKind, key: string): Lease[] {
  return leases.onKey(key).filter((lease) => lease.isLive && kind.excludes(lease.kind))
}

async function whoHoldsInRedis(
  context: LeaseContext,
  kind: LockKind,
  lock: Named,
  isLong: boolean,
): Promise<WaitDetails> {
  const deadlineAt = context.clock.now() + TIMEOUT_MS
  const inspection = await inspect(context, kind, lock, { timeoutMs: TIMEOUT_MS })
  const { holders, others = 0, remainingLeaseMs } = inspection.blockers ?? inspection
  const records = isLong ? await recordsOf(context, holders, deadlineAt) : new Map<string, RecordedClient>()
  const all = holders
    .slice(0, MAX_HOLDERS)
    .map((holder) => knownHolder(lock.key, holder, records))
    .sort((one, other) => (other.heldMs ?? -1) - (one.heldMs ?? -1))
  const [first] = all
  if (!first) return NOT_KNOWN
  const record = records.get(partsOf(first.holder).id)
  const more = holders.length + others > 1 ? ` and ${holders.length + others - 1} more` : ''
  const heldBy = `held by ${describe(context, lock.key, first.holder, remainingLeaseMs, record)}${more}`
  return { ...NOT_KNOWN, heldBy, holders: all }
}

/** @returns undefined also if Redis refuses to say, or does not reply in time */
async function positionAt({ scripts }: LeaseContext, { key, entry, score }: QueuePlace): Promise<number | undefined> {
  const command = async (words: string[]) => toInteger(await scripts.command(words, key, TIMEOUT_MS))
  try {
    // 0: it is not waiting any more.
    if (score !== undefined) return (await command(['ZCOUNT', key, '-inf', score])) || undefined
    const index = await command(['LPOS', key, entry])
    return index === null ? undefined : index + 1
  } catch {
    return undefined
  }
}

/** For an error of `lock.unlock()`: that this client holds the lock nevertheless, which stays so. */
export function stillHeld({ leases }: LeaseContext, key: string): string {
  const own = leases.onKey(key).find((lease) => lease.isLive)
  return own ? `. It stays held by this client${detailsOf(own)}` : ''
}

/** The records of clients of other processes that hold a lock, by client id, as far as they can be read in time. */
async function recordsOf(
  context: LeaseContext,
  holders: readonly Holder[],
  deadlineAt: number,
): Promise<Map<string, RecordedClient>> {
  const ids = [...new Set(holders.map(({ holder }) => partsOf(holder).id))]
  const strangers = ids.filter((id) => isMarked(id) && !openClient(id)).slice(0, MAX_NAMED)
  const timeoutMs = Math.max(1, deadlineAt - context.clock.now())
  const records = new Map<string, RecordedClient>()
  await Promise.all(
    strangers.map(async (id) => {
      // Without it the message just says less.
      const record = await context.recordOf(id, timeoutMs).catch(() => undefined)
      if (record && record.client.name !== '') records.set(id, record)
    }),
  )
  return records
}

/** A holder that Redis names. */
function knownHolder(key: string, inKey: Holder, records: ReadonlyMap<string, RecordedClient>): KnownHolder {
  const { id } = partsOf(inKey.holder)
  const client = openClient(id)
  const lease = client?.leases.find(key, inKey.holder)
  if (lease) return holderOf(lease)
  if (client) return { ...inKey, status: 'responding', ...defined({ client: client.ownInfo() }) }
  const record = records.get(id)
  if (!record) return inKey
  const hold = holdIn(record, key, inKey.holder)
  if (!hold) return { ...inKey, client: record.client }
  const { label, heldMs, trace, span } = hold
  return { ...inKey, client: record.client, heldMs: heldMs + record.ageMs, ...defined({ label, trace, span }) }
}

/** A holder of this process. */
function holderOf({ context, kind, holder, count, outermost }: Lease): KnownHolder {
  return {
    holder,
    holdCount: count,
    status: 'responding',
    ...defined({
      mode: kind.mode,
      client: context.ownInfo(),
      heldMs: outermost && Math.max(0, Math.round(context.clock.now() - outermost.grantedAt)),
      label: outermost?.label,
      trace: outermost?.span?.traceId,
      span: outermost?.span?.spanId,
    }),
  }
}

function holdIn({ holds }: RecordedClient, key: string, holder: string) {
  return holds.find((hold) => hold.lock === key && hold.holder === holder)
}

function describe(
  context: LeaseContext,
  key: string,
  holder: string,
  remainingLeaseMs: number,
  record: RecordedClient | undefined,
): string {
  const client = openClient(partsOf(holder).id)
  const lease = client?.leases.find(key, holder)
  if (client && lease) return nameOf(client, context) + detailsOf(lease)
  const recorded = record && holdIn(record, key, holder)
  if (record && recorded) return processOf(record) + since(recorded.heldMs + record.ageMs, recorded.label)
  const left =
    remainingLeaseMs < Number.POSITIVE_INFINITY
      ? `, whose lease ends in ${seconds(remainingLeaseMs)} unless renewed`
      : ''
  if (record) return processOf(record) + left
  if (!client) return strangerOf(holder) + left
  return `${nameOf(client, context)}, which has ended its hold: it keeps the lock for atLeastMs, has handed it over, or its release is not settled${left}`
}

/** Empty if it is neither of Holdfast nor of Redisson. */
function partsOf(holder: string): { id: string; owner: string } {
  const [, id = '', owner = ''] = /^([\da-f-]{36}):(\d+)/.exec(holder) ?? []
  return { id, owner }
}

/** Describes a holder whose client is unknown. */
function strangerOf(holder: string): string {
  const { id, owner } = partsOf(holder)
  if (id === '') return `holder ${quoted(holder)}`
  if (isMarked(id)) return `a Holdfast client of another process, ${id} (owner ${owner})`
  return `a Redisson client ${id} (thread ${owner})`
}

/** Such as `orders-api, pid 4711 on orders-7f9c`. */
export function processOf({ client: { name, host, pid } }: Pick<RecordedClient, 'client'>): string {
  return `${word(name)}, pid ${pid}${host === '' ? '' : ` on ${word(host)}`}`
}

function since(heldMs: number, label: string | undefined): string {
  return `, for ${seconds(heldMs)}${label === undefined ? '' : `, label ${quoted(label)}`}`
}

/** A text that anybody could have written; in quotes unless it is a name of the usual kind. */
function word(text: string): string {
  return /^[\w@/.:+-]{1,120}$/.test(text) ? text : quoted(text)
}

function quoted(text: string): string {
  return visible(JSON.stringify(text.slice(0, 120)))
}

function nameOf(client: LeaseContext, context: LeaseContext): string {
  return client === context ? 'this client' : 'another client of this process'
}

function detailsOf({ outermost }: Lease): string {
  if (!outermost) return ''
  const { label, acquiredAt } = outermost
  return `, taken ${seconds(Date.now() - acquiredAt)} ago${label === undefined ? '' : `, label ${JSON.stringify(label)}`}`
}

/** @param holds  of the call chain that waits: whether the holder waits for one of them, perhaps through others */
function deadlock(lease: Lease, holds: readonly Hold[]): string {
  const mine = new Set(holds.map((hold) => hold.lease))
  const name = mine.size === 0 ? undefined : waitsFor(lease, mine, new Set())
  if (name === undefined) return ''
  return (
    `; deadlock: the holder waits for ${JSON.stringify(name)}, which this call chain holds. Take such locks in the same order ` +
    'everywhere, or together with getMultiLock()'
  )
}

function seconds(ms: number): string {
  return ms < 10_000 ? `${Math.max(0, Math.round(ms / 100)) / 10} s` : `${Math.round(ms / 1_000)} s`
}
