import type { Bench, Figures } from './bench.js'
import type { Library } from './library.js'
import { median } from './statistics.js'
import type { Workload } from './workload.js'

/** What a library did in a workload: medians over the rounds, or why there are none. */
export interface Cell {
  readonly figures: Figures
  readonly why?: string
}

export type Table = ReadonlyMap<Workload, ReadonlyMap<Library, Cell>>

interface Turn {
  readonly workload: Workload
  readonly library: Library
  readonly round: number
}

/**
 * Every library once in each workload, in an order of chance; then again. What the machine does meanwhile befalls all.
 */
export async function runRounds(
  bench: Bench,
  workloads: readonly Workload[],
  libraries: readonly Library[],
  rounds: number,
): Promise<Table> {
  const cells = new Map(workloads.map((workload) => [workload, new Map<Library, { all: Figures[]; why?: string }>()]))
  const turns: Turn[] = []
  for (let round = 1; round <= rounds; round++) {
    for (const workload of workloads) {
      const able: Turn[] = []
      for (const library of libraries) {
        if (library.only !== undefined && !library.only.includes(workload.id)) continue
        if (library.tuned && !workload.isContended) continue
        if (workload.kind !== undefined && !library.kinds.includes(workload.kind)) continue
        const why = library.missing ?? workload.skips?.(library)
        cells.get(workload)?.set(library, { all: [], ...(why !== undefined && { why }) })
        if (why === undefined) able.push({ workload, library, round })
      }
      turns.push(...shuffled(able))
    }
  }
  const startedAt = performance.now()
  for (const [done, turn] of turns.entries()) {
    const cell = cells.get(turn.workload)?.get(turn.library)
    if (cell === undefined || cell.why !== undefined) continue // it failed in an earlier round
    tellProgress(turn, rounds, done, turns.length, startedAt)
    try {
      cell.all.push(await turn.workload.measure(bench, turn.library))
      if (turn.round === 1 && turn.workload.count) cell.all.push(await turn.workload.count(bench, turn.library))
    } catch (error) {
      cell.why = error instanceof Error ? error.message : String(error)
      console.error(`  ${turn.library.name}: ${cell.why}`)
    }
  }
  return new Map(
    [...cells].map(([workload, row]) => [
      workload,
      new Map([...row].map(([library, cell]) => [library, medians(cell)])),
    ]),
  )
}

function medians({ all, why }: { all: readonly Figures[]; why?: string }): Cell {
  const names = new Set(all.flatMap((figures) => Object.keys(figures)))
  const figures = Object.fromEntries([...names].map((name) => [name, median(all.flatMap((one) => one[name] ?? []))]))
  return { figures, ...(why !== undefined && { why }) }
}

function tellProgress(
  { workload, library, round }: Turn,
  rounds: number,
  done: number,
  all: number,
  startedAt: number,
): void {
  const seconds = Math.round(((performance.now() - startedAt) / 1_000 / done) * (all - done))
  const left = done === 0 ? '' : `, about ${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, '0')} left`
  console.error(`[${done + 1}/${all}] round ${round} of ${rounds}: ${workload.id} ${library.name}${left}`)
}

function shuffled<T>(values: readonly T[]): T[] {
  return values
    .map((value) => ({ value, at: Math.random() }))
    .sort((one, other) => one.at - other.at)
    .map(({ value }) => value)
}
