import type { Kind } from './library.js'

/** What one process of contenders does. */
export type Work =
  /** Tasks that take a lock, do something inside and rest, over and over. */
  | {
      readonly do: 'loop'
      readonly tasks: number
      readonly each: boolean
      readonly sectionMs: number
      readonly restMs: number
    }
  /** Tasks that sell from one stock in Redis, inside a lock, until it is sold out. */
  | { readonly do: 'sell'; readonly tasks: number }
  /** Holds many locks and leaves the rest to the library. */
  | { readonly do: 'hold'; readonly locks: number }
  /** Holds a lock while the event loop is blocked. */
  | { readonly do: 'block' }
  /** Asks for the same lock meanwhile. */
  | { readonly do: 'enter' }

/** All that a process must know, as JSON in its last argument. */
export interface Assignment {
  readonly library: string
  readonly work: Work
  /** Of the lock, or how the names of the locks begin. */
  readonly name: string
  readonly url: string
  readonly kind: Kind
  readonly permits: number
  readonly leaseMs: number
  readonly keep: boolean
  readonly tuned: boolean
  readonly maxBlockMs?: number | undefined
}

/*
 * The process says `{"is":"open"}`, is told `start`, says `{"is":"started"}`, is told `measure <ms>` and says one of these.
 */

export interface LoopResult {
  /** Of each task. */
  readonly sections: readonly number[]
  /** From asking for the lock to having let go of it, ms; a sample. */
  readonly latencies: readonly number[]
  /** From the beginning of a release to the next task's entry, where one was waiting, ms; a sample. */
  readonly handOffs: readonly number[]
  /** How often a second task was inside. */
  readonly overlaps: number
  /** How often the library gave up waiting. The task asks again. */
  readonly refused: number
  /** Of the processor, all threads of the process. */
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
  /** The longest that a timer was late, ms. */
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

export interface Results {
  loop: LoopResult
  sell: SellResult
  hold: HoldResult
  block: BlockResult
  enter: EnterResult
}

export const STOCK_KEY = 'bench:stock'
