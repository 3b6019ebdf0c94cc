// The differences between kinds of locks.
import { ConfigError, QueueFullError } from '../../errors.js'
import type { ScriptCall } from '../../lua/script.js'
import type { Random } from '../../util/random.js'
import type { TurnRequest, TurnTicket } from '../../waiting/turn-queue.js'
import type { Refusal } from '../../waiting/wait-queue.js'
import type { Named } from '../../wire/names.js'

/** A holder of a lock, according to Redis. */
export interface Holder {
  /** `<client id>:<owner id>`, or `<uuid>:<thread id>` of a Java holder. That of a write lock ends in `:write`. */
  readonly holder: string
  readonly holdCount: number
}

export interface Inspection {
  /** Remaining lease, ms; 0: free; Infinity: a key without expiry. */
  readonly remainingLeaseMs: number
  readonly holders: readonly Holder[]
  /** Where the next call continues, if one call does not list all holders; then `holders` may even be empty. */
  readonly next?: string | undefined
  /** How many others may hold it. */
  readonly others?: number
  /** Holders of only a part of it. */
  readonly partial?: readonly string[]
  /** The holders to wait for, if they are others: those of the other side of a read-write lock. */
  readonly blockers?: {
    readonly remainingLeaseMs: number
    readonly holders: readonly (Holder & { readonly mode: 'read' | 'write' })[]
    readonly others?: number
  }
}

/** The request of one attempt to take a lock. */
export interface AcquireRequest {
  /** The lock in Redis. */
  readonly key: string
  readonly holder: string
  readonly leaseTimeMs: number
  /** How long the caller will wait in all, ms; 0: this is its only attempt; undefined: no limit. */
  readonly waitTimeMs: number | undefined
  /** Higher first, in the queue of an ordered lock. Default 0. */
  readonly priority?: number | undefined
  /** The place in that queue that the last attempt got. */
  place?: string | undefined
}

/** The reply of Redis: refused or granted. */
export type AcquireReply = Refusal | Grant

export interface Grant {
  readonly isGranted: true
  readonly fencingToken?: bigint
  /** Something to warn about although the lock was granted. */
  readonly warning?: Error
}

/**
 * How requesting a lock relates to a lock that the same call chain already holds under the same name:
 * - `again`: it is the same lock, and is re-entered
 * - `join`: it is granted in addition, to the same owner (a read inside its own write)
 * - `apart`: they are independent
 * - `deadlock`: it would wait for itself
 */
export type Nesting = 'again' | 'join' | 'apart' | 'deadlock'

/** Variants of the calls for the turn queue, in which a client waits under a ticket. */
export interface TurnQueueScripts {
  /** Replies as `acquire`; a client that is refused joins the turn queue. Undefined: only releases serve the turn queue. */
  acquire?(request: AcquireRequest, turn: TurnRequest): ScriptCall
  /**
   * Replies as `release`.
   * @param ticket  of this client: it joins the turn queue if other callers wait, and leaves it otherwise
   */
  release(key: string, holder: string, ticket?: TurnTicket): ScriptCall
  leave(key: string, ticket: string): ScriptCall
}

/** A kind of lock: its keys, scripts and channels. Everything else is shared. */
export interface LockKind {
  /** Its key in the table of kinds. */
  readonly id: string
  /** Its name in messages. */
  readonly title: string
  /** The thing that the lock name names, at the beginning of a sentence. */
  readonly noun: string
  /** With the name it identifies the wait queue: only callers that want the same share one. */
  readonly queue: string
  /** The ids, if it is about permits. */
  readonly permitIds?: readonly string[]
  /** Which side of a read-write lock it is. */
  readonly mode?: 'read' | 'write'
  /** The kind that its holder may hold inside it. Both end when it is broken. */
  readonly inside?: LockKind
  /** Whether a part of it can be lost. */
  readonly isDivisible: boolean
  /** Whether many may hold it at once. */
  readonly isShared: boolean
  /** Whether a release may be a hand-off: the next caller of the same client gets the lease, without a command. */
  readonly isHandedOff: boolean
  /** Whether each waiter is queued in Redis; otherwise only the head of the client's wait queue asks. */
  readonly isQueuedInRedis: boolean
  /** Whether requests have a priority. */
  readonly isOrdered: boolean
  /** Whether holds record the stack where they were taken, for `SelfDeadlockError`; that costs some µs. */
  readonly tracesHolds: boolean

