// A lock on one name: adopt, inspect, forceUnlock.
import { untilReady } from '../delivery/ready.js'
import { ConfigError, NotHeldError, SelfDeadlockError } from '../errors.js'
import type { KnownHolder, WaitDetails } from '../holder-info.js'
import { checkSignal, ownOptions } from '../util/validate.js'
import { type Attempt, askFirst, tryOnce, Unfinished, waitFor } from '../waiting/wait-loop.js'
import { checkHolder } from '../wire/holder.js'
import { Acquisition, begin, reentry } from './acquisition.js'
import { BaseLock } from './base-lock.js'
import { forceUnlock } from './breaking/force-unlock.js'
import type { ForceUnlockOptions, ForceUnlockResult } from './breaking/interrupt.js'
import { assertCurrentOwner, type Subject } from './current-owner.js'
import { Hold, type HoldTerms } from './hold.js'
import { asLockError, inspect } from './inspection.js'
import { fieldOf, type Holder, type LockKind, queueName, transferScript } from './kinds/lock-kind.js'
import { Lease, type LeaseContext } from './lease.js'
import { LockWait } from './lock-wait.js'
import { checkPriority, HOLD_OPTIONS, type HoldOptions, type Request } from './options.js'
import { currentScope, enclosingHolds, openHolds } from './ownership.js'
import { watchDropped } from './reporting/dropped-holds.js'
import { observeRequest, reportGranted, settled } from './reporting/observation.js'
import { ownHolders, type QueuePlace, whoHolds } from './reporting/who-holds.js'
import { type LockState, type WatchOptions, watchLock } from './watch.js'

/** The caller's own hold on this lock: one to re-enter, or the write it reads inside of. */
interface CallerContext {
  readonly reentered?: Lease
  /** How many hand-offs that lease had been through. */
  readonly handOffs?: number
  /** The write inside which it is read. */
  readonly joined?: Lease
}

const OUTSIDE: CallerContext = {}

/**
 * A lock on one name, shared by everyone who uses a lock of the same kind with that name on this Redis: this process, other
 * Node processes, and Java processes that use Redisson. The client method that creates it determines the kind; all kinds
 * have this interface.
 *
 * It is exclusive as long as Redis keeps the key and the holder stays within its lease; a holder that is paused for longer
 * is notified afterwards, not stopped. A lock object is only a name: create as many as you like.
 * @see Redisson `RLock`
 */
export class Lock<H extends Hold = Hold> extends BaseLock<H> {
  /** @internal What Redis has: the name, or what `nameMapper` makes of it. */
  readonly key: string
  /** @internal */
  readonly kind: LockKind

  #queue: string | undefined

  /** @internal */
  declare readonly context: LeaseContext

  /** @internal */
  get title(): string {
    return this.kind.title
  }

  /** @internal The wait queue of its callers. Made once: looking up a text that was just put together costs more. */
  get queue(): string {
    this.#queue ??= queueName(this.kind, this.key)
    return this.#queue
  }

  /** @internal Locks come from a client. */
  constructor(context: LeaseContext, kind: LockKind, name: string, key: string) {
    super(context, name)
    this.key = key
    this.kind = kind
  }

  /**
   * Breaks the lock. With a holder, that one is interrupted: its `signal` aborts, and it releases the lock when its work has
   * ended, within `graceMs`; only then does the next waiter get it. A holder that does not react keeps the lock, unless
   * `anyway` is set. Each call is recorded in `holdfast_audit`.
   *
   * Without arguments it frees the lock at once, whoever holds it now, and wakes the waiters. A holder in this client loses it
   * immediately, any other at its next renewal. Whoever takes it next keeps it, however late a copy of the command arrives.
   * @returns with a holder, what became of it, after `graceMs`, 2.5 s and `quarantineMs` at the latest; without, whether it
   *   was held
   * @throws {OutcomeUnknownError} Redis did not reply
   * @throws {ConfigError} an option cannot work, or this is a multi-lock of values
   * @throws {WrongTypeError} something else has the name, or a lock of another kind
   * @example
   * const [first] = await lock.getHolders()
   * if (first) console.log(await lock.forceUnlock({ holder: first.holder, reason: 'INC-4711' })) // { outcome: 'released' }
   * @see Redisson `RLock.forceUnlock`, which has no arguments
   */
  async forceUnlock(): Promise<boolean>
  async forceUnlock(options: ForceUnlockOptions): Promise<ForceUnlockResult>
  async forceUnlock(...given: [] | [ForceUnlockOptions]): Promise<boolean | ForceUnlockResult> {
    return await forceUnlock(this.context, this.kind, this, given)
  }

