import type * as support from '../beliefs.js'

export { monotonicMs, overlapsIn, staleTokensIn } from '../beliefs.js'

/** What a client believed while servers failed. */
export interface Belief extends support.Belief {
  /** How the client was opened. */
  readonly way: string
  /** Opened during the fault. */
  readonly isFresh: boolean
  /** When the lock was requested, on the clock of the others. */
  readonly askedAt: number
  /** The owner in Redis. */
  readonly holder: string
  /** Why it was lost, unless it was released. */
  readonly lost?: string
}

export type Pair = support.Pair<Belief>
export type Overlap = support.Overlap<Belief>
