import type { Curves } from './growth.js'
import type { machine } from './machine.js'
import type { Summary } from './summary.js'

/** Everything that a run found: the last line with `--json`. */
export interface Report {
  readonly at: string
  readonly machine: ReturnType<typeof machine>
  readonly versions: Record<string, string>
  readonly rounds: number
  readonly secondsEach: number
  readonly workloads: Record<string, Summary>
  /** With `--growth`. */
  readonly growth?: Record<string, Curves>
}
