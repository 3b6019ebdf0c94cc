import type { ScriptCall } from '../../lua/script.js'
import type { Random } from '../../util/random.js'
import type { TurnRequest, TurnTicket } from '../../waiting/turn-queue.js'
import type { Refusal } from '../../waiting/wait-queue.js'

/** One who holds a lock, as Redis has it. */
export interface Holder {
  /** `<client id>:<owner id>`; of a Java holder `<uuid>:<thread id>`. A write lock's ends in `:write`. */
  readonly holder: string
  readonly holdCount: number
}

export interface Inspection {
  /** What is left of the present lease, ms; 0: free; Infinity: a key without expiry. */
  readonly remainingLeaseMs: number
  readonly holders: readonly Holder[]
  /** Those who hold not all of it. */
  readonly partial?: readonly string[]
}

/** What is asked of Redis by one attempt to take a lock. */
export interface AcquireRequest {
  readonly lockName: string
  readonly holder: string
  readonly leaseTimeMs: number
  /** How long the caller will wait in all, ms; 0: this is the only attempt; undefined: no limit. */
  readonly waitTimeMs: number | undefined
}

/** What Redis answered: refused, or granted. */
export type AcquireReply = Refusal | Grant

export interface Grant {
  readonly isGranted: true
  readonly fencingToken?: bigint
  /** Something that people should know about, although it was granted. */
  readonly warning?: Error
}

/**
 * How asking for a lock goes with what the same call chain holds of the same name:
 * - `again`: it is the same lock, and is re-entered
 * - `join`: granted beside it, to the same owner (a read inside its own write)
 * - `apart`: they have nothing to do with each other
 * - `deadlock`: it would wait for itself
 */
export type Nesting = 'again' | 'join' | 'apart' | 'deadlock'

/** The same calls for those who know of the line. A ticket is what wakes one client. */
export interface TurnQueueScripts {
  /** Replies as `acquire`; a client that is refused stands in line. Undefined: only releases know of the line. */
  acquire?(asked: AcquireRequest, turn: TurnRequest): ScriptCall
  /**
   * Replies as `release`.
   * @param ticket  of others in the client: they stand in line from now on, or have left it
   */
  release(lockName: string, holder: string, ticket?: TurnTicket): ScriptCall
  /** Replies as `forceRelease`. */
  forceRelease(lockName: string): ScriptCall
  leave(lockName: string, ticket: string): ScriptCall
}

/** What differs between kinds of locks: their keys, scripts and channels. Everything else is shared. */
export interface LockKind {
  /** As people call it. */
  readonly title: string
  /** What its name is the name of, at the beginning of a sentence. */
  readonly noun: string
  /** What those of a client who stand in one line have in common beside the name: they want the same. */
  readonly queue: string
  /** Of permits: which ones. */
  readonly permitIds?: readonly string[]
  /** Whether a part of it can be lost. */
  readonly isDivisible: boolean
  /** Whether many may hold it at once. */
  readonly isShared: boolean
  /** Whether the next caller of the same client may go on with what one lets go, without telling Redis. */
  readonly isHandedOff: boolean
  /** Whether each waiter has its own place in Redis; else only the first of a client asks. */
  readonly isQueuedInRedis: boolean
  /** Whether holds keep the stack of where they were taken, for `SelfDeadlockError`; that costs some µs. */
  readonly tracesHolds: boolean

  /** Whether it is the same lock, if the names are the same. */
  is(other: LockKind): boolean
  nestingIn(outer: LockKind): Nesting
  /** Whether a grant shows that no other owner has the other kind, on the same name, any more. */
  excludes(other: LockKind): boolean

  /** How Redis knows a holder. @param owner  `<client id>:<owner id>` */
  holder(owner: string): string
  /** Where a release is announced; undefined: nowhere. */
  channel(lockName: string, holder: string): string | undefined
  /** The pace of one wait that does not rely on messages: answers how long to sleep next, ms. */
  pace?(random: Random): () => number

  acquire(asked: AcquireRequest): ScriptCall
  /** How clients that wait stand in line in Redis, so that a release wakes one of them. Undefined: it wakes all. */
  readonly turnQueue?: TurnQueueScripts | undefined
  /** Gives up a place in the queue. Reply: an integer. */
  leave?(lockName: string, holder: string, waitTimeMs: number | undefined): ScriptCall
  /** Takes over from another holder; replies as `acquire`. Undefined: this kind cannot be handed over. */
  readonly adopt: ((asked: AcquireRequest, from: string) => ScriptCall) | undefined
  /** @throws {Unanswered} it is no reply of `acquire` */
  parseReply(reply: unknown, lockName: string): AcquireReply

  /** Reply: 1, the hold count is now `count`; 0, not held. */
  reenter(lockName: string, holder: string, leaseTimeMs: number, count: number): ScriptCall
  /** Reply: 1, the hold count is now `count`; 0, not held. */
  releaseOne(lockName: string, holder: string, leaseTimeMs: number, count: number): ScriptCall
  /** Reply: null, not held; else released, and how many heard it (-1: publishing was refused). */
  release(lockName: string, holder: string): ScriptCall
  /** Reply: 1, it was held; 0, it was free. */
  forceRelease(lockName: string): ScriptCall
  /** One of many in a call: see `Renewable`. */
  renew(lockName: string, holder: string, leaseTimeMs: number): ScriptCall
  /**
   * The same, if Redis was found to keep it for longer than that: its clock was set back. Only where `renew` replies how
   * long that is.
   * @param longestMs  the longest lease that was asked for
   */
  cutLease(lockName: string, holder: string, leaseTimeMs: number, longestMs: number): ScriptCall

  inspect(lockName: string): ScriptCall
  /** @throws {Unanswered} it is no reply of `inspect` */
  parseInspection(reply: unknown): Inspection
}

/** Where those of a client wait who want the same. */
export function queueName(kind: LockKind, lockName: string): string {
  return `${kind.queue}/${lockName}`
}

/** Identifies a lock, and the side of it, among what its owner claims: a reader and a writer have a field each in Redis. */
export function fieldOf(kind: LockKind, lockName: string): string {
  return `${kind.holder('')}/${lockName}`
}
