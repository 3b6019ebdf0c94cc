// What is known of a job, and how much attention it needs.

/**
 * - `never-started`: only known from runs that found its lock taken
 * - `running`: its last run holds the lock
 * - `killed`: its last run has not reported its end, and no longer holds the lock
 * - `succeeded`: its last run ended with exit code 0
 * - `failed`: with another one
 * - `hidden`: this Redis user may not read its record
 */
export type JobState = 'never-started' | 'running' | 'killed' | 'succeeded' | 'failed' | 'hidden'

/** A job as `client.fleet.jobs()` finds it. All times are epoch ms, by the clock of Redis. */
export interface JobInfo {
  /** The name of its lock. */
  readonly name: string
  readonly state: JobState
  /** How often it should succeed, ms. Undefined: no `--every`. */
  readonly everyMs?: number
  /** For how long a success has been due, ms; 0: none is, or it is late by less than a tenth of `everyMs`. */
  readonly overdueMs: number
  /** How much later than `everyMs` after the run before the last run began, ms; 0: at most a tenth of `everyMs`. */
  readonly lateMs: number
  /** Of the last run: by default its host and program. */
  readonly label?: string
  readonly holder?: string
  readonly startedAt?: number
  /** For how long the last run ran, or has been running, ms. */
  readonly ranMs?: number
  /** Of the last run, once it has ended. */
  readonly exitCode?: number
  /** When a run last ended with exit code 0. */
  readonly succeededAt?: number
  /** When this was read; 0 if it is hidden. */
  readonly readAt: number
}

/** How bad it is; 0: not at all, 1: its last run only began late. */
export function urgencyOf({ state, overdueMs, lateMs }: JobInfo): number {
  if (overdueMs > 0) return 4
  if (state === 'killed') return 3
  if (state === 'failed') return 2
  return lateMs > 0 ? 1 : 0
}

/** Whether the job needs attention. A failure without `--every` does not: whoever started it by hand has seen it. */
export function needsAttention(job: JobInfo): boolean {
  return job.everyMs !== undefined && urgencyOf(job) > 1
}

/** The most urgent first, then by name. */
export function byUrgency(one: JobInfo, other: JobInfo): number {
  return urgencyOf(other) - urgencyOf(one) || (one.name < other.name ? -1 : 1)
}

/** `overdue by 2h 14m, started 40m 0s late`, or nothing. */
export function remarksOf({ overdueMs, lateMs }: JobInfo, textOf: (ms: number) => string): string {
  const overdue = overdueMs > 0 ? [`overdue by ${textOf(overdueMs)}`] : []
  return [...overdue, ...(lateMs > 0 ? [`started ${textOf(lateMs)} late`] : [])].join(', ')
}
