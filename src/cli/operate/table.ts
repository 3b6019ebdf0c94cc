// Columns of text.
import { cellsOf, cutTo, GAP } from '../cells.js'
import type { Style, Terminal } from '../terminal.js'

export interface Column {
  readonly title: string
  readonly isRight?: boolean
  /** Whether it is cut where a line would be longer than the terminal. */
  readonly isFlexible?: boolean
  /** Where there is no room even then, the columns with the highest numbers are left out first. Without one it stays. */
  readonly spare?: number
}

/** A text, and how it is painted. */
export type Cell = string | { readonly text: string; readonly style: Style }

/** The least of a column that is cut, in cells. */
const LEAST = 12

/**
 * @returns the lines of a table, with titles. None is longer than `width`: columns are cut, then left out, and where the rest
 *   does not fit either, each row is a list
 */
export function tableOf(
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  terminal: Terminal,
  width = Number.POSITIVE_INFINITY,
): string[] {
  const natural = columns.map(({ title }, index) =>
    rows.reduce((most, row) => Math.max(most, cellsOf(textOf(row[index]))), cellsOf(title)),
  )
  const order = columns.map((_, index) => index).filter((index) => columns[index]?.spare !== undefined)
  order.sort((a, b) => (columns[b]?.spare ?? 0) - (columns[a]?.spare ?? 0))
  for (let left = 0; left <= order.length; left++) {
    const shown = columns.map((_, index) => index).filter((index) => !order.slice(0, left).includes(index))
    const sizes = sizesOf(shown, columns, natural, width)
    if (sizes) return linesOf(shown, sizes, columns, rows, terminal)
  }
  return rows.flatMap((row) => listOf(columns, row, terminal, width))
}

/** @returns the width of each column; undefined: they do not fit */
function sizesOf(
  shown: readonly number[],
  columns: readonly Column[],
  natural: readonly number[],
  width: number,
): Map<number, number> | undefined {
  const sizes = new Map(shown.map((index) => [index, natural[index] ?? 0]))
  let excess = [...sizes.values()].reduce((sum, size) => sum + size + GAP.length, -GAP.length) - width
  for (const [index, size] of sizes) {
    if (!columns[index]?.isFlexible || excess <= 0) continue
    const cut = Math.max(Math.min(LEAST, size), size - excess)
    sizes.set(index, cut)
    excess -= size - cut
  }
  return excess <= 0 ? sizes : undefined
}

function linesOf(
  shown: readonly number[],
  sizes: ReadonlyMap<number, number>,
  columns: readonly Column[],
  rows: readonly (readonly Cell[])[],
  terminal: Terminal,
): string[] {
  const lineOf = (cells: readonly Cell[]): string =>
    shown
      .map((index) => {
        const cell = cells[index] ?? ''
        const size = sizes.get(index) ?? 0
        const text = cutTo(size, textOf(cell))
        const pad = ' '.repeat(size - cellsOf(text))
        return painted(cell, columns[index]?.isRight ? pad + text : text + pad, terminal)
      })
      .join(GAP)
      .trimEnd()
  return [lineOf(columns.map(({ title }) => title)), ...rows.map(lineOf)]
}

/** The first cell, and a line for each other one. */
function listOf(columns: readonly Column[], row: readonly Cell[], terminal: Terminal, width: number): string[] {
  const titled = Math.max(...columns.slice(1).map(({ title }) => cellsOf(title)))
  return columns.flatMap(({ title }, index) => {
    const cell = row[index] ?? ''
    const before = index === 0 ? '' : `${GAP}${title.padEnd(titled)}${GAP}`
    if (textOf(cell) === '') return []
    return [before + painted(cell, cutTo(width - before.length, textOf(cell)), terminal)]
  })
}

function painted(cell: Cell, text: string, terminal: Terminal): string {
  return typeof cell === 'string' ? text : terminal.paint(cell.style, text)
}

function textOf(cell: Cell | undefined): string {
  return typeof cell === 'string' ? cell : (cell?.text ?? '')
}
