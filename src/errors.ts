/**
 * Every error and warning of Holdfast, each with a code.
 *
 * A refusal is not an error (`tryLock` resolves to null), an abort rejects with the caller's own reason, and an error reply
 * of Redis (WRONGTYPE, NOPERM, OOM …) passes through as the Redis client reports it.
 */

import type { KnownHolder, WaitDetails } from './holder-info.js'

export type LockErrorCode =
  | 'LOCK_NOT_HELD'
  | 'LOCK_LEASE_LOST'
  | 'LOCK_WAIT_TIMEOUT'
  | 'LOCK_OUTCOME_UNKNOWN'
  | 'LOCK_CLIENT_CLOSED'
  | 'LOCK_SELF_DEADLOCK'
  | 'LOCK_QUEUE_FULL'
  | 'LOCK_QUORUM'
  | 'LOCK_NOT_REPLICATED'
  | 'LOCK_NOT_DURABLE'
  | 'LOCK_WRONG_TYPE'
  | 'LOCK_CONFIG'

/** `ErrorOptions`, which TypeScript knows only with the library ES2022. */
interface ErrorCause {
  cause?: unknown
}

/** The base class of all errors that Holdfast itself throws. `code` is stable; the message is for people. */
export abstract class LockError extends Error {
  abstract readonly code: LockErrorCode
  /** The lock or synchronizer that the error is about, if there is one. */
  readonly lockName: string | undefined

  constructor(message: string, lockName?: string, options?: ErrorCause) {
    super(message, options)
    this.lockName = lockName
  }
}

/** The caller does not hold what it releases, adopts or asks about. */
export class NotHeldError extends LockError {
  readonly code = 'LOCK_NOT_HELD'
}

/**
 * Why a hold ended before it was released.
 * - `expired`: its lease ended by this process's own clock (a blocked event loop, a silent Redis, a lease too short)
 * - `gone`: Redis reports that the holder is no longer there (forced, deleted, evicted, Redis restarted empty)
 * - `forced`: this client force-unlocked it, or somebody made its holder give it up with `forceUnlock({ holder })`
 * - `maxHold`: `maxHoldMs` was reached
 * - `closed`: the client was closed while it was held
 */
export type LossReason = 'expired' | 'gone' | 'forced' | 'maxHold' | 'closed'

const LOSS: Record<LossReason, string> = {
  expired: 'its lease ended before it was renewed',
  gone: 'Redis no longer knows the holder (force-unlocked, deleted or evicted, or Redis lost its data)',
  forced: 'this client force-unlocked it',
  maxHold: 'it was held for longer than maxHoldMs',
  closed: 'the client was closed',
}

/** The operator who broke a lock with `forceUnlock({ holder })`. */
export interface ForcedBy {
  /** The `by` of that call; default `user@host` of its process. */
  readonly by: string
  /** The `reason` of that call. */
  readonly reason: string | undefined
}

/** Details of a loss besides its reason. */
export interface LossDetails {
  readonly label?: string | undefined
  readonly leaseTimeMs?: number | undefined
  readonly forced?: ForcedBy | undefined
}

/** The lock was held and no longer is. Also the reason of the hold's `signal`. */
export class LeaseLostError extends LockError {
  readonly code = 'LOCK_LEASE_LOST'
  readonly holder: string
  readonly reason: LossReason
  /** The losses of single locks of a multi-lock or red lock. Empty if the hold was lost as a whole. */
  readonly parts: readonly LeaseLostError[]
  /** The `label` option of the call that took it. */
  readonly label: string | undefined
  /** The lease of its own that the hold had, ms. */
  readonly leaseTimeMs: number | undefined
  /** The operator who broke the lock with `forceUnlock({ holder })`, and why. Undefined: none, or unknown. */
  readonly forced: ForcedBy | undefined
  #isRunKnown = false

  /** @param noun  what has this name, at the beginning of a sentence */
  constructor(
    lockName: string,
    holder: string,
    reason: LossReason,
    noun = 'Lock',
    parts: readonly LeaseLostError[] = [],
    { label, leaseTimeMs, forced }: LossDetails = {},
  ) {
    const lost = parts.map((part) => `${quote(part.lockName ?? '')} of ${part.holder}`).join(', ')
    const about = label === undefined ? '' : ` (label ${quote(label)})`
    const why =
      reason === 'expired' && leaseTimeMs !== undefined
        ? `its fixed lease of ${leaseTimeMs} ms (leaseTimeMs) ended`
        : reason === 'forced' && forced !== undefined
          ? describeForced(forced)
          : LOSS[reason]
    super(
      `${noun} ${quote(lockName)}${about} is no longer held by ${holder}: ${lost && `it lost ${lost}: `}${why}. ` +
        'Another owner may hold it now: stop the guarded work',
      lockName,
    )
    this.holder = holder
    this.reason = reason
    this.parts = parts
    this.label = label
    this.leaseTimeMs = leaseTimeMs
    this.forced = forced
  }

