/** Metrics of the whole fleet for Prometheus, Redisson's processes included: no single client knows them. */
import { DOUBTS } from '../fleet/doubts.js'
import { countWaiters } from '../fleet/lock-info.js'
import type { Totals } from './api.js'
import type { Sampled } from './totals.js'

/** Names of locks are never labels: there may be millions. Kinds are ours; together at most 50 series. */
const MAX_KINDS = 11

export function metricsOf(locks: readonly Sampled[], totals: Totals): string {
  const kinds = new Map<string, { held: number; oldestMs: number; waiters: number }>()
  for (const { info: lock, oldestMs } of locks) {
    const kind = kinds.has(lock.kind) || kinds.size < MAX_KINDS ? lock.kind : 'other'
    const sums = kinds.get(kind) ?? { held: 0, oldestMs: 0, waiters: 0 }
    if (lock.holders.length > 0) sums.held++
    sums.waiters += countWaiters(lock)
    sums.oldestMs = Math.max(sums.oldestMs, oldestMs)
    kinds.set(kind, sums)
  }
  const byKind = (read: (sums: { held: number; oldestMs: number; waiters: number }) => number): [string, number][] =>
    [...kinds].map(([kind, sums]) => [`{kind="${kind.replace(/[\\"\n]/g, '_')}"}`, read(sums)])
  return [
    ...metric(
      'held_locks',
      'Locks that are held.',
      byKind(({ held }) => held),
    ),
    ...metric(
      'oldest_hold_seconds',
      'The longest present hold; of Redisson, for how long it has been seen.',
      byKind(({ oldestMs }) => oldestMs / 1_000),
    ),
    ...metric(
      'waiters',
      'Waiting calls, and other listening processes.',
      byKind(({ waiters }) => waiters),
    ),
    ...metric('unlisted_holders', 'Holders that do not describe themselves.', [['', totals.unlisted]]),
    ...metric('deadlocks', 'Confirmed deadlocks.', [['', totals.deadlocks]]),
    ...metric('truncated', '1: there are more locks than are sampled.', [['', Number(totals.isTruncated)]]),
    ...metric(
      'doubts',
      'Clients that did not reply, keys that may not be read, and the like: what the other metrics do not count.',
      DOUBTS.map((about) => [`{about="${about}"}`, totals.doubts.find((doubt) => doubt.about === about)?.count ?? 0]),
    ),
    '',
  ].join('\n')
}

function metric(name: string, help: string, values: readonly (readonly [labels: string, value: number])[]): string[] {
  return [
    `# HELP holdfast_fleet_${name} ${help}`,
    `# TYPE holdfast_fleet_${name} gauge`,
    ...values.map(([labels, value]) => `holdfast_fleet_${name}${labels} ${value}`),
  ]
}
