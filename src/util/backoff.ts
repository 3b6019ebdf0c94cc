// Delays with jitter.
import type { Random } from './random.js'

/** Exponential backoff with equal jitter, as Redisson's `EqualJitterDelay`: half fixed, half random. ms. */
export function backoffMs(attempt: number, baseMs: number, maxMs: number, random: Random): number {
  const ceiling = Math.min(maxMs, baseMs * 2 ** Math.min(attempt, 30))
  return ceiling / 2 + (random.fraction() * ceiling) / 2
}
