import { NoReplyError } from '../delivery/replies.js'
import { ConfigError, NotHeldError, OutcomeUnknownError, SelfDeadlockError } from '../errors.js'
import { checkName, ownOptions } from '../util/validate.js'
import { type Attempt, tryOnce, type Wait, waitFor } from '../waiting/wait-loop.js'
import { checkHolder, type Owner } from '../wire/holder.js'
import { Acquisition, begin, isTransient, reentry } from './acquisition.js'
import { BaseLock, HOLD_OPTIONS, type HoldOptions, type Request, warnOfLongWait } from './base-lock.js'
import { forceUnlock } from './force-unlock.js'
import { Hold } from './hold.js'
import { ask, inspect } from './inspection.js'
import type { Holder, LockKind } from './kinds/lock-kind.js'
import { fieldOf, Lease, type LeaseContext } from './lease.js'
import { currentScope, enclosingHolds, hasCurrentOwner } from './ownership.js'
import { untilReady } from './ready.js'
import { leavingTurnQueue } from './turn-scripts.js'

/** What the caller's call chain holds of this lock: what to re-enter, or as whom to take it. */
interface Place {
  readonly reentered?: Lease
  /** How often that had gone from caller to caller. */
  readonly handOffs?: number
  /** The writer inside whom it is read. */
  readonly joined?: Lease
}

/** The lines of a stack that are the caller's. */
function framesOf({ stack = '' }: { stack?: string }): string {
  const frames = stack.split('\n').slice(1)
  return frames.filter((line) => !/ (#runLocked|#inScope) /.test(line)).join('\n')
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
    await untilReady(context, lockName, leaseTimeMs)
    const sentAt = context.clock.now()
    lease.requesting(leaseTimeMs, sentAt)
    const asked = { lockName, holder: lease.holder, leaseTimeMs, waitTimeMs: 0 }
    const call = kind.adopt(asked, checkHolder(holder))
    try {
      const { replication } = context
      const route = replication.routeTo(lockName)
      const answer = await ask(context, lockName, 'adopt', call, (reply) => kind.parseReply(reply, lockName))
      if ('isGranted' in answer) await replication.confirm(lockName, route)
      if ('isGranted' in answer) return begin(lease, terms, sentAt, answer) as H
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
  async acquire(request: Request): Promise<H | undefined> {
    const { context, kind, name: lockName } = this
    const { terms, waitTimeMs, within } = request
    const { reentered, joined, handOffs = 0 } = this.#place(within)
    if (!reentered) context.assertOpen(lockName)
    const outer = reentered ?? joined
    const lease = reentered ?? new Lease(context, kind, lockName, outer?.owner ?? this.#owner())
    const leaseTimeMs = terms.leaseTimeMs ?? context.watchdogTimeoutMs
    const attempt = reentered
      ? reentry(reentered, handOffs, terms, leaseTimeMs)
      : new Acquisition(lease, terms, { lockName, holder: lease.holder, leaseTimeMs, waitTimeMs }, joined !== undefined)
    const wait = this.#wait(attempt, lease, request, outer !== undefined)
    const stopWarning = warnOfLongWait(context, lockName, terms)
    if (joined) joined.joining++
    try {
      return (waitTimeMs === 0 ? await tryOnce(wait, context) : await waitFor(wait, context)) as H | undefined
    } catch (error) {
      throw error instanceof NoReplyError ? new OutcomeUnknownError(lockName, 'lock', error) : error
    } finally {
      if (joined) joined.joining--
      stopWarning?.()
    }
  }

  #wait(attempt: Attempt<Hold>, lease: Lease, request: Request, isInside: boolean): Wait<Hold> {
    const { context, kind, name: lockName } = this
    const { terms, waitTimeMs = Number.POSITIVE_INFINITY, signal, onRefused } = request
    return {
      lockName,
      attempt,
      isTransient,
      takeOver: isInside ? undefined : (offered) => (offered as Lease).handOffTo(terms),
      onRefused,
      // A re-entry must not queue behind those who wait for its own outer hold, nor a reader behind those who wait for its
      // own write.
      queue: isInside || kind.isQueuedInRedis ? `${lease.ownerId}: ${lease.queue}` : lease.queue,
      channel: kind.channel(lockName, lease.holder),
      quit: leavingTurnQueue(context, kind, lockName),
      pace: kind.pace?.(context.random),
      isShared: kind.isShared,
      deadlineAt: context.clock.now() + waitTimeMs,
      signal,
    }
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
      if (nesting === 'again') return { reentered: lease, handOffs: lease.handOffs }
      if (nesting === 'join') joined ??= lease
      if (nesting === 'deadlock') obstacle ??= hold
    }
    if (joined) return { joined }
    if (!obstacle) return {}
    const held = (obstacle.lease as Lease).kind.title
    throw new SelfDeadlockError(this.name, this.kind.title, held, obstacle.takenAt && framesOf(obstacle.takenAt))
  }

  #checkWithin(within: unknown): asserts within is Hold {
    if (within instanceof Hold && within.lease.lockName === this.name && within.lease.context === this.context) {
      return within.assertHeld()
    }
    throw new ConfigError('within', undefined, 'a hold on the same lock of the same client', { lockName: this.name })
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
