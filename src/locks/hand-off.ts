// When a lease goes to the next waiter of this client, or to another client.
import type { WaitQueue } from '../waiting/wait-queue.js'
import type { Owner } from '../wire/holder.js'
import type { Context } from './context.js'
import type { Hold, HoldTerms } from './hold.js'
import { type LockKind, transferScript } from './kinds/lock-kind.js'
import { type HoldTimes, isRenewed } from './lease-deadline.js'
import { holdEnded } from './reporting/observation.js'

/** How long this client waits before it asks again for a lock that it released for other clients, ms. */
const OTHERS_FIRST_MS = 10

/** The part of a lease that decides whether it is handed off. */
interface HandOffCandidate {
  readonly context: Pick<Context, 'clock' | 'watchdogTimeoutMs' | 'maxHandOffs' | 'maxHandOffMs'>
  readonly owner: Owner
  readonly field: string
  /** How often it has been handed off since Redis granted it. */
  readonly handOffs: number
  /** When Redis granted it. */
  readonly grantedAt: number
  /** When the last lease that was requested ends at the latest. */
  readonly leaseEndsAt: number
  readonly isBeingForced: boolean
  /** Callers that are about to take another lock as the same owner. */
  readonly joining: number
}

/** A lease that another client is about to adopt. */
interface TransferredLease {
  readonly kind: LockKind
  readonly name: string
  readonly owner: Owner
  readonly field: string
  end(hold: Hold, how: 'released'): unknown
}

/**
 * Whether a lease goes to the next waiter of this client when its last hold is released. Redis is not involved: it keeps
 * the holder and its lease.
 * @param times  of the hold that is released
 */
export function mayBeHandedOff(lease: HandOffCandidate, times: HoldTimes): boolean {
  const now = lease.context.clock.now()
  return (
    isRenewed(times) &&
    !outlivesRenewal(lease, now) &&
    isWellRenewed(lease, times, now) &&
    !isRunOver(lease) &&
    !lease.isBeingForced &&
    isOwnersOnlyUse(lease)
  )
}

/** Whether a waiter can take over a lease: one that asked for a time of its own needs a new lease. */
export function acceptsHandOff({ leaseTimeMs, atLeastMs }: HoldTerms): boolean {
  return leaseTimeMs === undefined && atLeastMs === undefined
}

/** Whether other clients have waited long enough while the lock went from caller to caller of this client. */
export function isRunOver({ context, handOffs, grantedAt }: HandOffCandidate): boolean {
  return handOffs >= context.maxHandOffs || context.clock.now() - grantedAt >= context.maxHandOffMs
}

/** A re-entry asked for a longer lease, which would outlive the next holder. */
function outlivesRenewal({ context, leaseEndsAt }: HandOffCandidate, now: number): boolean {
  return leaseEndsAt > now + context.watchdogTimeoutMs
}

/** At least one renewal was on time. If not, a new lease is the safer choice. */
function isWellRenewed({ context }: HandOffCandidate, { leasedUntil }: HoldTimes, now: number): boolean {
  return leasedUntil - now > context.watchdogTimeoutMs / 3
}

/** The owner has no other part of the lock, such as a read inside this write, and is not about to take one. */
function isOwnersOnlyUse({ owner, field, joining }: HandOffCandidate): boolean {
  return joining === 0 && owner.hasOnly(field)
}

/** Ends all holds of a lease but leaves it in Redis: another client adopts it. @throws {ConfigError} the kind has no such holds */
export function handOver(lease: TransferredLease, holds: readonly Hold[]): void {
  transferScript(lease.kind, 'handOver', lease.name)
  lease.owner.retire(lease.field) // the next lease of this owner must not share a field with the adopter
  for (const hold of holds) {
    lease.end(hold, 'released')
    holdEnded(hold, 'transferred')
  }
}

/** Releases a lock in Redis, and gives other clients that wait for it a head start. */
export async function releaseForOthers(queue: WaitQueue, release: () => Promise<void>): Promise<void> {
  const resume = queue.yieldToOthers()
  let isFree = false
  try {
    await release()
    isFree = true
  } finally {
    resume(isFree && queue.hasRivals ? OTHERS_FIRST_MS : 0)
  }
}
