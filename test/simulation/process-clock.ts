import type { VirtualClock } from '../../src/testing/virtual-clock.js'
import type { Clock } from '../../src/util/clock.js'

/** The time of one process: it may be paused (SIGSTOP, a swapped-out machine), and what was due then happens after it. */
export class ProcessClock implements Clock {
  readonly #world: VirtualClock
  #pausedUntil = Number.NEGATIVE_INFINITY

  constructor(world: VirtualClock) {
    this.#world = world
  }

  now(): number {
    return this.#world.now()
  }

  after(delayMs: number, action: () => void, keepAlive = true): () => void {
    const fire = (): void => {
      const leftMs = this.#pausedUntil - this.#world.now()
      if (leftMs > 0) cancel = this.#world.after(leftMs, fire, keepAlive)
      else action()
    }
    let cancel = this.#world.after(delayMs, fire, keepAlive)
    return () => cancel()
  }

  /** Right after a pause, what arrived during it is still to be read. */
  afterPoll(action: () => void): void {
    if (this.#world.now() === this.#pausedUntil) this.#world.after(0, action)
    else action()
  }

  pause(ms: number): void {
    this.#pausedUntil = Math.max(this.#pausedUntil, this.#world.now() + ms)
  }
}
