/**
 * How much is known of a holder's client: it replied; it is connected but did not reply in time, so its event loop is
 * blocked, its process is stopped, or it is cut off and Redis has not noticed yet; nobody listens on its inbox, so it is
 * gone or cut off; or it does not describe itself, as Redisson, older clients and those with `inspection: false`.
 */
export type HolderStatus = 'responding' | 'silent' | 'disconnected' | 'unlisted'

/** A client, as it describes itself. */
export interface ClientInfo {
  /** Its id, the first half of its holders. */
  readonly id: string
  /** The application: `inspection.name`, else the name of its package. */
  readonly name: string
  readonly host: string
  readonly pid: number
  /** The version of the application, if known, else ''. */
  readonly version: string
}

/** A lock that a waiting call chain holds. */
export interface ChainLink {
  readonly lock: string
  readonly holder: string
}

export interface HolderInfo {
  /** `<client id>:<owner id>`, or `<uuid>:<thread id>` of a Java holder. That of a write lock ends in `:write`. */
  readonly holder: string
  readonly holdCount: number
  /** Of a read-write lock. */
  readonly mode?: 'read' | 'write'
  readonly status: HolderStatus
  /** Undefined: it is unlisted. */
  readonly client?: ClientInfo
  /** The `label` option of the call that took the lock. */
  readonly label?: string
  /** How long it has been held, ms. Undefined: not known. */
  readonly heldMs?: number
  /** Where it was taken, if its client has `inspection: { stacks: true }`. */
  readonly stack?: string
  /** The trace id of its span, with OpenTelemetry. */
  readonly trace?: string
}

export interface WaiterInfo {
  readonly client?: ClientInfo
  /** Identifies the wait within its client: the same in two replies means the same wait. Undefined: it did not reply. */
  readonly wait?: number
  /** The holder that it will be, if that is known already. */
  readonly holder?: string
  /** Its place in the queue in Redis, from 1. Undefined: no queue, or not in it. */
  readonly position?: number
  readonly label?: string
  /** ms */
  readonly waitedMs?: number
  /** When its `waitTimeMs` ends, ms from now. Undefined: never, or not known. */
  readonly givesUpInMs?: number
  /** What its call chain holds while it waits. */
  readonly chain: readonly ChainLink[]
  readonly status: HolderStatus
}

/** A lock as `client.inspect()` and `client.locks()` find it. */
export interface LockInfo {
  readonly name: string
  /** Such as `lock`, `fair lock`, `read-write lock`, `semaphore`; `unknown` if nothing in Redis tells kinds apart. */
  readonly kind: string
  /** What is left of the current lease, ms; 0: free; Infinity: a key without expiry. */
  readonly remainingLeaseMs: number
  /** The first one has held it for longest, as far as that is known. */
  readonly holders: readonly HolderInfo[]
  /** In the order of their turns, as far as there is one. */
  readonly waiters: readonly WaiterInfo[]
  /** Processes that listen for the release and are none of the clients that replied: Redisson, or an older Holdfast. */
  readonly otherListeners: number
  /** False: a client was silent, or there was more than the limit. */
  readonly isComplete: boolean
}
