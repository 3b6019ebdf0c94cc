import { AsyncLocalStorage } from 'node:async_hooks'
import type { Owner } from '../holder.js'
import type { Context } from './context.js'
import type { Hold } from './hold.js'
import type { Possession } from './possession.js'

/**
 * Who is inside whom. Java asks which thread runs; Node asks which call chain: `withLock(fn)` runs `fn` in a frame with
 * its hold, and what `fn` calls finds the frame. Siblings are in no frame of each other, so they exclude each other.
 *
 * Frames are entered with `run`, never with `enterWith`: that would leak into siblings started by the same function.
 */
interface Frame {
  readonly outer: Frame | undefined
  readonly hold?: Hold
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
  ownerFor(lockName: string): Owner {
    if (this.#owner.isSpent) this.#owner = this.context.owners.next()
    if (this.#owner.claim(lockName)) return this.#owner
    return this.context.owners.next()
  }

  /** A hold that was taken by an explicit `lock()` in this scope, for `unlock()` to find. */
  add(hold: Hold): void {
    for (const [index, old] of [...this.#holds.entries()].reverse()) if (!old.isLive) this.#holds.splice(index, 1)
    this.#holds.push(hold)
  }

  /** The hold on a lock that was taken last. */
  latest(lockName: string): Hold | undefined {
    return this.#holds.findLast((hold) => hold.lockName === lockName && hold.isLive)
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
  return frames.run({ outer: frames.getStore(), hold }, fn)
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

/** What a call from here re-enters: the innermost live hold on the lock. A frame whose hold has ended counts for nothing. */
export function enclosingPossession(context: Context, lockName: string): Possession | undefined {
  for (let frame = frames.getStore(); frame; frame = frame.outer) {
    const hold = frame.scope?.context === context ? frame.scope.latest(lockName) : frame.hold
    if (hold?.lockName === lockName && hold.possession.context === context && hold.isLive) return hold.possession
  }
  return undefined
}

/** Whether the caller is inside any hold or scope of this client, so that "the current owner" means something. */
export function hasCurrentOwner(context: Context): boolean {
  for (let frame = frames.getStore(); frame; frame = frame.outer) {
    if (frame.scope?.context === context || frame.hold?.possession.context === context) return true
  }
  return false
}
