// Repeats a command until a signal arrives.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Session } from './view.js'

/** Default, ms. */
const INTERVAL_MS = 1_000

/** Refreshes until a signal arrives. */
export async function repeat({ options, signal }: Session, refresh: () => Promise<void>): Promise<void> {
  while (!signal.aborted) {
    const startedAt = performance.now()
    await refresh()
    const restMs = (options.intervalMs ?? INTERVAL_MS) - (performance.now() - startedAt)
    await sleep(Math.max(0, restMs), undefined, { signal }).catch(() => {})
  }
}
