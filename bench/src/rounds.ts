import type { Bench, Figures } from './bench.js'
import type { Library } from './library.js'
import { median } from './statistics.js'
import type { Workload } from './workload.js'

/** The result of a library in a workload: medians over the rounds, or why there are none. */
export interface Cell {
  readonly figures: Figures
  readonly why?: string
}

export type Table = ReadonlyMap<Workload, ReadonlyMap<Library, Cell>>

interface Turn {
  readonly workload: Workload
  readonly library: Library
  readonly record: Findings
  readonly round: number
}

/** The figures so far, and why there are no more. */
interface Findings {
  readonly all: Figures[]
  why?: string
}

/**
 * Runs every library once in each workload, in random order; then again. Noise on the machine hits all of them.
 */
export async function runRounds(
  bench: Bench,
  workloads: readonly Workload[],
  libraries: readonly Library[],
  rounds: number,
): Promise<Table> {
  const rows = new Map(workloads.map((workload) => [workload, rowOf(workload, libraries)]))
  const turns = turnsOf(rows, rounds)
  const startedAt = performance.now()
  for (const [done, { workload, library, record, round }] of turns.entries()) {
    if (record.why !== undefined) continue // it failed in an earlier round
    const progress = `[${done + 1}/${turns.length}] round ${round} of ${rounds}: ${workload.id} ${library.name}`
    console.error(`${progress}${timeLeft(startedAt, done, turns.length)}`)
    try {
      record.all.push(await workload.measure(bench, library))
      if (round === 1 && workload.count) record.all.push(await workload.count(bench, library))
    } catch (error) {
      record.why = error instanceof Error ? error.message : String(error)
      console.error(`  ${library.name}: ${record.why}`)
    }
  }
  return new Map(
    [...rows].map(([workload, row]) => [
      workload,
      new Map([...row].map(([library, record]) => [library, medians(record)])),
    ]),
  )
}

/** The libraries in a workload's table; those that cannot run it have a reason. */
function rowOf(workload: Workload, libraries: readonly Library[]): Map<Library, Findings> {
  const isIn = ({ only, tuned, kinds }: Library) =>
    (only?.includes(workload.id) ?? true) &&
    (workload.isContended || !tuned) &&
    (workload.kind === undefined || kinds.includes(workload.kind))
  return new Map(
    libraries.filter(isIn).map((library) => {
      const why = library.missing ?? workload.skips?.(library)
      return [library, { all: [], ...(why !== undefined && { why }) }]
    }),
  )
}

function turnsOf(rows: ReadonlyMap<Workload, ReadonlyMap<Library, Findings>>, rounds: number): Turn[] {
  return Array.from({ length: rounds }, (_, index) =>
    [...rows].flatMap(([workload, row]) => {
      const able = [...row].filter(([, record]) => record.why === undefined)
      return shuffled(able.map(([library, record]) => ({ workload, library, record, round: index + 1 })))
    }),
  ).flat()
}

function medians({ all, why }: Findings): Cell {
  const names = new Set(all.flatMap((figures) => Object.keys(figures)))
  const figures = Object.fromEntries([...names].map((name) => [name, median(all.flatMap((one) => one[name] ?? []))]))
  return { figures, ...(why !== undefined && { why }) }
}

function timeLeft(startedAt: number, done: number, all: number): string {
  if (done === 0) return ''
  const seconds = Math.round(((performance.now() - startedAt) / 1_000 / done) * (all - done))
  return `, about ${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')} left`
}

function shuffled<T>(values: readonly T[]): T[] {
  return values
    .map((value) => ({ value, at: Math.random() }))
    .sort((one, other) => one.at - other.at)
    .map(({ value }) => value)
}
