// Virtual time; the time of fake timers.
import { clearImmediate, setImmediate } from 'node:timers'
import { VirtualClock } from './virtual-clock.js'

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
export class FakedClock extends VirtualClock {
  readonly #timers = new Set<{ readonly dueAt: number; fire(): void }>()
  /** How far `until` has let this clock run ahead of the fake timers, ms. */
  #aheadMs = 0

  override now(): number {
    return Date.now() + this.#aheadMs
  }

  override after(delayMs: number, action: () => void, keepAlive = true): () => void {
    const cancel = (): void => {
      this.#timers.delete(timer)
      stop()
    }
    const fire = (): void => {
      cancel()
      action()
    }
    // If no time has to pass, nobody has to let it.
    const stop = delayMs <= 0 ? soon(fire) : later(fire, Math.ceil(delayMs), keepAlive)
    const timer = { dueAt: this.now() + Math.max(0, delayMs), fire }
    this.#timers.add(timer)
    return cancel
  }

  /** For `until`: whoever awaits that does not advance the fake timers meanwhile. */
  override async step(): Promise<boolean> {
    const [first, ...others] = this.#timers
    if (!first) return false
    const next = others.reduce((one, other) => (other.dueAt < one.dueAt ? other : one), first)
    this.#aheadMs += Math.max(0, next.dueAt - this.now())
    next.fire()
    await this.settle()
    return true
  }
}

function soon(action: () => void): () => void {
  const immediate = nextTurn(action)
  return () => cancelTurn(immediate)
}

function later(action: () => void, ms: number, keepAlive: boolean): () => void {
  const timer = setTimeout(action, ms)
  // Fake timers may have no `unref`.
  if (!keepAlive) (timer as Partial<NodeJS.Timeout>).unref?.()
  return () => clearTimeout(timer)
}