  /** @internal Redis no longer had the holder: this is why. */
  explain(forced: ForcedBy): void {
    if (this.forced !== undefined) return
    Object.assign(this, { forced })
    this.message += `. It was ${describeForced(forced)}`
  }

  /**
   * @internal A timer noticed the loss, so its own stack has nothing of the program: it becomes that of the call which throws
   * it.
   * @param ranMs  how long the function of `withLock` ran
   */
  thrown(ranMs?: number): this {
    if (ranMs !== undefined && !this.#isRunKnown) {
      this.#isRunKnown = true
      this.message += `. The function ran for ${Math.round(ranMs)} ms`
    }
    Error.captureStackTrace(this)
    return this
  }
}

/** The wait time ended first. Only from calls that return nothing else than the lock (`lock`, `withLock`). */
export class WaitTimeoutError extends LockError implements WaitDetails {
  readonly code = 'LOCK_WAIT_TIMEOUT'
  /** The wait time that ended, ms. */
  readonly waitTimeMs: number
  /**
   * The holder at the end, and since when, if known: `held by this client, taken 61 s ago, label "refund"`.
   * For a semaphore: why it has no permits. For people: the wording may change.
   */
  readonly heldBy: string | undefined
  /**
   * The same for programs, at most 100, the longest known hold first. If this client holds the lock, its own holders, from
   * memory; otherwise those that Redis names. Empty: not known, or nobody holds it any more.
   */
  readonly holders: readonly KnownHolder[]
  /**
   * The place in the queue in Redis when the wait ended, from 1: of the call, for a fair or ordered lock; of its client, for
   * other locks with a queue. Undefined: there is no queue, the wait was shorter than 1 s, or this client holds the lock.
   */
  readonly position: number | undefined

  constructor(lockName: string, waitTimeMs: number, isPermit = false, details: Partial<WaitDetails> = {}) {
    const { heldBy, holders = [], position } = details
    super(
      isPermit
        ? `Semaphore ${quote(lockName)} did not have enough free permits within ${waitTimeMs} ms${heldBy ? `: ${heldBy}` : ''}. ` +
            'Wait longer, or use tryAcquire() or tryWithPermit(), which do not throw'
        : `Lock ${quote(lockName)} did not become free within ${waitTimeMs} ms: ${heldBy ?? 'another owner holds it'}. ` +
            'Wait longer, or use tryLock() or tryWithLock(), which do not throw',
      lockName,
    )
    this.waitTimeMs = waitTimeMs
    this.heldBy = heldBy
    this.holders = holders
    this.position = position
  }
}

/**
 * A command was sent and got no reply: it may have run. Background retries release what it may have acquired, or repeat the
 * release; its lease ends it at the latest.
 */
export class OutcomeUnknownError extends LockError {
  readonly code = 'LOCK_OUTCOME_UNKNOWN'
  /** The call, such as `lock` or `unlock`. */
  readonly operation: string

  constructor(lockName: string, operation: string, cause: unknown) {
    super(
      `Redis did not reply to "${operation}" for ${quote(lockName)}: ${messageOf(cause)}. It may or may not have run. ` +
        'Holdfast cleans up in the background, and what was acquired ends with its lease at the latest',
      lockName,
      { cause },
    )
    this.operation = operation
  }
}

/** A kind of lock: identified by `id`, shown as `title`. */
interface NamedKind {
  readonly id: string
  readonly title: string
}

/**
 * The call chain requests a lock that it holds itself and cannot re-enter: it would wait for itself forever. `stack` shows
 * where it was requested, `holdStack` where it was acquired.
 */
export class SelfDeadlockError extends LockError {
  readonly code = 'LOCK_SELF_DEADLOCK'
  readonly holdStack: string | undefined

