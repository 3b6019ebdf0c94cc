// `holdfast jobs`.
import { byUrgency, type JobInfo, type JobState, needsAttention, remarksOf, urgencyOf } from '../../fleet/job-info.js'
import { counted } from '../../util/counted.js'
import { durationOf } from '../../util/duration-text.js'
import { word } from '../../util/visible.js'
import { EXIT } from '../exit-codes.js'
import type { Style } from '../terminal.js'
import { type Cell, type Column, tableOf } from './table.js'
import type { Session } from './view.js'

const COLUMNS: Column[] = [
  { title: 'JOB', isFlexible: true },
  { title: 'STATE' },
  { title: 'STARTED', isRight: true },
  { title: 'RAN', isRight: true, spare: 2 },
  { title: 'EXIT', isRight: true, spare: 1 },
  { title: 'SUCCEEDED', isRight: true },
  { title: 'EVERY', isRight: true, spare: 3 },
  { title: 'IS' },
  { title: 'FOR', isFlexible: true, spare: 4 },
]

const STYLES: Record<JobState, Style> = {
  'never-started': 'red',
  running: 'green',
  killed: 'red',
  succeeded: 'green',
  failed: 'red',
  hidden: 'yellow',
}

/**
 * `holdfast jobs`: the jobs that `holdfast run` has recorded, those that need attention first.
 * @returns the exit code: 1 if one that is expected, or named, is overdue, failed or was killed, or a named one never started;
 *   else 2 if one is hidden
 */
export async function jobs({ fleet, options, terminal, now }: Session): Promise<number> {
  const { names, json } = options
  const isNamed = names.length > 0
  const all = await fleet.jobs()
  const named = names.map((name) => all.find((job) => job.name === name) ?? unknown(name, now()))
  const inOrder = [...(isNamed ? named : all)].sort(byUrgency)
  const troubled = inOrder.filter(
    (job) => needsAttention(job) || (isNamed && (urgencyOf(job) > 1 || job.state === 'never-started')),
  )
  if (json) for (const job of inOrder) terminal.printJson(job)
  else {
    if (inOrder.length > 0) terminal.print(...tableOf(COLUMNS, inOrder.map(rowOf), terminal, terminal.width))
    const attention = troubled.length === 0 ? '' : `, ${troubled.length} in need of attention`
    terminal.print(`${counted(inOrder.length, 'job')}${attention}`)
  }
  if (troubled.length > 0) return 1
  return inOrder.some(({ state }) => state === 'hidden') ? EXIT.inDoubt : 0
}

/** Of a job that has no record. */
function unknown(name: string, readAt: number): JobInfo {
  return { name, state: 'never-started', overdueMs: 0, lateMs: 0, readAt }
}

function rowOf(job: JobInfo): Cell[] {
  const { name, state, startedAt, ranMs, exitCode, succeededAt, everyMs, overdueMs, label, readAt } = job
  const never = state === 'hidden' ? '' : 'never'
  const ago = (at: number | undefined): string => (at === undefined ? never : `${durationOf(readAt - at)} ago`)
  return [
    word(name),
    { text: state, style: STYLES[state] },
    ago(startedAt),
    ranMs === undefined ? '' : durationOf(ranMs),
    exitCode === undefined ? '' : String(exitCode),
    ago(succeededAt),
    everyMs === undefined ? '' : durationOf(everyMs),
    { text: remarksOf(job, durationOf), style: overdueMs > 0 ? 'red' : 'yellow' },
    label === undefined ? '' : word(label),
  ]
}
