// Clocks and timers, as they were when Holdfast was loaded.
import { nodeProcess } from '../platform.js'

// Locks live in real time: fake timers, which tests install later, must neither hold up a command nor end a lease.
export const { setTimeout, clearTimeout, setInterval, clearInterval, queueMicrotask } = globalThis
export const { setImmediate = (action: () => void): unknown => setTimeout(action, 0) } = globalThis
const { nextTick: ofNode, hrtime } = nodeProcess ?? {}
export const nextTick: (action: () => void) => void = ofNode ?? queueMicrotask

/** Monotonic time, ms. */
export const monotonicNow: () => number = performance.now.bind(performance)
/** The same for all threads of this process, ms. */
export const threadNow = (): number => (hrtime ? Number(hrtime.bigint() / 1_000n) / 1_000 : monotonicNow())
/** The time of day, ms since the epoch. */
export const wallNow: () => number = Date.now