  /**
   * Whether anyone holds it right now. The result may be outdated when it arrives: do not base a write on it.
   * @example `if (await lock.isLocked()) console.log('busy')`
   * @see Redisson `RLock.isLocked`
   */
  async isLocked(): Promise<boolean> {
    return (await inspect(this.context, this.kind, this)).holders.length > 0
  }

  /**
   * The holders and their hold counts: at most one entry, except for a read lock, which may have many.
   * @example `for (const { holder, holdCount } of await lock.getHolders()) console.log(holder, holdCount)`
   */
  async getHolders(): Promise<readonly Holder[]> {
    return (await inspect(this.context, this.kind, this, { listsAll: true })).holders
  }

  /**
   * The remaining lease, ms; 0 if nobody holds it, Infinity if its expiry was removed.
   * @example `console.log(await lock.remainingLeaseMs(), 'ms')`
   * @see Redisson `RLock.remainTimeToLive`
   */
  async remainingLeaseMs(): Promise<number> {
    return (await inspect(this.context, this.kind, this)).remainingLeaseMs
  }

  /**
   * Watches the lock without taking it: an iterator of whether it is held, and by whom. The first state is that of now; each
   * other one is a change: held, free, or held by another owner (of a read lock only held and free). A slow reader gets the
   * latest state, without those that came and went meanwhile.
   *
   * `free` is reported on the release message, or when the lease ends. Grants are not announced: the lock is sampled within
   * 50 ms of a change, then at growing intervals of up to 5 s. So `held` may be that late, and `free` of a fair or spin lock,
   * whose releases are not announced to all, or of a key that was deleted. Samples of many locks share commands. Leaving the
   * loop ends the subscription.
   * @param options  `signal` ends it
   * @returns for one loop. Its `next()` throws
   *   - the reason of `signal`
   *   - `ClientClosedError`: the client is closed
   *   - `OutcomeUnknownError`: Redis did not reply for 15 s
   *   - `WrongTypeError`: something else has the name
   * @throws {ConfigError} an option cannot work
   * @example
   * for await (const { state, holders } of lock.watch({ signal: AbortSignal.timeout(60_000) })) console.log(state, holders)
   * @see Redisson `RLock.addListener`, which needs keyspace notifications and reports expiry and deletion only
   */
  watch(options: WatchOptions = {}): AsyncIterableIterator<LockState> {
    const { signal } = ownOptions(options, { signal: 1 }, this.name)
    return watchLock(this.context, this.kind, this, checkSignal(signal, this.name))
  }

