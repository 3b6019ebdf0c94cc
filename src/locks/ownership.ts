// Frames and scopes: which calls re-enter.
import type { Owner } from '../wire/holder.js'
import { around, runInside } from './call-chain.js'
import type { Hold, HoldingClient } from './hold.js'

/**
 * The holds that a call chain is inside of. In Java the thread owns a lock; in Node the call chain does: `withLock(fn)`
 * runs `fn` in a frame with its hold, and the calls that `fn` makes find the frame. Siblings are not in each other's
 * frames, so they exclude each other.
 */
interface Frame {
  /** One hold, or the holds of a scope. For what is on one lock, ask `membersIn`. */
  readonly holds: readonly Hold[]
  readonly scope?: Scope
}

/** A call chain that is one owner, like a thread in Java. */
export class Scope {
  readonly client: HoldingClient
  readonly #holds: Hold[] = []
  #owner: Owner

  constructor(client: HoldingClient) {
    this.client = client
    this.#owner = client.owners.next()
  }

  /**
   * The owner for taking another lock. If another task of the scope is taking or holds the lock, and the caller is not inside
   * that hold, the caller is a sibling and gets an owner of its own.
   */
  ownerFor(field: string): Owner {
    if (this.#owner.isSpent) this.#owner = this.client.owners.next()
    if (!this.#owner.hasSameLock(field) && this.#owner.claim(field)) return this.#owner
    return this.client.owners.next()
  }

  /** Adds a hold that an explicit `lock()` took in this scope, so that `unlock()` finds it, even once it is lost. */
  add(hold: Hold): void {
    for (const [index, old] of [...this.#holds.entries()].reverse()) if (!old.isOpen) this.#holds.splice(index, 1)
    this.#holds.push(hold)
  }

  /** In the order in which they were taken. */
  get holds(): readonly Hold[] {
    return this.#holds
  }
}

export function runWithHold<T>(hold: Hold, fn: () => T): T {
  return runIn({ holds: [hold] }, fn)
}

export function runInNewScope<T>(client: HoldingClient, fn: () => T): T {
  const scope = new Scope(client)
  return runIn({ holds: scope.holds, scope }, fn)
}

function runIn<T>(frame: Frame, fn: () => T): T {
  return runInside([frame, ...stillRelevant(around() as readonly Frame[], frame)], fn)
}

/**
 * The frames around a new one that still matter inside it. Without this, a loop that starts each round inside the last one
 * would collect frames without end.
 */
function stillRelevant(outer: readonly Frame[], { scope }: Frame): readonly Frame[] {
  const scoped = [scope?.client]
  return outer.filter((frame) => {
    const { scope } = frame
    // The innermost scope of a client owns the locks that are taken next; outer scopes matter only for their holds.
    const isInnermost = scope !== undefined && !scoped.includes(scope.client)
    if (isInnermost) scoped.push(scope.client)
    return isInnermost || membersIn(frame).some((hold) => hold.isLive)
  })
}

/**
 * The holds on one lock each of a frame, the latest last: of a hold on several locks its members of now, since a server of a
 * red lock may grant its part late. Those of another client than that of a scope do not belong to it.
 */
function membersIn({ holds, scope }: Frame): readonly Hold[] {
  const members = holds.length === 1 ? (holds[0] as Hold).members : holds.flatMap((hold) => hold.members)
  return scope ? members.filter(({ lease }) => lease.context === scope.client) : members
}

/** Whether the caller is inside no hold and no scope, of any client. */
export function isOutsideAll(): boolean {
  return around().length === 0
}

/** The frames around the caller; none if the client does not follow call chains. */
function framesAround({ implicitReentry }: HoldingClient): readonly Frame[] {
  return implicitReentry ? (around() as readonly Frame[]) : []
}

/** The innermost scope of this client around the caller. */
export function currentScope(client: HoldingClient): Scope | undefined {
  return framesAround(client).find(({ scope }) => scope?.client === client)?.scope
}

/** The live holds on locks of this name that the caller is inside of, innermost first. */
export function* enclosingHolds(client: HoldingClient, key: string): Generator<Hold> {
  for (const hold of holdsOn(client, key)) if (hold.isLive) yield hold
}

/** The holds on locks of this name that the caller is inside of and has still to release, innermost first. */
export function* openHolds(client: HoldingClient, key: string): Generator<Hold> {
  for (const hold of holdsOn(client, key)) if (hold.isOpen) yield hold
}

/**
 * The holds on several locks, of any clients, that the caller is inside of and has still to release, innermost first; none if
 * none of these clients follows call chains.
 */
export function openJointHolds(clients: readonly HoldingClient[]): readonly Hold[] {
  const follower = clients.find(({ implicitReentry }) => implicitReentry)
  if (!follower) return []
  return framesAround(follower).flatMap(({ holds }) => holds.filter((hold) => isJoint(hold) && hold.isOpen).reverse())
}

function* holdsOn(client: HoldingClient, key: string): Generator<Hold> {
  for (const frame of framesAround(client)) {
    const members = membersIn(frame)
    for (let index = members.length - 1; index >= 0; index--) {
      const hold = members[index] as Hold
      if (hold.lease.key === key && hold.lease.context === client) yield hold
    }
  }
}

/** Whether it is a hold on several locks, each of which has a hold of its own among its members. */
function isJoint({ lease }: Hold): boolean {
  return lease.key === undefined
}

/** Whether the caller was started by work that runs with this hold. */
export function isInsideOf(hold: Hold): boolean {
  return (around() as readonly Frame[]).some((frame) => membersIn(frame).includes(hold) || frame.holds.includes(hold))
}

/** Every live hold that the caller is inside of, on any lock and of any client. */
export function holdsAround(client: HoldingClient): readonly Hold[] {
  return framesAround(client).flatMap((frame) => membersIn(frame).filter((hold) => hold.isLive))
}

/** Whether the caller is inside any hold or scope of this client, so that there is a current owner. */
export function hasCurrentOwner(client: HoldingClient): boolean {
  return framesAround(client).some(
    (frame) =>
      frame.scope?.client === client ||
      [...membersIn(frame), ...frame.holds].some(({ lease }) => lease.context === client),
  )
}
