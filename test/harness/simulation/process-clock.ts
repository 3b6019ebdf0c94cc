import type { VirtualClock } from '../../../src/testing/virtual-clock.js'
import { type Clock, SystemClock, type TimeSources } from '../../../src/util/clock.js'

/**
 * The time of one process, as the clocks of its machine show it: they run at their own rate, and the wall clock is set now
 * and then. The process may be paused (SIGSTOP, a swapped-out machine) or its machine suspended, and what was due then
 * happens after it.
 */
export class ProcessClock implements Clock, TimeSources {
  readonly #world: VirtualClock
  readonly #rate: number
  readonly #clock: SystemClock
  /** Until when nothing of the process runs, and until when its event loop does not. */
  #stoppedUntil = Number.NEGATIVE_INFINITY
  #pausedUntil = Number.NEGATIVE_INFINITY
  #wallAheadMs = 0
  /** For how long the machine was suspended, as far as it knows already: after each suspension. */
  #suspendedMs = 0
  /** The last suspension, until it is counted. */
  #sleep: { readonly from: number; until: number } | undefined

  /** @param rate  how fast it runs: at 1.01 a second of the servers takes 1,010 ms */
  constructor(world: VirtualClock, rate: number) {
    this.#world = world
    this.#rate = rate
    this.#clock = new SystemClock(this)
  }

  /** Stands still while the machine is suspended. */
  monotonic(): number {
    this.#countSleep()
    return this.sinceBoot() - this.#suspendedMs
  }

  wall(): number {
    return this.sinceBoot() + this.#wallAheadMs
  }

  sinceBoot(): number {
    return this.#world.now() * this.#rate
  }

  now(): number {
    return this.#clock.now()
  }

  after(delayMs: number, action: () => void, keepAlive = true): () => void {
    return this.#after(delayMs, action, keepAlive, () => this.#pausedUntil)
  }

  /** What a thread of the process waits with: it runs while the event loop is blocked. */
  afterInThread(delayMs: number, action: () => void, keepAlive = true): () => void {
    return this.#after(delayMs, action, keepAlive, () => this.#stoppedUntil)
  }

  #after(delayMs: number, action: () => void, keepAlive: boolean, pausedUntil: () => number): () => void {
    const fire = (): void => {
      const leftMs = pausedUntil() - this.#world.now()
      if (leftMs > 0) cancel = this.#world.after(leftMs, fire, keepAlive)
      else action()
    }
    let cancel = this.#world.after(delayMs / this.#rate, fire, keepAlive)
    return () => cancel()
  }

  /** Right after a pause, what arrived during it is still to be read. */
  afterPoll(action: () => void): void {
    if (this.#world.now() === this.#pausedUntil) this.#world.after(0, action)
    else action()
  }

  pause(ms: number): void {
    this.#stoppedUntil = Math.max(this.#stoppedUntil, this.#world.now() + ms)
    this.blockEventLoop(ms)
  }

  /** Synchronous work: only threads go on. */
  blockEventLoop(ms: number): void {
    this.#pausedUntil = Math.max(this.#pausedUntil, this.#world.now() + ms)
  }

  /** The machine sleeps: timers are late by that, and the monotonic clock lags behind from then on. */
  suspend(ms: number): void {
    this.#countSleep()
    const now = this.#world.now()
    this.#sleep ??= { from: now, until: now }
    this.#sleep.until = Math.max(this.#sleep.until, now + ms)
    this.pause(ms)
  }

  /** All of it at once, however late: a part of it may be too short for the clock to notice. */
  #countSleep(): void {
    const sleep = this.#sleep
    if (sleep === undefined || this.#world.now() < sleep.until) return
    this.#suspendedMs += (sleep.until - sleep.from) * this.#rate
    this.#sleep = undefined
  }

  setWall(aheadMs: number): void {
    this.#wallAheadMs = aheadMs
  }
}
