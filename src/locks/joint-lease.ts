// One hold made of several: it ends when too few of them are left.
import { ConfigError, LeaseLostError, type LossReason, NotHeldError } from '../errors.js'
import type { Context } from './context.js'
import { type HeldLease, Hold, type HoldTerms } from './hold.js'
import type { Lease } from './lease.js'
import type { Lock } from './lock.js'
import { holdEnded } from './reporting/observation.js'

/** The multi-lock or red lock that a hold is of. */
interface JointlyTaken {
  readonly context: Context
  readonly name: string
  readonly title: string
  readonly locks: readonly Lock[]
  readonly needed: number
}

/**
 * The lease of a hold on several locks: a hold on each of them, of which the `needed` number must be live. Each is renewed by the
 * watchdog of its own client.
 */
export class JointLease implements HeldLease {
  readonly context: Context
  readonly lock: JointlyTaken
  readonly name: string
  readonly key = undefined
  readonly members: Hold[]
  readonly hold: Hold
  readonly fencingToken = undefined
  readonly kind: HeldLease['kind']
  readonly #needed: number
  /** Number of member locks that may fail without ending the hold. */
  readonly #dispensable: number
  /** When `maxHoldMs` ends it, on the clock. */
  readonly #maxHoldAt: number

  /**
   * @param members  at least one
   * @param terms  `maxHoldMs` and `warnAfterMs` start now; the members have none
   */
  constructor(lock: JointlyTaken, members: readonly Hold[], terms: HoldTerms) {
    this.context = lock.context
    this.lock = lock
    this.name = lock.name
    this.kind = { noun: 'Lock', title: lock.title }
    this.members = []
    this.#needed = lock.needed
    this.#dispensable = lock.locks.length - lock.needed
    this.hold = new Hold(this, terms.label)
    this.hold.grantedAt = lock.context.clock.now()
    this.#maxHoldAt = this.hold.grantedAt + (terms.maxHoldMs ?? Number.POSITIVE_INFINITY)
    this.hold.onEnd = this.#startTimers(terms)
    for (const member of members) this.add(member)
  }

  /** @returns stops them */
  #startTimers({ maxHoldMs, warnAfterMs }: HoldTerms): () => void {
    const { clock } = this.context
    const { hold } = this
    const timers: (() => void)[] = []
    if (maxHoldMs !== undefined) timers.push(clock.after(maxHoldMs, () => this.expireIfDue(hold), false))
    if (warnAfterMs !== undefined) {
      const warn = (): void => void this.context.emit('longHold', { hold: hold.callerHold, heldMs: warnAfterMs })
      timers.push(clock.after(warnAfterMs, warn, false))
    }
    return () => {
      for (const cancel of timers) cancel()
    }
  }

  /** Another one of its locks was taken. */
  add(member: Hold): void {
    this.members.push(member)
    member.onEnd = () => this.expireIfDue(this.hold)
  }

  /** The holders of its members. */
  get holder(): string {
    return this.members.map(({ holder }) => holder).join(', ')
  }

  get ownerId(): number {
    return (this.members[0] as Hold).ownerId
  }

  get count(): number {
    return 1
  }

  remainingMs(): number {
    const left = this.members.map((member) => member.remainingMs()).sort((a, b) => b - a)
    return Math.max(0, Math.min(left[this.#needed - 1] ?? 0, Math.floor(this.#maxHoldAt - this.context.clock.now())))
  }

  expireIfDue(hold: Hold): void {
    if (this.context.clock.now() >= this.#maxHoldAt) this.#endAtMaxHold(hold)
    else if (this.members.filter((member) => member.isLive).length < this.#needed) {
      const lost = this.members.flatMap(({ lostError }) => lostError ?? [])
      // Members that were released one by one also end it.
      this.#lose(hold, lost[0]?.reason ?? 'gone', lost)
    }
  }

  /** `maxHoldMs` is over: the members are no longer renewed, and their locks are free when their leases end. */
  #endAtMaxHold(hold: Hold): void {
    this.#lose(hold, 'maxHold')
    for (const member of this.members) {
      member.onEnd = undefined
      if (member.isLive) (member.lease as Lease).end(member, 'maxHold')
    }
  }

  /** @param lost  the losses of its members */
  #lose(hold: Hold, reason: LossReason, lost: readonly LeaseLostError[] = []): LeaseLostError | undefined {
    const forced = lost.find(({ forced }) => forced)?.forced
    const error = hold.end(reason, lost, { forced })
    if (error) {
      this.context.emit('lost', { hold: hold.callerHold, error })
      holdEnded(hold, 'lost', error)
    }
    return error
  }

  async fetchHoldCount(): Promise<number> {
    const fetching = this.members.map((member) => member.isHeld().catch((error: unknown) => ({ error })))
    const replies = await Promise.all(fetching)
    const held = replies.filter((reply) => reply === true).length
    const unknown = replies.flatMap((reply) => (typeof reply === 'object' ? [reply.error] : []))
    if (held < this.#needed && held + unknown.length >= this.#needed) throw unknown[0]
    return this.hold.count // 0 if too many have turned out to be lost
  }

  /** Releases every member even if some fail; then throws the first error that matters. */
  async release(hold: Hold): Promise<void> {
    for (const member of this.members) member.onEnd = undefined
    hold.end('released')
    const { lostError } = hold
    const outcomes = await Promise.allSettled(this.members.map((member) => member.unlock()))
    if (lostError) throw lostError
    const failures = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []))
    const [lost, ...moreLost] = failures.filter((error) => error instanceof LeaseLostError)
    // A member whose release got no reply was held to the end.
    if (lost && this.members.length - 1 - moreLost.length < this.#needed) {
      throw this.#lose(hold, lost.reason, [lost, ...moreLost]) as LeaseLostError
    }
    holdEnded(hold, 'released')
    const unknown = failures.filter((error) => !(error instanceof LeaseLostError))
    if (unknown.length > this.#dispensable) throw unknown[0]
  }

  /** Resolves even if some locks could not be extended, as long as enough of them were. */
  async lease(_hold: Hold, leaseTimeMs: number): Promise<void> {
    const outcomes = await Promise.allSettled(this.members.map((member) => member.extend(leaseTimeMs)))
    const failures = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []))
    this.hold.assertHeld()
    if (this.members.length - failures.length < this.#needed) throw failures[0]
  }

  /** Locks made of others do not have `atLeastMs`. */
  keepAtLeast(): void {}

  handOver(): void {
    throw new ConfigError('handOver', undefined, 'a hold on one lock; hand over its locks one by one', {
      lockName: this.name,
    })
  }

  notHeld(why: string): NotHeldError {
    return new NotHeldError(`${this.name} is not held: ${why}`, this.name)
  }
}
