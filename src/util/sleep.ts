// Waits, until an AbortSignal at most.
import { onAbort } from './abort.js'
import { type Clock, threadClock } from './clock.js'

export interface SleepOptions {
  /** Default: real time. */
  readonly clock?: Pick<Clock, 'after'> | undefined
  /** Whether the pending timer keeps the process alive; default true. */
  readonly keepAlive?: boolean | undefined
  /** Ends the sleep early when it aborts. */
  readonly signal?: AbortSignal | undefined
}

/** Resolves after `ms`, or as soon as the signal aborts. Never rejects. */
export async function sleep(ms: number, options: SleepOptions = {}): Promise<void> {
  const { clock = threadClock, keepAlive = true, signal } = options
  if (signal?.aborted) return
  await new Promise<void>((resolve) => {
    const cancel = clock.after(ms, () => wake(), keepAlive)
    const stopListening = signal && onAbort(signal, () => wake())
    const wake = (): void => {
      cancel()
      stopListening?.()
      resolve()
    }
  })
}