  /**
   * Whether the current owner holds it, according to Redis.
   * @throws {NotHeldError} there is no current owner: the call is inside no scope and no hold. There, ask the hold:
   *   `hold.isHeld()`
   * @example `await lock.withLock(async () => console.log(await lock.isHeldByCurrentOwner())) // true`
   * @see Redisson `RLock.isHeldByCurrentThread`
   */
  async isHeldByCurrentOwner(): Promise<boolean> {
    return (await this.#countOfCurrentOwner('isHeldByCurrentOwner')) > 0
  }

  /**
   * The hold count of the current owner, according to Redis; 0 if it does not hold the lock.
   * @throws {NotHeldError} there is no current owner: the call is inside no scope and no hold. There, use `hold.count`
   * @example `await lock.withLock(async () => console.log(await lock.getHoldCount())) // 1`
   * @see Redisson `RLock.getHoldCount`
   */
  async getHoldCount(): Promise<number> {
    return await this.#countOfCurrentOwner('getHoldCount')
  }

  /**
   * Continues a hold that another client gave up with `hold.handOver()`, such as that of a job passed on or of a step of a
   * saga. The lock is never free in between. Only one client can adopt a hold. It gets one hold, whatever the hold count
   * was, with a lease that starts now and, for a fenced lock, a new token. Anyone who still uses the old hold finds it lost.
   * @param holder  what `handOver()` returned
   * @throws {NotHeldError} that holder does not hold the lock: its lease has ended, or it was adopted before
   * @throws {OutcomeUnknownError} Redis did not reply; what it may have granted is released in the background
   * @throws {ConfigError} this kind of lock cannot be handed over: a read or write lock, a multi-lock of values
   * @example `const hold = await client.getFairLock('lock:order:1001').adopt(job.holder)`
   */
  async adopt(holder: string, options: HoldOptions = {}): Promise<H> {
    const { context, kind, name: lockName } = this
    context.assertOpen(lockName)
    const terms = this.terms(ownOptions(options, HOLD_OPTIONS, lockName))
    const script = transferScript(kind, 'adopt', lockName)
    const observed = observeRequest(this, terms, 0)
    const adopting = this.#adopt(script, holder, terms)
    return reportGranted((await (observed ? settled(observed, adopting) : adopting)) as H, observed)
  }

  async #adopt(script: NonNullable<LockKind['adopt']>, holder: string, terms: HoldTerms): Promise<H> {
    const { context, kind, name: lockName, key } = this
    const lease = new Lease(context, kind, this, context.owners.next())
    const leaseTimeMs = terms.leaseTimeMs ?? context.watchdogTimeoutMs
    const request = { key, holder: lease.holder, leaseTimeMs, waitTimeMs: 0 }
    const call = script(request, checkHolder(holder, lockName))
    let sentAt = 0
    try {
      await untilReady(context, this, leaseTimeMs)
      const { replication } = context
      const route = replication.routeTo(key)
      const reply = await context.scripts.run(call, undefined, (at) => {
        sentAt = at
        lease.copies.sending(at)
        lease.requesting(leaseTimeMs, at)
      })
      const adopted = kind.parseReply(reply, this)
      if ('isGranted' in adopted) {
        await replication.confirm(this, route)
        return watchDropped(context, begin(lease, terms, sentAt, adopted), terms) as H
      }
    } catch (error) {
      lease.copies.isInDoubt = true
      lease.releaseInBackground() // it may have been adopted, and nobody else knows the new holder
      throw await asLockError(context, this, 'adopt', error)
    }
    throw new NotHeldError(
      `Lock ${JSON.stringify(lockName)} is not held by ${holder}: its lease has ended, or somebody else adopted it`,
      lockName,
    )
  }

  /**
   * @internal Whether the caller is inside a hold that it would re-enter or join.
   * @throws {SelfDeadlockError} the caller would wait for itself
   */
  isInside(): boolean {
    const { reentered, joined } = this.#callerOf(undefined)
    return reentered !== undefined || joined !== undefined
  }

  /** @internal */
  async acquire(request: Request): Promise<H | undefined> {
    const first = await this.ask(request)
    return first instanceof Unfinished ? await first.goOn() : first
  }

  /** @internal Asks once. @returns the hold, or how the caller goes on */
  override ask(request: Request): Promise<H | undefined | Unfinished<H>> {
    const { context, kind, key, name: lockName } = this
    const { terms, waitTimeMs, within, priority, isOutside } = request
    try {
      const { reentered, joined, handOffs = 0 } = isOutside ? OUTSIDE : this.#callerOf(within)
      if (!reentered) context.assertOpen(lockName)
      if (terms.atLeastMs !== undefined && kind.isShared) {
        const allowed = `a lock that one owner holds at a time, which a ${kind.title} is not`
        throw new ConfigError('atLeastMs', undefined, allowed, { lockName })
      }
      const lease = reentered ?? this.possess(joined, isOutside)
      // The lease is requested for all of `atLeastMs`: so it keeps the lock even if this process dies.
      const leaseTimeMs = Math.max(terms.leaseTimeMs ?? context.watchdogTimeoutMs, terms.atLeastMs ?? 0)
      if (reentered) return this.#waitInside(reentry(reentered, handOffs, terms, leaseTimeMs), reentered, request)
      const attempt = new Acquisition(
        lease,
        terms,
        { key, holder: lease.holder, leaseTimeMs, waitTimeMs, priority },
        joined !== undefined,
      )
      if (joined) return this.#join(attempt, lease, request, joined)
      const wait = new LockWait(this, lease, attempt, request, false)
      return askFirst(wait, context, waitTimeMs === 0) as Promise<H | undefined | Unfinished<H>>
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** The caller is inside a hold on the lock: it waits behind nobody. */
  #waitInside(attempt: Attempt<Hold>, lease: Lease, request: Request): Promise<H | undefined> {
    const { context } = this
    const wait = new LockWait(this, lease, attempt, request, true)
    return wait.finish(request.waitTimeMs === 0 ? tryOnce(wait, context) : waitFor(wait, context)) as Promise<
      H | undefined
    >
  }

  async #join(attempt: Attempt<Hold>, lease: Lease, request: Request, joined: Lease): Promise<H | undefined> {
    joined.joining++
    try {
      return await this.#waitInside(attempt, lease, request)
    } finally {
      joined.joining--
    }
  }