  /** Whether it is the same lock, given the same name. */
  is(other: LockKind): boolean
  nestingIn(outer: LockKind): Nesting
  /** Whether a grant proves that no other owner holds a lock of the other kind with this name. */
  excludes(other: LockKind): boolean

  /** The holder in Redis. @param owner  `<client id>:<owner id>` */
  holder(owner: string): string
  /** Who waits, in the queue of an ordered lock: it begins with the client's id. @param holder  which it will be */
  waiter(holder: string): string
  /** Where releases are published; undefined: nowhere. */
  channel(key: string, holder: string): string | undefined
  /** For a wait that does not rely on messages: returns a function that returns how long to sleep next, ms. */
  pace?(random: Random): () => number

  acquire(request: AcquireRequest): ScriptCall
  /** How waiting clients queue in Redis, so that a release wakes one of them. Undefined: it wakes all. */
  readonly turnQueue?: TurnQueueScripts | undefined
  /** Removes a waiter from the queue in Redis. Reply: an integer. */
  leave?(key: string, holder: string, waitTimeMs: number | undefined): ScriptCall
  /** Takes over from another holder; replies as `acquire`. Undefined: holds of this kind cannot be transferred. */
  readonly adopt: ((request: AcquireRequest, from: string) => ScriptCall) | undefined
  /** @throws {NoReplyError} it is not a reply of `acquire` */
  parseReply(reply: unknown, lock: Named): AcquireReply

  /** Reply: 1, the hold count is now `count`; 0, not held. */
  reenter(key: string, holder: string, leaseTimeMs: number, count: number): ScriptCall
  /** Reply: 1, the hold count is now `count`; 0, not held. */
  releaseOne(key: string, holder: string, leaseTimeMs: number, count: number): ScriptCall
  /** Reply: null, not held; otherwise released, and how many received the message (-1: publishing was refused). */
  release(key: string, holder: string): ScriptCall
  /** One of many in a call: see `Renewable`. */
  renew(key: string, holder: string, leaseTimeMs: number): ScriptCall
  /**
   * Renews, and cuts the lease if it is longer than was ever requested: the clock of Redis was set back. Only for kinds
   * whose `renew` replies with what is left.
   * @param longestMs  the longest lease requested
   */
  renewCapped(key: string, holder: string, leaseTimeMs: number, longestMs: number): ScriptCall
  /** Ends the lease after `leaseTimeMs` at the latest, and never extends it. Reply: an integer. */
  shorten(key: string, holder: string, leaseTimeMs: number): ScriptCall

  /**
   * @param of  asks about this holder alone: others may be missing in the reply
   * @param from  `next` of the inspection before
   */
  inspect(key: string, of?: string, from?: string): ScriptCall
  /** @throws {NoReplyError} it is not a reply of `inspect` */
  parseInspection(reply: unknown): Inspection
}

/** @throws {QueueFullError} as many wait as the caller allows */
export function refuseFull(reply: unknown, lockName: string, noun?: string): void {
  if (!Array.isArray(reply) || String(reply[0]) !== 'FULL') return
  const [, waiting, ...holders] = reply
  throw new QueueFullError(lockName, Number(waiting), holders.map(String), noun)
}

/** The wait queue of the callers of a client that want the same. */
export function queueName(kind: LockKind, key: string): string {
  return `${kind.queue}/${key}`
}

/** Identifies a lock and its side among its owner's claims: a reader and a writer have a field each in Redis. */
export function fieldOf(kind: LockKind, key: string): string {
  return `${kind.holder('')}/${key}`
}

/**
 * @param call  what needs it, for the error
 * @throws {ConfigError} holds of this kind cannot be transferred
 */
export function transferScript(kind: LockKind, call: string, lockName: string): NonNullable<LockKind['adopt']> {
  if (kind.adopt) return kind.adopt
  throw new ConfigError(call, undefined, `a lock that can be handed over, and a ${kind.title} cannot`, { lockName })
}
