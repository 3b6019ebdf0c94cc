/**
 * The jobs that `holdfast run` has recorded. All times are those of the server that has the records, so that a host with a
 * wrong clock neither hides a job that is overdue nor reports one that is not.
 */
import { isErrorOf, toArray, toWords } from '../delivery/replies.js'
import type { Scripts } from '../delivery/scripts.js'
import type { LeaseContext } from '../locks/lease.js'
import { jobRead, jobRecord } from '../lua/generated.js'
import { defined } from '../util/defined.js'
import { JOBS_KEY, jobKey } from '../wire/keys.js'
import { unmappedName } from '../wire/names.js'
import type { JobInfo, JobState } from './job-info.js'
import { readLockKeys } from './lock-keys.js'

/** The records of how many jobs are kept. */
const MAX_JOBS = 1_000
const MAX_LABEL = 256
/** A run or a success may come later than expected by this part of the interval. */
const TOLERANCE = 0.1

/** What a run says of itself. */
export interface JobReport {
  /** The key of its lock. */
  readonly key: string
  /** Undefined: it did not begin, because its lock was taken. */
  readonly holder?: string | undefined
  readonly label: string
  /** 0: the job is not expected any more; undefined: as before. */
  readonly everyMs: number | undefined
  /** Since it began, ms. */
  readonly ranMs: number
  /** Undefined: it has not ended. */
  readonly exitCode?: number | undefined
}

/**
 * @param timeoutMs  how long to wait for the reply; default `commandTimeoutMs`
 * @throws as `Scripts.run`
 */
export async function recordJob(scripts: Scripts, report: JobReport, timeoutMs?: number): Promise<void> {
  const { key, holder = '', label, everyMs = '', ranMs, exitCode = '' } = report
  const cut = label.slice(0, MAX_LABEL)
  await scripts.run(
    jobRecord(jobKey(key), JOBS_KEY, key, holder, cut, everyMs, Math.round(ranMs), exitCode, MAX_JOBS),
    timeoutMs,
  )
}

/**
 * By name.
 * @throws as `Scripts.run`
 */
export async function readJobs({ scripts, nameMapper }: LeaseContext): Promise<JobInfo[]> {
  const keys = toWords(await scripts.command(['ZRANGE', JOBS_KEY, '0', '-1'], JOBS_KEY))
  const jobs = await Promise.all(keys.map((key) => readJob(scripts, key, unmappedName(nameMapper, key))))
  return jobs.filter((job) => job !== undefined).sort((one, other) => (one.name < other.name ? -1 : 1))
}

async function readJob(scripts: Scripts, key: string, name: string): Promise<JobInfo | undefined> {
  const read = async (): Promise<JobInfo | undefined> => jobOf(name, await scripts.run(jobRead(jobKey(key))))
  try {
    const job = await read()
    if (job?.state !== 'running' || (await isHeld(scripts, key, job.holder))) return job
    // It reports its end before it releases the lock.
    const again = await read()
    return again?.state === 'running' && again.holder === job.holder ? { ...again, state: 'killed' } : again
  } catch (error) {
    if (isErrorOf(error, 'NOPERM')) return { name, state: 'hidden', overdueMs: 0, lateMs: 0, readAt: 0 }
    throw error
  }
}

/** Also if that cannot be known. */
async function isHeld(scripts: Scripts, key: string, holder: string | undefined): Promise<boolean> {
  try {
    const { holders, isCut } = await readLockKeys(scripts, key)
    return isCut || holders.some((one) => one.holder === holder)
  } catch (error) {
    if (isErrorOf(error, 'NOPERM', 'WRONGTYPE')) return true
    throw error
  }
}

/** @returns undefined: there is no record */
function jobOf(name: string, reply: unknown): JobInfo | undefined {
  const [now, found] = toArray(reply)
  const words = toWords(found)
  const fields = new Map<string, string>()
  for (let at = 0; at + 1 < words.length; at += 2) fields.set(words[at] as string, words[at + 1] as string)
  const numberOf = (field: string): number | undefined => {
    const text = fields.get(field) ?? ''
    return /^\d{1,15}$/.test(text) ? Number(text) : undefined
  }
  const knownAt = numberOf('knownAt')
  if (knownAt === undefined) return undefined
  const readAt = Number(now)
  const [startedAt, succeededAt, exitCode] = [numberOf('startedAt'), numberOf('succeededAt'), numberOf('exitCode')]
  const everyMs = numberOf('everyMs') || undefined
  const before = numberOf('previousStartedAt') ?? knownAt
  const ranMs = exitCode === undefined && startedAt !== undefined ? readAt - startedAt : numberOf('ranMs')
  return {
    name,
    state: stateOf(startedAt, exitCode),
    overdueMs: excess(readAt - (succeededAt ?? knownAt), everyMs),
    lateMs: excess((startedAt ?? before) - before, everyMs),
    ...defined({ everyMs, startedAt, ranMs, exitCode, succeededAt }),
    ...defined({ label: fields.get('label'), holder: fields.get('holder') }),
    readAt,
  }
}

function stateOf(startedAt: number | undefined, exitCode: number | undefined): JobState {
  if (startedAt === undefined) return 'never-started'
  if (exitCode === undefined) return 'running'
  return exitCode === 0 ? 'succeeded' : 'failed'
}

/** By how much something took longer than expected, ms; 0: it did not, or not by much. */
function excess(tookMs: number, everyMs: number | undefined): number {
  const overMs = everyMs === undefined ? 0 : tookMs - everyMs
  return everyMs !== undefined && overMs > everyMs * TOLERANCE ? overMs : 0
}
