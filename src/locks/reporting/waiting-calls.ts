// Register of the open clients and of the waiting calls of this process.
import type { Context } from '../context.js'
import type { Hold } from '../hold.js'
import type { Lease, LeaseContext } from '../lease.js'
import { holdsAround } from '../ownership.js'

/** A call that waits for a lock or a synchronizer. */
export interface WaitingCall {
  /** Identifies it within this process. */
  readonly wait: number
  /** The name in Redis. */
  readonly key: string
  readonly label: string | undefined
  /** When it was first refused, on the clock. */
  readonly since: number
  /** On the clock; Infinity: no limit. */
  readonly deadlineAt: number
  /** The holds that its call chain is inside of. */
  readonly holds: readonly Hold[]
}

/** The clients of this process that are not closed, by their ids. */
const clients = new Map<string, WeakRef<LeaseContext>>()
/** The calls of this process that wait for a lock right now. */
const waiting = new Map<WaitingCall, Context>()
let waits = 0

export function clientOpened(context: LeaseContext): void {
  clients.set(context.clientId, new WeakRef(context))
}

/** Undefined: it belongs to another process, or is closed. */
export function openClient(id: string): LeaseContext | undefined {
  return clients.get(id)?.deref()
}

export function clientClosed({ clientId }: LeaseContext): void {
  clients.delete(clientId)
}

/** Registers the call that is running until the returned function is called. @param deadlineAt  of its wait, on the clock */
export function waitBegan(context: Context, key: string, label: string | undefined, deadlineAt: number): () => void {
  const since = context.clock.now()
  const call = { wait: ++waits, key, label, since, deadlineAt, holds: holdsAround(context) }
  waiting.set(call, context)
  return () => waiting.delete(call)
}

/** The calls of a client that wait, the oldest first. */
export function waitingCalls(context: Context): WaitingCall[] {
  return [...waiting].filter(([, one]) => one === context).map(([call]) => call)
}

/** @returns the lock of `mine` that somebody inside `lease` waits for, perhaps through others */
export function waitsFor(lease: Lease, mine: ReadonlySet<unknown>, seen: Set<Lease>): string | undefined {
  seen.add(lease)
  for (const [{ holds, key }, context] of waiting) {
    if (!holds.some((hold) => hold.lease === lease)) continue
    for (const next of openClient(context.clientId)?.leases.onKey(key) ?? []) {
      if (mine.has(next)) return next.name
      const found = seen.has(next) ? undefined : waitsFor(next, mine, seen)
      if (found !== undefined) return found
    }
  }
  return undefined
}
