const TICK_MS = 20

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
