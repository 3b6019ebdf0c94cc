import type { Bench, Figures, Loop } from './bench.js'
import type { Kind, Library } from './library.js'

export interface Workload {
  readonly id: string
  readonly title: string
  /** The figure that libraries are compared by. */
  readonly by: string
  readonly unit: string
  readonly isLessBetter?: boolean
  /** Other figures in the table. */
  readonly shows: readonly string[]
  /** Whether it distinguishes libraries that poll often. */
  readonly isContended: boolean
  /** Only for libraries with this kind of lock, compared with Redisson. Default: the plain lock. */
  readonly kind?: Kind
  /** Why this library cannot run it. */
  skips?(library: Library): string | undefined
  measure(bench: Bench, library: Library): Promise<Figures>
  /** Only for libraries that run there. */
  readonly isInCluster?: boolean
  /** Measured in turn with the other libraries, in short slices, instead. */
  readonly inTurn?: Loop
  /** Measured once, in a separate run that is not timed. */
  count?(bench: Bench, library: Library): Promise<Figures>
  goals?(compared: Compared): Goal[]
}

/** Medians over the rounds; NaN where there are none. */
export interface Compared {
  readonly holdfast: Figures
  readonly floor: Figures
  readonly best: Figures
  /** `holdfast` divided by the others, in the workload's figure: the median of the ratios if they were measured in turn. */
  readonly ratioToBest: number
  readonly ratioToFloor: number
  ratioOf(library: string, to: string): number
  of(library: string): Figures
}

export interface Goal {
  readonly what: string
  readonly goal: string
  readonly value: number
  readonly met: boolean
}

export function atLeast(what: string, least: number, value = Number.NaN): Goal {
  return { what, goal: `>= ${least}`, value, met: value >= least }
}

export function atMost(what: string, most: number, value = Number.NaN): Goal {
  return { what, goal: `<= ${most}`, value, met: value <= most }
}
