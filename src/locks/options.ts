// The options of every call that acquires.
import { ConfigError } from '../errors.js'
import type { WaitDetails } from '../holder-info.js'
import { checkCount, checkLabel, checkOneOf, checkOptionalDuration, checkSignal, ownOptions } from '../util/validate.js'
import type { Context } from './context.js'
import type { Hold, HoldTerms } from './hold.js'
import type { ObservedRequest } from './reporting/observation.js'

/** The terms of a hold, for every call that acquires one. */
export interface HoldOptions {
  /** Lease, ms, from the grant; at least 10. Absent: the watchdog renews the hold until it is released. */
  leaseTimeMs?: number | undefined
  /**
   * End of renewal, ms from the grant: then the hold is lost, its `signal` aborts, and the lease frees the lock.
   * Default: the client's `maxHoldMs`, which is no limit by default.
   */
  maxHoldMs?: number | undefined
  /**
   * Report a longer wait or hold as `longWait` or `longHold`, ms. Default: the client's; if it has none, waits are reported
   * after 60 000 and holds never.
   */
  warnAfterMs?: number | undefined
  /** The purpose of the lock; shown in events. */
  label?: string | undefined
}

export interface LockOptions extends HoldOptions {
  /**
   * Who waits with a higher priority goes first, −1,000 to 1,000; equal ones in order. Only for ordered locks. A stream of
   * higher ones keeps a lower one waiting. Default 0.
   */
  priority?: number | undefined
  /**
   * Longest wait, ms, from this call; 0 tries once. Default: for `lock` the client's `waitTimeMs`, which is no limit by
   * default, and 0 for `tryLock`.
   */
  waitTimeMs?: number | undefined
  /** Aborts the wait: the call rejects with the signal's reason. Ignored once the lock is held. */
  signal?: AbortSignal | undefined
  /**
   * Re-enter this hold, for code that passes holds by hand: same owner, hold count + 1. Not for locks made of other locks.
   */
  within?: Hold | undefined
}

export interface WithLockOptions<H extends Hold = Hold> extends LockOptions {
  /**
   * The shortest time between two runs with this lock, across all clients, ms from the grant; at least 10. If the function
   * ends earlier, even with an error, or if the process dies, the lease keeps the lock taken until then. For jobs that
   * must run once per period: an instance whose clock is late must not run the job again. Not for locks that several
   * owners hold at once, or that are made of other locks; ignored for a re-entry, which is part of the outer run.
   */
  atLeastMs?: number | undefined
  /**
   * `'background'`: the call returns when the function has ended, without waiting for the reply to the release: one round trip
   * less. A release without a reply is repeated as ever. A loss that only its reply shows is the event `lost`, and no
   * error any more. Default: `'await'`.
   */
  release?: 'await' | 'background' | undefined
  /** Called with the hold before the function. */
  onAcquire?: ((hold: H) => unknown) | undefined
  /** Called with the hold after the release, whether the function succeeded or not. */
  onRelease?: ((hold: H) => unknown) | undefined
}

/** Whether the function ran, and what it returned: `const { ran, value } = await lock.tryWithLock(fn)`. */
export type MaybeRan<T> = { ran: true; value: T } | { ran: false; value?: undefined }

export type LockedCallback<T, H extends Hold = Hold> = (hold: H) => T | PromiseLike<T>

/** The options of a lock whose waiters are queued in Redis. */
export interface QueueOptions {
  /**
   * A call that finds as many waiting, of all clients, rejects at once with `QueueFullError`, in one command. A waiter that
   * died may count for 15 s; for a fair lock until its turn comes. Default: no limit.
   */
  maxWaiters?: number | undefined
}

/** The highest priority, and negative the lowest. */
const MAX_PRIORITY = 1_000
/** Before all that a caller can choose. */
export const FIRST_PRIORITY = MAX_PRIORITY + 1

