/**
 * The state that this client reports, from memory: its holds and waiting calls. That includes what Redis never sees,
 * such as a lock that was handed off within the client.
 */
import { Buffer } from 'node:buffer'
import type { Hold } from '../locks/hold.js'
import type { Lease, LeaseContext } from '../locks/lease.js'
import { type WaitingCall, waitingCalls } from '../locks/reporting/waiting-calls.js'
import type { Wakeups } from '../waiting/wakeups.js'
import { channelsOf } from './lock-channels.js'
import { type HoldState, MAX_REPLY_BYTES, type StateReply, type StateRequest, type WaitState } from './protocol.js'

const MAX_LABEL = 1024
const MAX_STACK = 4096

/** A lease that is held. */
interface Held {
  readonly lease: Lease
  readonly hold: Hold
  /** On the clock. */
  readonly since: number
}

/** The holds and waits of a client. */
export type OwnState = Omit<StateReply, 'client' | 'lost'>

/** The reply to a request: the oldest first, as many as the request and the size of a message allow. */
export function ownState(context: LeaseContext, { locks, limit }: Pick<StateRequest, 'locks' | 'limit'>): StateReply {
  const keys = locks && new Set(locks)
  const leases = keys ? [...keys].flatMap((key) => context.leases.onKey(key)) : context.leases
  const calls = waitingCalls(context).filter(({ key }) => !keys || keys.has(key))
  const lost = context.recentLosses.count(context.clock.now())
  return { client: context.clientId, ...describe(context, heldOf(leases), calls, limit), lost }
}

/** The holds and waits that have lasted since a given time. */
export interface LongState {
  readonly hasHolds: boolean
  /** Differs if these are other holds or waits. */
  readonly fingerprint: string
  describe(): OwnState
}

/** @param since  on the clock */
export function longState(context: LeaseContext, since: number, limit: number): LongState {
  const held = heldOf(context.leases, since)
  const calls = waitingCalls(context).filter((call) => call.since <= since)
  const ids = [...held.slice(0, limit).map(idOf), ...calls.slice(0, limit).map(({ wait }) => wait)]
  return {
    hasHolds: held.length > 0,
    fingerprint: ids.join('\n'),
    describe: () => describe(context, held, calls, limit),
  }
}

function idOf({ lease, since }: Held): string {
  return `${lease.holder} ${since} ${lease.count} ${lease.key}`
}

/** The oldest first. @param since  on the clock: only what has been held since then */
function heldOf(leases: Iterable<Lease>, since = Number.POSITIVE_INFINITY): Held[] {
  const held: Held[] = []
  for (const lease of leases) {
    const hold = lease.outermost
    if (hold && hold.grantedAt <= since) held.push({ lease, hold, since: hold.grantedAt })
  }
  return held.sort((one, other) => one.since - other.since)
}

function describe(
  { clock, wakeups }: LeaseContext,
  held: readonly Held[],
  calls: readonly WaitingCall[],
  limit: number,
): OwnState {
  const now = clock.now()
  const [shown, waiting] = [held.slice(0, limit), calls.slice(0, limit)]
  const all = {
    holds: shown.flatMap((one) => holdStates(one, now)),
    waits: waiting.map((call) => waitState(wakeups, call, now)),
    more: held.length - shown.length + calls.length - waiting.length,
  }
  return sizeOf(all) <= MAX_REPLY_BYTES - RESERVED ? all : fitted(all)
}

/** For the rest of the message, bytes. */
const RESERVED = 1024

/** As many as there is space for: half of it for waits, unless the holds need less. */
function fitted({ holds, waits, more }: OwnState): OwnState {
  const space = MAX_REPLY_BYTES - RESERVED
  const some = fitting(holds, Math.max(space / 2, space - sizeOf(waits)))
  const others = fitting(waits, space - sizeOf(some))
  return { holds: some, waits: others, more: more + holds.length + waits.length - some.length - others.length }
}

function fitting<T>(entries: readonly T[], space: number): T[] {
  let left = space
  return entries.filter((entry) => {
    const size = sizeOf(entry) + 1
    if (size > left) return false
    left -= size
    return true
  })
}

function sizeOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value))
}

/** One entry for each holder in the key: permits have an id each. */
function holdStates({ lease, hold, since }: Held, now: number): HoldState[] {
  const { key, kind, count } = lease
  const rest = {
    count,
    heldMs: Math.max(0, Math.round(now - since)),
    label: hold.label?.slice(0, MAX_LABEL),
    stack: hold.takenFrom?.slice(0, MAX_STACK),
    trace: hold.span?.traceId,
    span: hold.span?.spanId,
  }
  const holders = (kind as { permitIds?: readonly string[] }).permitIds ?? [lease.holder]
  return holders.map((holder) => ({ lock: key, holder, ...rest }))
}

function waitState(
  wakeups: Wakeups,
  { wait, key, since, deadlineAt, label, holds }: WaitingCall,
  now: number,
): WaitState {
  return {
    wait,
    lock: key,
    waitedMs: Math.max(0, Math.round(now - since)),
    endsInMs: deadlineAt === Number.POSITIVE_INFINITY ? undefined : Math.max(0, Math.round(deadlineAt - now)),
    label: label?.slice(0, MAX_LABEL),
    isListening: channelsOf(key).some((channel) => wakeups.isListening(channel)),
    chain: holds.filter(({ isLive }) => isLive).map(({ lease, holder }) => ({ lock: (lease as Lease).key, holder })),
  }
}
