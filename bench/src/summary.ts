import type { Figures } from './bench.js'
import type { Library } from './library.js'
import type { Cell, Table } from './rounds.js'
import type { Compared, Goal, Workload } from './workload.js'

/** One workload in the JSON line. */
export interface Summary {
  readonly title: string
  readonly by: string
  readonly unit: string
  readonly holdfast: number | null
  readonly floor: number | null
  readonly bestPeer: { readonly name: string; readonly value: number } | null
  readonly ratioToBest: number | null
  readonly ratioToFloor: number | null
  readonly commandsPerSection: number | null
  readonly [figure: string]: unknown
  readonly cells: Record<string, Figures & { readonly why?: string }>
  readonly goals: readonly Goal[]
}

export function summarize(table: Table): Record<string, Summary> {
  return Object.fromEntries([...table].map(([workload, row]) => [workload.id, summaryOf(workload, row)]))
}

function summaryOf(workload: Workload, row: ReadonlyMap<Library, Cell>): Summary {
  const { by, isLessBetter = false } = workload
  const of = (name: string): Figures => [...row].find(([library]) => library.name === name)?.[1].figures ?? {}
  const [holdfast, floor] = [of('holdfast'), of('floor')]
  const isPeer = (library: Library) => !library.isOurs && (workload.kind !== undefined || !library.isReference)
  const peers = [...row].filter(([library, { figures }]) => isPeer(library) && by in figures)
  const best = peers.toSorted(([, one], [, other]) => {
    const difference = (other.figures[by] ?? 0) - (one.figures[by] ?? 0)
    return isLessBetter ? -difference : difference
  })
  const bestFigures = best[0]?.[1].figures ?? {}
  const ratio = (to: Figures) => (holdfast[by] ?? Number.NaN) / (to[by] ?? Number.NaN)
  const compared: Compared = {
    holdfast,
    floor,
    best: bestFigures,
    bestOwnerChecking: best.find(([library]) => library.checksOwner)?.[1].figures ?? {},
    ratioToBest: ratio(bestFigures),
    ratioToFloor: ratio(floor),
    of,
  }
  return {
    title: workload.title,
    by,
    unit: workload.unit,
    ...holdfast,
    holdfast: number(holdfast[by]),
    floor: number(floor[by]),
    bestPeer: best[0] ? { name: best[0][0].name, value: bestFigures[by] ?? Number.NaN } : null,
    ratioToBest: number(compared.ratioToBest),
    ratioToFloor: number(compared.ratioToFloor),
    commandsPerSection: number(holdfast['commandsPerSection']),
    cells: Object.fromEntries(
      [...row].map(([library, { figures, why }]) => [
        library.name,
        { ...figures, ...(why !== undefined && { why }) } as Summary['cells'][string],
      ]),
    ),
    goals: workload.goals?.(compared) ?? [],
  }
}

function number(value = Number.NaN): number | null {
  return Number.isFinite(value) ? value : null
}
