// Draws who was inside the critical section, and when.
import { colorOf, type Terminal } from '../terminal.js'
import { type SaleResult, spanOf } from './flash-sale-result.js'
import type { Visit } from './flash-sale-worker.js'
import { processName } from './progress.js'

const NAME = 13
const MAX_ROWS = 24
/** One visit takes about 2 ms. */
const SLICES_MS = [1, 2]

/** A part of the sale, divided into equal slices: one column each. */
interface Window {
  startsAt: number
  sliceMs: number
  columns: number
}

/** A chart of when each process held the lock: a row for each process, a column for each slice of time. */
export function timeline(terminal: Terminal, { visits }: SaleResult): string[] {
  const window = windowOf(visits, terminal.columns - 2 - NAME)
  const holders = holdersIn(window, visits)
  const rows = visits.slice(0, MAX_ROWS).map((own, index) => {
    const cells = Array.from({ length: window.columns }, (_, column) => {
      if (holders[column] === index) return '█'
      return isWaiting(window, column, own) ? '─' : ' '
    }).join('')
    const painted = cells.replace(/█+|─+/g, (run) => terminal.paint(run.startsWith('█') ? colorOf(index) : 'dim', run))
    return `  ${processName(index).padEnd(NAME)}${painted}`
  })
  const hidden = visits.length - rows.length
  if (hidden > 0) rows.push(`  and ${hidden} more`)
  return [
    `  ${terminal.paint('bold', 'Who held the lock')} during ${window.columns * window.sliceMs} ms of the sale with Holdfast:`,
    '',
    ...rows,
    '',
    `  ${' '.repeat(NAME)}█ holds the lock   ${terminal.paint('dim', '─')} waits   one column: ${window.sliceMs} ms`,
  ]
}

/** The part of the sale in which most processes held the lock, at the finest scale that shows all of them. */
function windowOf(visits: SaleResult['visits'], columns: number): Window {
  const { from } = spanOf(visits.flat())
  const to = Math.min(...visits.map((own) => spanOf(own).to)) // after that, some process has finished
  let best: Window = { startsAt: from, sliceMs: 1, columns }
  let most = 0
  for (const sliceMs of SLICES_MS) {
    const fitting = Math.max(1, Math.min(columns, Math.floor((to - from) / sliceMs)))
    for (let startsAt = from; startsAt + fitting * sliceMs <= to; startsAt += (fitting * sliceMs) / 4) {
      const window = { startsAt, sliceMs, columns: fitting }
      const shown = new Set(holdersIn(window, visits).filter((holder) => holder !== undefined)).size
      if (shown > most) best = window
      most = Math.max(most, shown)
    }
  }
  return best
}

/** For each column, the process that held the lock for most of it, or undefined. */
function holdersIn({ startsAt, sliceMs, columns }: Window, visits: SaleResult['visits']): (number | undefined)[] {
  const heldMs = Array.from({ length: columns }, () => new Map<number, number>())
  for (const [index, own] of visits.entries()) {
    for (const { enteredAt, leftAt } of own) {
      const first = Math.max(Math.floor((enteredAt - startsAt) / sliceMs), 0)
      const last = Math.min(Math.floor((leftAt - startsAt) / sliceMs), columns - 1)
      for (let column = first; column <= last; column++) {
        const sliceAt = startsAt + column * sliceMs
        const ms = Math.min(leftAt, sliceAt + sliceMs) - Math.max(enteredAt, sliceAt)
        const slice = heldMs[column]
        if (ms > 0) slice?.set(index, (slice.get(index) ?? 0) + ms)
      }
    }
  }
  return heldMs.map((slice) => [...slice].sort(([, a], [, b]) => b - a)[0]?.[0])
}

function isWaiting({ startsAt, sliceMs }: Window, column: number, visits: readonly Visit[]): boolean {
  const from = startsAt + column * sliceMs
  return visits.some(({ askedAt, enteredAt }) => askedAt < from + sliceMs && enteredAt > from)
}
