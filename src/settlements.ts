import type { Clock } from './clock.js'
import { isWorthRetrying, type ScriptCall, type Scripts } from './lua/run.js'
import type { Random } from './random.js'
import { backoffMs } from './waiting/backoff.js'

/**
 * Settles in the background what Redis did not answer: a release is repeated until it is confirmed, or until the lease it
 * would end is over anyway. A release that finds nothing is repeated too: a command that timed out here may still be
 * applied later (a server that was frozen works off what its sockets hold).
 */
export class Settlements {
  readonly #clock: Clock
  readonly #random: Random
  readonly #scripts: Scripts
  readonly #pending = new Set<Promise<void>>()
  #isClosing = false

  constructor(clock: Clock, random: Random, scripts: Scripts) {
    this.#clock = clock
    this.#random = random
    this.#scripts = scripts
  }

  /** @param untilAt  when the lease in question is over, on the clock */
  start(release: ScriptCall, untilAt: number): void {
    const settled = this.#settle(release, untilAt).finally(() => this.#pending.delete(settled))
    this.#pending.add(settled)
  }

  get size(): number {
    return this.#pending.size
  }

  /** No more repeating; resolves when the last tries are over. */
  async close(): Promise<void> {
    this.#isClosing = true
    await Promise.all(this.#pending)
  }

  async #settle(release: ScriptCall, untilAt: number): Promise<void> {
    for (let tries = 0; ; tries++) {
      try {
        if ((await this.#scripts.run(release)) !== null) return
      } catch (error) {
        // Anything else is Redis' word that it will not be done: the lease ends it.
        if (!isWorthRetrying(error)) return
      }
      if (this.#isClosing) return
      const delayMs = backoffMs(tries, 100, 2_000, this.#random)
      if (this.#clock.now() + delayMs >= untilAt) return
      await new Promise<void>((resolve) => void this.#clock.after(delayMs, resolve, false))
      if (this.#isClosing) return
    }
  }
}
