/**
 * Every error class and code of Holdfast.
 *
 * Being refused is not an error (`tryLock` answers null), an abort throws the caller's own reason, and an error reply of
 * Redis (WRONGTYPE, NOPERM, OOM …) passes through as the Redis client gave it.
 */

export type LockErrorCode =
  | 'LOCK_NOT_HELD'
  | 'LOCK_LEASE_LOST'
  | 'LOCK_WAIT_TIMEOUT'
  | 'LOCK_OUTCOME_UNKNOWN'
  | 'LOCK_CLIENT_CLOSED'
  | 'LOCK_SELF_DEADLOCK'
  | 'LOCK_QUORUM'
  | 'LOCK_NOT_REPLICATED'
  | 'LOCK_NOT_DURABLE'
  | 'LOCK_CONFIG'

/** The base of all errors that Holdfast itself throws. `code` is stable, the message is for people. */
export abstract class LockError extends Error {
  abstract readonly code: LockErrorCode
  /** The lock this is about, where there is one. */
  readonly lockName: string | undefined

  constructor(message: string, lockName?: string, options?: ErrorOptions) {
    super(message, options)
    this.lockName = lockName
  }

  override get name(): string {
    return this.constructor.name
  }
}

/** Released, adopted or asked about by someone who is not the holder. */
export class NotHeldError extends LockError {
  readonly code = 'LOCK_NOT_HELD'
}

/**
 * Why a hold ended before it was released.
 * - `expired`: its lease ran out by this process's own clock (a blocked event loop, a silent Redis, a lease too short)
 * - `gone`: Redis said that the holder's field is no longer there (forced, deleted, evicted, Redis restarted empty)
 * - `forced`: this client force-unlocked it
 * - `maxHold`: `maxHoldMs` was reached
 * - `closed`: the client was closed while it was held
 */
export type LossReason = 'expired' | 'gone' | 'forced' | 'maxHold' | 'closed'

const LOSS: Record<LossReason, string> = {
  expired: 'its lease ended before it was renewed',
  gone: 'Redis no longer knows the holder (forced, deleted, evicted or Redis lost its data)',
  forced: 'this client force-unlocked it',
  maxHold: 'it was held for longer than maxHoldMs',
  closed: 'the client was closed',
}

/** The lock was held and no longer is. Also the reason of the hold's `signal`. */
export class LeaseLostError extends LockError {
  readonly code = 'LOCK_LEASE_LOST'
  readonly holder: string
  readonly reason: LossReason
  /** Of a hold on several locks: the losses of those that were lost. Empty if it was lost as a whole. */
  readonly parts: readonly LeaseLostError[]

  /** @param noun  what the name is the name of */
  constructor(
    lockName: string,
    holder: string,
    reason: LossReason,
    noun = 'Lock',
    parts: readonly LeaseLostError[] = [],
  ) {
    const lost = parts.map((part) => `${quote(part.lockName ?? '')} of ${part.holder}`).join(', ')
    super(
      `${noun} ${quote(lockName)} is no longer held by ${holder}: ${lost && `it lost ${lost}: `}${LOSS[reason]}. ` +
        'Another owner may hold it: stop the guarded work',
      lockName,
    )
    this.holder = holder
    this.reason = reason
    this.parts = parts
  }
}

/** The wait time ended first. Only from calls that promise the lock (`lock`, `withLock`). */
export class WaitTimeoutError extends LockError {
  readonly code = 'LOCK_WAIT_TIMEOUT'
  /** The wait time that ended, ms. */
  readonly waitTimeMs: number

  constructor(lockName: string, waitTimeMs: number, isPermit = false) {
    super(
      isPermit
        ? `Semaphore ${quote(lockName)} had not enough permits within ${waitTimeMs} ms. ` +
            'Wait longer, or use tryAcquire() or tryWithPermit() to be told without an error'
        : `Lock ${quote(lockName)} did not come free within ${waitTimeMs} ms: someone else holds it. ` +
            'Wait longer, or use tryLock() or tryWithLock() to be told without an error',
      lockName,
    )
    this.waitTimeMs = waitTimeMs
  }
}

/**
 * A command was sent and not answered: it may have run. What may have been taken or not been released is settled in the
 * background, and ends with its lease at the latest.
 */
export class OutcomeUnknownError extends LockError {
  readonly code = 'LOCK_OUTCOME_UNKNOWN'
  /** What was asked of Redis. */
  readonly operation: string

  constructor(lockName: string, operation: string, cause: unknown) {
    super(
      `Redis did not answer "${operation}" for ${quote(lockName)}: ${messageOf(cause)}. It may have been done or ` +
        'not; what it left is cleaned up in the background, and ends with its lease at the latest',
      lockName,
      { cause },
    )
    this.operation = operation
  }
}

/**
 * The call chain asked for a lock that it holds itself in a way that cannot be shared: it would wait for itself for ever.
 * `stack` says where it asked, `holdStack` where the hold was taken.
 */
export class SelfDeadlockError extends LockError {
  readonly code = 'LOCK_SELF_DEADLOCK'
  readonly holdStack: string | undefined

  /** @param asked, held  the kinds of lock, as people call them */
  constructor(lockName: string, asked: string, held: string, holdStack: string | undefined) {
    const advice =
      asked === 'write lock' && held === 'read lock'
        ? 'take the write lock first: who writes may read as well'
        : 'pass the hold on instead of taking it again, or use one kind of lock for one name'
    const where = holdStack === undefined ? '' : `. It was taken at\n${holdStack}\nand asked for again at`
    super(
      `This call chain holds lock ${quote(lockName)} (${held}) and asks for it again (${asked}): it would wait for ` +
        `itself; ${advice}${where}`,
      lockName,
    )
    this.holdStack = holdStack
  }
}

