import type { RedisServer } from '../support/redis-server.js'
import type { Place } from './ways.js'

/** Servers that fail, and their faults. */
export interface Topology extends AsyncDisposable {
  readonly name: 'sentinel' | 'cluster'
  readonly place: Place
  /** Masters and replicas. */
  readonly servers: readonly RedisServer[]
  readonly faults: readonly Fault[]
  /** Starts killed servers and thaws frozen ones. Resolves when the next fault may begin. */
  heal(): Promise<void>
}

export interface Fault {
  /** For `--fault`. */
  readonly id: string
  readonly title: string
  /** Time limit for serving each client again, ms from when service is possible. */
  readonly limitMs: number
  /** Why overlaps are counted but do not fail the suite. */
  readonly exception?: string
  strike(stage: Stage): Promise<void>
}

/** What a fault does to the clients. */
export interface Stage {
  /** Makes clients keep locks that they acquire now for long. */
  linger(): void
  /** Reports when service was possible again (monotonic clock); resolves once each client was served, or is late. */
  restored(since: number): Promise<void>
  /** Cuts the connections of all clients to these ports, and makes each process open another client. */
  blink(ports: readonly number[]): void
}

/** Time limit for each client to work again after a failover. */
export const SOON_MS = 5_000
/** A frozen server first has to be detected. */
export const FROZEN_MS = 10_000

/** From the successor of a frozen master until it continues, ms: by then clients hold locks at the new one. */
export const THAW_MS = 700
/** How long a round lasts after the return of a server that believes it is the master, ms. It is demoted within 2 s. */
export const AFTERMATH_MS = 2_500
/** How long a master is cut off from its replicas before it dies, ms. */
export const CUT_MS = 300
