/** The rows of the table of locks for a spreadsheet. */
import { visible } from './format.js'
import type { Row } from './row.js'
import { waitingOf } from './selection.js'

type Cell = string | number | undefined

const COLUMNS: readonly (readonly [title: string, read: (row: Row, now: number) => Cell])[] = [
  ['lock', ({ lock }) => lock.name],
  ['kind', ({ lock }) => lock.holders[0]?.mode ?? lock.kind],
  ['held_seconds', ({ lock, heldSince }, now) => (lock.holders.length > 0 ? seconds(now - heldSince) : undefined)],
  ['holders', ({ lock }) => lock.holders.length],
  ['status', ({ lock }) => lock.holders[0]?.status],
  ['application', ({ lock }) => lock.holders[0]?.client?.name],
  ['host', ({ lock }) => lock.holders[0]?.client?.host],
  ['pid', ({ lock }) => lock.holders[0]?.client?.pid],
  ['holder', ({ lock }) => lock.holders[0]?.holder],
  ['lease_seconds', leaseOf],
  ['waiting', ({ lock }) => waitingOf(lock)],
  ['for', ({ lock }) => lock.holders[0]?.label],
]

/** @param now  the time that the rows are shown for, a `performance.now()` */
export function saveCsv(rows: readonly Row[], now: number): void {
  const lines = [COLUMNS.map(([title]) => title), ...rows.map((row) => COLUMNS.map(([, read]) => read(row, now)))]
  const text = lines.map((cells) => `${cells.map(cellOf).join(',')}\r\n`).join('')
  // Excel takes it for UTF-8 only with this mark at its beginning.
  const url = URL.createObjectURL(new Blob([`\ufeff${text}`], { type: 'text/csv' }))
  const link = document.createElement('a')
  link.href = url
  link.download = `holdfast-locks-${new Date().toISOString().slice(0, 19).replaceAll(':', '-')}.csv`
  link.click()
  URL.revokeObjectURL(url)
}

/** Names are data that others wrote: a spreadsheet must not take one for a formula. */
function cellOf(cell: Cell): string {
  if (typeof cell !== 'string') return String(cell ?? '')
  const text = visible(/^\s*[=+\-@]/.test(cell) ? `'${cell}` : cell)
  return /[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

function leaseOf({ lock, leaseEndsAt }: Row, now: number): Cell {
  const isLeased = lock.holders.length > 0 && leaseEndsAt !== undefined
  return isLeased ? seconds(leaseEndsAt - now) : undefined
}

function seconds(ms: number): number {
  return Math.round(Math.max(0, ms) / 100) / 10
}
