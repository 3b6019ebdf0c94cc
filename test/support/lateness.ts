const TICK_MS = 20
/** Timers of an idle machine are late for a hundredth of the time, of a busy one for a tenth, in bursts. */
const SLOW_SHARE = 0.05

/**
 * Measures from now on by how much the timers of this process fire late.
 * @returns ends that, and returns the sum, ms: by so much a bound in real time is wider on a busy machine
 */
export function measureLateness(): () => number {
  let last = performance.now()
  let lateMs = 0
  const tick = (): void => {
    const now = performance.now()
    lateMs += Math.max(0, now - last - TICK_MS)
    last = now
  }
  const timer = setInterval(tick, TICK_MS).unref() // what it accompanies may throw
  return () => {
    tick()
    clearInterval(timer)
    return lateMs
  }
}

/**
 * Measures from now on whether the machine is too slow for bounds in real time to say anything.
 * @returns ends that, and returns by how much timers were late, in words, if it is
 */
export function measureSlowness(): () => string | undefined {
  const startedAt = performance.now()
  const latenessMs = measureLateness()
  return () => slownessOf(latenessMs(), performance.now() - startedAt)
}

/** In words, if timers were so late in all while that took so long. */
export function slownessOf(lateMs: number, tookMs: number): string | undefined {
  if (lateMs <= SLOW_SHARE * tookMs) return undefined
  return `timers were ${Math.round(lateMs)} ms late in ${Math.round(tookMs)} ms`
}
