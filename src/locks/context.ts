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

/** What a client provides to its locks and synchronizers. */
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
  /** Whether clients may queue in Redis: not in a cluster, and not if an ACL forbids it. */
  hasTurnQueue: boolean
  /** Work in progress under permits that have no holder in Redis, and elections. */
  readonly sections: DenseSet<Section>
  /** Lease of a hold without `leaseTimeMs`, ms. */
  readonly watchdogTimeoutMs: number
  readonly nameMapper: NameMapper | undefined
  /** How long one command may take, ms. */
  readonly commandTimeoutMs: number
  /** Defaults of the options with the same names. */
  readonly maxHoldMs: number | undefined
  readonly warnAfterMs: number | undefined
  readonly waitTimeMs: number | undefined
  /** How often, and for how long, ms, a lock may be handed off inside the client before other clients get a turn. */
  readonly maxHandOffs: number
  readonly maxHandOffMs: number
  /** @throws {ClientClosedError} the client is closing: it accepts no new work */
  assertOpen(lockName: string): void
  /** @throws {ClientClosedError} the client is closed, and has released its holds */
  assertUsable(lockName: string): void
  /** @returns whether anyone listens */
  emit<E extends keyof ClientEvents>(event: E, ...details: ClientEvents[E]): boolean
}

/** Work that a client that closes waits for, for as long as the drain lasts. */
export interface Section {
  /** The client begins to close: what has no end of its own ends itself. */
  closing?(): void
  /** The drain is over. */
  giveUp(): void
}

export interface LongWaitDetails {
  readonly lockName: string
  /** The `label` option of the call that waits. */
  readonly label: string | undefined
  readonly waitedMs: number
  /**
   * Who holds it, and since when, as far as that is known: `held by this client, taken 61 s ago, label "refund"`. For people:
   * the wording may change.
   */
  readonly heldBy: string | undefined
}

/** The events of a client. */
export interface ClientEvents {
  /** A hold was lost before it was released. Its `signal` aborted with the same error. */
  lost: [loss: { readonly hold: Hold; readonly error: LeaseLostError }]
  /** A call has waited for `warnAfterMs`, 60 s by default. If nobody listens, the first one is a process warning. */
  longWait: [wait: LongWaitDetails]
  /** A hold has lasted for `warnAfterMs`. */
  longHold: [details: { readonly hold: Hold; readonly heldMs: number }]
  /** Something works worse than it should: an ACL forbids the channels (reported once), a release got no reply. */
  warning: [warning: Error]
}
