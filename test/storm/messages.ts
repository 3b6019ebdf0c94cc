import type { Belief } from '../support/beliefs.js'

/** How a worker is started. */
export interface Task {
  readonly url: string
  /** The servers of the red lock. */
  readonly redUrls: readonly string[]
  readonly seed: number
  readonly tasks: number
  /** It will be killed, so it acquires nothing that would not be returned then. */
  readonly isMortal: boolean
  /** It sometimes enters without a lock, which must be detected. */
  readonly isControl: boolean
}

/** A task entered some locks of a kind, until it reports that it left. */
export interface Entered extends Omit<Belief, 'lock' | 'to'> {
  readonly at: 'enter'
  readonly id: string
  readonly kind: string
  readonly locks: readonly string[]
  /** The certain end of its lease, unless it reports another. */
  readonly validUntil: number
}

export interface Left {
  readonly at: 'leave'
  readonly id: string
  readonly to: number
}

/** The final report of a worker. */
export interface Summary {
  readonly at: 'summary'
  /** Number of calls by error. */
  readonly errors: Readonly<Record<string, number>>
  /** Violations. */
  readonly failures: readonly string[]
  /** Calls that did not settle. */
  readonly pending: readonly string[]
  /** Latches whose creation had an unknown outcome: they may exist. */
  readonly latches: readonly string[]
}

/** How many may be inside at once. */
export const MOST_INSIDE = 3
export const PERMITS = 'storm:permits'
export const SEMAPHORE = 'storm:semaphore'
