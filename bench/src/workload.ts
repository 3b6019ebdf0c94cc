import type { Bench, Figures } from './bench.js'
import type { Kind, Library } from './library.js'

export interface Workload {
  readonly id: string
  readonly title: string
  /** The figure by which libraries are compared. */
  readonly by: string
  readonly unit: string
  readonly isLessBetter?: boolean
  /** Figures that are shown beside it. */
  readonly shows: readonly string[]
  /** Whether it tells a library that polls often from one that does not. */
  readonly isContended: boolean
  /** Only libraries that have this. Default: a lock. Redisson is what they are compared with then. */
  readonly kind?: Kind
  /** Why this library cannot do it. */
  skips?(library: Library): string | undefined
  measure(bench: Bench, library: Library): Promise<Figures>
  /** What is measured once, in a run of its own that is not timed. */
  count?(bench: Bench, library: Library): Promise<Figures>
  goals?(compared: Compared): Goal[]
}

/** Medians over the rounds. Figures are NaN where there are none. */
export interface Compared {
  readonly holdfast: Figures
  readonly floor: Figures
  readonly best: Figures
  readonly bestOwnerChecking: Figures
  /** `holdfast` over the others, by the workload's figure. */
  readonly ratioToBest: number
  readonly ratioToFloor: number
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
