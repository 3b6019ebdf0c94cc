/**
 * A table of any length, of which only the rows in view are rendered. The focus is at the table itself, and
 * `aria-activedescendant` says at which row, so that a row may scroll out of view, or end, without taking the focus along.
 */
import type { ComponentChildren } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { isTyping } from './keyboard.js'
import { isNarrow } from './screen.js'

/** As in table.css: of a row with one line, with two and with three. */
const ROW_PX: readonly number[] = [38, 60, 80]
const HEAD_PX = 34
const OVERSCAN = 6

export interface Column<Row> {
  readonly key: string
  readonly title: string
  readonly isSortable?: boolean
  /** In which line of a row it is on a narrow screen; undefined: in none. */
  readonly line?: 1 | 2 | 3
  /** Written in front of it there, if it does not say by itself what it is. */
  readonly caption?: string
  cell(row: Row): ComponentChildren
}

interface GridProps<Row> {
  /** Names the table, and begins the ids of its rows. */
  readonly id: string
  readonly label: string
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
  readonly empty: ComponentChildren
  keyOf(row: Row): string
  /** The reason why the row needs attention; colours its edge. */
  toneOf?(row: Row): string | undefined
  readonly sort?: { readonly by: string; readonly isUp: boolean }
  onSort?(key: string): void
  readonly active: string | undefined
  onActive(key: string): void
  /** Enter, or a click. */
  onOpen?(key: string): void
}

export function Grid<Row>(props: GridProps<Row>) {
  const scroller = useRef<HTMLDivElement>(null)
  const table = useRef<HTMLTableElement>(null)
  const { id, rows, keyOf, active } = props
  const lines = isNarrow.value ? linesOf(props.columns) : undefined
  const rowPx = ROW_PX[(lines?.length ?? 1) - 1] ?? 0
  const view = useView(scroller, rowPx)
  const first = Math.max(0, Math.floor(view.top / rowPx) - OVERSCAN)
  const end = Math.min(rows.length, Math.ceil((view.top + view.height) / rowPx) + OVERSCAN)
  const shown = rows.slice(first, end)
  const activeIndex = active === undefined ? -1 : rows.findIndex((row) => keyOf(row) === active)
  const isActiveShown = activeIndex >= first && activeIndex < end

  const onKey = useKeys(props, activeIndex, rowPx, scroller, table)
  const onClick = (event: MouseEvent): void => {
    const key = (event.target as Element).closest<HTMLElement>('tr[data-key]')?.dataset['key']
    if (key === undefined) return
    props.onActive(key)
    props.onOpen?.(key)
  }
  return (
    <div class="scroller" ref={scroller}>
      <table
        id={id}
        ref={table}
        // biome-ignore lint/a11y/noNoninteractiveElementToInteractiveRole: a table in which the arrow keys move is a grid
        role="grid"
        class={`grid ${id}`}
        data-lines={lines?.length}
        aria-label={props.label}
        aria-rowcount={rows.length + 1}
        aria-activedescendant={isActiveShown ? rowId(id, activeIndex) : undefined}
        tabIndex={0}
        onKeyDown={onKey}
        onClick={onClick}
      >
        <Head {...props} columns={lines?.flat() ?? props.columns} />
        <tbody>
          <Space px={first * rowPx} />
          {shown.map((row, index) => (
            <BodyRow key={keyOf(row)} grid={props} lines={lines} row={row} index={first + index} />
          ))}
          <Space px={(rows.length - end) * rowPx} />
        </tbody>
      </table>
      {rows.length === 0 && <div class="empty">{props.empty}</div>}
    </div>
  )
}

function linesOf<Row>(columns: readonly Column<Row>[]): Column<Row>[][] {
  return [1, 2, 3].map((line) => columns.filter((column) => column.line === line)).filter((some) => some.length > 0)
}

function Head<Row>({ columns, sort, onSort }: GridProps<Row>) {
  const order = (key: string) => {
    if (sort?.by !== key) return undefined
    return sort.isUp ? 'ascending' : 'descending'
  }
  return (
    // Above rows of several lines, only what sorts them is of use to who can see it.
    <thead class={isNarrow.value && onSort === undefined ? 'hidden' : undefined}>
      <tr aria-rowindex={1}>
        {columns.map(({ key, title, isSortable }) => (
          <th key={key} scope="col" class={`col-${key}`} aria-sort={order(key)}>
            {isSortable ? (
              <button type="button" onClick={() => onSort?.(key)}>
                {title}
                <span class="order" aria-hidden="true" />
              </button>
            ) : (
              title
            )}
          </th>
        ))}
      </tr>
    </thead>
  )
}

