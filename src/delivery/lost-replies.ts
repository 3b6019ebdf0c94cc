import type { ScriptCall } from '../lua/script.js'
import { backoffMs } from '../util/backoff.js'
import type { Clock } from '../util/clock.js'
import type { Random } from '../util/random.js'
import { isRetryable, toInteger } from './replies.js'
import type { Scripts } from './scripts.js'

/** What is retried: a call, or a function that makes a new one for each try. */
type Task = ScriptCall | ((timeoutMs?: number) => Promise<unknown>)

/** A command that has not arrived after this will not; and if it does, its lease ends it. */
const MAX_RETRY_MS = 60_000

/** A process that exits does not wait long for a Redis that is unreachable: the lease does the rest. */
const LAST_TRY_MS = 1_000

/**
 * Retries commands whose replies were lost. In the background a release is repeated until it is confirmed, or until the
 * lease it would end has ended anyway, for a minute at most. A release that finds nothing is repeated too: a command that
 * timed out here may still be applied later (a server that was frozen processes what is left in its sockets).
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
   * @param untilAt  when the lease in question ends, on the clock; at most a minute from now counts
   * @param otherwise  runs instead if Redis rejects `release` for good
   * @returns resolves when a reply arrived, or when it gives up
   */
  retryInBackground(release: Task, untilAt: number, otherwise?: Task): Promise<void> {
    const giveUpAt = Math.min(untilAt, this.#clock.now() + MAX_RETRY_MS)
    const retrying = this.#retry(release, giveUpAt, otherwise).finally(() => this.#pending.delete(retrying))
    this.#pending.add(retrying)
    return retrying
  }

  /**
   * Retries a task that a caller waits for until a reply arrives, for `forMs` at most; less when the client closes.
   * @param onFailure  called with the error of each failed try
   * @returns the reply, an integer or null
   * @throws the error of the last try
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

  /** Makes one last try for each pending task, and resolves when they have ended. */
  async close(): Promise<void> {
    this.#isClosing = true
    for (const wake of this.#sleepers) wake()
    await Promise.all(this.#pending)
  }

  async #retry(release: Task, untilAt: number, otherwise?: Task): Promise<void> {
    for (let tries = 0; ; tries++) {
      const isLastTry = this.#isClosing
      try {
        if ((await this.#run(release, isLastTry ? LAST_TRY_MS : undefined)) !== null) return
      } catch (error) {
        if (!isRetryable(error)) {
          // Redis rejects it for good: the lease ends the lock.
          return otherwise && otherwise !== release ? this.#retry(otherwise, untilAt) : undefined
        }
      }
      const delayMs = backoffMs(tries, 100, 5_000, this.#random)
      if (isLastTry || this.#clock.now() + delayMs >= untilAt) return
      if (!this.#isClosing) await this.#pause(delayMs, false)
    }
  }

  #run(task: Task, timeoutMs?: number): Promise<unknown> {
    return typeof task === 'function' ? task(timeoutMs) : this.#scripts.run(task, timeoutMs)
  }

  /** Sleeps before the next try; cut short when the client closes. */
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
