// Time limits for promises.
import { onAbort } from './abort.js'
import { type Clock, threadClock } from './clock.js'

/**
 * Settles as `promise` does.
 * @throws {Error} it has not settled within `ms`
 * @throws the reason of `signal`, if that aborts first
 */
export async function within<T>(
  ms: number,
  promise: Promise<T>,
  signal?: AbortSignal,
  clock: Pick<Clock, 'after'> = threadClock,
): Promise<T> {
  let fail: (reason: unknown) => void = () => {}
  const limit = new Promise<never>((_, reject) => {
    fail = reject
  })
  const cancelTimer = clock.after(ms, () => fail(new Error(`no reply within ${Math.round(ms)} ms`)))
  const stopListening = signal && onAbort(signal, () => fail(signal.reason))
  if (signal?.aborted) fail(signal.reason)
  try {
    return await Promise.race([promise, limit])
  } finally {
    cancelTimer()
    stopListening?.()
    promise.catch(() => {})
  }
}
