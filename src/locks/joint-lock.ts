// What locks made of others have in common.
import { ConfigError } from '../errors.js'
import type { WaitDetails } from '../holder-info.js'
import { BaseLock } from './base-lock.js'
import type { Subject } from './current-owner.js'
import type { Hold } from './hold.js'
import type { JointLease } from './joint-lease.js'
import { Lock } from './lock.js'
import type { Request } from './options.js'
import { openJointHolds } from './ownership.js'
import { NOT_KNOWN } from './reporting/who-holds.js'

/** Several locks as one: a multi-lock or a red lock. */
export abstract class JointLock extends BaseLock {
  /** @internal In the order in which they were given. */
  readonly locks: readonly [Lock, ...Lock[]]
  /** @internal */
  readonly title: string

  /**
   * @internal
   * @param call  the function that makes it, for errors
   * @throws {ConfigError} there is no lock, one of them is none, or two would exclude each other
   */
  constructor(call: string, title: string, locks: readonly Lock[]) {
    const checked = checkLocks(call, locks)
    super(checked[0].context, `${title} of ${checked.map(({ name }) => JSON.stringify(name)).join(', ')}`)
    this.title = title
    this.locks = checked
  }

  /** @internal How many of its locks a hold needs: it is lost when fewer are live. */
  get needed(): number {
    return this.locks.length
  }

  /** @internal */
  get subject(): Subject {
    return { name: this.name, described: this.name, locks: this.locks }
  }

  /** @internal */
  async whoHolds(waitedMs: number): Promise<WaitDetails> {
    return await firstHeld(this.locks, waitedMs)
  }

  /** @internal @throws {ConfigError} the request has what only a lock on one name can do */
  checkRequest({ within, terms }: Request): void {
    const { name: lockName } = this
    if (within !== undefined) {
      const allowed = 'a lock of its own: a lock made of others has no hold to re-enter'
      throw new ConfigError('within', undefined, allowed, { lockName })
    }
    if (terms.atLeastMs !== undefined) {
      throw new ConfigError('atLeastMs', undefined, 'a lock on one name, not one made of others', { lockName })
    }
  }

  /** @internal */
  toUnlock(): Hold | undefined {
    return openJointHolds(this.locks.map(({ context }) => context)).find((hold) => this.#tookIt(hold))
  }

  /** Whether a lock like this one took it. */
  #tookIt({ lease }: Hold): boolean {
    const { lock } = lease as JointLease
    const isAmong = (one: Lock, others: readonly Lock[]): boolean =>
      others.some((other) => other.key === one.key && other.context === one.context && other.kind.is(one.kind))
    const isSameSize = lock.title === this.title && lock.locks.length === this.locks.length
    return isSameSize && this.locks.every((one) => isAmong(one, lock.locks))
  }
}

/** @throws {ConfigError} there is none, one of them is no lock, or two would exclude each other */
function checkLocks(call: string, locks: readonly Lock[]): readonly [Lock, ...Lock[]] {
  const [first, ...rest] = locks
  if (!first) throw new ConfigError(call, undefined, 'at least one lock')
  for (const [index, lock] of locks.entries()) {
    if (!(lock instanceof Lock)) {
      const found = typeof lock === 'object' ? undefined : lock
      throw new ConfigError(`${call}: lock ${index + 1}`, found, lockInsteadOf(lock))
    }
    const twin = locks.slice(0, index).find((other) => other.key === lock.key && other.context === lock.context)
    if (twin && lock.kind.nestingIn(twin.kind) !== 'apart') {
      throw new ConfigError(`${call}: lock ${index + 1}`, undefined, 'a lock that is not given twice', {
        lockName: lock.name,
      })
    }
  }
  return [first, ...rest]
}

/** Says what to pass instead of something that is no lock. */
function lockInsteadOf(given: unknown): string {
  const { withLock } = Object(given) as { withLock?: unknown }
  if (Array.isArray(given)) return 'a lock of a client, and not an array of them: write ...locks'
  if (typeof withLock !== 'function') return 'a lock of a client'
  if (given instanceof BaseLock) return 'a lock on one name: pass the locks that this one is made of'
  return (
    'a lock of this copy of Holdfast, and this one is of another copy. The process has loaded two copies: one by import and ' +
    'one by require, one of them in a bundle, or two versions (npm ls holdfast)'
  )
}

/** The holder of the first lock that is held. */
export async function firstHeld(locks: readonly Lock[], waitedMs: number): Promise<WaitDetails> {
  for (const lock of locks) {
    const { heldBy, holders } = await lock.whoHolds(waitedMs)
    if (heldBy !== undefined) return { ...NOT_KNOWN, heldBy: `${JSON.stringify(lock.name)} is ${heldBy}`, holders }
  }
  return NOT_KNOWN
}