  /** @internal */
  get subject(): Subject {
    return { name: this.name, described: `lock ${JSON.stringify(this.name)}`, locks: [this] }
  }

  /** @internal */
  toUnlock(): Hold | undefined {
    for (const hold of openHolds(this.context, this.key)) {
      const lease = hold.lease as Lease
      if (lease.kind.is(this.kind)) return hold.isLive ? lease.latest : hold
    }
    return undefined
  }

  /** @internal @param place  where the call that asks is queued in Redis */
  async whoHolds(waitedMs: number, place?: QueuePlace): Promise<WaitDetails> {
    return await whoHolds(this.context, this.kind, this, waitedMs, place)
  }

  /** @internal */
  override checkPriority(priority: unknown): number | undefined {
    if (!this.kind.isOrdered || priority === undefined) return super.checkPriority(priority)
    return checkPriority(priority, this.name)
  }

  /** @internal */
  override ownHolders(): readonly KnownHolder[] {
    return ownHolders(this.context, this.kind, this.key)
  }

  /**
   * @internal A new lease of the owner of the current scope or of a new one, for which the owner's field is claimed.
   * @param joined  the lease whose owner takes it instead, without claiming the field yet
   * @param isOutside  there is no scope
   */
  possess(joined?: Lease, isOutside = false): Lease {
    const { context, kind, key } = this
    const ofScope = isOutside ? undefined : currentScope(context)?.ownerFor(fieldOf(kind, key))
    return new Lease(context, kind, this, joined?.owner ?? ofScope ?? context.owners.next(), joined)
  }

  /**
   * Whether the caller is inside a hold to re-enter, inside its own write, or neither.
   * @throws {SelfDeadlockError} it would wait for itself
   */
  #callerOf(within: Hold | undefined): CallerContext {
    if (within !== undefined) this.#checkWithin(within)
    let joined: Lease | undefined
    let obstacle: Hold | undefined
    for (const hold of within ? [within] : enclosingHolds(this.context, this.key)) {
      const lease = hold.lease as Lease
      const nesting = this.kind.nestingIn(lease.kind)
      if (nesting === 'again') return { reentered: lease, handOffs: lease.handOffs }
      if (nesting === 'join') joined ??= lease
      if (nesting === 'deadlock') obstacle ??= hold
    }
    if (joined) return { joined }
    if (!obstacle) return {}
    const held = (obstacle.lease as Lease).kind
    throw new SelfDeadlockError(this.name, this.kind, held, obstacle.takenFrom)
  }

  #checkWithin(within: unknown): asserts within is Hold {
    if (within instanceof Hold && within.lease.key === this.key && within.lease.context === this.context) {
      return within.assertHeld()
    }
    throw new ConfigError('within', undefined, 'a hold on the same lock of the same client', { lockName: this.name })
  }

  /** The lease that the caller is inside of. */
  #enclosing(): Lease | undefined {
    for (const { lease: holding } of enclosingHolds(this.context, this.key)) {
      if ((holding as Lease).kind.is(this.kind)) return holding as Lease
    }
    return undefined
  }

  async #countOfCurrentOwner(call: 'getHoldCount' | 'isHeldByCurrentOwner'): Promise<number> {
    assertCurrentOwner(call, this.subject)
    return (await this.#enclosing()?.fetchHoldCount()) ?? 0
  }
}
