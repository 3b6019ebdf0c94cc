import type { Kind } from './library.js'

/** The work of one contender process. */
export type Work =
  /** Tasks that acquire a lock, do something inside and rest, repeatedly. */
  | {
      readonly do: 'loop'
      readonly tasks: number
      readonly each: boolean
      readonly sectionMs: number
      readonly restMs: number
    }
  /** Tasks that sell from one stock in Redis, under a lock, until it is sold out. */
  | { readonly do: 'sell'; readonly tasks: number }
  /** Holds many locks and leaves renewal to the library. */
  | { readonly do: 'hold'; readonly locks: number }
  /** Holds a lock while the event loop is blocked. */
  | { readonly do: 'block' }
  /** Requests the same lock meanwhile. */
  | { readonly do: 'enter' }
  /** Takes many locks at once, and releases each at once. */
  | { readonly do: 'burst'; readonly locks: number }

/** Everything that a process needs, as JSON in its last argument. */
export interface Assignment {
  readonly library: string
  readonly work: Work
  /** The name of the lock, or the prefix of the names. */
  readonly name: string
  readonly url: string
  readonly isCluster: boolean
  readonly kind: Kind
  readonly permits: number
  readonly leaseMs: number
  readonly keep: boolean
  readonly tuned: boolean
  readonly maxBlockMs?: number | undefined
}

/*
 * The process prints `{"is":"open"}`, reads `start`, prints `{"is":"started"}`, reads `measure <ms>` and prints a result.
 */

export interface LoopResult {
  /** Sections of each task. */
  readonly sections: readonly number[]
  /** From the request of the lock to its release, ms; a sample. */
  readonly latencies: readonly number[]
  /** From the start of a release to the entry of the next waiting task, ms; a sample. */
  readonly handOffs: readonly number[]
  /** How often a second task was inside. */
  readonly overlaps: number
  /** How often the library gave up waiting, and the task retried. */
  readonly refused: number
  /** CPU time of all threads of the process. */
  readonly cpuMs: number
}

export interface SellResult {
  readonly sold: number
  /** Epoch, ms with fractions. */
  readonly startedAt: number
  readonly lastSoldAt: number
}

export interface HoldResult {
  readonly cpuMs: number
  /** The longest delay of a timer, ms. */
  readonly loopDelayMs: number
}

export interface BlockResult {
  /** Epoch, ms. */
  readonly from: number
  readonly until: number
}

export interface EnterResult {
  readonly enteredAt: number | null
}

export interface BurstResult {
  readonly ms: number
}

export interface Results {
  loop: LoopResult
  sell: SellResult
  hold: HoldResult
  block: BlockResult
  enter: EnterResult
  burst: BurstResult
}

export const STOCK_KEY = 'bench:stock'
