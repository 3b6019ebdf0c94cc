/** Of a timer; a longer one would fire at once. */
const MOST_MS = 2 ** 31 - 1

/**
 * Resolves or rejects as `promise`.
 * @throws {Error} it has not settled within `ms`, or before the signal was aborted
 */
export async function within<T>(ms: number, promise: Promise<T>, signal?: AbortSignal): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no reply within ${ms} ms`)), Math.min(ms, MOST_MS))
    signal?.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
    promise.catch(() => {})
  }
}