  /** @param requested, held  the kinds of lock */
  constructor(lockName: string, requested: NamedKind, held: NamedKind, holdStack: string | undefined) {
    const advice =
      requested.id === 'write' && held.id === 'read'
        ? 'acquire the write lock first, inside which reading is allowed'
        : 'pass the hold along instead of acquiring it again, or use one kind of lock per name'
    const where = holdStack === undefined ? '' : `. It was acquired at\n${holdStack}\nand requested again at`
    super(
      `This call chain holds lock ${quote(lockName)} (${held.title}) and requests it again (${requested.title}), so it would ` +
        `wait for itself: ${advice}${where}`,
      lockName,
    )
    this.holdStack = holdStack
  }
}

/** As many as `maxWaiters` waited for the lock already. The call was refused at once, and was never queued. */
export class QueueFullError extends LockError {
  readonly code = 'LOCK_QUEUE_FULL'
  /** How many waited. */
  readonly waiters: number
  /** Who held the lock then, as in Redis: about ten of them, if many read. */
  readonly holders: readonly string[]

  constructor(lockName: string, waiters: number, holders: readonly string[], noun = 'Lock') {
    const held = holders.length > 0 ? `, and ${holders.join(', ')} ${holders.length > 1 ? 'hold' : 'holds'} it` : ''
    super(
      `${noun} ${quote(lockName)} already has ${waiters} ${waiters === 1 ? 'waiter' : 'waiters'}${held}. Try again later, or raise maxWaiters`,
      lockName,
    )
    this.waiters = waiters
    this.holders = holders
  }
}

/** Too few servers of a `RedLock` could be asked. What the others granted was released. */
export class QuorumError extends LockError {
  readonly code = 'LOCK_QUORUM'
  /** One for each lock that failed, in the order of the locks. A lock that another owner holds has not failed. */
  readonly errors: readonly { readonly lockName: string; readonly index: number; readonly error: unknown }[]

  constructor(lockName: string, needed: number, errors: QuorumError['errors']) {
    const causes = errors.map(({ index, error }) => `${index + 1}. ${messageOf(error)}`).join('; ')
    super(
      `The ${lockName} needs ${needed} servers, but ${errors.length} failed: ${causes}. What the others granted was released`,
      lockName,
    )
    this.errors = errors
  }
}

/**
 * It was granted, but no replica acknowledged it in time, so after a failover another owner could have acquired it as well.
 * It was released.
 */
export class NotReplicatedError extends LockError {
  readonly code = 'LOCK_NOT_REPLICATED'

  /**
   * @param replicas  how many there are
   * @param why  why the server itself is not trusted; undefined: no replica acknowledged it
   */
  constructor(lockName: string, replicas: number, timeoutMs: number, options?: ErrorCause & { why?: string }) {
    const { why } = options ?? {}
    super(
      why === undefined
        ? `None of the ${replicas} replicas acknowledged ${quote(lockName)} within ${timeoutMs} ms, so it was released. Check ` +
            'why the replicas are lagging, or set checkLockSyncedSlaves to false and risk two holders after a failover'
        : `The server that granted ${quote(lockName)} cannot show that it is the master (${why}), so it was released. ` +
            'During a failover, try again in a moment; otherwise check the replication of this server',
      lockName,
      options,
    )
  }
}

/**
 * It was granted, but the server did not confirm that it has fsynced the grant to its AOF, so a power failure could have
 * undone it. It was released.
 */
export class NotDurableError extends LockError {
  readonly code = 'LOCK_NOT_DURABLE'
  /**
   * - `late`: not in time; another attempt may succeed
   * - `refused`: the server cannot confirm it: it is too old, has no AOF, or its ACL forbids the commands
   */
  readonly reason: 'late' | 'refused'

  /** @param why  the time limit that was exceeded, or the server's reply */
  constructor(lockName: string, reason: 'late' | 'refused', why: string, options?: ErrorCause) {
    const advice =
      reason === 'late'
        ? 'Check the disk of the server, and that its appendfsync is always or everysec'
        : 'checkLockFsynced needs appendonly yes, and Redis 8.0 or later, or Redis 7.2 or Valkey with appendfsync always'
    super(
      `Redis did not confirm that ${quote(lockName)} is fsynced to its AOF (${why}), so it was released. ${advice}; or set ` +
        'checkLockFsynced to false and risk two holders after a power failure',
      lockName,
      options,
    )
    this.reason = reason
  }
}

/** Redis has something else under the name: data of another type, or a lock of another kind. Nothing was changed. */
export class WrongTypeError extends LockError {
  readonly code = 'LOCK_WRONG_TYPE'
  /** The type of what is there, as Redis names it: `string`, `list`, `hash` …; undefined if Redis did not tell. */
  readonly found: string | undefined

