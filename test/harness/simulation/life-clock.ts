import { isMainThread } from 'node:worker_threads'
import { turn, VirtualClock } from '../../../src/testing/virtual-clock.js'

/** After so many turns without the event loop there is one with it, which reports rejections that nobody handled. */
const MOST_TURNS = 100

const { nextTick } = process
/** Callbacks for which `nextTick` was called and that have not run. */
let ticks = 0

if (!isMainThread) process.nextTick = countedTick

function countedTick(callback: (...args: never[]) => unknown, ...args: unknown[]): void {
  ticks++
  nextTick(() => {
    ticks--
    callback(...(args as never[]))
  })
}

/**
 * The clock of lives in a thread of theirs. Between two timers everything runs that can, but the event loop does not turn,
 * which would take a third of the time. Imported before what it is for, which must find this `nextTick`.
 */
export class LifeClock extends VirtualClock {
  #turns = 0

  protected override settle(): Promise<void> {
    if (isMainThread || ++this.#turns % MOST_TURNS === 0) return turn()
    return new Promise((resolve) => {
      // Node runs it when there are no microtasks left.
      const look = (): void => (ticks === 0 ? resolve() : queueMicrotask(lookLater))
      const lookLater = (): void => nextTick(look)
      queueMicrotask(lookLater)
    })
  }
}
