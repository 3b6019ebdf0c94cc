// Columns of text.
import type { Style, Terminal } from '../terminal.js'

export interface Column {
  readonly title: string
  readonly isRight?: boolean
  /** Whether it is cut where a line would be longer than the terminal. */
  readonly isFlexible?: boolean
}

/** A text, and how it is painted. */
export type Cell = string | { readonly text: string; readonly style: Style }

const GAP = '  '
const LEAST = 12

/** @returns the lines of a table, with titles; not longer than `width`, if columns can be cut */
export function tableOf(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  terminal: Terminal,
  width = Number.POSITIVE_INFINITY,
): string[] {
  const widths = columns.map(({ title }, index) =>
    rows.reduce((most, row) => Math.max(most, textOf(row[index]).length), title.length),
  )
  columns.forEach(({ isFlexible }, index) => {
    const excess = widths.reduce((sum, one) => sum + one + GAP.length, -GAP.length) - width
    const own = widths[index] ?? 0
    if (isFlexible && excess > 0) widths[index] = Math.max(Math.min(LEAST, own), own - excess)
  })
  const lineOf = (cells: readonly Cell[]): string =>
    columns
      .map(({ isRight }, index) => {
        const cell = cells[index] ?? ''
        const size = widths[index] ?? 0
        const text = cut(textOf(cell), size)
        const padded = isRight ? text.padStart(size) : text.padEnd(size)
        return typeof cell === 'string' ? padded : terminal.paint(cell.style, padded)
      })
      .join(GAP)
      .trimEnd()
  return [lineOf(columns.map(({ title }) => title)), ...rows.map(lineOf)]
}

function textOf(cell: Cell | undefined): string {
  return typeof cell === 'string' ? cell : (cell?.text ?? '')
}

function cut(text: string, size: number): string {
  return text.length > size ? `${text.slice(0, size - 1)}…` : text
}
