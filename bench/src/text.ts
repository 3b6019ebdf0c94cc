import type { Summary } from './summary.js'
import type { Workload } from './workload.js'

/** Columns of the tables, by figure. */
const HEADINGS: Record<string, string> = {
  rate: 'sections/s',
  scriptsPerSecond: 'scripts/s',
  cpuPerSection: 'CPU ms/section, with Redis',
  p50: 'p50 ms',
  p99: 'p99 ms',
  handOffP50: 'hand-off p50 ms',
  handOffP99: 'hand-off p99 ms',
  commandsPerSection: 'commands/section',
  jain: 'fairness',
  cores: 'cores',
  perSecond: 'sections/s',
  clientMicrosEach: 'client µs',
  redisMicrosEach: 'Redis µs',
  clientBytesEach: 'client bytes',
  redisBytesEach: 'Redis bytes',
  clientCores: 'client cores',
  receivingCores: 'cores for as many empty messages',
  idleCores: 'cores without messages',
  redisCores: 'cores of Redis',
  starved: 'starved',
  refused: 'gave up',
  overlaps: 'two inside',
  oversold: 'oversold',
  lost: 'lost',
  loopDelayMs: 'loop late ms',
  enteredPastMaxBlock: 'past maxBlockMs',
}

/** Heading and rows of one workload's table, the best first. */
export function tableOf(workload: Workload, summary: Summary): string[][] {
  const { by, shows, unit, isLessBetter = false } = workload
  const rows = Object.entries(summary.cells).toSorted(([, one], [, other]) => {
    if (one[by] === undefined || other[by] === undefined)
      return one[by] === other[by] ? 0 : one[by] === undefined ? 1 : -1
    return isLessBetter ? one[by] - other[by] : other[by] - one[by]
  })
  const lines = rows.map(([name, { why, ...figures }]) =>
    why === undefined
      ? [name, ...[by, ...shows].map((figure) => show(figures[figure]))]
      : [name, why.split('\n')[0] ?? '', ...shows.map(() => '')],
  )
  return [['', unit, ...shows.map(heading)], ...lines]
}

export function heading(figure: string): string {
  return HEADINGS[figure] ?? figure
}

export function show(value: number | undefined): string {
  if (value === undefined || Number.isNaN(value)) return '–'
  if (Number.isInteger(value) || Math.abs(value) >= 100) return Math.round(value).toLocaleString('en')
  return value.toPrecision(3)
}

/** For a terminal. */
export function textOf(workload: Workload, summary: Summary): string {
  const table = tableOf(workload, summary)
  const widths = table[0]?.map((_, column) => Math.max(...table.map((line) => wide(line, column)))) ?? []
  const lines = table.map((line) =>
    line
      .map((text, column) => (column === 0 ? text.padEnd(widths[0] ?? 0) : text.padStart(widths[column] ?? 0)))
      .join('  ')
      .trimEnd(),
  )
  const goals = summary.goals.map(
    ({ what, goal, value, met }) => `${judged(summary, met ? '  met' : 'UNMET')}  ${what} ${goal}: ${show(value)}`,
  )
  if (summary.doubt !== undefined) goals.push(`       not judged: ${summary.doubt}`)
  return [`\n${workload.id}  ${workload.title}`, ...lines, ...goals].join('\n')
}

function judged({ doubt }: Summary, result: string): string {
  return doubt === undefined ? result : '    ?'
}

/** A reason does not widen its column. */
function wide(line: readonly string[], column: number): number {
  return line.length > 2 && column > 0 && line.slice(2).every((text) => text === '') ? 0 : (line[column]?.length ?? 0)
}
