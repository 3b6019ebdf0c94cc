/**
 * The timers of Node as they were when Holdfast was loaded. Locks live in real time: fake timers, which tests install later,
 * must neither hold up a command nor end a lease.
 */
export const { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, queueMicrotask } = globalThis
export const { nextTick, hrtime } = process

/** Monotonic time, ms. */
export const monotonicNow: () => number = performance.now.bind(performance)
/** The time of day, ms since the epoch. */
export const wallNow: () => number = Date.now