/** Too few of the servers of a `RedLock` could be asked. What was taken on the others was given back. */
export class QuorumError extends LockError {
  readonly code = 'LOCK_QUORUM'
  /** One for each lock that failed, in the order of the locks; those that were merely held are not among them. */
  readonly errors: readonly { readonly lockName: string; readonly index: number; readonly error: unknown }[]

  constructor(lockName: string, needed: number, errors: QuorumError['errors']) {
    const causes = errors.map(({ index, error }) => `${index + 1}. ${messageOf(error)}`).join('; ')
    super(`${needed} servers are needed for ${lockName}, and ${errors.length} failed: ${causes}`, lockName)
    this.errors = errors
  }
}

/**
 * It was granted, but no replica acknowledged it in time: a failover might have given it to somebody else as well. It was
 * given back.
 */
export class NotReplicatedError extends LockError {
  readonly code = 'LOCK_NOT_REPLICATED'

  /**
   * @param replicas  how many there are
   * @param why  why the server itself is not trusted; undefined: the replicas were asked
   */
  constructor(lockName: string, replicas: number, timeoutMs: number, options?: ErrorOptions & { why?: string }) {
    const { why } = options ?? {}
    super(
      why === undefined
        ? `None of ${replicas} replicas acknowledged ${quote(lockName)} within ${timeoutMs} ms, so it was given back. Look why ` +
            'they lag, or set checkLockSyncedSlaves to false, and expect two holders after a failover'
        : `The server that granted ${quote(lockName)} cannot show that it is the master (${why}), so the grant was released. ` +
            'During a failover, try again in a moment; otherwise check the replication of this server',
      lockName,
      options,
    )
  }
}

/**
 * It was granted, but the server did not confirm that it has fsynced that to its AOF: a power failure might have undone it.
 * It was released again.
 */
export class NotDurableError extends LockError {
  readonly code = 'LOCK_NOT_DURABLE'
  /**
   * - `late`: not in time; another attempt may succeed
   * - `refused`: the server cannot confirm it: it is too old, has no AOF, or forbids the commands
   */
  readonly reason: 'late' | 'refused'

  /** @param why  the limit that passed, or what the server replied */
  constructor(lockName: string, reason: 'late' | 'refused', why: string, options?: ErrorOptions) {
    const advice =
      reason === 'late'
        ? 'Check the disk of the server, and that its appendfsync is always or everysec'
        : 'checkLockFsynced needs appendonly yes, and Redis 8.0 or later, or Redis 7.2 or Valkey with appendfsync always'
    super(
      `Redis did not confirm that ${quote(lockName)} is fsynced to its AOF (${why}), so it was released. ${advice}; or set ` +
        'checkLockFsynced to false, and expect two holders after a power failure',
      lockName,
      options,
    )
    this.reason = reason
  }
}

/** The client is closing or closed: no new work, and waiters are sent away. */
export class ClientClosedError extends LockError {
  readonly code = 'LOCK_CLIENT_CLOSED'

  constructor(lockName?: string) {
    const about = lockName === undefined ? '' : ` while asking for ${quote(lockName)}`
    super(`The Holdfast client is closed${about}: connect() a new one`, lockName)
  }
}

/** An option or argument that cannot work, found before any command was sent. */
export class ConfigError extends LockError {
  readonly code = 'LOCK_CONFIG'
  /** Which option or argument, e.g. `leaseTimeMs`. */
  readonly path: string
  /** The value found; undefined where it might be a secret. */
  readonly value: unknown
  /** What would have been accepted. */
  readonly allowed: string

  constructor(path: string, value: unknown, allowed: string, options?: ErrorOptions & { lockName?: string }) {
    const found = value === undefined ? '' : `, not ${show(value)}`
    const about = options?.lockName === undefined ? '' : ` (${quote(options.lockName)})`
    super(`${path}: expected ${allowed}${found}${about}`, options?.lockName, options)
    this.path = path
    this.value = value
    this.allowed = allowed
  }
}

/** What makes everything work worse than it should. `code` is what the client tells of it once by. */
export function clientWarning(
  code:
    | 'PUBLISH_REFUSED'
    | 'SUBSCRIBE_REFUSED'
    | 'TURN_QUEUE_REFUSED'
    | 'WAIT_REFUSED'
    | 'CROSSSLOT_REFUSED'
    | 'RENEWAL_REFUSED'
    | 'FENCING_TOKENS_WENT_BACK'
    | 'CONFIG_KEYS_IGNORED'
    | 'WATCHDOG_THREAD_ENDED'
    | 'CONNECTION_REPLACED'
    | 'RELEASE_FAILED',
  message: string,
  options?: ErrorOptions,
): Error {
  return Object.assign(new Error(message, options), { code })
}

/** A lock name for a message: quoted, escaped, and cut so that a 1 MB name does not flood a log. */
function quote(name: string): string {
  return JSON.stringify(name.length > 120 ? `${name.slice(0, 120)}… (${name.length} characters)` : name)
}

function show(value: unknown): string {
  if (typeof value === 'string') return quote(value)
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean') return String(value)
  if (value === null) return 'null'
  return typeof value === 'object' ? Object.prototype.toString.call(value) : typeof value
}

/** An error as one line. A connection tried at several addresses fails with many errors and no message. */
export function messageOf(error: unknown): string {
  if (error instanceof AggregateError && !error.message) return error.errors.map(messageOf).join(', ')
  return error instanceof Error ? error.message || error.name : String(error)
}
