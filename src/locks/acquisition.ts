// One acquire of a lock: attempt, outcome, undo.
import { untilReady } from '../delivery/ready.js'
import { mayBeGranted } from '../delivery/replica-acks.js'
import { isRetryable } from '../delivery/replies.js'
import { LeaseLostError, NotDurableError, NotReplicatedError } from '../errors.js'
import type { ScriptCall } from '../lua/script.js'
import type { TurnRequest } from '../waiting/turn-queue.js'
import type { Attempt, DirectAttempt, Outcome } from '../waiting/wait-loop.js'
import type { Caller } from '../waiting/waiter.js'
import type { Hold, HoldTerms } from './hold.js'
import type { AcquireReply, AcquireRequest, Grant } from './kinds/lock-kind.js'
import type { Lease } from './lease.js'
import type { LockAttempt } from './lease-registry.js'

/** For this long after its caller has left, a client gives up its place in the queue, ms. */
const LEAVE_WITHIN_MS = 10_000
/** How soon to try again what a sibling of the same owner is about to take, ms. */
const SIBLING_MS = 20

/** Whether another attempt may succeed: also after a grant that took longer to arrive than its lease. */
export function isTransient(error: unknown): boolean {
  if (isRetryable(error) || error instanceof NotReplicatedError) return true
  if (error instanceof NotDurableError) return error.reason === 'late'
  return error instanceof LeaseLostError && error.reason === 'expired'
}

/** The lease begins: the command that was sent at `sentAt` won. @throws as `Lease.begin` */
export function begin(lease: Lease, terms: HoldTerms, sentAt: number, grant: Grant, isWanted = true): Hold {
  if (grant.warning) lease.context.emit('warning', grant.warning)
  lease.fencingToken = grant.fencingToken
  return lease.begin(terms, sentAt, isWanted)
}

/** Releases what was granted after its caller had left. What cannot be released now is released in the background. */
export function releaseLate(left: readonly Outcome<Hold>[]): void {
  for (const outcome of left) if (outcome.is === 'granted') void outcome.value.unlock().catch(() => {})
}

/** One caller takes a lock: its attempts, and what is undone if it ends without the lock. */
export class Acquisition implements DirectAttempt<Hold> {
  readonly #lease: Lease
  readonly #terms: HoldTerms
  readonly #request: AcquireRequest
  /** Until when even a single try waits for a sibling inside the same write, on the clock; 0: it is taken inside none. */
  readonly #retryUntil: number
  /** Whether the owner's field is claimed for this lease. */
  #isClaimed: boolean
  /** When the last attempt was sent, on the clock. */
  #sentAt: number | undefined
  #hasBegun = false

  /** @param isJoined  it is taken inside a write of the same owner: the field is claimed when it is this caller's turn */
  constructor(lease: Lease, terms: HoldTerms, request: AcquireRequest, isJoined: boolean) {
    this.#lease = lease
    this.#terms = terms
    this.#request = request
    this.#isClaimed = !isJoined
    this.#retryUntil = isJoined ? lease.context.clock.now() + lease.context.commandTimeoutMs : 0
  }

