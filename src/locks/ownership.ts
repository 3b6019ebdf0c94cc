import type { Owner } from '../wire/holder.js'
import { around, runInside } from './call-chain.js'
import type { Hold, HoldingClient } from './hold.js'

/**
 * Who is inside whom. Java asks which thread runs; Node asks which call chain: `withLock(fn)` runs `fn` in a frame with
 * its hold, and what `fn` calls finds the frame. Siblings are in no frame of each other, so they exclude each other.
 */
interface Frame {
  /** One hold, those of a hold on several locks, or those of a scope. */
  readonly holds: readonly Hold[]
  readonly scope?: Scope
}

/** A call chain that is one owner, as a Java thread is one. */
export class Scope {
  readonly client: HoldingClient
  readonly #holds: Hold[] = []
  #owner: Owner

  constructor(client: HoldingClient) {
    this.client = client
    this.#owner = client.owners.next()
  }

  /**
   * The owner for taking one more lock. Who asks while another task of the scope takes or holds the lock, and is not
   * inside that hold, is a sibling: an owner of its own.
   */
  ownerFor(field: string): Owner {
    if (this.#owner.isRetired) this.#owner = this.client.owners.next()
    if (!this.#owner.hasBeside(field) && this.#owner.claim(field)) return this.#owner
    return this.client.owners.next()
  }

  /** A hold that was taken by an explicit `lock()` in this scope, for `unlock()` to find. */
  add(hold: Hold): void {
    for (const [index, old] of [...this.#holds.entries()].reverse()) if (!old.isLive) this.#holds.splice(index, 1)
    this.#holds.push(hold)
  }

  /** The one taken last comes last. */
  get holds(): readonly Hold[] {
    return this.#holds
  }
}

export function runWithHold<T>(hold: Hold, fn: () => T): T {
  return runIn({ holds: hold.members }, fn)
}

export function runInNewScope<T>(client: HoldingClient, fn: () => T): T {
  const scope = new Scope(client)
  return runIn({ holds: scope.holds, scope }, fn)
}

function runIn<T>(frame: Frame, fn: () => T): T {
  return runInside([frame, ...stillOfUse(around() as readonly Frame[], frame)], fn)
}

/**
 * Those of the frames around a new one that can still matter in it. A loop that starts its next round inside the last one
 * would otherwise collect all of them.
 */
function stillOfUse(outer: readonly Frame[], { scope }: Frame): readonly Frame[] {
  const scoped = [scope?.client]
  return outer.filter(({ holds, scope }) => {
    // The innermost scope of a client owns what is taken next; one around it matters only for what it holds.
    const isInnermost = scope !== undefined && !scoped.includes(scope.client)
    if (isInnermost) scoped.push(scope.client)
    return isInnermost || holds.some((hold) => hold.isLive)
  })
}

/** Nothing, if the client is to follow no call chain. */
function framesAround({ implicitReentry }: HoldingClient): readonly Frame[] {
  return implicitReentry ? (around() as readonly Frame[]) : []
}

/** The innermost scope of this client around the caller. */
export function currentScope(client: HoldingClient): Scope | undefined {
  return framesAround(client).find(({ scope }) => scope?.client === client)?.scope
}

/**
 * The live holds on locks of this name that the caller is inside of, innermost first. A frame whose hold has ended counts
 * for nothing.
 */
export function* enclosingHolds(client: HoldingClient, lockName: string): Generator<Hold> {
  for (const { holds } of framesAround(client)) {
    for (let index = holds.length - 1; index >= 0; index--) {
      const hold = holds[index] as Hold
      if (hold.lease.lockName === lockName && hold.lease.context === client && hold.isLive) yield hold
    }
  }
}

/** Whether the caller is inside any hold or scope of this client, so that "the current owner" means something. */
export function hasCurrentOwner(client: HoldingClient): boolean {
  return framesAround(client).some(
    ({ holds, scope }) => scope?.client === client || holds.some(({ lease: holding }) => holding.context === client),
  )
}
