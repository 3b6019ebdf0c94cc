import type { ConnectOptions } from '../../../src/index.js'
import type { Belief } from '../beliefs.js'

/** How a worker is started. */
export interface Task {
  readonly target: ConnectOptions
  /** The servers of the red lock. */
  readonly redUrls: readonly string[]
  /** The store that never fails. */
  readonly recordUrl: string
  readonly seed: number
  readonly tasks: number
  /** The lease of what is renewed; no other is longer. */
  readonly leaseMs: number
  /** It will be killed, so it acquires nothing that would not be returned then. */
  readonly isMortal: boolean
  /** Whether a failover may lose a release or a count-down: nothing may wait for it for ever. */
  readonly isReplicated: boolean
  /** Which side of the controls it takes, if any: breaks its locks, or uses the same ones properly. */
  readonly control?: 'broken' | 'honest'
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
  readonly access?: Access
}

/** What a section read from and wrote to the record, one entry for each of its locks. */
export interface Access {
  /** The position of the read among all accesses to the record of this lock. */
  readonly first: readonly number[]
  /** Of the write. */
  readonly last: readonly number[]
  /** Whether the record accepted the write; it refuses tokens lower than the highest. */
  readonly isAccepted: boolean
  /** The lock was certainly still held when the write was confirmed. */
  readonly isCertain: boolean
  /** Somebody else wrote between the read and the write. */
  readonly isOverwriting: boolean
}

/** A violation that only the worker can see. */
export interface Found {
  readonly at: 'finding'
  readonly verdict: 'dishonest' | 'failure'
  readonly what: string
  readonly lock?: string
  /** Since when: what servers lost in between may be the reason. */
  readonly from: number
  readonly to: number
}

/** Since it was asked, it was served with everything that it asks for; until then `unserved` lists the rest. */
export interface Served {
  readonly at: 'served'
  readonly unserved: readonly string[]
}

/** The final report of a worker. */
export interface Summary {
  readonly at: 'summary'
  /** Number of calls by error. */
  readonly errors: Readonly<Record<string, number>>
  /** Calls that did not settle. */
  readonly pending: readonly string[]
  /** Latches whose creation had an unknown outcome: they may exist. */
  readonly latches: readonly string[]
}

/** How many may be inside at once. */
export const MOST_INSIDE = 3
export const PERMITS = 'chaos:permits'
export const SEMAPHORE = 'chaos:semaphore'
