// One call that takes a lock, as the wait loop sees it, and what it reports while it waits.
import type { WaitDetails } from '../holder-info.js'
import type { OwnTicket } from '../waiting/turn-queue.js'
import type { Attempt, DirectWait } from '../waiting/wait-loop.js'
import { fairQueue, orderedQueue, turnQueueKey } from '../wire/keys.js'
import type { Named } from '../wire/names.js'
import { Acquisition, isTransient } from './acquisition.js'
import type { Hold } from './hold.js'
import { asLockError } from './inspection.js'
import type { LockKind } from './kinds/lock-kind.js'
import type { Lease, LeaseContext } from './lease.js'
import type { Request } from './options.js'
import { LongWait } from './reporting/long-wait.js'
import { waitBegan } from './reporting/waiting-calls.js'
import type { QueuePlace } from './reporting/who-holds.js'

/** The lock that is waited for. */
interface Wanted extends Named {
  readonly context: LeaseContext
  readonly kind: LockKind
  readonly queue: string
  whoHolds(waitedMs: number, place?: QueuePlace): Promise<WaitDetails>
}

/** Everything that only a call that is refused needs is made when it is refused. */
export class LockWait<A extends Attempt<Hold>> implements DirectWait<Hold, A> {
  readonly attempt: A
  readonly lockName: string
  readonly queue: string
  readonly signal: AbortSignal | undefined
  readonly isShared: boolean
  readonly deadlineAt: number
  readonly ownTicket: OwnTicket | undefined
  readonly isTransient = isTransient
  readonly #lock: Wanted
  readonly #lease: Lease
  readonly #request: Request
  readonly #isInside: boolean
  #longWait: LongWait | undefined
  #endWait: (() => void) | undefined
  #pace: (() => number) | undefined

  /** @param isInside  the caller is inside a hold on the lock, which it re-enters or joins */
  constructor(lock: Wanted, lease: Lease, attempt: A, request: Request, isInside: boolean) {
    const { context, kind, queue } = lock
    const { waitTimeMs, terms } = request
    this.attempt = attempt
    this.lockName = lock.name
    this.signal = request.signal
    this.isShared = kind.isShared
    this.#lock = lock
    this.#lease = lease
    this.#request = request
    this.#isInside = isInside
    // A re-entry must not queue behind callers that wait for its own outer hold, nor a reader behind callers that wait for
    // its own write.
    this.queue = isInside || kind.isQueuedInRedis ? `${lease.ownerId}: ${queue}` : queue
    this.deadlineAt = waitTimeMs === undefined ? Number.POSITIVE_INFINITY : context.clock.now() + waitTimeMs
    if (kind.isOrdered) {
      this.ownTicket = { number: kind.waiter(lease.holder).slice(context.clientId.length), since: context.inbox.epoch }
    }
    if (terms.warnAfterMs !== undefined && !request.isMember) this.#longWait = this.#newLongWait()
  }

  get takeOver(): ((offered: unknown) => Hold | undefined) | undefined {
    const { terms } = this.#request
    return this.#isInside ? undefined : (offered) => (offered as Lease).handOffTo(terms)
  }

  get channel(): string | undefined {
    return this.#lock.kind.channel(this.#lock.key, this.#lease.holder)
  }

  get leaveTurnQueue(): ((ticket: string) => void) | undefined {
    const { context, kind, key } = this.#lock
    if (kind.isOrdered) return () => {} // what its attempts leave behind, the last of them undoes
    const turnQueue = context.turnQueues.of(kind)
    if (!turnQueue?.acquire) return undefined
    return (ticket) => void context.scripts.run(turnQueue.leave(key, ticket)).catch(() => {})
  }

  get pace(): (() => number) | undefined {
    const { kind, context } = this.#lock
    this.#pace ??= kind.pace?.(context.random)
    return this.#pace
  }

  get isHeldHere(): boolean {
    const { kind, context, key } = this.#lock
    return kind.isHandedOff && context.leases.onKey(key).some((lease) => lease.isLive && lease.kind.is(kind))
  }

  onRefused(): void {
    const { context, key } = this.#lock
    const { terms, observed, isMember } = this.#request
    this.#endWait ??= waitBegan(context, key, terms.label, this.deadlineAt)
    observed?.refused()
    if (!isMember) {
      this.#longWait ??= this.#newLongWait()
      this.#longWait.refused()
    }
    this.#request.onRefused?.(this.#lease.holder)
  }

  onTimeOver(): void {
    const { isRequired, isMember, waitTimeMs = 0 } = this.#request
    if (isRequired && !isMember) this.#request.details = this.#whoHolds(waitTimeMs)
  }

  onEnd(): void {
    this.#longWait?.end()
    this.#endWait?.()
  }

  /** @throws as the API */
  async finish(waiting: Promise<Hold | undefined>): Promise<Hold | undefined> {
    try {
      return await waiting
    } catch (error) {
      throw await asLockError(this.#lock.context, this.#lock, 'lock', error)
    }
  }

  #newLongWait(): LongWait {
    const { context, name } = this.#lock
    const { terms, observed } = this.#request
    return new LongWait(context, name, terms, (waitedMs) => this.#whoHolds(waitedMs), observed)
  }

  #whoHolds(waitedMs: number): Promise<WaitDetails> {
    return this.#lock.whoHolds(waitedMs, this.#place)
  }

  /** Where the call is queued in Redis. */
  get #place(): QueuePlace | undefined {
    const { context, kind, key } = this.#lock
    const entry = this.#lease.holder
    if (kind.isOrdered) {
      const score = this.attempt instanceof Acquisition ? this.attempt.request.place : undefined
      return score === undefined ? undefined : { key: orderedQueue(key), entry, score }
    }
    if (kind.isQueuedInRedis) return { key: fairQueue(key), entry }
    const ticket = context.waitQueues.at(this.queue)?.ticket
    return ticket === undefined ? undefined : { key: turnQueueKey(key), entry: ticket }
  }
}
