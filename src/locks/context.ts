import type { IdempotencyKeys } from '../delivery/idempotency.js'
import type { BackgroundRetries } from '../delivery/lost-replies.js'
import type { Replication } from '../delivery/replica-acks.js'
import type { Scripts } from '../delivery/scripts.js'
import type { LeaseLostError } from '../errors.js'
import type { Clock } from '../util/clock.js'
import type { DenseSet } from '../util/collections.js'
import type { Random } from '../util/random.js'
import type { WaitQueues } from '../waiting/wait-queue.js'
import type { Watchdog } from '../watchdog/watchdog.js'
import type { NameMapper } from '../wire/names.js'
import type { Hold, HoldingClient } from './hold.js'

/** What a client lends to the primitives it hands out. */
export interface Context extends HoldingClient {
  readonly clientId: string
  readonly clock: Clock
  readonly random: Random
  readonly scripts: Scripts
  readonly waitQueues: WaitQueues
  readonly watchdog: Watchdog
  readonly backgroundRetries: BackgroundRetries
  readonly idempotencyKeys: IdempotencyKeys
  readonly replication: Replication
  /** Whether clients may stand in line in Redis: not in a cluster, nor if an ACL forbids it. */
  hasTurnQueue: boolean
  /** What runs with permits that have no holder in Redis. */
  readonly sections: DenseSet<Section>
  /** Lease of a hold without `leaseTimeMs`, ms. */
  readonly watchdogTimeoutMs: number
  readonly nameMapper: NameMapper | undefined
  /** How long one command may take, ms. */
  readonly commandTimeoutMs: number
  /** Defaults of the options of the same names. */
  readonly maxHoldMs: number | undefined
  readonly warnAfterMs: number | undefined
  /** How often, and for how long, a lock may go from one caller of the client to the next before others get a chance. */
  readonly maxHandOffs: number
  readonly maxHandOffMs: number
  /** @throws {ClientClosedError} the client takes no new work */
  assertOpen(lockName: string): void
  /** @throws {ClientClosedError} the client is closed, and has drained what it held */
  assertUsable(lockName: string): void
  emit<E extends keyof ClientEvents>(event: E, ...details: ClientEvents[E]): void
}

/** A piece of work that ends by giving something back, or must do so early when the client closes. */
export interface Section {
  giveUp(): void
}

/** What a client tells about. */
export interface ClientEvents {
  /** A hold was lost before it was released. Its `signal` aborted with the same error. */
  lost: [loss: { readonly hold: Hold; readonly error: LeaseLostError }]
  /** Somebody has waited for a lock for `warnAfterMs`. */
  longWait: [wait: { readonly lockName: string; readonly label: string | undefined; readonly waitedMs: number }]
  /** A hold has lasted for `warnAfterMs`. */
  longHold: [details: { readonly hold: Hold; readonly heldMs: number }]
  /** Something works worse than it should: an ACL forbids the channels (told once), a release was not answered. */
  warning: [warning: Error]
}
