import type { Place } from './ways.js'

/** Servers that fail, and the faults that they know. */
export interface Topology extends AsyncDisposable {
  readonly name: 'sentinel' | 'cluster'
  readonly place: Place
  readonly faults: readonly Fault[]
  /** Starts what was killed and thaws what is frozen. Resolved when the next fault may come. */
  heal(): Promise<void>
}

export interface Fault {
  /** For `--fault`. */
  readonly id: string
  readonly title: string
  /** How soon each client has to be served again, ms from when service is possible again. */
  readonly limitMs: number
  /** Why overlaps are counted, but do not fail the suite. */
  readonly exception?: string
  strike(stage: Stage): Promise<void>
}

/** What a fault does with the clients. */
export interface Stage {
  /** Has clients stay for long in locks that they take now. */
  linger(): void
  /** Tells that service is possible again since then (on the monotonic clock); resolved when each client was served, or is late. */
  restored(since: number): Promise<void>
  /** Cuts the connections of all clients to these ports, and has each process open another client. */
  blink(ports: readonly number[]): void
}

/** How soon after a failover each client works again. */
export const SOON_MS = 5_000
/** A frozen server first has to be found silent. */
export const FROZEN_MS = 10_000

/** From a frozen master's successor until it goes on, ms: by then clients hold locks at the new one. */
export const THAW_MS = 700
/** How long the storm goes on after a server came back that thinks it is the master, ms. It is demoted within 2 s. */
export const AFTERMATH_MS = 2_500
/** How long before a master dies no replica hears from it, ms. */
export const CUT_MS = 300
