// Retries after a lost reply, in the background if the caller has left.
import type { ScriptCall } from '../lua/script.js'
import { backoffMs } from '../util/backoff.js'
import type { Clock } from '../util/clock.js'
import type { Random } from '../util/random.js'
import { retry } from '../util/retry.js'
import { isLasting, isRetryable, toInteger } from './replies.js'
import type { Scripts } from './scripts.js'

/** A call to retry, or a function that makes a new one for each try. */
type Task = ScriptCall | ((timeoutMs?: number) => Promise<unknown>)

/** Maximum time to retry a release, ms. After that the lease ends the lock. */
const MAX_RETRY_MS = 60_000
/** While copies of a command may arrive, what they take is released within this, ms. */
const MAX_PAUSE_MS = 800

/** A process that exits does not wait long for a Redis that is unreachable: the lease does the rest. */
const LAST_TRY_MS = 1_000

/**
 * Retries commands whose replies were lost. In the background a release is repeated until Redis has replied, or until the
 * lease it would end has ended anyway, for a minute at most. While copies of the command that took the lock may arrive, it is
 * repeated whatever the reply: a server that was frozen processes what is left in its sockets, and a Redis client sends
 * what it did not get a reply to once more.
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
   * @param untilAt  when the lease in question ends, on the clock; at most a minute from now counts
   * @param copiesUntil  until when copies of what it undoes may arrive, on the clock
   * @param otherwise  runs instead if Redis rejects `release` for good
   * @returns resolves when a reply arrived, or the retries have ended
   */
  retryInBackground(release: Task, untilAt: number, copiesUntil = 0, otherwise?: Task): Promise<void> {
    const stopAt = Math.min(untilAt, this.#clock.now() + MAX_RETRY_MS)
    const retrying = this.#retry(release, stopAt, copiesUntil, otherwise).finally(() => this.#pending.delete(retrying))
    this.#pending.add(retrying)
    return retrying
  }

  /**
   * Retries a task that a caller waits for until a reply arrives, for `forMs` at most; less when the client closes.
   * @param onFailure  called with the error of each failed try
   * @returns the reply, an integer or null
   * @throws the error of the last try
   */
  retryUntilReply(task: Task, forMs: number, onFailure: (error: unknown) => void): Promise<number | null> {
    return retry(() => this.#run(task).then(toInteger), {
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

  /** Makes one last try for each pending task, and resolves when they have ended. */
  async close(): Promise<void> {
    this.#closing.abort()
    await Promise.all(this.#pending)
  }

  async #retry(release: Task, untilAt: number, copiesUntil: number, otherwise?: Task): Promise<void> {
    const { signal } = this.#closing
    const attempt = async (): Promise<void> => {
      const sentAt = this.#clock.now()
      await this.#run(release, signal.aborted ? LAST_TRY_MS : undefined)
      if (sentAt < copiesUntil) throw new CopiesMayArrive()
    }
    const pauseMs = (failures: number): number => {
      const now = this.#clock.now()
      const longestMs = now < copiesUntil ? Math.min(copiesUntil - now + 1, MAX_PAUSE_MS) : 5_000
      return Math.min(backoffMs(failures, 100, 5_000, this.#random), longestMs)
    }
    try {
      await retry(attempt, {
        clock: this.#clock,
        keepAlive: false,
        delayMs: pauseMs,
        until: untilAt,
        // Whatever the error: nobody else will do it, and it may pass before the lease ends.
        isRetryable: (error) => error instanceof CopiesMayArrive || !isLasting(error),
        signal,
      })
    } catch (error) {
      // Out of time, or Redis rejects it for good: then the lease ends the lock.
      if (isLasting(error) && otherwise && otherwise !== release) {
        await this.#retry(otherwise, untilAt, copiesUntil)
      }
    }
  }

  #run(task: Task, timeoutMs?: number): Promise<unknown> {
    return typeof task === 'function' ? task(timeoutMs) : this.#scripts.run(task, timeoutMs)
  }
}

/** A copy of the command that takes the lock may still be on its way. */
class CopiesMayArrive extends Error {}
