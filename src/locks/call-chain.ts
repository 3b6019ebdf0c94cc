import { AsyncLocalStorage } from 'node:async_hooks'

/** Whatever surrounds a call chain, the innermost first. Only `ownership.ts` puts something there. */
const chain = new AsyncLocalStorage<readonly unknown[]>()

export function around(): readonly unknown[] {
  return chain.getStore() ?? []
}

/** Entered with `run`, never with `enterWith`: that would leak into siblings started by the same function. */
export function runInside<T>(frames: readonly unknown[], fn: () => T): T {
  return chain.run(frames, fn)
}

/**
 * Run something that belongs to nobody's call chain: what listeners do must not re-enter the hold of a task that happens to
 * have armed a timer or noticed a loss.
 */
export function runOutside<T>(fn: () => T): T {
  return chain.exit(fn)
}
