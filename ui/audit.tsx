/** Every forced release that is recorded. */
import { signal } from '@preact/signals'
import type { AuditRow } from '../src/dashboard/api.js'
import { explain, getAudit } from './api.js'
import { formatCount, shortHolder, shownName, visible } from './format.js'
import { type Column, Grid } from './grid.js'
import { usePolled } from './polled.js'

const POLL_MS = 5_000
const activeEntry = signal<string | undefined>(undefined)

const COLUMNS: readonly Column<AuditRow>[] = [
  { key: 'at', title: 'When', line: 3, cell: ({ at }) => <When at={at} /> },
  { key: 'name', title: 'Lock', line: 1, cell: ({ lock }) => <bdi title={visible(lock, 1024)}>{shownName(lock)}</bdi> },
  {
    key: 'was',
    title: 'Was held by',
    cell: ({ holder }) => <code title={shownName(holder)}>{shortHolder(holder)}</code>,
  },
  { key: 'by', title: 'By', line: 2, cell: ({ by }) => <bdi>{shownName(by)}</bdi> },
  {
    key: 'reason',
    title: 'Reason',
    line: 2,
    cell: ({ reason }) => <bdi title={shownName(reason)}>{shownName(reason)}</bdi>,
  },
  {
    key: 'outcome',
    title: 'Outcome',
    line: 3,
    cell: ({ outcome }) => <span class="outcome-word">{shownName(outcome)}</span>,
  },
]

export function Audit() {
  const { value, error } = usePolled(getAudit, POLL_MS)
  const entries = value?.entries ?? []
  return (
    <section class="list" aria-label="Audit">
      <div class="choice">
        <output>{value ? `${formatCount(entries.length)} forced releases, newest first` : ''}</output>
        {error && <span class="note">Not up to date: {explain(error)}</span>}
      </div>
      <Grid
        id="audit"
        label="Forced releases"
        columns={COLUMNS}
        rows={entries}
        keyOf={({ at, lock, holder }) => `${at} ${holder} ${lock}`}
        active={activeEntry.value}
        onActive={(key) => (activeEntry.value = key)}
        empty={value ? <p>No lock has been broken.</p> : !error && <p>Reading the audit …</p>}
      />
    </section>
  )
}

function When({ at }: { at: string }) {
  const date = new Date(at)
  if (Number.isNaN(date.getTime())) return <>{shownName(at)}</>
  return (
    <time class="num" dateTime={date.toISOString()} title={date.toISOString()}>
      {date.toLocaleString('sv-SE')}
    </time>
  )
}
