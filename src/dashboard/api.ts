/**
 * The JSON of every route of the dashboard: what its server sends and its page reads. All durations are ms and relative
 * to when the server read them, never times of day, because the clocks of two machines differ. Jobs have times of day, all
 * by the clock of Redis. Names, labels and hosts are data that others wrote: show them as text only.
 *
 * Paths are relative to where the dashboard is mounted. `api/…` and `metrics` need `Authorization: Bearer <token>`
 * with `holdfast ui`; mounted, whatever `authorize` of `createDashboard` requires.
 *
 * | route | reply |
 * |---|---|
 * | `GET api/locks?match&sort&cursor` | `LocksReply` |
 * | `GET api/locks/<id>` | `LockDetail`; 404: free and unknown |
 * | `GET api/clients` | `ClientsReply` |
 * | `GET api/deadlocks` | `DeadlocksReply` |
 * | `GET api/jobs` | `JobsReply` |
 * | `GET api/audit` | `AuditReply` |
 * | `GET api/stream` | lines of JSON, each a `StreamMessage`: one `Snapshot`, then `Changes` once a second |
 * | `POST api/unlock` `UnlockRequest` | `UnlockReply`. Needs `Content-Type: application/json` and `x-holdfast: 1` |
 * | `GET metrics` | Prometheus text |
 *
 * Every other status than 200 has an `ErrorReply`.
 */
import type { Doubt } from '../fleet/doubts.js'
import type { JobInfo } from '../fleet/job-info.js'
import type { ClientInfo, ClientState, HolderInfo, HolderStatus, LockInfo, WaiterInfo } from '../fleet/lock-info.js'

export interface HolderRow extends HolderInfo {
  /** For how long the dashboard has seen it hold the lock, ms: all that is known if `heldMs` is missing. */
  readonly seenMs: number
}

export interface WaiterRow extends Omit<WaiterInfo, 'chain'> {
  /** The holds of its call chain while it waits: the ids and names of rows. */
  readonly chain: readonly { readonly id: string; readonly lock: string; readonly holder: string }[]
}

/** A lock. Its durations are those of `ageMs` ago: subtract or add that. */
export interface LockRow extends Omit<LockInfo, 'remainingLeaseMs' | 'holders' | 'waiters'> {
  /** Names the lock in URLs and requests: base64url of its name; `~` and its SHA-256 if that is over 1 KB. */
  readonly id: string
  /** Cut after 1,024 characters. */
  readonly name: string
  /** The length of the whole name, in characters. */
  readonly nameLength: number
  /** The remaining lease; null: a key without expiry. */
  readonly remainingLeaseMs: number | null
  readonly holders: readonly HolderRow[]
  readonly waiters: readonly WaiterRow[]
  /** How long ago the server read it, ms. */
  readonly ageMs: number
}

/** A bar of a lock's timeline. */
export interface Segment {
  readonly role: 'holds' | 'waits'
  /** The holder, as in `HolderRow`; of a waiter, what tells it apart from others. */
  readonly who: string
  readonly client?: ClientInfo
  readonly label?: string
  readonly status: HolderStatus
  /** When it began, ms before this reply. It may be longer ago than the timeline. */
  readonly startedAgoMs: number
  /** When it ended; null: not yet. */
  readonly endedAgoMs: number | null
}

export interface LockDetail {
  /** Read for this reply; free: no holders, lease 0. */
  readonly lock: LockRow
  /** The last 15 minutes, oldest first, as far as the dashboard has sampled them; at most 100. */
  readonly timeline: readonly Segment[]
  /** False: the Redis user of the server may not break it. */
  readonly mayBreak: boolean
}

export type LockSort = 'name' | 'held' | 'lease' | 'waiting'

export interface LocksReply {
  /** At most 200, by `sort`: `name` (default) upwards; the others downwards. Prefix `-` turns it around. */
  readonly locks: readonly LockRow[]
  /** For the next page: `cursor=…`; null: this was the last one. */
  readonly cursor: string | null
  readonly totals: Totals
}

/** Totals of all sampled locks. */
export interface Totals {
  readonly held: number
  /** With at least one waiter or another listener. */
  readonly contended: number
  readonly waiters: number
  /** Confirmed cycles. */
  readonly deadlocks: number
  /** Longest hold, ms; 0: none. Of a holder that does not say since when, for how long the dashboard has seen it. */
  readonly oldestMs: number
  /** Among the present waiters, how long the 95th percentile has waited, ms. */
  readonly waitP95Ms: number
  /** Holders that describe themselves to nobody: Redisson, an older Holdfast, or `inspection: false`. */
  readonly unlisted: number
  /** Holds begun since the previous sample, as far as a sample a second sees them. */
  readonly newHolds: number
  /** Holds that clients have lost in the last hour, as those report that replied. */
  readonly losses: number
  /** Clients that did not reply: they may have lost more. */
  readonly silentClients: number
  /** There are more locks than are sampled (2,000). */
  readonly isTruncated: boolean
  /** What is hidden, unknown or left out. */
  readonly doubts: readonly Doubt[]
}

