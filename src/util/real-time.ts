/**
 * The timers of Node as they were when Holdfast was loaded. Locks live in real time: fake timers, which tests install later,
 * must neither hold up a command nor end a lease.
 */
export const { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, queueMicrotask } = globalThis
export const { nextTick, hrtime } = process

const clock = globalThis.performance
const read = clock.now

/** Monotonic time, ms. */
export function monotonicNow(): number {
  return read.call(clock)
}
