import { AsyncLocalStorage } from 'node:async_hooks'
import type { Owner } from '../holder.js'
import type { Context } from './context.js'
import type { Hold } from './hold.js'

/**
 * Who is inside whom. Java asks which thread runs; Node asks which call chain: `withLock(fn)` runs `fn` in a frame with
 * its hold, and what `fn` calls finds the frame. Siblings are in no frame of each other, so they exclude each other.
 *
 * Frames are entered with `run`, never with `enterWith`: that would leak into siblings started by the same function.
 */
interface Frame {
  readonly outer: Frame | undefined
  /** Those of a hold on several locks, or the one hold. */
  readonly holds?: readonly Hold[]
  readonly scope?: Scope
}

const frames = new AsyncLocalStorage<Frame>()

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
  return frames.run({ outer: frames.getStore(), holds: hold.members }, fn)
}

export function runInNewScope<T>(context: Context, fn: () => T): T {
  return frames.run({ outer: frames.getStore(), scope: new Scope(context) }, fn)
}

/** The innermost scope of this client around the caller. */
export function currentScope(context: Context): Scope | undefined {
  for (let frame = frames.getStore(); frame; frame = frame.outer) {
    if (frame.scope?.context === context) return frame.scope
  }
  return undefined
}

/**
 * The live holds on locks of this name that the caller is inside of, innermost first. A frame whose hold has ended counts
 * for nothing.
 */
export function* enclosingHolds(context: Context, lockName: string): Generator<Hold> {
  for (let frame = frames.getStore(); frame; frame = frame.outer) {
    const holds = frame.holds ?? frame.scope?.holds ?? []
    for (let index = holds.length - 1; index >= 0; index--) {
      const hold = holds[index] as Hold
      if (hold.holding.lockName === lockName && hold.holding.context === context && hold.isLive) yield hold
    }
  }
}

/** Whether the caller is inside any hold or scope of this client, so that "the current owner" means something. */
export function hasCurrentOwner(context: Context): boolean {
  for (let frame = frames.getStore(); frame; frame = frame.outer) {
    if (frame.scope?.context === context || frame.holds?.some((hold) => hold.holding.context === context)) return true
  }
  return false
}
