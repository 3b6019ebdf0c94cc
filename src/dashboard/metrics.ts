/** Metrics of the whole fleet for Prometheus, Redisson's processes included: no single client knows them. */
import { DOUBTS } from '../fleet/doubts.js'
import type { JobInfo } from '../fleet/job-info.js'
import { countWaiters } from '../fleet/lock-info.js'
import type { Totals } from './api.js'
import type { Sampled } from './totals.js'

/** Names of locks are never labels: there may be millions. Kinds are ours; without those of jobs at most 50 series. */
const MAX_KINDS = 11

/** @param jobs  undefined: they could not be read */
export function metricsOf(locks: readonly Sampled[], totals: Totals, jobs: readonly JobInfo[] | undefined): string {
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
      'fleet_held_locks',
      'Locks that are held.',
      byKind(({ held }) => held),
    ),
    ...metric(
      'fleet_oldest_hold_seconds',
      'The longest present hold; of Redisson, for how long it has been seen.',
      byKind(({ oldestMs }) => oldestMs / 1_000),
    ),
    ...metric(
      'fleet_waiters',
      'Waiting calls, and other listening processes.',
      byKind(({ waiters }) => waiters),
    ),
    ...metric('fleet_unlisted_holders', 'Holders that do not describe themselves.', [['', totals.unlisted]]),
    ...metric('fleet_deadlocks', 'Confirmed deadlocks.', [['', totals.deadlocks]]),
    ...metric('fleet_truncated', '1: there are more locks than are sampled.', [['', Number(totals.isTruncated)]]),
    ...metric(
      'fleet_doubts',
      'Clients that did not reply, keys that may not be read, and the like: what the other metrics do not count.',
      DOUBTS.map((about) => [`{about="${about}"}`, totals.doubts.find((doubt) => doubt.about === about)?.count ?? 0]),
    ),
    ...jobMetrics(jobs),
    '',
  ].join('\n')
}

/** Of jobs that are expected, a thousand at most, by name. The label is not `job`, which Prometheus sets itself. */
function jobMetrics(all: readonly JobInfo[] | undefined): string[] {
  const jobs = (all ?? []).filter(({ everyMs }) => everyMs !== undefined)
  const isPartial = all === undefined || all.some(({ state }) => state === 'hidden')
  const byJob = (read: (job: JobInfo) => number | undefined): [string, number][] =>
    jobs.flatMap((job): [string, number][] => {
      const value = read(job)
      return value === undefined ? [] : [[`{job_name="${escaped(job.name)}"}`, value]]
    })
  return [
    ...metric('fleet_jobs_hidden', '1: records of jobs could not be read, so that their alerts cannot fire.', [
      ['', Number(isPartial)],
    ]),
    ...metric(
      'job_last_success_timestamp_seconds',
      'When a run last ended with exit code 0, by the clock of Redis.',
      byJob(({ succeededAt }) => succeededAt && succeededAt / 1_000),
    ),
    ...metric(
      'job_overdue_seconds',
      'For how long a success has been due; 0: none is.',
      byJob(({ overdueMs }) => overdueMs / 1_000),
    ),
    ...metric(
      'job_late_seconds',
      'How much later than expected the last run began; 0: in time.',
      byJob(({ lateMs }) => lateMs / 1_000),
    ),
    ...metric(
      'job_killed',
      '1: the last run has not reported its end, and no longer holds its lock.',
      byJob(({ state }) => Number(state === 'killed')),
    ),
    ...metric(
      'job_last_exit_code',
      'Of the last run, if it has ended.',
      byJob(({ exitCode }) => exitCode),
    ),
    ...metric(
      'job_last_duration_seconds',
      'How long the last run took, if it has ended.',
      byJob(({ exitCode, ranMs }) => (exitCode === undefined || ranMs === undefined ? undefined : ranMs / 1_000)),
    ),
  ]
}

/** As the value of a label. */
function escaped(name: string): string {
  return name.replace(/["\\]/g, '\\$&').replaceAll('\n', '\\n')
}

function metric(name: string, help: string, values: readonly (readonly [labels: string, value: number])[]): string[] {
  return [
    `# HELP holdfast_${name} ${help}`,
    `# TYPE holdfast_${name} gauge`,
    ...values.map(([labels, value]) => `holdfast_${name}${labels} ${value}`),
  ]
}
