import type { Figures } from './bench.js'
import type { Library } from './library.js'
import type { Cell, Table } from './rounds.js'
import { median, quantile } from './statistics.js'
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
  /** Why the goals cannot be judged. */
  readonly doubt?: string
}

/** The ratio of its tenth fastest slice to its tenth slowest. */
const MAX_SPREAD = 2
const MAX_ABOVE_FLOOR = 1.15

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
  const cellOf = (name: string): Cell | undefined => [...row].find(([library]) => library.name === name)?.[1]
  const ratioOf = (one: string, other: string): number => ratio(by, cellOf(one), cellOf(other))
  const compared: Compared = {
    holdfast,
    floor,
    best: bestFigures,
    ratioToBest: ratioOf('holdfast', best[0]?.[0].name ?? ''),
    ratioToFloor: ratioOf('holdfast', 'floor'),
    ratioOf,
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
    ...doubtOf(by, best[0]?.[0].name, ratioOf, cellOf('floor')),
  }
}

/** The median of the ratios of slices that were measured in turn; otherwise the ratio of the medians. */
function ratio(by: string, one: Cell | undefined, other: Cell | undefined): number {
  const [ours = [], theirs = []] = [one?.slices, other?.slices]
  if (ours.length === 0 || ours.length !== theirs.length) {
    return (one?.figures[by] ?? Number.NaN) / (other?.figures[by] ?? Number.NaN)
  }
  return median(ours.map((figures, index) => (figures[by] ?? Number.NaN) / (theirs[index]?.[by] ?? Number.NaN)))
}

/** Why no goal can be judged by these figures, if that is so. */
function doubtOf(
  by: string,
  best: string | undefined,
  ratioOf: (one: string, other: string) => number,
  floor: Cell | undefined,
): { readonly doubt?: string } {
  const rates = floor?.slices?.map((figures) => figures[by] ?? Number.NaN) ?? []
  if (rates.length === 0) return {}
  const spread = quantile(rates, 0.9) / quantile(rates, 0.1)
  if (spread > MAX_SPREAD)
    return { doubt: `the machine was busy: the floor alone differed by ${spread.toFixed(1)} times` }
  // A plain key costs Redis less than a hash, and that is all a library can save.
  const above = best === undefined ? 0 : ratioOf(best, 'floor')
  return above > MAX_ABOVE_FLOOR ? { doubt: `${best} is faster than the floor, ${above.toFixed(2)} times` } : {}
}

function number(value = Number.NaN): number | null {
  return Number.isFinite(value) ? value : null
}
