/** The jobs that `holdfast run` has recorded, those that need attention first. */
import { signal } from '@preact/signals'
import { byUrgency, type JobInfo, type JobState, needsAttention, remarksOf, urgencyOf } from '../src/fleet/job-info.js'
import { explain, getJobs } from './api.js'
import { formatDuration, plural, shownName } from './format.js'
import { type Column, Grid } from './grid.js'
import { usePolled } from './polled.js'
import { search, tab } from './state.js'

const POLL_MS = 5_000
const activeJob = signal<string | undefined>(undefined)

/** The colours are those of holders. */
const STATES: Record<JobState, { sign: string; status: string }> = {
  running: { sign: '●', status: 'responding' },
  succeeded: { sign: '✓', status: 'responding' },
  failed: { sign: '✗', status: 'disconnected' },
  killed: { sign: '✗', status: 'disconnected' },
  'never-started': { sign: '–', status: 'unlisted' },
  hidden: { sign: '?', status: 'unlisted' },
}

const COLUMNS: readonly Column<JobInfo>[] = [
  { key: 'state', title: 'State', line: 2, cell: ({ state }) => <State state={state} /> },
  { key: 'name', title: 'Job', line: 1, cell: ({ name }) => <bdi>{shownName(name)}</bdi> },
  {
    key: 'is',
    title: 'Is',
    line: 2,
    cell: (job) => <span class={job.overdueMs > 0 ? 'overdue' : 'late'}>{remarksOf(job, formatDuration)}</span>,
  },
  { key: 'started', title: 'Started', line: 3, caption: 'started', cell: (job) => ago(job, job.startedAt) },
  {
    key: 'ran',
    title: 'Ran',
    cell: ({ ranMs }) => <span class="num">{ranMs === undefined ? '' : formatDuration(ranMs)}</span>,
  },
  { key: 'exit', title: 'Exit', cell: ({ exitCode }) => <span class="num">{exitCode}</span> },
  { key: 'succeeded', title: 'Succeeded', line: 3, caption: 'succeeded', cell: (job) => ago(job, job.succeededAt) },
  {
    key: 'every',
    title: 'Every',
    cell: ({ everyMs }) => <span class="num">{everyMs === undefined ? '' : formatDuration(everyMs)}</span>,
  },
  { key: 'label', title: 'For', cell: ({ label = '' }) => <bdi>{shownName(label)}</bdi> },
]

export function Jobs() {
  const { value, error } = usePolled(getJobs, POLL_MS)
  const jobs = [...(value?.jobs ?? [])].sort(byUrgency)
  const troubled = jobs.filter(needsAttention).length
  const open = (name: string): void => {
    search.value = name
    tab.value = 'locks'
  }
  return (
    <section class="list" aria-label="Jobs">
      <div class="choice">
        <output>
          {value && `${plural(jobs.length, 'job')}${troubled > 0 ? `, ${troubled} in need of attention` : ''}`}
        </output>
        {error && <span class="note">Not up to date: {explain(error)}</span>}
      </div>
      <Grid
        id="jobs"
        label="Jobs"
        columns={COLUMNS}
        rows={jobs}
        keyOf={({ name }) => name}
        toneOf={toneOf}
        active={activeJob.value}
        onActive={(name) => (activeJob.value = name)}
        onOpen={open}
        empty={value ? <p>holdfast run has recorded no job.</p> : !error && <p>Reading the jobs …</p>}
      />
    </section>
  )
}

function State({ state }: { state: JobState }) {
  const { sign, status } = STATES[state]
  return (
    <span class="status" data-status={status}>
      <span class="status-sign" aria-hidden="true">
        {sign}
      </span>
      {state}
    </span>
  )
}

function ago({ readAt, state }: JobInfo, at: number | undefined) {
  const never = state === 'hidden' ? '' : 'never'
  return <span class="num">{at === undefined ? never : `${formatDuration(readAt - at)} ago`}</span>
}

/** As of a holder that does not respond, or is gone. */
function toneOf(job: JobInfo): string | undefined {
  const urgency = urgencyOf(job)
  return urgency === 0 ? undefined : urgency === 1 ? 'silent' : 'disconnected'
}
