import { mayBeGranted } from '../delivery/replica-acks.js'
import { isRetryable, NoReplyError } from '../delivery/replies.js'
import {
  ConfigError,
  LeaseLostError,
  NotDurableError,
  NotHeldError,
  NotReplicatedError,
  OutcomeUnknownError,
  SelfDeadlockError,
} from '../errors.js'
import type { ScriptCall } from '../lua/script.js'
import { sleep } from '../util/sleep.js'
import { checkName, ownOptions } from '../util/validate.js'
import { type Attempted, tryOnce, waitFor } from '../waiting/wait-loop.js'
import type { Standing } from '../waiting/wait-queue.js'
import { checkHolder, type Owner } from '../wire/holder.js'
import { BaseLock } from './base-lock.js'
import { forceUnlock } from './force-unlock.js'
import { Hold } from './hold.js'
import { ask, inspect } from './inspection.js'
import type { AcquireReply, AcquireRequest, Grant, Holder, LockKind } from './kinds/lock-kind.js'
import { fieldOf, Lease, type LeaseContext, type LockAttempt } from './lease.js'
import { HOLD_OPTIONS, type HoldOptions, type Request, warnOfLongWait } from './options.js'
import { currentScope, enclosingHolds, hasCurrentOwner } from './ownership.js'
import { isReady, untilReady } from './ready.js'
import { runInTurnQueue, turnQueueOf } from './turn-scripts.js'

/** A command may have been the last word on its owner for this long after its caller went away, ms. */
const LEAVE_WITHIN_MS = 10_000
/** How soon to look again for what a sibling of the same owner is about to take, ms. */
const SIBLING_MS = 20

/** What the caller's call chain holds of this lock: what to re-enter, or as whom to take it. */
interface Place {
  readonly reentered?: Lease
  /** How often that had gone from caller to caller. */
  readonly passes?: number
  /** The writer inside whom it is read. */
  readonly joined?: Lease
}

