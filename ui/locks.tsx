/** The table of locks, with the details of one beside it. */
import { useEffect } from 'preact/hooks'
import { getDeadlocks } from './api.js'
import { countersOf, Lease, Waiting } from './cells.js'
import { now, StopAt } from './clock.js'
import { isOld, shownFrom } from './connection.js'
import { Elapsed } from './counters.js'
import { saveCsv } from './csv.js'
import { Detail } from './detail.js'
import { formatCount, shownName, timeOfDay, visible, whoIs } from './format.js'
import { type Column, Grid } from './grid.js'
import { usePolled } from './polled.js'
import type { Row } from './row.js'
import type { SortColumn, Trait } from './selection.js'
import {
  activeId,
  deadlockedIds,
  openId,
  pause,
  paused,
  search,
  shownRows,
  sort,
  tableRows,
  totals,
  trait,
} from './state.js'
import { Status } from './status.js'

const POLL_MS = 2_000
const MAX_LABEL = 120

const TRAITS: readonly { readonly trait: Trait; readonly title: string }[] = [
  { trait: 'all', title: 'All' },
  { trait: 'contended', title: 'Contended' },
  { trait: 'trouble', title: 'Not responding' },
]

const COLUMNS: readonly Column<Row>[] = [
  {
    key: 'name',
    title: 'Lock',
    isSortable: true,
    line: 1,
    cell: ({ lock }) => <Name lock={lock} />,
  },
  { key: 'kind', title: 'Kind', isSortable: true, cell: ({ lock }) => lock.holders[0]?.mode ?? lock.kind },
  { key: 'held', title: 'Held', isSortable: true, line: 2, cell: (row) => <Held row={row} /> },
  { key: 'holder', title: 'Holder', isSortable: true, line: 2, cell: ({ lock }) => <Holder lock={lock} /> },
  { key: 'lease', title: 'Lease', isSortable: true, cell: (row) => <Lease row={row} /> },
  {
    key: 'waiting',
    title: 'Waiting',
    isSortable: true,
    line: 2,
    caption: 'waiting',
    cell: ({ lock }) => <Waiting lock={lock} />,
  },
  {
    key: 'label',
    title: 'For',
    isSortable: true,
    cell: ({ lock }) => <bdi>{visible(lock.holders[0]?.label ?? '', MAX_LABEL)}</bdi>,
  },
]

export function Locks() {
  useDeadlockedIds()
  return (
    <div class="locks-view" data-open={openId.value !== undefined}>
      <section class="list" aria-label="Locks" data-old={isOld.value}>
        <Choice />
        <StopAt.Provider value={paused.value?.at ?? Number.POSITIVE_INFINITY}>
          <Grid
            id="locks"
            label="Locks"
            columns={COLUMNS}
            rows={shownRows.value}
            keyOf={({ lock }) => lock.id}
            toneOf={toneOf}
            sort={sort.value}
            onSort={(by) => sortBy(by as SortColumn)}
            active={activeId.value}
            onActive={(id) => (activeId.value = id)}
            onOpen={open}
            empty={<Empty />}
          />
        </StopAt.Provider>
      </section>
      {openId.value !== undefined && <Detail id={openId.value} key={openId.value} />}
    </div>
  )
}

/** Asks which locks they are, if there are deadlocks. */
function useDeadlockedIds(): void {
  const hasDeadlocks = (totals.value?.deadlocks ?? 0) > 0
  const read = hasDeadlocks ? getDeadlocks : async () => undefined
  const { value } = usePolled(read, POLL_MS, String(hasDeadlocks))
  useEffect(() => {
    deadlockedIds.value = new Set(value?.cycles.flatMap(({ locks }) => locks.map(({ id }) => id)))
  }, [value])
}

function open(id: string): void {
  openId.value = id
  // After it has been rendered.
  requestAnimationFrame(() => document.getElementById('detail-title')?.focus())
}