/** @throws {ConfigError} there is no such priority */
export function checkPriority(value: unknown, lockName: string): number | undefined {
  return value === undefined ? undefined : checkCount('priority', value, -MAX_PRIORITY, lockName, MAX_PRIORITY)
}

/** The options of a lock that may be granted in order. */
export interface OrderOptions extends QueueOptions {
  /**
   * `'fifo'`: requests are granted in order, across clients; of a read-write lock, a reader that comes later waits behind a
   * writer that waits, and consecutive readers enter together. Redisson, and locks without this option, exclude and are
   * excluded, but overtake. Default: no order between clients, and readers join readers, whoever waits.
   */
  order?: 'fifo' | undefined
}

/**
 * @returns undefined: the lock is not ordered
 * @throws {ConfigError} an option cannot work
 */
export function checkOrder(options: OrderOptions, lockName: string): { maxWaiters: number | undefined } | undefined {
  const { order, maxWaiters } = ownOptions(options, { order: 1, maxWaiters: 1 }, lockName)
  checkOneOf('order', order, ['fifo'], lockName)
  const most = checkMaxWaiters(maxWaiters, lockName)
  if (order !== undefined) return { maxWaiters: most }
  if (most === undefined) return undefined
  throw new ConfigError('maxWaiters', most, "`order: 'fifo'` beside it", { lockName })
}

/** @returns `maxWaiters` @throws {ConfigError} an option cannot work */
export function checkQueue(options: QueueOptions, lockName: string): number | undefined {
  return checkMaxWaiters(ownOptions(options, { maxWaiters: 1 }, lockName).maxWaiters, lockName)
}

export function checkMaxWaiters(value: unknown, lockName: string): number | undefined {
  return value === undefined ? undefined : checkCount('maxWaiters', value, 0, lockName)
}

/** What a call without options has. */
export const NO_OPTIONS: Readonly<Record<string, never>> = Object.freeze(Object.create(null))

export const HOLD_OPTIONS = { leaseTimeMs: 1, maxHoldMs: 1, warnAfterMs: 1, label: 1 }
export const LOCK_OPTIONS = { ...HOLD_OPTIONS, waitTimeMs: 1, signal: 1, within: 1, priority: 1 }
export const WITH_LOCK_OPTIONS = { ...LOCK_OPTIONS, atLeastMs: 1, release: 1, onAcquire: 1, onRelease: 1 }

/** The options of one call that acquires a lock, checked. */
export interface Request {
  readonly terms: HoldTerms
  /** From the call, ms; 0: try once; undefined: no limit. */
  readonly waitTimeMs: number | undefined
  readonly signal: AbortSignal | undefined
  readonly within: Hold | undefined
  readonly priority?: number | undefined
  /** Whether the call chain is certain to be inside no hold and no scope. */
  readonly isOutside?: boolean
  /** The call throws if its wait time ends first, and names the holder of the lock. */
  readonly isRequired?: boolean
  /** The holder, if it was looked up before the call left its queue. */
  details?: Promise<WaitDetails>
  /** Undefined: nobody watches. */
  readonly observed?: ObservedRequest | undefined
  /** Called, with the caller's own holder, whenever another owner holds the lock, or another caller is ahead in the queue. */
  readonly onRefused?: ((holder: string) => void) | undefined
  /** It is one of several locks that are acquired as one: the call as a whole reports a long wait. */
  readonly isMember?: boolean
}

/** Checks the options of a call that waits for something without a lease. */
export function checkWait(
  context: Context,
  name: string,
  options: Pick<LockOptions, 'waitTimeMs' | 'signal' | 'warnAfterMs' | 'label'>,
) {
  const { warnAfterMs = context.warnAfterMs } = options
  return {
    waitTimeMs: checkOptionalDuration('waitTimeMs', options.waitTimeMs, 0, name),
    warnAfterMs: checkOptionalDuration('warnAfterMs', warnAfterMs, 1, name),
    signal: checkSignal(options.signal, name),
    label: checkLabel(options.label, name),
  }
}
