/** What errors, events and inspections share: a client, a holder, and the reason why a call waits. */

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

/** `reports@rep-5d8 pid 1` */
export function processName({ name, host, pid }: ClientInfo): string {
  return `${name}${host === '' ? '' : `@${host}`} pid ${pid}`
}

/** A holder, as far as it is known without asking its client. Texts of other clients are as these wrote them. */
export interface KnownHolder {
  /** `<client id>:<owner id>`, or `<uuid>:<thread id>` of a Java holder. That of a write lock ends in `:write`. */
  readonly holder: string
  readonly holdCount: number
  /** The side of a read-write lock. */
  readonly mode?: 'read' | 'write'
  /** Undefined: its client was not asked. */
  readonly status?: HolderStatus
  /** Undefined: it does not describe itself, or was not asked. */
  readonly client?: ClientInfo
  /** The `label` option of the call that took the lock. */
  readonly label?: string
  /** How long it has been held, ms. Undefined: not known. */
  readonly heldMs?: number
  /** The trace id of its span, with OpenTelemetry: 32 hexadecimal digits. */
  readonly trace?: string
  /** The id of that span: 16 hexadecimal digits. */
  readonly span?: string
}

/** A holder as `client.fleet.inspect()` finds it. */
export interface HolderInfo extends KnownHolder {
  readonly status: HolderStatus
  /** What is left of the lease of a permit, ms. Undefined: it has none, or is no permit. */
  readonly remainingLeaseMs?: number
  /** Where it was taken, if its client has `inspection: { stacks: true }`. */
  readonly stack?: string
}

/** Why a call waits, as far as that is known. */
export interface WaitDetails {
  /**
   * The holder of what it waits for, and since when: `held by this client, taken 61 s ago, label "refund"`. For people: the
   * wording may change.
   */
  readonly heldBy: string | undefined
  /**
   * The same for programs, at most 100, the longest known hold first: those of this client, which are known from memory;
   * if there are none, those that Redis names. Empty: not known, or nobody holds it any more. Of a lock made of others, the
   * holders of the first one that is held.
   */
  readonly holders: readonly KnownHolder[]
  /**
   * The place in the queue in Redis, from 1: of the call, for a fair or ordered lock; of its client, for other locks with a
   * queue. Undefined: not known, as after less than 1 s or if this client holds the lock; or there is no queue.
   */
  readonly position: number | undefined
}
