import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { GROWTHS } from './growth.js'
import type { Report } from './report.js'
import type { Summary } from './summary.js'
import { heading, show, tableOf } from './text.js'
import type { Workload } from './workload.js'

const PAGE = fileURLToPath(new URL('../../docs/benchmarks.md', import.meta.url))
const RESULTS = fileURLToPath(new URL('../results/README.md', import.meta.url))
const BEGIN = '<!-- bench: results -->'
const END = '<!-- bench: end of results -->'
const INTRO = `# Benchmark results

Written by \`npm run bench -- --markdown\`. [Benchmarks](../../docs/benchmarks.md) says what is measured, and how.

## Columns

- \`holdfast-with-lock\`: \`withLock\`, with the signal of the hold
- commands/section: what clients send, not what scripts call, in a separate run
- hand-off: from the start of a release to the entry of the next, waiting task of the same process
- fairness: Jain's index over the sections of all tasks: 1 if all have the same number, 1/n if one has all
- cores: CPU use of all contending processes, threads included
- gave up: waits that a library ended by itself
- two inside: tasks that met another one of their process in the section
- loop late: worst delay of a timer in the process that holds the locks

## Overview`

interface Measured {
  readonly workload: Workload
  readonly summary: Summary
}

/** Replaces the overview in docs/benchmarks.md, and every table in bench/results. */
export function writeMarkdown(report: Report, workloads: readonly Workload[]): void {
  const measured = workloads.flatMap((workload) => {
    const summary = report.workloads[workload.id]
    return summary === undefined ? [] : [{ workload, summary }]
  })
  const overview = overviewOf(report, measured)
  const page = readFileSync(PAGE, 'utf8')
  const [before, rest] = page.split(BEGIN)
  const after = rest?.split(END)[1]
  if (before === undefined || after === undefined) throw new Error(`${PAGE} has no ${BEGIN} … ${END}`)
  writeFileSync(PAGE, `${before}${BEGIN}\n\n${overview}\n\n${END}${after}`)
  writeFileSync(RESULTS, `${INTRO}\n\n${overview}\n${sectionsOf(report, measured)}\n`)
}

function overviewOf({ machine, versions, rounds, secondsEach, at }: Report, measured: readonly Measured[]): string {
  const versionList = Object.entries(versions).map(([name, version]) => `${name} ${version}`)
  return [
    `Measured ${at} on ${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB, ${machine.system};`,
    `${rounds} rounds of ${secondsEach} s. Versions: ${versionList.join(', ')}.`,
    '',
    ...(measured.length > 0 ? ratios(measured) : []),
  ].join('\n')
}

function sectionsOf(report: Report, measured: readonly Measured[]): string {
  return [
    ...measured
      .filter(({ workload }) => workload.kind === undefined)
      .flatMap(({ workload, summary }) => ['', ...section(workload, summary)]),
    ...kinds(measured.filter(({ workload }) => workload.kind !== undefined)),
    ...growths(report),
  ].join('\n')
}

function ratios(measured: readonly Measured[]): string[] {
  return table([
    ['', 'unit', 'Holdfast', 'floor', 'best other', '', 'Holdfast / best'],
    ...measured.map(({ workload, summary: { holdfast, floor, bestPeer, ratioToBest } }) => [
      `${workload.id}: ${workload.title}`,
      workload.unit,
      ...[holdfast, floor, bestPeer?.value].map((value) => show(value ?? undefined)),
      bestPeer?.name ?? '',
      show(ratioToBest ?? undefined),
    ]),
  ])
}

function section(workload: Workload, summary: Summary): string[] {
  const goals = summary.goals.map(
    ({ what, goal, value, met }) =>
      `- ${summary.doubt !== undefined ? 'not judged' : met ? 'met' : '**not met**'}: ${what} ${goal}: ${show(value)}`,
  )
  if (summary.doubt !== undefined) goals.push('', `Not judged: ${summary.doubt}.`)
  return [`## ${workload.id}: ${workload.title}`, '', ...table(tableOf(workload, summary)), '', ...goals]
}

/** One table for all of them, as each has only two rows. */
function kinds(measured: readonly Measured[]): string[] {
  if (measured.length === 0) return []
  const figures = ['p50', 'p99', 'commandsPerSection', 'jain', 'cores']
  const rows = measured.flatMap(({ workload, summary }) =>
    Object.entries(summary.cells).map(([name, cell]) => [
      workload.id,
      name,
      ...['rate', ...figures].map((figure) => show(cell[figure])),
    ]),
  )
  const headings = ['', '', 'sections/s', ...figures.map(heading)]
  return ['', '## Other locks, and semaphores', '', ...table([headings, ...rows])]
}

function growths({ growth = {} }: Report): string[] {
  return GROWTHS.flatMap(({ id, title, axis, shows, xs }) => {
    const curves = growth[id]
    if (curves === undefined) return []
    const names = Object.keys(curves)
    const columns = names.flatMap((name) => shows.map((figure) => ({ name, figure })))
    const lines = xs.map((x) => [
      x.toLocaleString('en'),
      ...columns.map(({ name, figure }) => show(curves[name]?.find((point) => point.x === x)?.[figure])),
    ])
    const headings = [axis, ...columns.map(({ name, figure }) => `${name}: ${heading(figure)}`)]
    return ['', `## Growth: ${title}`, '', ...table([headings, ...lines])]
  })
}

function table([headings = [], ...lines]: readonly (readonly string[])[]): string[] {
  const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [row(headings), row(headings.map((_, column) => (column === 0 ? '---' : '--:'))), ...lines.map(row)]
}
