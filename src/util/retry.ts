// Repeats an attempt.
import type { Clock } from './clock.js'
import { type SleepOptions, sleep } from './sleep.js'

export interface RetryOptions extends SleepOptions {
  readonly clock: Clock
  /** The delay after a failed attempt, ms. @param failures  how many attempts failed before that one */
  readonly delayMs: (failures: number) => number
  /** No attempt starts at or after this, on the clock. Default: no limit. */
  readonly until?: number | undefined
  /** Called after every failed attempt: whether another one may succeed. Default: always. */
  readonly isRetryable?: ((error: unknown) => boolean) | undefined
  /** When it aborts, the delay ends at once and the next attempt is the last. */
  readonly signal?: AbortSignal | undefined
}

/**
 * Repeats an attempt until it resolves.
 * @returns what it resolved to
 * @throws what the last attempt rejected with
 */
export async function retry<T>(attempt: () => Promise<T>, options: RetryOptions): Promise<T> {
  const { clock, delayMs, until = Number.POSITIVE_INFINITY, isRetryable, signal } = options
  for (let failures = 0; ; failures++) {
    const isLast = signal?.aborted ?? false
    try {
      return await attempt()
    } catch (error) {
      if (isRetryable?.(error) === false || isLast) throw error
      const pauseMs = delayMs(failures)
      if (clock.now() + pauseMs >= until) throw error
      await sleep(pauseMs, options)
    }
  }
}
