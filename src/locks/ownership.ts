import { AsyncLocalStorage } from 'node:async_hooks'
import type { Owner } from '../wire/holder.js'
import type { Context } from './context.js'
import type { Hold } from './hold.js'

/**
 * Who is inside whom. Java asks which thread runs; Node asks which call chain: `withLock(fn)` runs `fn` in a frame with
 * its hold, and what `fn` calls finds the frame. Siblings are in no frame of each other, so they exclude each other.
 *
 * Frames are entered with `run`, never with `enterWith`: that would leak into siblings started by the same function.
 */
interface Frame {
  /** One hold, those of a hold on several locks, or those of a scope. */
  readonly holds: readonly Hold[]
  readonly scope?: Scope
}

/** The frames that a call chain is in, the innermost first. */
const frames = new AsyncLocalStorage<readonly Frame[]>()

/** A call chain that is one owner, as a Java thread is one. */
export class Scope {
  readonly context: Context
  readonly #holds: Hold[] = []
  #owner: Owner

  constructor(context: Context) {
    this.context = context
    this.#owner = context.owners.next()
  }

  /**
   * The owner for taking one more lock. Who asks while another task of the scope takes or holds the lock, and is not
   * inside that hold, is a sibling: an owner of its own.
   */
  ownerFor(field: string): Owner {
    if (this.#owner.isSpent) this.#owner = this.context.owners.next()
    if (!this.#owner.hasBeside(field) && this.#owner.claim(field)) return this.#owner
    return this.context.owners.next()
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

/**
 * Run something that belongs to nobody's call chain: what listeners do must not re-enter the hold of a task that happens to
 * have armed a timer or noticed a loss.
 */
export function runOutside<T>(fn: () => T): T {
  return frames.exit(fn)
}

export function runWithHold<T>(hold: Hold, fn: () => T): T {
  return runIn({ holds: hold.members }, fn)
}

export function runInNewScope<T>(context: Context, fn: () => T): T {
  const scope = new Scope(context)
  return runIn({ holds: scope.holds, scope }, fn)
}

function runIn<T>(frame: Frame, fn: () => T): T {
  const outer = frames.getStore()
  return frames.run(outer ? [frame, ...stillOfUse(outer, frame)] : [frame], fn)
}

/**
 * Those of the frames around a new one that can still matter in it. A loop that starts its next round inside the last one
 * would otherwise collect all of them.
 */
function stillOfUse(outer: readonly Frame[], { scope }: Frame): readonly Frame[] {
  const scoped = [scope?.context]
  return outer.filter(({ holds, scope }) => {
    // The innermost scope of a client owns what is taken next; one around it matters only for what it holds.
    const isInnermost = scope !== undefined && !scoped.includes(scope.context)
    if (isInnermost) scoped.push(scope.context)
    return isInnermost || holds.some((hold) => hold.isLive)
  })
}

/** Nothing, if the client is to follow no call chain. */
function framesAround({ implicitReentry }: Context): readonly Frame[] {
  return (implicitReentry && frames.getStore()) || []
}

/** The innermost scope of this client around the caller. */
export function currentScope(context: Context): Scope | undefined {
  return framesAround(context).find(({ scope }) => scope?.context === context)?.scope
}

/**
 * The live holds on locks of this name that the caller is inside of, innermost first. A frame whose hold has ended counts
 * for nothing.
 */
export function* enclosingHolds(context: Context, lockName: string): Generator<Hold> {
  for (const { holds } of framesAround(context)) {
    for (let index = holds.length - 1; index >= 0; index--) {
      const hold = holds[index] as Hold
      if (hold.holding.lockName === lockName && hold.holding.context === context && hold.isLive) yield hold
    }
  }
}

/** Whether the caller is inside any hold or scope of this client, so that "the current owner" means something. */
export function hasCurrentOwner(context: Context): boolean {
  return framesAround(context).some(
    ({ holds, scope }) => scope?.context === context || holds.some(({ holding }) => holding.context === context),
  )
}
