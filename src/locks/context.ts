// Services of a client for its locks and synchronizers.
import type { BackgroundRetries } from '../delivery/background-retries.js'
import type { IdempotencyKeys } from '../delivery/idempotency.js'
import type { Replication } from '../delivery/replica-acks.js'
import type { Scripts } from '../delivery/scripts.js'
import type { LeaseLostError } from '../errors.js'
import type { ClientInfo, WaitDetails } from '../holder-info.js'
import type { Clock } from '../util/clock.js'
import type { DenseSet } from '../util/collections.js'
import type { Random } from '../util/random.js'
import type { Inbox } from '../waiting/inbox.js'
import type { WaitQueues } from '../waiting/wait-queue.js'
import type { Wakeups } from '../waiting/wakeups.js'
import type { Watchdog } from '../watchdog/watchdog.js'
import type { NameMapper } from '../wire/names.js'
import type { Hold, HoldingClient, HoldTerms } from './hold.js'
import type { TurnQueues } from './kinds/turn-queues.js'
import type { RecentLosses } from './reporting/recent-losses.js'

/** Services of a client for its locks and synchronizers. */
export interface Context extends HoldingClient {
  readonly clientId: string
  readonly clock: Clock
  readonly random: Random
  readonly scripts: Scripts
  readonly wakeups: Wakeups
  readonly inbox: Inbox
  readonly waitQueues: WaitQueues
  /** The pace of every wait; undefined: messages end it. */
  readonly pace: ((random: Random) => () => number) | undefined
  readonly watchdog: Watchdog
  readonly backgroundRetries: BackgroundRetries
  readonly idempotencyKeys: IdempotencyKeys
  readonly replication: Replication
  readonly turnQueues: TurnQueues
  /** Work in progress under permits that have no holder in Redis, and elections. */
  readonly sections: DenseSet<Section>
  readonly recentLosses: RecentLosses
  /** Lease of a hold without `leaseTimeMs`, ms. */
  readonly watchdogTimeoutMs: number
  readonly nameMapper: NameMapper | undefined
  /** How long one command may take, ms. */
  readonly commandTimeoutMs: number
  /** Defaults of the options with the same names. */
  readonly maxHoldMs: number | undefined
  readonly warnAfterMs: number | undefined
  readonly waitTimeMs: number | undefined
  /** Of a call without options. */
  readonly defaultTerms: HoldTerms
  /** How this client describes itself. Undefined: it does not. */
  ownInfo(): ClientInfo | undefined
  /** Reads the record of another client. Undefined: there is none. */
  recordOf(clientId: string, timeoutMs: number): Promise<RecordedClient | undefined>
  /** How often, and for how long, ms, a lock may be handed off inside the client before other clients get a turn. */
  readonly maxHandOffs: number
  readonly maxHandOffMs: number
  /** Whether every hold keeps the stack of the call that took it. */
  readonly keepsStacks: boolean
  /** @throws {ClientClosedError} the client is closing: it accepts no new work */
  assertOpen(lockName: string): void
  /** @throws {ClientClosedError} the client is closed, and has released its holds */
  assertUsable(lockName: string): void
  hasListeners(event: keyof ClientEvents): boolean
  /** @returns whether anyone listens */
  emit<E extends keyof ClientEvents>(event: E, ...details: ClientEvents[E]): boolean
}

/** Work that a closing client waits for until its drain is over. */
export interface Section {
  /** The client begins to close: work that would never end ends itself. */
  closing?(): void
  /** The drain is over. */
  end(): void
}

/** The record of a client in Redis, which anybody could have written. */
export interface RecordedClient {
  readonly client: ClientInfo
  /** Its long holds; `heldMs` is as of the record. */
  readonly holds: readonly {
    readonly lock: string
    readonly holder: string
    readonly heldMs: number
    readonly label?: string | undefined
    readonly trace?: string | undefined
    readonly span?: string | undefined
  }[]
  /** When it was written, ms ago. */
  readonly ageMs: number
}

export interface LongWaitDetails extends WaitDetails {
  readonly lockName: string
  /** The `label` option of the call that waits. */
  readonly label: string | undefined
  readonly waitedMs: number
}

/**
 * How a call got a lock: at once; after it had to wait; from a caller of the same client that released it, without asking
 * Redis; or once more, because its call chain held it.
 */
export type AcquirePath = 'direct' | 'wait' | 'handoff' | 'reentry'

/** How a hold ended: released; handed off to the next caller of the same client; or transferred by `handOver()`. */
export type ReleasePath = 'released' | 'handed_off' | 'transferred'

/** The events of a client. */
export interface ClientEvents {
  /** A call got a lock, `waitedMs` after it began. */
  acquired: [grant: { readonly hold: Hold; readonly waitedMs: number; readonly path: AcquirePath }]
  /** A hold ended as its owner wanted. A loss is `lost` instead. */
  released: [end: { readonly hold: Hold; readonly heldMs: number; readonly path: ReleasePath }]
  /** A hold was lost before it was released. Its `signal` aborted with the same error. */
  lost: [loss: { readonly hold: Hold; readonly error: LeaseLostError }]
  /** A call has waited for `warnAfterMs`, 60 s by default. If nobody listens, the first one is a process warning. */
  longWait: [wait: LongWaitDetails]
  /** A hold has lasted for `warnAfterMs`. */
  longHold: [details: { readonly hold: Hold; readonly heldMs: number }]
  /** Something works worse than it should: an ACL forbids the channels (reported once), a release got no reply. */
  warning: [warning: Error]
}
