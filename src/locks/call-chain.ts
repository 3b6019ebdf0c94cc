// The AsyncLocalStorage that knows which holds a call is inside of.
import { AsyncLocalStorage } from 'node:async_hooks'
import { shared } from '../util/shared.js'

/** The frames around a call chain, the innermost first. Only `ownership.ts` adds frames. */
const chain = shared('call-chain.1', () => new AsyncLocalStorage<readonly unknown[]>())

export function around(): readonly unknown[] {
  return chain.getStore() ?? []
}

/** Uses `run`, never `enterWith`, which would leak into siblings that the same function starts. */
export function runInside<T>(frames: readonly unknown[], fn: () => T): T {
  return chain.run(frames, fn)
}

/**
 * Runs code outside every call chain. Listeners must not re-enter the hold of a task that happened to arm a timer or to
 * detect a loss.
 */
export function runOutside<T>(fn: () => T): T {
  return chain.exit(fn)
}
