/** The state of the fleet in a line: numbers, and their last 15 minutes. */
import type { ComponentChildren } from 'preact'
import type { Totals } from '../src/dashboard/api.js'
import { isOld, shownFrom } from './connection.js'
import { formatCount, formatDuration, formatMs, timeOfDay } from './format.js'
import { isNarrow } from './screen.js'
import { Sparkline } from './sparkline.js'
import { samples, showTab, totals } from './state.js'

const WARN_OLDEST_MS = 15 * 60_000

export function Figures() {
  const now = totals.value
  return (
    <section class="figures" aria-label="Overview" data-old={isOld.value} tabIndex={isNarrow.value ? 0 : undefined}>
      {isOld.value && shownFrom.value && <p class="as-of">At {timeOfDay(shownFrom.value)}:</p>}
      <dl>
        {FIGURES.map(({ title, hint, show, toneOf }) => (
          <div key={title} title={hint} data-tone={now && toneOf?.(now)}>
            <dt>{title}</dt>
            <dd class="num">{now ? show(now) : '–'}</dd>
          </div>
        ))}
      </dl>
      <Trend title="Waiting" unit="waiting" values={samples.value.waiters} />
      <Trend title="New holds/s" unit="new holds" values={samples.value.newHolds} />
    </section>
  )
}

interface Figure {
  readonly title: string
  readonly hint: string
  show(totals: Totals): ComponentChildren
  toneOf?(totals: Totals): string | undefined
}

const FIGURES: readonly Figure[] = [
  { title: 'Held', hint: 'Locks that are held', show: ({ held }) => formatCount(held) },
  {
    title: 'Contended',
    hint: 'Locks with a waiter, or another process that listens',
    show: ({ contended }) => formatCount(contended),
  },
  {
    title: 'Deadlocks',
    hint: 'Owners that wait for each other in a circle',
    show: ({ deadlocks }) => (deadlocks === 0 ? '0' : <DeadlockLink deadlocks={deadlocks} />),
    toneOf: ({ deadlocks }) => (deadlocks > 0 ? 'bad' : undefined),
  },
  {
    title: 'Oldest',
    hint: 'The longest known hold',
    show: ({ oldestMs }) => (oldestMs === 0 ? '–' : formatDuration(oldestMs)),
    toneOf: ({ oldestMs }) => (oldestMs > WARN_OLDEST_MS ? 'warning' : undefined),
  },
  {
    title: 'Wait p95',
    hint: 'How long the 95th percentile of the present waiters has waited',
    show: ({ waitP95Ms }) => (waitP95Ms === 0 ? '–' : formatMs(waitP95Ms)),
  },
  {
    title: 'Losses/h',
    hint: 'Holds that were lost in the last hour, as the clients report it that respond. ≥: others cannot be asked',
    show: ({ losses, silentClients, unlisted }) => `${silentClients + unlisted > 0 ? '≥ ' : ''}${formatCount(losses)}`,
    toneOf: ({ losses }) => (losses > 0 ? 'warning' : undefined),
  },
  {
    title: 'Unlisted',
    hint: 'Holders that do not describe themselves: Redisson, an older Holdfast, or inspection turned off',
    show: ({ unlisted }) => formatCount(unlisted),
  },
]

function DeadlockLink({ deadlocks }: { deadlocks: number }) {
  return (
    <button type="button" class="figure-link" title="Show them in the graph" onClick={() => showTab('graph')}>
      {formatCount(deadlocks)} →
    </button>
  )
}

function Trend({ title, unit, values }: { title: string; unit: string; values: readonly number[] }) {
  return (
    <figure class="trend">
      <figcaption>
        {title}, 15 min
        <span class="num">{formatCount(values.at(-1) ?? 0)}</span>
      </figcaption>
      <Sparkline unit={unit} at={samples.value.at} values={values} />
    </figure>
  )
}
