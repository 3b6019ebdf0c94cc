// Virtual time; the time of fake timers.
import { clearImmediate, setImmediate } from 'node:timers'
import type { Clock } from '../util/clock.js'
import type { VirtualClock } from './virtual-clock.js'

/** Not those of fake timers. */
const [nextTurn, cancelTurn] = [setImmediate, clearImmediate]

/** Time that passes only when a test says so: `createTestRedis({ time: 'virtual' })`. */
export interface VirtualTime {
  /** Ms since some instant in the past. */
  now(): number
  /** Lets `ms` pass. Everything that falls due on the way runs, at its time and in its order, also what that starts. */
  advance(ms: number): Promise<void>
  /**
   * Lets just as much time pass as a promise needs to settle, for at most 10 minutes.
   * @returns what the promise resolves to; rejects with its reason
   * @throws {Error} nothing is left that could settle it, or the 10 minutes are over
   */
  until<T>(promise: Promise<T>): Promise<T>
  /** Lets `ms` pass in which nothing runs, as while a long computation blocks the event loop. Then all that is late runs. */
  blockEventLoop(ms: number): Promise<void>
}

export function virtualTimeOf(clock: VirtualClock): VirtualTime {
  return {
    now: () => clock.now(),
    advance: (ms) => clock.advance(ms),
    until: (promise) => clock.until(promise),
    async blockEventLoop(ms) {
      clock.block(ms)
      await clock.advance(0)
    },
  }
}

/**
 * The time of fake timers (of node:test, Vitest, Jest), which replace `setTimeout` and `Date`. The system clock also reads
 * other sources, which they may leave as they are: timers would fire while leases stood still.
 */
export const fakedClock: Clock = {
  now: () => Date.now(),
  after(delayMs, action, keepAlive = true) {
    if (delayMs <= 0) {
      // No time has to pass, so nobody has to let it.
      const immediate = nextTurn(action)
      return () => cancelTurn(immediate)
    }
    const timer = setTimeout(action, Math.ceil(delayMs))
    // Fake timers may have no `unref`.
    if (!keepAlive) (timer as Partial<NodeJS.Timeout>).unref?.()
    return () => clearTimeout(timer)
  },
  afterPoll: (action) => action(),
}