  untilReady(): Promise<void> | undefined {
    const { context } = this.#lease
    const isReentry = !this.#isClaimed && this.#sibling() !== undefined
    return isReentry ? undefined : untilReady(context, this.#lease, this.#request.leaseTimeMs)
  }

  async run(caller: Caller, turn?: TurnRequest): Promise<Outcome<Hold>> {
    const outcome = this.#isClaimed ? undefined : await this.#joinOrClaim()
    return outcome ?? (await new Promise((resolve, reject) => this.start(caller, resolve, reject, turn)))
  }

  /** As `run`, with callbacks. The owner's field has to be claimed. */
  start(
    caller: Caller,
    done: (outcome: Outcome<Hold>) => void,
    failed: (error: unknown) => void,
    turn?: TurnRequest,
  ): void {
    const lease = this.#lease
    const { context, kind, key } = lease
    const { replication, scripts } = context
    const attempt: LockAttempt<Lease> = { lease, hasWon: false, isForced: false, attempted: -1 }
    context.attempts.add(attempt)
    const route = replication.isWanted ? replication.routeTo(key) : undefined
    const onError = (error: unknown): void => {
      context.attempts.delete(attempt)
      if (mayBeGranted(error)) done({ is: 'unknown', error })
      else failed(error)
    }
    const onReply = (raw: unknown): void => {
      let reply: AcquireReply
      try {
        reply = kind.parseReply(raw, lease)
      } catch (error) {
        onError(error)
        return
      }
      const grant = reply
      if (!('isGranted' in grant) || route === undefined) {
        done(this.#outcomeOf(grant, attempt, caller))
        return
      }
      replication.confirm(lease, route).then(
        () => done(this.#outcomeOf(grant, attempt, caller)),
        (error: unknown) => {
          context.attempts.delete(attempt)
          done({ is: 'unknown', error })
        },
      )
    }
    const inTurn = turn && context.turnQueues.of(kind)?.acquire?.(this.#request, turn)
    if (inTurn) this.#runInTurn(inTurn).then(onReply, onError)
    else scripts.submit({ call: kind.acquire(this.#request), resolve: onReply, reject: onError, onSent: this.#onSent })
  }

  #outcomeOf(reply: AcquireReply, attempt: LockAttempt<Lease>, caller: Caller): Outcome<Hold> {
    const { isForced } = attempt
    try {
      // Force-unlocked since: the lock is free, or was for a moment.
      if (!('isGranted' in reply)) return { is: 'refused', ...(isForced ? { heldForMs: 0 } : reply) }
      // Granted, and taken away since: others come first. Or it was sent again, and granted only after that.
      if (isForced) return { is: 'unknown' }
      // Also for a caller that has left: its late grant is released like any other.
      const value = begin(this.#lease, this.#terms, this.#sentAt as number, reply, !caller.hasLeft)
      this.#hasBegun = true
      attempt.hasWon = true
      return { is: 'granted', value, leaseMs: this.#request.leaseTimeMs }
    } catch (error) {
      return { is: 'unknown', error }
    } finally {
      this.#lease.context.attempts.delete(attempt)
    }
  }

  /** If a hold has begun, its release frees what late copies take. */
  undo(left: readonly Outcome<Hold>[]): void {
    const lease = this.#lease
    const isInDoubt = left.some(({ is }) => is === 'unknown')
    lease.copies.isInDoubt ||= isInDoubt
    if (!this.#hasBegun) {
      if (lease.copies.isInDoubt || lease.copies.until > 0) lease.releaseInBackground()
      else this.#leave()
    }
    releaseLate(left)
  }

  /** Redis granted nothing: unclaims the owner's field, and leaves the queue. */
  #leave(): void {
    const { context, kind, key, owner, field, holder } = this.#lease
    const { waitTimeMs } = this.#request
    if (this.#isClaimed) owner.unclaim(field)
    if (this.#sentAt === undefined || waitTimeMs === 0 || !kind.leave) return
    owner.retire(field)
    const call = kind.leave(key, holder, waitTimeMs)
    void context.backgroundRetries.retryInBackground(call, context.clock.now() + LEAVE_WITHIN_MS)
  }

  #runInTurn(inTurn: ScriptCall): Promise<unknown> {
    const { context, kind } = this.#lease
    const run = (call: ScriptCall): Promise<unknown> => context.scripts.run(call, undefined, this.#onSent)
    return context.turnQueues.run(inTurn, () => kind.acquire(this.#request), run)
  }

  readonly #onSent = (at: number): void => {
    this.#sentAt = at
    this.#lease.copies.sending(at)
    this.#lease.requesting(this.#request.leaseTimeMs, at)
  }

  /**
   * A lock inside the caller's own write: re-enters what a sibling has, or claims the owner's field.
   * @returns undefined: it is claimed, and Redis can be asked
   */
  async #joinOrClaim(): Promise<Outcome<Hold> | undefined> {
    const { owner, field } = this.#lease
    const sibling = this.#sibling()
    const value = sibling && (await sibling.reenter(this.#terms, sibling.handOffs))
    if (value) return { is: 'granted', value, leaseMs: this.#request.leaseTimeMs }
    // A sibling's hold that this caller never asked to re-enter was released meanwhile: it takes the lock itself.
    this.#isClaimed = owner.claim(field)
    if (this.#isClaimed) return undefined
    // As the writer it cannot read any more, and as anyone else it must not.
    if (owner.isRetiredFor(field)) {
      throw this.#lease.notHeld('an earlier hold of it inside the same write was lost, or its release is not settled')
    }
    // A sibling is about to take it or to release it, which even a single try waits for.
    return { is: 'refused', heldForMs: SIBLING_MS, retryUntil: this.#retryUntil }
  }

  /** The lease that a sibling task took for the same owner: two reads inside one write share a field. */
  #sibling(): Lease | undefined {
    const { context, kind, key, holder } = this.#lease
    const sibling = context.leases.find(key, holder)
    return sibling?.kind.is(kind) && sibling.isLive ? sibling : undefined
  }
}

/** Takes once more what the caller holds. A lost reply leaves nothing to undo: the next command writes the right count. */
export function reentry(lease: Lease, handOffs: number, terms: HoldTerms, leaseTimeMs: number): Attempt<Hold> {
  return {
    run: async () => {
      const value = await lease.reenter(terms, handOffs)
      if (!value) throw lease.notHeld('the hold to re-enter has ended')
      return { is: 'granted', value, leaseMs: leaseTimeMs }
    },
    undo: releaseLate,
  }
}
