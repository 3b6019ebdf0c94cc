/**
 * One `requestAnimationFrame` for everything on the page that counts. It counts durations from when they were received, so
 * the clock of the server does not matter, and stops when nothing is received any more: what is old must not look alive.
 */
import { createContext } from 'preact'
import { useContext, useLayoutEffect, useRef } from 'preact/hooks'

/** How long the numbers run on without a message, ms. */
const RUN_ON_MS = 2_500

type OnFrame = (now: number) => void

/** When the numbers inside of it stop, a `performance.now()`. */
export const StopAt = createContext(Number.POSITIVE_INFINITY)

const counting = new Set<OnFrame>()
const isCalm = matchMedia('(prefers-reduced-motion: reduce)')
let stopsAt = 0
let shownAt = 0
let frame = 0

/** The time that the numbers on the page refer to: `performance.now()`, as long as messages arrive. */
export function now(): number {
  return Math.min(performance.now(), stopsAt)
}

/** @param readAt  when what is shown was true, a `performance.now()` */
export function keepRunning(readAt: number): void {
  stopsAt = readAt + RUN_ON_MS
}

/** Calls `onFrame` in each frame until the component is gone; once a second for who prefers reduced motion. */
export function useEveryFrame(onFrame: OnFrame): void {
  const stopAt = useContext(StopAt)
  const latest = useRef(onFrame)
  latest.current = (time) => onFrame(Math.min(time, stopAt))
  useLayoutEffect(() => {
    const call: OnFrame = (time) => latest.current(time)
    call(now())
    counting.add(call)
    if (frame === 0) frame = requestAnimationFrame(run)
    return () => counting.delete(call)
  }, [])
}

function run(time: number): void {
  if (!isCalm.matches || time - shownAt >= 1000) {
    shownAt = time
    const shown = now()
    for (const call of counting) call(shown)
  }
  frame = counting.size > 0 ? requestAnimationFrame(run) : 0
}