/** The lines of a stack that are the caller's. */
function framesOf({ stack = '' }: { stack?: string }): string {
  const frames = stack.split('\n').slice(1)
  return frames.filter((line) => !/ (#runLocked|#inScope) /.test(line)).join('\n')
}

/** Whether another attempt may do better: also after a grant that took longer to arrive than its lease. */
export function isTransient(error: unknown): boolean {
  if (isRetryable(error) || error instanceof NotReplicatedError) return true
  if (error instanceof NotDurableError) return error.reason === 'late'
  return error instanceof LeaseLostError && error.reason === 'expired'
}

/**
 * A lock on one name, shared by everybody who uses that name on this Redis with a lock of the same kind: this process,
 * other Node processes, and Java processes that use Redisson. Which kind it is, and what that means, is up to the method
 * of the client that made it; all of them have this interface.
 *
 * It keeps out everybody else as long as Redis keeps the key and the holder stays within its lease; a holder that is
 * paused beyond it is told afterwards, not stopped. A lock object is only a name: make as many as you like.
 * @see Redisson `RLock`
 */
export class Lock<H extends Hold = Hold> extends BaseLock<H> {
  /** @internal What makes it the kind of lock that it is. */
  readonly kind: LockKind

  /** @internal */
  declare readonly context: LeaseContext

  /** @internal Locks come from a client. */
  constructor(context: LeaseContext, kind: LockKind, name: string) {
    super(context, checkName(name))
    this.kind = kind
  }

  /**
   * Free the lock whoever holds it, and wake the waiters. A holder in this client loses it at once, any other learns of it
   * at its next renewal.
   * @returns whether it was held
   * @throws {OutcomeUnknownError} Redis did not answer
   * @see Redisson `RLock.forceUnlock`
   */
  async forceUnlock(): Promise<boolean> {
    return await forceUnlock(this.context, this.kind, this.name)
  }

  /**
   * Whether anybody holds it right now. Old news when it arrives: do not decide by it whether to write.
   * @see Redisson `RLock.isLocked`
   */
  async isLocked(): Promise<boolean> {
    return (await this.getHolders()).length > 0
  }

  /** Who holds it, and how often: one entry or none, but for a read lock, which may have many. */
  async getHolders(): Promise<readonly Holder[]> {
    return (await inspect(this.context, this.kind, this.name)).holders
  }

  /**
   * What is left of the present lease, ms; 0 if nobody holds it, Infinity if somebody took its expiry away.
   * @see Redisson `RLock.remainTimeToLive`
   */
  async remainingLeaseMs(): Promise<number> {
    return (await inspect(this.context, this.kind, this.name)).remainingLeaseMs
  }

  /**
   * Release the hold on this lock that the current owner took last, for code ported from Java: inside
   * `client.runInScope` or `withLock`.
   * @throws {NotHeldError} the current owner does not hold it, or there is no current owner
   * @throws as `Hold.unlock`
   * @see Redisson `RLock.unlock`
   */
  async unlock(): Promise<void> {
    this.#assertCurrentOwner('unlock')
    const hold = this.#enclosing()?.latest
    if (!hold) throw new NotHeldError(`Lock ${JSON.stringify(this.name)} is not held by the current owner`, this.name)
    await hold.unlock()
  }

  /**
   * Whether the current owner holds it, by Redis.
   * @throws {NotHeldError} there is no current owner: the call is inside no scope and no hold
   * @see Redisson `RLock.isHeldByCurrentThread`
   */
  async isHeldByCurrentOwner(): Promise<boolean> {
    return (await this.getHoldCount()) > 0
  }

  /**
   * How often the current owner holds it, by Redis; 0 if it does not.
   * @throws {NotHeldError} there is no current owner: the call is inside no scope and no hold
   * @see Redisson `RLock.getHoldCount`
   */
  async getHoldCount(): Promise<number> {
    this.#assertCurrentOwner('getHoldCount')
    return (await this.#enclosing()?.askHoldCount()) ?? 0
  }

  /**
   * Go on with a hold that another client let go with `hold.handOver()`: a job passed on, a step of a saga. The lock is
   * not free for a moment. Only one can adopt a hold; it gets one hold, whatever the hold count was, with a lease from
   * now, and of a fenced lock with a new token. Whoever still uses the old one is told that it is lost.
   * @param holder  what `handOver()` answered
   * @throws {NotHeldError} that holder does not hold the lock: its lease has ended, or it was adopted before
   * @throws {OutcomeUnknownError} Redis did not answer; what it may have done is released in the background
   * @throws {ConfigError} this kind of lock cannot be handed over: a read or write lock, a multi-lock of values
   */
  async adopt(holder: string, options: HoldOptions = {}): Promise<H> {
    const { context, kind, name: lockName } = this
    context.assertOpen(lockName)
    const terms = this.terms(ownOptions(options, HOLD_OPTIONS, lockName))
    if (!kind.adopt) {
      throw new ConfigError('adopt', undefined, `a lock that can be handed over, and a ${kind.title} cannot`, {
        lockName,
      })
    }
    const lease = new Lease(context, kind, lockName, context.owners.next())
    const leaseTimeMs = terms.leaseTimeMs ?? context.watchdogTimeoutMs
    if (!isReady(context, lockName, leaseTimeMs)) await untilReady(context, lockName, leaseTimeMs)
    const sentAt = context.clock.now()
    lease.requesting(leaseTimeMs, sentAt)
    const asked = { lockName, holder: lease.holder, leaseTimeMs, waitTimeMs: 0 }
    const call = kind.adopt(asked, checkHolder(holder))
    try {
      const { replication } = context
      const route = replication.routeTo(lockName)
      const answer = await ask(context, lockName, 'adopt', call, (reply) => kind.parseReply(reply, lockName))
      if ('isGranted' in answer) await replication.confirm(lockName, route)
      if ('isGranted' in answer) return this.#begin(lease, terms, sentAt, answer)
    } catch (error) {
      lease.settle() // it may have been taken over, and nobody else knows the new holder
      throw error
    }
    throw new NotHeldError(
      `Lock ${JSON.stringify(lockName)} is not held by ${holder}: its lease has ended, or somebody else adopted it`,
      lockName,
    )
  }

  /**
   * @internal Whether the caller is inside a hold that it would re-enter or join.
   * @throws {SelfDeadlockError} it would wait for itself
   */
  isInside(): boolean {
    const { reentered, joined } = this.#place(undefined)
    return reentered !== undefined || joined !== undefined
  }

  /** @internal */
  async acquire({ terms, waitTimeMs, signal, within, onRefused }: Request): Promise<H | undefined> {
    const { context, kind, name: lockName } = this
    const { clock, commandTimeoutMs } = context
    const askedAt = clock.now()
    const deadlineAt = askedAt + (waitTimeMs ?? Number.POSITIVE_INFINITY)
    const { reentered, joined, passes = 0 } = this.#place(within)
    if (!reentered) context.assertOpen(lockName)

    const owner = joined?.owner ?? (reentered ? reentered.owner : this.#owner())
    const lease = reentered ?? new Lease(context, kind, lockName, owner)
    const leaseTimeMs = terms.leaseTimeMs ?? context.watchdogTimeoutMs
    const asked: AcquireRequest = { lockName, holder: lease.holder, leaseTimeMs, waitTimeMs }
    /** Whether the owner's field is claimed for this lease. Somebody who joins claims it when it is its turn. */
    let isClaimed = !reentered && !joined
    /** Whether Redis may have granted something that no hold stands for: then it is given back at the end. */
    let mayBeHeld = false
    /** Whether Redis may have given it a place in the queue. */
    let mayBeQueued = false
    /** The caller has its outcome; what an attempt in flight still brings is not for anybody. */
    let isOver = false
    let isInFlight = false

    /** Nobody will use what Redis granted, or the place it gave. */
    const giveUp = (): void => {
      // What it holds claims it; and once it is spent it stays claimed.
      if (isClaimed && !mayBeHeld && lease.count === 0) owner.free(lease.field)
      if (mayBeHeld) lease.settle()
      else if (mayBeQueued && kind.leave) {
        owner.retire(lease.field)
        const call = kind.leave(lockName, lease.holder, waitTimeMs)
        void context.backgroundRetries.retryInBackground(call, clock.now() + LEAVE_WITHIN_MS)
      }
    }

    const inLine = turnQueueOf(context, kind)
    const attempt = async (standing?: Standing): Promise<Attempted<H>> => {
      const known = reentered ?? (isClaimed ? undefined : this.#siblingOf(lease))
      if (known) {
        const hold = await known.reenter(terms, known === reentered ? passes : known.handOffs)
        if (hold) return { granted: hold as H, leaseMs: leaseTimeMs }
        if (known === reentered) throw known.notHeld('the hold it was to re-enter has ended')
        // A sibling's hold, which it never asked to re-enter, was released meanwhile: take the lock itself.
      }
      isClaimed ||= owner.claim(lease.field)
      if (!isClaimed) {
        // Only inside its own write: as the writer it cannot read any more, and as anybody else it must not.
        if (owner.isRetiredFor(lease.field)) {
          throw lease.notHeld('an earlier hold of it inside the same write was lost, or its release is not settled')
        }
        if (waitTimeMs !== 0 || clock.now() >= askedAt + commandTimeoutMs) return { heldForMs: SIBLING_MS }
        // A sibling is about to take it, or to let it go: that is no refusal.
        await sleep(SIBLING_MS, { clock })
        return isOver ? { heldForMs: 0 } : await attempt(standing)
      }
      if (!isReady(context, lockName, leaseTimeMs)) {
        await untilReady(context, lockName, leaseTimeMs)
        if (isOver || (waitTimeMs !== 0 && clock.now() >= deadlineAt)) return { heldForMs: 0 }
      }
      let sentAt = clock.now()
      const onSent = (at: number): void => {
        sentAt = at
        lease.requesting(leaseTimeMs, at)
      }
      isInFlight = true
      mayBeQueued = waitTimeMs !== 0
      let answer: AcquireReply
      const { replication } = context
      const route = replication.routeTo(lockName)
      const current: LockAttempt = { lease: lease, hasWon: false, isForced: false }
      context.attempts.add(current)
      try {
        const inLine = standing && turnQueueOf(context, kind)?.acquire?.(asked, standing)
        const ask = (call: ScriptCall): Promise<unknown> => context.scripts.run(call, undefined, onSent)
        answer = kind.parseReply(await runInTurnQueue(context, inLine, () => kind.acquire(asked), ask), lockName)
        if ('isGranted' in answer && replication.isWanted) await replication.confirm(lockName, route)
      } catch (error) {
        mayBeHeld ||= mayBeGranted(error)
        if (isOver) giveUp()
        throw error
      } finally {
        isInFlight = false
        context.attempts.delete(current)
      }
      // Granted, and taken away since: others come first. Or it was sent again, and granted only after that.
      if (current.isForced) {
        mayBeHeld ||= 'isGranted' in answer
        answer = { heldForMs: 0 }
      }
      if ('heldForMs' in answer) {
        if (isOver) giveUp()
        return answer
      }
      mayBeQueued = false
      lease.mayHaveLateCopies ||= mayBeHeld
      mayBeHeld = true
      try {
        // Also for a caller who is gone: then it is given back as any other.
        const granted = this.#begin(lease, terms, sentAt, answer, !isOver)
        current.hasWon = true
        mayBeHeld = false
        return { granted, leaseMs: leaseTimeMs }
      } catch (error) {
        if (isOver) giveUp()
        throw error
      }
    }
    const takeOver = (offered: unknown): H | undefined => (offered as Lease).handOffTo(terms) as H | undefined
    const giveBack = (late: Hold): void => void late.unlock().catch(() => {})
    const stopWarning = warnOfLongWait(context, lockName, terms)
    if (joined) joined.joining++
    try {
      const wait = {
        lockName,
        attempt,
        isWorthRetrying: isTransient,
        takeOver: reentered || joined ? undefined : takeOver,
        onRefused,
        giveBack,
        // A re-entry must not stand in line behind those who wait for its own outer hold, nor a reader behind those who
        // wait for its own write.
        line: reentered || joined || kind.isQueuedInRedis ? `${owner.id}: ${lease.queue}` : lease.queue,
        channel: kind.channel(lockName, lease.holder),
        quit:
          inLine?.acquire &&
          ((ticket: string) => void context.scripts.run(inLine.leave(lockName, ticket)).catch(() => {})),
        pace: kind.pace?.(context.random),
        isShared: kind.isShared,
        deadlineAt,
        signal,
      }
      return waitTimeMs === 0 ? await tryOnce(wait, context) : await waitFor(wait, context)
    } catch (error) {
      throw error instanceof NoReplyError ? new OutcomeUnknownError(lockName, 'lock', error) : error
    } finally {
      isOver = true
      if (joined) joined.joining--
      stopWarning?.()
      if (!isInFlight) giveUp()
    }
  }

  #begin(lease: Lease, terms: Request['terms'], sentAt: number, grant: Grant, isWanted = true): H {
    if (grant.warning) this.context.emit('warning', grant.warning)
    lease.fencingToken = grant.fencingToken
    return lease.begin(terms, sentAt, isWanted) as H
  }

  /** @internal A new lease for the owner that the caller is. It claims the owner's field. */
  possess(): Lease {
    return new Lease(this.context, this.kind, this.name, this.#owner())
  }

  #owner(): Owner {
    return currentScope(this.context)?.ownerFor(fieldOf(this.kind, this.name)) ?? this.context.owners.next()
  }

  /** Where the caller stands: inside a hold to re-enter, inside its own write, or nowhere. */
  #place(within: Hold | undefined): Place {
    if (within !== undefined) this.#checkWithin(within)
    let joined: Lease | undefined
    let obstacle: Hold | undefined
    for (const hold of within ? [within] : enclosingHolds(this.context, this.name)) {
      const lease = hold.lease as Lease
      const nesting = this.kind.nestingIn(lease.kind)
      if (nesting === 'again') return { reentered: lease, passes: lease.handOffs }
      if (nesting === 'join') joined ??= lease
      if (nesting === 'deadlock') obstacle ??= hold
    }
    if (joined) return { joined }
    if (!obstacle) return {}
    const held = (obstacle.lease as Lease).kind
    throw new SelfDeadlockError(this.name, this.kind, held, obstacle.takenAt && framesOf(obstacle.takenAt))
  }

  #checkWithin(within: unknown): asserts within is Hold {
    if (within instanceof Hold && within.lease.lockName === this.name && within.lease.context === this.context) {
      return within.assertHeld()
    }
    throw new ConfigError('within', undefined, 'a hold on the same lock of the same client', { lockName: this.name })
  }

  /** What a sibling task took for the same owner: two reads inside one write share a field. */
  #siblingOf({ owner }: Lease): Lease | undefined {
    const isSibling = (other: Lease): boolean => other.owner === owner && other.kind.is(this.kind) && other.isLive
    return this.context.leases.named(this.name).find(isSibling)
  }

  /** What the caller is inside of. */
  #enclosing(): Lease | undefined {
    for (const { lease: holding } of enclosingHolds(this.context, this.name)) {
      if ((holding as Lease).kind.is(this.kind)) return holding as Lease
    }
    return undefined
  }

  #assertCurrentOwner(call: string): void {
    if (hasCurrentOwner(this.context)) return
    throw new NotHeldError(
      `${call}() on lock ${JSON.stringify(this.name)} needs a current owner, and this call is inside no hold and no scope: ` +
        'use the hold that lock() answered, or run the code with client.runInScope()',
      this.name,
    )
  }
}
