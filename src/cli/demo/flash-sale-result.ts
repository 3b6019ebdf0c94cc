// The result of one sale.
import type { Visit } from './flash-sale-worker.js'

/** The result of one sale. */
export interface SaleResult {
  stock: number
  /** Orders recorded in Redis, which counts them atomically. */
  sold: number
  oversold: number
  /** The most buyers in the critical section at one moment. */
  atOnce: number
  /** Critical sections per second. */
  perSecond: number
  /** How long buyers waited to get in. */
  waitP50Ms: number
  waitP99Ms: number
  /** For each process. */
  visits: readonly (readonly Visit[])[]
}

export function resultOf(stock: number, sold: number, visits: readonly (readonly Visit[])[]): SaleResult {
  const all = visits.flat()
  const waits = all.map(({ askedAt, enteredAt }) => enteredAt - askedAt).sort((a, b) => a - b)
  const { from, to } = spanOf(all)
  return {
    stock,
    sold,
    oversold: Math.max(0, sold - stock),
    atOnce: atOnce(all),
    perSecond: Math.round((all.length * 1_000) / Math.max(to - from, 1)),
    waitP50Ms: percentile(waits, 0.5),
    waitP99Ms: percentile(waits, 0.99),
    visits,
  }
}

/** From the first buyer's entry to the last one's exit, on the clock. */
export function spanOf(visits: readonly Visit[]): { from: number; to: number } {
  let from = Number.POSITIVE_INFINITY
  let to = Number.NEGATIVE_INFINITY
  for (const { enteredAt, leftAt } of visits) {
    from = Math.min(from, enteredAt)
    to = Math.max(to, leftAt)
  }
  return { from, to }
}

function atOnce(visits: readonly Visit[]): number {
  const doors = visits.flatMap(({ enteredAt, leftAt }) => [
    { at: enteredAt, change: 1 },
    { at: leftAt, change: -1 },
  ])
  doors.sort((a, b) => a.at - b.at || a.change - b.change)
  let inside = 0
  let most = 0
  for (const { change } of doors) {
    inside += change
    most = Math.max(most, inside)
  }
  return most
}

/** @param sorted  ascending */
function percentile(sorted: readonly number[], share: number): number {
  const value = sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? 0
  return Math.round(value * 10) / 10
}
