// One acquire of a lock: attempt, outcome, undo.
import type { Caller as ScriptCaller } from '../delivery/batch.js'
import { untilReady } from '../delivery/ready.js'
import { mayBeGranted } from '../delivery/replica-acks.js'
import { isRetryable } from '../delivery/replies.js'
import { LeaseLostError, NotDurableError, NotReplicatedError } from '../errors.js'
import type { ScriptCall } from '../lua/script.js'
import type { TurnRequest } from '../waiting/turn-queue.js'
import type { Attempt, DirectAttempt, Outcome, OutcomeSink } from '../waiting/wait-loop.js'
import type { Caller } from '../waiting/waiter.js'
import type { Hold, HoldTerms } from './hold.js'
import type { AcquireReply, AcquireRequest, Grant } from './kinds/lock-kind.js'
import type { Lease } from './lease.js'
import type { LockAttempt } from './lease-registry.js'

/** How long after its caller was dismissed a client keeps trying to leave the queue in Redis, ms. */
const LEAVE_WITHIN_MS = 10_000
/** Delay before retrying a lock that a sibling of the same owner is about to take or release, ms. */
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
  readonly terms: HoldTerms
  readonly request: AcquireRequest
  /** When the last attempt was sent, on the clock. */
  sentAt: number | undefined
  hasBegun = false
  readonly #lease: Lease
  /** Until when even a single try waits for a sibling inside the same write, on the clock; 0: it is taken inside none. */
  readonly #retryUntil: number
  /** Whether the owner's field is claimed for this lease. */
  #isClaimed: boolean

  /** @param isJoined  it is taken inside a write of the same owner: the field is claimed when it is this caller's turn */
  constructor(lease: Lease, terms: HoldTerms, request: AcquireRequest, isJoined: boolean) {
    this.#lease = lease
    this.terms = terms
    this.request = request
    this.#isClaimed = !isJoined
    this.#retryUntil = isJoined ? lease.context.clock.now() + lease.context.commandTimeoutMs : 0
  }

  untilReady(): Promise<void> | undefined {
    const { context } = this.#lease
    const isReentry = !this.#isClaimed && this.#sibling() !== undefined
    return isReentry ? undefined : untilReady(context, this.#lease, this.request.leaseTimeMs)
  }

  async run(caller: Caller, turn?: TurnRequest): Promise<Outcome<Hold>> {
    const outcome = this.#isClaimed ? undefined : await this.#joinOrClaim()
    return outcome ?? (await new Promise((done, failed) => this.start(caller, { done, failed }, turn)))
  }

  /** As `run`, without a promise. The owner's field has to be claimed. */
  start(caller: Caller, sink: OutcomeSink<Hold>, turn?: TurnRequest): void {
    const lease = this.#lease
    const { context, kind } = lease
    const { scripts, replication } = context
    const attempt = new SentAttempt(this, lease, kind.acquire(this.request), caller, sink)
    context.attempts.add(attempt)
    if (replication.isWanted) attempt.route = replication.routeTo(lease.key)
    const inTurn = turn && context.turnQueues.of(kind)?.acquire?.(this.request, turn)
    if (inTurn) this.#runInTurn(inTurn, attempt).then(attempt.resolve.bind(attempt), attempt.reject.bind(attempt))
    else scripts.submit(attempt)
  }

  /** If a hold has begun, its release frees what late copies take. */
  undo(left: readonly Outcome<Hold>[]): void {
    if (this.hasBegun && left.length === 0) return
    const lease = this.#lease
    const isInDoubt = left.some(({ is }) => is === 'unknown')
    lease.copies.isInDoubt ||= isInDoubt
    if (!this.hasBegun) {
      if (lease.copies.isInDoubt || lease.copies.until > 0) lease.releaseInBackground()
      else this.#leave()
    }
    releaseLate(left)
  }

  /** Redis granted nothing: unclaims the owner's field, and leaves the queue. */
  #leave(): void {
    const { context, kind, key, owner, field, holder } = this.#lease
    const { waitTimeMs } = this.request
    if (this.#isClaimed) owner.unclaim(field)
    if (this.sentAt === undefined || waitTimeMs === 0 || !kind.leave) return
    owner.retire(field)
    const call = kind.leave(key, holder, waitTimeMs)
    void context.backgroundRetries.retryInBackground(call, context.clock.now() + LEAVE_WITHIN_MS)
  }

  #runInTurn(inTurn: ScriptCall, attempt: SentAttempt): Promise<unknown> {
    const { context, kind } = this.#lease
    const run = (call: ScriptCall): Promise<unknown> => context.scripts.run(call, undefined, (at) => attempt.onSent(at))
    return context.turnQueues.run(inTurn, () => kind.acquire(this.request), run)
  }

  /**
   * A lock inside the caller's own write: re-enters what a sibling has, or claims the owner's field.
   * @returns undefined: it is claimed, and Redis can be asked
   */
  async #joinOrClaim(): Promise<Outcome<Hold> | undefined> {
    const { owner, field } = this.#lease
    const sibling = this.#sibling()
    const value = sibling && (await sibling.reenter(this.terms, sibling.handOffs))
    if (value) return { is: 'granted', value, leaseMs: this.request.leaseTimeMs }
    // A sibling's hold that this caller never asked to re-enter was released meanwhile: it takes the lock itself.
    this.#isClaimed = owner.claim(field)
    if (this.#isClaimed) return undefined
    // It can no longer read as the writer, and must not read as another owner.
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

/** One attempt, from when it is sent until its caller has the outcome. */
class SentAttempt implements ScriptCaller, LockAttempt<Lease> {
  hasWon = false
  isForced = false
  attempted = -1
  /** The route of the grant, if it is to be confirmed there. */
  route: string | undefined = undefined

  constructor(
    readonly acquisition: Acquisition,
    readonly lease: Lease,
    readonly call: ScriptCall,
    readonly caller: Caller,
    readonly sink: OutcomeSink<Hold>,
  ) {}

  onSent(at: number): void {
    const { acquisition, lease } = this
    acquisition.sentAt = at
    lease.copies.sending(at)
    lease.requesting(acquisition.request.leaseTimeMs, at)
  }

  resolve(raw: unknown): void {
    const { lease, route } = this
    let reply: AcquireReply
    try {
      reply = lease.kind.parseReply(raw, lease)
    } catch (error) {
      this.reject(error)
      return
    }
    if (route === undefined || !('isGranted' in reply)) {
      this.#end(this.#outcomeOf(reply))
      return
    }
    lease.context.replication.confirm(lease, route).then(
      () => this.#end(this.#outcomeOf(reply)),
      (error: unknown) => this.#end({ is: 'unknown', error }),
    )
  }

  reject(error: unknown): void {
    if (mayBeGranted(error)) {
      this.#end({ is: 'unknown', error })
      return
    }
    this.lease.context.attempts.delete(this)
    this.sink.failed(error)
  }

  #end(outcome: Outcome<Hold>): void {
    this.lease.context.attempts.delete(this)
    this.sink.done(outcome)
  }

  #outcomeOf(reply: AcquireReply): Outcome<Hold> {
    const { acquisition, lease, isForced } = this
    const { terms, request, sentAt } = acquisition
    try {
      // Force-unlocked since: the lock is free, or was for a moment.
      if ('rank' in reply) request.place = reply.rank
      if (!('isGranted' in reply)) return { is: 'refused', ...(isForced ? { heldForMs: 0 } : reply) }
      // Granted and then force-unlocked, so other waiters come first; or resent, and granted only after the force-unlock.
      if (isForced) return { is: 'unknown' }
      // Also for a caller that has left: its late grant is released like any other.
      const value = begin(lease, terms, sentAt as number, reply, !this.caller.hasLeft)
      acquisition.hasBegun = true
      this.hasWon = true
      return { is: 'granted', value, leaseMs: request.leaseTimeMs }
    } catch (error) {
      return { is: 'unknown', error }
    }
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