/** Columns of equal length, oldest first: at most 15 minutes, about one sample a second. */
export interface History {
  /** When the sample was taken, ms before the message. */
  readonly agoMs: readonly number[]
  readonly held: readonly number[]
  readonly contended: readonly number[]
  readonly waiters: readonly number[]
  readonly oldestMs: readonly number[]
  readonly waitP95Ms: readonly number[]
  readonly newHolds: readonly number[]
}

/** Redis cannot be read: rows and totals are old. */
export interface Outage {
  /** Since when, ms before this message. */
  readonly sinceAgoMs: number
  /** From when rows and totals are, ms before this message. */
  readonly readAgoMs: number
  /** What the client of Redis says. */
  readonly error: string
}

/** The first line of a stream. After a gap (`Changes.sequence` is not one more than the last) connect again. */
export interface Snapshot {
  readonly type: 'snapshot'
  readonly sequence: number
  /** For the heading: with `holdfast ui` the address of Redis; mounted, the option `title`. */
  readonly title: string
  /** Nothing can be unlocked here: hide the button. The route does not exist either. */
  readonly readOnly: boolean
  readonly totals: Totals
  readonly history: History
  readonly locks: readonly LockRow[]
  readonly outage?: Outage
}

/** The changes since the lines before, apart from durations that have merely grown. */
export interface Changes {
  readonly type: 'changes'
  readonly sequence: number
  readonly totals: Totals
  /** New or changed rows, whole. */
  readonly changed: readonly LockRow[]
  /** The ids of those that are gone. */
  readonly removed: readonly string[]
  readonly outage?: Outage
}

export type StreamMessage = Snapshot | Changes

export interface ClientsReply {
  readonly clients: readonly (ClientState & { readonly holds: number })[]
}

/** Owners that wait for each other in a circle. */
export interface DeadlockRow {
  /** The locks in order: the owner at the same index holds it and waits for the next one. */
  readonly locks: readonly { readonly id: string; readonly name: string }[]
  readonly owners: readonly HolderInfo[]
  /** When the first wait of the circle gives up, ms; null: never. */
  readonly endsInMs: number | null
}

export interface DeadlocksReply {
  readonly cycles: readonly DeadlockRow[]
  readonly suspected: readonly DeadlockRow[]
  /** What the search could not see. */
  readonly doubts: readonly Doubt[]
}

/** The jobs that `holdfast run` has recorded, by name. */
export interface JobsReply {
  readonly jobs: readonly JobInfo[]
}

/** A forced release. */
export interface AuditRow {
  /** ISO, by the clock of the program that did it. */
  readonly at: string
  readonly lock: string
  readonly holder: string
  readonly by: string
  readonly reason: string
  readonly outcome: string
}

export interface AuditReply {
  /** Newest first. */
  readonly entries: readonly AuditRow[]
}

export interface UnlockRequest {
  readonly id: string
  /** The holder to interrupt, whole, as in `HolderRow`: another one is left alone. */
  readonly holder: string
  /** For the audit; not empty, at most 1,000 characters. */
  readonly reason: string
  /** How long the holder may take to finish, ms; default 2000, at most 60000. */
  readonly graceMs?: number
  /** Free the lock even if its holder does not react. Default false. */
  readonly anyway?: boolean
  /** With `anyway`: for how long nobody else gets the lock after that, ms; default 0, at most 60000. Not for read-write locks. */
  readonly quarantineMs?: number
}

export interface UnlockReply {
  /**
   * Released by its holder; freed without it; its holder did not react, or nobody listens on its inbox, and nothing was freed;
   * held by another one.
   */
  readonly outcome: 'released' | 'freed' | 'silent' | 'unreachable' | 'not-held'
  /** The holder that has it instead. */
  readonly holder?: string
}

export interface ErrorReply {
  /** For people. */
  readonly error: string
  readonly code:
    | 'unauthorized'
    | 'too-many-failures'
    | 'wrong-host'
    | 'wrong-origin'
    | 'not-found'
    | 'unsupported-type'
    | 'method-not-allowed'
    | 'bad-request'
    | 'too-large'
    | 'too-many-pages'
    /** Redis could not be read. */
    | 'unavailable'
}
