import type { Belief } from '../support/beliefs.js'

/** How a worker is started. */
export interface Task {
  readonly url: string
  /** Of the servers of the red lock. */
  readonly redUrls: readonly string[]
  readonly seed: number
  readonly tasks: number
  /** It will be killed: it takes nothing that a death would not give back. */
  readonly isMortal: boolean
  /** It enters without a lock now and then, which must be found. */
  readonly isControl: boolean
}

/** Somebody is inside some locks of a kind, until it says that it left. */
export interface Entered extends Omit<Belief, 'lock' | 'to'> {
  readonly at: 'enter'
  readonly id: string
  readonly kind: string
  readonly locks: readonly string[]
  /** Until when its lease surely lasts, if it says nothing more. */
  readonly validUntil: number
}

export interface Left {
  readonly at: 'leave'
  readonly id: string
  readonly to: number
}

/** What a worker found out by the end. */
export interface Summary {
  readonly at: 'summary'
  /** How often calls ended with which error. */
  readonly errors: Readonly<Record<string, number>>
  /** What must not happen. */
  readonly failures: readonly string[]
  /** Calls that did not settle. */
  readonly pending: readonly string[]
  /** Latches whose making had an unknown outcome: they may be there. */
  readonly latches: readonly string[]
}

/** How many may be inside at once. */
export const MOST_INSIDE = 3
export const PERMITS = 'storm:permits'
export const SEMAPHORE = 'storm:semaphore'
