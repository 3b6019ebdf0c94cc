/** Everything known of one lock: the server reads it again every second. */
import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { HolderRow, LockDetail, LockRow } from '../src/dashboard/api.js'
import { visible as visibleLines } from '../src/util/visible.js'
import { ApiError, explain, getLock } from './api.js'
import { BreakDialog } from './break-dialog.js'
import { countersOf, Lease, Waiting } from './cells.js'
import { Elapsed, Remaining } from './counters.js'
import { formatCount, sentenceOf, shownName, visible, whoIs } from './format.js'
import { closeDetail } from './keyboard.js'
import { usePolled } from './polled.js'
import { type Row, rowOf } from './row.js'
import { deadlockedIds, rows, showTab, source } from './state.js'
import { STATUS_HINTS, Status } from './status.js'
import { Timeline } from './timeline.js'
import { Waiters } from './waiters.js'

const POLL_MS = 1_000
const MAX_NAME = 1_024
const MAX_HOLDERS = 20

export function Detail({ id }: { id: string }) {
  const polled = usePolled((signal) => getLock(id, signal), POLL_MS, id)
  const [breaking, setBreaking] = useState<HolderRow>()
  const known = rows.value.get(id)
  const row = polled.value ? rowOf(polled.value.lock, polled.at, known) : known
  const mayBreak = source.value?.readOnly === false && polled.value?.mayBreak === true
  const onBreak = mayBreak ? setBreaking : undefined
  const isGone = polled.error instanceof ApiError && polled.error.status === 404
  return (
    <aside class="detail" aria-labelledby="detail-title">
      <header>
        <h2 id="detail-title" tabIndex={-1}>
          <bdi>{row ? visible(row.lock.name, MAX_NAME) : 'Lock'}</bdi>
        </h2>
        <button type="button" class="icon-button" aria-label="Close details" title="Close (Esc)" onClick={closeDetail}>
          ✕
        </button>
      </header>
      <div class="detail-body">
        {isGone && !row && <p class="note">This lock is free.</p>}
        {polled.error && !isGone && <p class="note">Not up to date: {explain(polled.error)}</p>}
        {deadlockedIds.value.has(id) && <InDeadlock />}
        {row && <Facts row={row} />}
        {row && <Holders row={row} onBreak={onBreak} />}
        {polled.value && <History detail={polled.value} />}
        {row && <Waiters lock={row.lock} readAt={row.readAt} />}
      </div>
      {breaking && row && onBreak && (
        <BreakDialog lock={row.lock} holder={breaking} onClose={() => setBreaking(undefined)} />
      )}
    </aside>
  )
}

function InDeadlock() {
  return (
    <p class="note bad">
      ⚠ Its holder is in a deadlock.{' '}
      <button type="button" class="link" onClick={() => showTab('graph')}>
        Show who is waiting for whom
      </button>
    </p>
  )
}

function Facts({ row }: { row: Row }) {
  const { lock } = row
  const counters = countersOf(lock)
  return (
    <>
      {lock.nameLength > lock.name.length && (
        <p class="note">The name has {formatCount(lock.nameLength)} characters; only its beginning is shown.</p>
      )}
      <dl class="facts">
        <Fact title="Kind">{lock.kind}</Fact>
        {counters === undefined ? (
          <Fact title="Lease left">{lock.holders.length === 0 ? 'free' : <Lease row={row} />}</Fact>
        ) : (
          <Fact title={lock.kind === 'latch' ? 'Latch' : 'Permits'}>{counters}</Fact>
        )}
        <Fact title="Holders">{lock.kind === 'semaphore' ? 'not recorded' : formatCount(lock.holders.length)}</Fact>
        <Fact title="Waiting">
          <Waiting lock={lock} />
        </Fact>
      </dl>
      {lock.doubts.map((doubt) => (
        <p class="note" key={doubt.about}>
          {sentenceOf(doubt)}
        </p>
      ))}
    </>
  )
}

function Fact({ title, children }: { title: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{title}</dt>
      <dd>{children}</dd>
    </div>
  )
}

type OnBreak = (holder: HolderRow) => void

function Holders({ row: { lock, readAt }, onBreak }: { row: Row; onBreak: OnBreak | undefined }) {
  if (lock.holders.length === 0) return null
  return (
    <section>
      <h3>{lock.holders.length === 1 ? 'Holder' : 'Holders'}</h3>
      {lock.holders.slice(0, MAX_HOLDERS).map((holder) => (
        <HolderCard key={holder.holder} lock={lock} holder={holder} readAt={readAt} onBreak={onBreak} />
      ))}
      {lock.holders.length > MAX_HOLDERS && <p class="muted">and {lock.holders.length - MAX_HOLDERS} more</p>}
    </section>
  )
}

interface HolderCardProps {
  readonly lock: LockRow
  readonly holder: HolderRow
  readonly readAt: number
  readonly onBreak: OnBreak | undefined
}

function HolderCard({ lock, holder, readAt, onBreak }: HolderCardProps) {
  const { client, heldMs, seenMs, label, stack, trace, status, remainingLeaseMs } = holder
  const isPermit = lock.freePermits !== undefined
  return (
    <article class="card" data-tone={status}>
      <div class="card-head">
        <Status status={status} />
        <strong>
          <bdi>{whoIs(client, holder.holder)}</bdi>
        </strong>
        {onBreak && !isPermit && (
          <button
            type="button"
            class="button danger"
            aria-label={`Break ${shownName(lock.name)}, held by ${whoIs(client, holder.holder)}`}
            onClick={() => onBreak(holder)}
          >
            Break …
          </button>
        )}
      </div>
      <p class="muted">{STATUS_HINTS[status]}</p>
      <dl class="facts">
        <Fact title={heldMs === undefined ? 'Seen for' : 'Held for'}>
          <Elapsed since={readAt - (heldMs ?? seenMs)} prefix={heldMs === undefined ? '>' : ''} />
        </Fact>
        {label !== undefined && <Fact title="For">{visible(label)}</Fact>}
        {holder.mode && <Fact title="Mode">{holder.mode}</Fact>}
        {isPermit ? (
          <Fact title="Lease left">
            {remainingLeaseMs === undefined ? 'no expiry' : <Remaining until={readAt + remainingLeaseMs} />}
          </Fact>
        ) : (
          <Fact title="Count">{formatCount(holder.holdCount)}</Fact>
        )}
        {client && <Fact title="Process">{processOf(client)}</Fact>}
        <Fact title={isPermit ? 'Permit' : 'Holder'}>
          <code>{visible(holder.holder, MAX_NAME)}</code>
        </Fact>
        {trace !== undefined && (
          <Fact title="Trace">
            <code>{visible(trace)}</code>
          </Fact>
        )}
      </dl>
      {stack !== undefined && (
        <details>
          <summary>Where it was taken</summary>
          <pre>{visibleLines(stack)}</pre>
        </details>
      )}
    </article>
  )
}

function processOf({ name, version, pid, host }: NonNullable<HolderRow['client']>): string {
  const program = version === '' ? name : `${name} ${version}`
  return visible(`${program}, pid ${pid}${host === '' ? '' : ` on ${host}`}`)
}

function History({ detail }: { detail: LockDetail }) {
  return (
    <section>
      <h3>Timeline</h3>
      {detail.timeline.length === 0 ? (
        <p class="muted">Nothing was sampled yet.</p>
      ) : (
        <Timeline segments={detail.timeline} />
      )}
    </section>
  )
}
