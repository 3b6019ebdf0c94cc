import { isMarked } from '../wire/holder.js'
import type { Hold } from './hold.js'
import { inspect } from './inspection.js'
import type { LockKind } from './kinds/lock-kind.js'
import type { Lease, LeaseContext } from './lease.js'
import { holdsAround } from './ownership.js'

/** A call that waits for a lock. */
export interface WaitingCall {
  readonly lockName: string
  /** The holds that its call chain is inside of. */
  readonly holds: readonly Hold[]
}

/** How long Redis may take to say who holds a lock, ms: it is asked when the caller has waited long enough. */
const ASK_MS = 250

/** The clients of this process that are not closed, by their ids. */
const clients = new Map<string, WeakRef<LeaseContext>>()
/** The calls of this process that wait for a lock right now. */
const waiting = new Map<WaitingCall, LeaseContext>()

export function clientOpened(context: LeaseContext): void {
  clients.set(context.clientId, new WeakRef(context))
}

export function clientClosed({ clientId }: LeaseContext): void {
  clients.delete(clientId)
}

/** Registers a call until the returned function is called. */
export function waitBegan(context: LeaseContext, call: WaitingCall): () => void {
  waiting.set(call, context)
  return () => waiting.delete(call)
}

/**
 * Says who holds a lock, for a call that has waited for it. What this client holds it knows; otherwise Redis is asked once.
 * @returns undefined if that is not known, or nobody holds it by now
 */
export async function whoHolds(context: LeaseContext, kind: LockKind, lockName: string): Promise<string | undefined> {
  const own = context.leases.named(lockName).find((lease) => lease.isLive && kind.excludes(lease.kind))
  if (own) return `held by this client${detailsOf(own)}${deadlock(own, holdsAround(context))}`
  try {
    const { holders, remainingLeaseMs } = await inspect(context, kind, lockName, ASK_MS)
    const [first, ...others] = holders
    if (!first) return undefined
    const more = others.length > 0 ? ` and ${others.length} more` : ''
    return `held by ${describe(context, lockName, first.holder, remainingLeaseMs)}${more}`
  } catch {
    return undefined
  }
}

/** For an error of `lock.unlock()`: that this client holds the lock nevertheless, which stays so. */
export function stillHeld({ leases }: LeaseContext, lockName: string): string {
  const own = leases.named(lockName).find((lease) => lease.isLive)
  return own ? `. It stays held by this client${detailsOf(own)}` : ''
}

function describe(context: LeaseContext, lockName: string, holder: string, remainingLeaseMs: number): string {
  const [, id = '', owner = ''] = /^([\da-f-]{36}):(\d+)/.exec(holder) ?? []
  const client = clients.get(id)?.deref()
  const lease = client?.leases.find(lockName, holder)
  if (client && lease) return nameOf(client, context) + detailsOf(lease)
  const who = client
    ? `${nameOf(client, context)}, which has ended its hold: it keeps the lock for atLeastMs, has handed it over, or its release is not settled`
    : id === ''
      ? `holder ${JSON.stringify(holder.slice(0, 120))}`
      : isMarked(id)
        ? `a Holdfast client of another process, ${id} (owner ${owner})`
        : `a Redisson client ${id} (thread ${owner})`
  const left =
    remainingLeaseMs < Number.POSITIVE_INFINITY
      ? `, whose lease ends in ${seconds(remainingLeaseMs)} unless renewed`
      : ''
  return who + left
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

/** @returns the lock of `mine` that somebody inside `lease` waits for, perhaps through others */
function waitsFor(lease: Lease, mine: ReadonlySet<unknown>, seen: Set<Lease>): string | undefined {
  seen.add(lease)
  for (const [{ holds, lockName }, context] of waiting) {
    if (!holds.some((hold) => hold.lease === lease)) continue
    for (const next of context.leases.named(lockName)) {
      if (mine.has(next)) return lockName
      const found = seen.has(next) ? undefined : waitsFor(next, mine, seen)
      if (found !== undefined) return found
    }
  }
  return undefined
}

function seconds(ms: number): string {
  return ms < 10_000 ? `${Math.max(0, Math.round(ms / 100)) / 10} s` : `${Math.round(ms / 1_000)} s`
}
