import type { ScriptCall } from '../lua/script.js'
import { backoffMs } from '../util/backoff.js'
import type { Clock } from '../util/clock.js'
import type { Random } from '../util/random.js'
import { retry } from '../util/retry.js'
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
  readonly #closing = new AbortController()

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
    return await retry(async () => toInteger(await this.#run(task)), {
      clock: this.#clock,
      delayMs: (failures) => backoffMs(failures, 50, 1_000, this.#random),
      until: this.#clock.now() + forMs,
      isRetryable: (error) => {
        onFailure(error)
        return isRetryable(error) && !this.#closing.signal.aborted
      },
      signal: this.#closing.signal,
    })
  }

  get size(): number {
    return this.#pending.size
  }

  /** One last try for what is pending; resolves when that is over. */
  async close(): Promise<void> {
    this.#closing.abort()
    await Promise.all(this.#pending)
  }

  async #settle(release: Task, untilAt: number, otherwise?: Task): Promise<void> {
    const { signal } = this.#closing
    const attempt = async (): Promise<void> => {
      const reply = await this.#run(release, signal.aborted ? LAST_TRY_MS : undefined)
      if (reply === null) throw new NothingReleased()
    }
    try {
      await retry(attempt, {
        clock: this.#clock,
        keepAlive: false,
        delayMs: (failures) => backoffMs(failures, 100, 5_000, this.#random),
        until: untilAt,
        isRetryable: (error) => error instanceof NothingReleased || isRetryable(error),
        signal,
      })
    } catch (error) {
      // Out of time, or Redis refuses it for good: then the lease ends it.
      const isRefused = !(error instanceof NothingReleased) && !isRetryable(error)
      if (isRefused && otherwise && otherwise !== release) await this.#settle(otherwise, untilAt)
    }
  }

  #run(task: Task, timeoutMs?: number): Promise<unknown> {
    return typeof task === 'function' ? task(timeoutMs) : this.#scripts.run(task, timeoutMs)
  }
}

/** The command that took what is to be released may still be on its way. */
class NothingReleased extends Error {}
