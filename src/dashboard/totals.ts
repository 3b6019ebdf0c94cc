// Sums over all locks, and the history of these sums.
import { countWaiters, type LockInfo } from '../fleet/lock-info.js'
import type { History, Totals } from './api.js'
import { HISTORY_MS } from './timeline.js'

export type Counts = Pick<Totals, 'deadlocks' | 'newHolds' | 'losses' | 'silentClients' | 'isTruncated' | 'doubts'>

/** A lock, and for how long it has been held at least. */
export interface Sampled {
  readonly info: LockInfo
  /** Its longest hold, ms; 0: none. */
  readonly oldestMs: number
}

export function totalsOf(locks: Iterable<Sampled>, counts: Counts): Totals {
  let held = 0
  let contended = 0
  let waiters = 0
  let oldestMs = 0
  let unlisted = 0
  const waits: number[] = []
  for (const { info: lock, oldestMs: longestMs } of locks) {
    oldestMs = Math.max(oldestMs, longestMs)
    if (lock.holders.length > 0) held++
    const waiting = countWaiters(lock)
    if (waiting > 0) contended++
    waiters += waiting
    unlisted += lock.holders.filter(({ status }) => status === 'unlisted').length
    for (const { waitedMs } of lock.waiters) if (waitedMs !== undefined) waits.push(waitedMs)
  }
  waits.sort((one, other) => one - other)
  const waitP95Ms = waits[Math.ceil(waits.length * 0.95) - 1] ?? 0
  return { held, contended, waiters, oldestMs, waitP95Ms, unlisted, ...counts }
}

/** The totals of the last 15 minutes. */
export class TotalsHistory {
  #points: { readonly at: number; readonly totals: Totals }[] = []

  add(at: number, totals: Totals): void {
    this.#points.push({ at, totals })
    while ((this.#points[0]?.at ?? at) < at - HISTORY_MS) this.#points.shift()
  }

  clear(): void {
    this.#points = []
  }

  columns(now: number): History {
    const column = (key: Exclude<keyof History, 'agoMs'>): number[] => this.#points.map(({ totals }) => totals[key])
    return {
      agoMs: this.#points.map(({ at }) => now - at),
      held: column('held'),
      contended: column('contended'),
      waiters: column('waiters'),
      oldestMs: column('oldestMs'),
      waitP95Ms: column('waitP95Ms'),
      newHolds: column('newHolds'),
    }
  }
}
