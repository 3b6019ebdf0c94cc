import type { Bench, Figures, Loop } from './bench.js'
import type { Library } from './library.js'
import { shuffled } from './shuffled.js'
import { median } from './statistics.js'
import { measureInTurn } from './turns.js'
import type { Workload } from './workload.js'

/** The result of a library in a workload: medians over the rounds, or why there are none. */
export interface Cell {
  readonly figures: Figures
  /** Those of each slice, if it was measured in turn. */
  readonly slices?: readonly Figures[]
  readonly why?: string
}

export type Table = ReadonlyMap<Workload, ReadonlyMap<Library, Cell>>

const SLICES_PER_ROUND = 4

interface Turn {
  readonly workload: Workload
  readonly library: Library
  readonly record: Findings
  readonly round: number
}

/** The figures so far, and why there are no more. */
interface Findings {
  readonly all: Figures[]
  slices?: readonly Figures[]
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
  for (const [workload, row] of rows) if (workload.inTurn) await runInTurn(bench, workload, row, rounds)
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

/** Programs in other languages cannot rest between two measurements. */
function isInTurn({ inTurn }: Workload, { program }: Library): boolean {
  return inTurn !== undefined && program === undefined
}

async function runInTurn(
  bench: Bench,
  workload: Workload,
  row: ReadonlyMap<Library, Findings>,
  rounds: number,
): Promise<void> {
  const fail = (library: Library, error: unknown): void => {
    const record = row.get(library)
    if (record) record.why = error instanceof Error ? error.message : String(error)
    console.error(`  ${library.name}: ${record?.why}`)
  }
  const { inTurn, count } = workload
  console.error(`${workload.id}:`)
  const able = [...row].filter(([library, { why }]) => why === undefined && isInTurn(workload, library))
  const libraries = able.map(([library]) => library)
  const found = await measureInTurn(bench, libraries, inTurn as Loop, rounds * SLICES_PER_ROUND, fail)
  for (const [library, slices] of found) {
    const record = row.get(library)
    if (!record || record.why !== undefined) continue
    record.slices = slices
    record.all.push(...slices)
    if (count)
      await count(bench, library).then(
        (figures) => record.all.push(figures),
        (error) => fail(library, error),
      )
  }
}

/** The libraries in a workload's table; those that cannot run it have a reason. */
function rowOf(workload: Workload, libraries: readonly Library[]): Map<Library, Findings> {
  const isIn = ({ only, tuned, kinds, isForClusters }: Library) =>
    (only?.includes(workload.id) ?? true) &&
    (workload.isContended || !tuned) &&
    (!workload.isInCluster || isForClusters === true) &&
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
      const able = [...row].filter(([library, record]) => record.why === undefined && !isInTurn(workload, library))
      return shuffled(able.map(([library, record]) => ({ workload, library, record, round: index + 1 })))
    }),
  ).flat()
}

function medians({ all, slices, why }: Findings): Cell {
  const names = new Set(all.flatMap((figures) => Object.keys(figures)))
  const figures = Object.fromEntries([...names].map((name) => [name, median(all.flatMap((one) => one[name] ?? []))]))
  return { figures, ...(slices && { slices }), ...(why !== undefined && { why }) }
}

function timeLeft(startedAt: number, done: number, all: number): string {
  if (done === 0) return ''
  const seconds = Math.round(((performance.now() - startedAt) / 1_000 / done) * (all - done))
  return `, about ${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')} left`
}