  constructor(lockName: string, found: string | undefined, cause: unknown) {
    const what = found === undefined ? 'something else' : `a ${found}`
    const advice = found === 'string' ? ', or getStringLock() if it is a lock of redlock or a similar library' : ''
    super(
      `The name ${quote(lockName)} is in use: Redis has ${what} there, which this call cannot use (${messageOf(cause)}). ` +
        `Nothing was changed: choose another name${advice}`,
      lockName,
      { cause },
    )
    this.found = found
  }
}

/** The client is closing or closed: it accepts no new work, and its waiters are rejected. */
export class ClientClosedError extends LockError {
  readonly code = 'LOCK_CLIENT_CLOSED'

  /** @param why  it was closed; undefined: the program called `close()` */
  constructor(lockName?: string, why = 'open a new one with connect()') {
    const about = lockName === undefined ? '' : ` and cannot be used for ${quote(lockName)}`
    super(`The Holdfast client is closed${about}: ${why}`, lockName)
  }
}

/** An option or argument cannot work. Nothing was sent to Redis. */
export class ConfigError extends LockError {
  readonly code = 'LOCK_CONFIG'
  /** The option or argument, e.g. `leaseTimeMs`. */
  readonly path: string
  /** The value; undefined where it might be a secret. */
  readonly value: unknown
  /** The accepted values. */
  readonly allowed: string

  constructor(path: string, value: unknown, allowed: string, options?: ErrorCause & { lockName?: string | undefined }) {
    const isSecret = typeof value === 'string' && URL_WITH_PASSWORD.test(value)
    const found = value === undefined || isSecret ? '' : `, not ${show(value)}`
    const about = options?.lockName === undefined ? '' : ` (${quote(options.lockName)})`
    super(`${path}: expected ${allowed}${found}${about}`, options?.lockName, options)
    this.path = path
    this.value = isSecret ? undefined : value
    this.allowed = allowed
  }
}

for (const [name, type] of Object.entries({
  LockError,
  NotHeldError,
  LeaseLostError,
  WaitTimeoutError,
  OutcomeUnknownError,
  SelfDeadlockError,
  QueueFullError,
  QuorumError,
  NotReplicatedError,
  NotDurableError,
  WrongTypeError,
  ClientClosedError,
  ConfigError,
})) {
  // Written out, because minifiers rename classes.
  const brand = Symbol.for(`holdfast.${name}`)
  Object.defineProperties(type.prototype, { name: { value: name }, [brand]: { value: true } })
  // A second copy of Holdfast in the process throws errors of classes of its own: `instanceof` must hold for those too.
  Object.defineProperty(type, Symbol.hasInstance, {
    value(this: object, value: unknown): boolean {
      if (this !== type) return Function.prototype[Symbol.hasInstance].call(this, value) // a class derived by the user
      return typeof value === 'object' && value !== null && brand in value
    },
  })
}

/**
 * An optional package was needed and could not be imported.
 * @param path  the option that needs it
 */
export function notImported(path: string, name: string, cause: unknown): ConfigError {
  const [why = ''] = messageOf(cause).split('\n')
  const isMissing = /MODULE_NOT_FOUND$/.test((cause as { code?: string }).code ?? '') && why.includes(`'${name}'`)
  const allowed = isMissing ? `to be installed (npm install ${name})` : `to load, but importing it failed: ${why}`
  return new ConfigError(path, undefined, `the package ${name} ${allowed}`, { cause })
}

function describeForced({ by, reason }: ForcedBy): string {
  return `forced by ${quote(by)}${reason === undefined ? '' : `, because of ${quote(reason)}`}`
}

/** A lock name for a message: quoted, escaped, and truncated so that a 1 MB name does not flood a log. */
function quote(name: string): string {
  return JSON.stringify(name.length > 120 ? `${name.slice(0, 120)}… (${name.length} characters)` : name)
}

/** A value in the wrong place may be a URL; in a password there may be any character. */
const URL_WITH_PASSWORD = /:\/\/.*@/s

function show(value: unknown): string {
  if (typeof value === 'string') return quote(value)
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean') return String(value)
  if (value === null) return 'null'
  return typeof value === 'object' ? Object.prototype.toString.call(value) : typeof value
}

/** Anything that was thrown, as an error. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown))
}

/** The message of anything that was thrown. A host with several addresses fails with several errors and no message. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && !error.message) return error.errors.map(messageOf).join(', ')
  return error instanceof Error ? error.message || error.name : String(error)
}