interface BodyRowProps<Row> {
  readonly grid: GridProps<Row>
  readonly lines: readonly Column<Row>[][] | undefined
  readonly row: Row
  readonly index: number
}

function BodyRow<Row>({ grid, lines, row, index }: BodyRowProps<Row>) {
  const key = grid.keyOf(row)
  return (
    <tr
      id={rowId(grid.id, index)}
      data-key={key}
      data-tone={grid.toneOf?.(row)}
      aria-rowindex={index + 2}
      aria-selected={key === grid.active}
    >
      {lines === undefined ? (
        grid.columns.map((column) => (
          <td key={column.key} class={`col-${column.key}`}>
            {column.cell(row)}
          </td>
        ))
      ) : (
        <td colSpan={lines.flat().length}>
          {lines.map((columns, line) => (
            <Line key={line} columns={columns} row={row} />
          ))}
        </td>
      )}
    </tr>
  )
}

function Line<Row>({ columns, row }: { columns: readonly Column<Row>[]; row: Row }) {
  return (
    <div class="line">
      {columns.map(({ key, caption, cell }) => (
        <span key={key} class={`col-${key}`}>
          {caption !== undefined && <span class="muted">{caption} </span>}
          {cell(row)}
        </span>
      ))}
    </div>
  )
}

/** In place of rows that are out of view. */
function Space({ px }: { px: number }) {
  if (px <= 0) return null
  // biome-ignore lint/a11y/noAriaHiddenOnFocusable: nothing in it can have the focus
  return <tr aria-hidden="true" class="space" style={{ height: `${px}px` }} />
}

function rowId(grid: string, index: number): string {
  return `${grid}-${index}`
}

/** The visible part of the rows, in px. Changes in steps of a row. */
function useView(scroller: { current: HTMLDivElement | null }, rowPx: number): { top: number; height: number } {
  const [view, setView] = useState({ top: 0, height: 800 })
  useLayoutEffect(() => {
    const node = scroller.current
    if (node === null) return
    const measure = (): void => {
      const top = Math.floor(node.scrollTop / rowPx) * rowPx
      const height = node.clientHeight
      setView((before) => (before.top === top && before.height === height ? before : { top, height }))
    }
    const observer = new ResizeObserver(measure)
    observer.observe(node)
    node.addEventListener('scroll', measure, { passive: true })
    return () => {
      observer.disconnect()
      node.removeEventListener('scroll', measure)
    }
  }, [rowPx])
  return view
}

/** The arrow keys and Enter in the table; j and k from anywhere on the page. */
function useKeys<Row>(
  { rows, keyOf, onActive, onOpen, active }: GridProps<Row>,
  activeIndex: number,
  rowPx: number,
  scroller: { current: HTMLDivElement | null },
  table: { current: HTMLTableElement | null },
): (event: KeyboardEvent) => void {
  const moveTo = (index: number): void => {
    const row = rows[Math.min(rows.length - 1, Math.max(0, index))]
    if (row === undefined || scroller.current === null) return
    onActive(keyOf(row))
    showRow(scroller.current, rows.indexOf(row), rowPx)
  }
  const onKey = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) return
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? 0) / rowPx) - 2)
    const last = rows.length - 1
    const target = { ArrowDown: activeIndex + 1, ArrowUp: activeIndex - 1, Home: 0, End: last }[event.key]
    const paged = { PageDown: activeIndex + page, PageUp: activeIndex - page }[event.key]
    const index = target ?? paged
    if (event.target !== table.current) return // a button in the head has keys of its own
    if (index !== undefined) moveTo(index)
    else if (event.key === 'Enter' && active !== undefined && activeIndex >= 0) onOpen?.(active)
    else return
    event.preventDefault()
  }
  const latest = useRef(moveTo)
  latest.current = moveTo
  const at = useRef(activeIndex)
  at.current = activeIndex
  useEffect(() => {
    const onPageKey = (event: KeyboardEvent): void => {
      if ((event.key !== 'j' && event.key !== 'k') || isTyping(event)) return
      table.current?.focus({ preventScroll: true })
      latest.current(at.current + (event.key === 'j' ? 1 : -1))
    }
    document.addEventListener('keydown', onPageKey)
    return () => document.removeEventListener('keydown', onPageKey)
  }, [])
  return onKey
}

function showRow(scroller: HTMLElement, index: number, rowPx: number): void {
  const top = index * rowPx
  const room = scroller.clientHeight - HEAD_PX - rowPx
  if (scroller.scrollTop > top) scroller.scrollTop = top
  else if (scroller.scrollTop < top - room) scroller.scrollTop = top - room
}