function sortBy(by: SortColumn): void {
  const startsUp = by !== 'held' && by !== 'waiting'
  sort.value = sort.value.by === by ? { by, isUp: !sort.value.isUp } : { by, isUp: startsUp }
}

function Choice() {
  return (
    <div class="choice">
      <fieldset>
        <legend class="hidden">Which locks</legend>
        {TRAITS.map((one) => (
          <button
            key={one.trait}
            type="button"
            aria-pressed={trait.value === one.trait}
            onClick={() => (trait.value = one.trait)}
          >
            {one.title}
          </button>
        ))}
      </fieldset>
      <output>
        {totals.value && `${formatCount(shownRows.value.length)} of ${formatCount(tableRows.value.size)}`}
        {totals.value?.isTruncated && ' (there are more locks than the dashboard samples)'}
        {paused.value && ` · paused at ${timeOfDay(paused.value.since)}`}
      </output>
      <Tools />
    </div>
  )
}

function Tools() {
  const { value: isPaused } = paused
  return (
    <div class="tools">
      {isPaused && (
        <button type="button" class="button" onClick={pause}>
          Refresh
        </button>
      )}
      <button type="button" class="button" onClick={isPaused ? resume : pause}>
        {isPaused ? 'Resume' : 'Pause'}
      </button>
      <button
        type="button"
        class="button"
        title="Save the rows for a spreadsheet"
        disabled={shownRows.value.length === 0}
        onClick={() => saveCsv(shownRows.value, isPaused?.at ?? now())}
      >
        CSV
      </button>
    </div>
  )
}

function resume(): void {
  paused.value = undefined
}

function Empty() {
  if (totals.value === undefined) return <p>{isOld.value ? 'What is held is not known.' : 'Reading the locks …'}</p>
  if (tableRows.value.size === 0 && shownFrom.value)
    return <p>No lock was held at {timeOfDay(shownFrom.value)}. What is held now is not known.</p>
  if (tableRows.value.size === 0)
    return (
      <>
        <p>{totals.value.doubts.length > 0 ? 'No held lock can be seen.' : 'No lock is held.'}</p>
        <p class="muted">Locks appear here within a second of being acquired.</p>
      </>
    )
  return (
    <>
      <p>No lock matches.</p>
      <button type="button" class="button" onClick={showAll}>
        Show all {formatCount(tableRows.value.size)}
      </button>
    </>
  )
}

function showAll(): void {
  search.value = ''
  trait.value = 'all'
}

function toneOf({ lock }: Row): string | undefined {
  const bad = lock.holders.find(({ status }) => status === 'disconnected' || status === 'silent')
  return bad?.status
}

function Name({ lock }: { lock: Row['lock'] }) {
  return (
    <>
      {deadlockedIds.value.has(lock.id) && (
        <span class="deadlock-mark" role="img" aria-label="In a deadlock" title="In a deadlock">
          ⚠
        </span>
      )}
      <bdi title={nameTitle(lock)}>{shownName(lock.name)}</bdi>
    </>
  )
}

function nameTitle({ name, nameLength }: Row['lock']): string {
  return nameLength > name.length ? `${visible(name)}… (${formatCount(nameLength)} characters)` : visible(name)
}

function Held({ row }: { row: Row }) {
  const [first] = row.lock.holders
  if (first === undefined) return countersOf(row.lock) === undefined && <span class="muted">free</span>
  // Not since when it is held, but since when it is known to be held.
  return <Elapsed since={row.heldSince} prefix={first.heldMs === undefined ? '>' : ''} />
}

function Holder({ lock }: { lock: Row['lock'] }) {
  const [first, ...others] = lock.holders
  const counters = countersOf(lock)
  if (first === undefined) return counters ?? null
  return (
    <span class="holder">
      {counters}
      <Status status={first.status} />
      <bdi title={visible(first.holder)}>{whoIs(first.client, first.holder)}</bdi>
      {others.length > 0 && <span class="muted"> +{formatCount(others.length)}</span>}
    </span>
  )
}
