import type { ScriptCall } from '../lua/script.js'
import { backoffMs } from '../util/backoff.js'
import type { Clock } from '../util/clock.js'
import type { Random } from '../util/random.js'
import { isRetryable, toInteger } from './replies.js'
import type { Scripts } from './scripts.js'

/** What is repeated: a call, or something that makes a new one for each try. */
type Task = ScriptCall | ((timeoutMs?: number) => Promise<unknown>)

/** After this, what has not shown up will not; and if it does, its lease ends it. */
const LONGEST_MS = 60_000

/** A process that ends does not wait for long on a Redis that is away: the lease does the rest. */
const LAST_TRY_MS = 1_000

/**
 * Settles in the background what Redis did not answer: a release is repeated until it is confirmed, or until the lease it
 * would end is over anyway, for a minute at most. A release that finds nothing is repeated too: a command that timed out
 * here may still be applied later (a server that was frozen works off what its sockets hold).
 */
export class BackgroundRetries {
  readonly #clock: Clock
  readonly #random: Random
  readonly #scripts: Scripts
  readonly #pending = new Set<Promise<void>>()
  readonly #sleepers = new Set<() => void>()
  #isClosing = false

  constructor(clock: Clock, random: Random, scripts: Scripts) {
    this.#clock = clock
    this.#random = random
    this.#scripts = scripts
  }

  /**
   * @param untilAt  when the lease in question is over, on the clock; at most a minute from now counts
   * @param otherwise  to be run instead if Redis refuses `release` for good
   * @returns resolves when it was answered or given up
   */
  retryInBackground(release: Task, untilAt: number, otherwise?: Task): Promise<void> {
    const giveUpAt = Math.min(untilAt, this.#clock.now() + LONGEST_MS)
    const settled = this.#settle(release, giveUpAt, otherwise).finally(() => this.#pending.delete(settled))
    this.#pending.add(settled)
    return settled
  }

  /**
   * Run what a caller waits for until it is answered, for so long at most; less when the client closes.
   * @param onFailure  told of each try that failed
   * @returns its reply, an integer or null
   * @throws what the last try failed with
   */
  async retryUntilAnswered(task: Task, forMs: number, onFailure: (error: unknown) => void): Promise<number | null> {
    const giveUpAt = this.#clock.now() + forMs
    for (let failures = 0; ; failures++) {
      try {
        return toInteger(await this.#run(task))
      } catch (error) {
        onFailure(error)
        if (!isRetryable(error)) throw error
        const delayMs = backoffMs(failures, 50, 1_000, this.#random)
        if (this.#clock.now() + delayMs >= giveUpAt || this.#isClosing) throw error
        await this.#pause(delayMs)
      }
    }
  }

  get size(): number {
    return this.#pending.size
  }

  /** One last try for what is pending; resolves when that is over. */
  async close(): Promise<void> {
    this.#isClosing = true
    for (const wake of this.#sleepers) wake()
    await Promise.all(this.#pending)
  }

  async #settle(release: Task, untilAt: number, otherwise?: Task): Promise<void> {
    for (let tries = 0; ; tries++) {
      const isLastTry = this.#isClosing
      try {
        if ((await this.#run(release, isLastTry ? LAST_TRY_MS : undefined)) !== null) return
      } catch (error) {
        // Anything else is Redis' word that it will not be done: the lease ends it.
        if (!isRetryable(error))
          return otherwise && otherwise !== release ? this.#settle(otherwise, untilAt) : undefined
      }
      const delayMs = backoffMs(tries, 100, 5_000, this.#random)
      if (isLastTry || this.#clock.now() + delayMs >= untilAt) return
      if (!this.#isClosing) await this.#pause(delayMs, false)
    }
  }

  #run(task: Task, timeoutMs?: number): Promise<unknown> {
    return typeof task === 'function' ? task(timeoutMs) : this.#scripts.run(task, timeoutMs)
  }

  /** Sleep before the next try of a release; cut short when the client closes. */
  async #pause(ms: number, keepAlive = true): Promise<void> {
    await new Promise<void>((resolve) => {
      const cancel = this.#clock.after(ms, () => wake(), keepAlive)
      const wake = (): void => {
        cancel()
        this.#sleepers.delete(wake)
        resolve()
      }
      this.#sleepers.add(wake)
    })
  }
}
