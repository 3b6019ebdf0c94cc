import type { Context } from './locks/context.js'
import {
  checkCount,
  checkDuration,
  checkOptionalBoolean,
  checkOptionalDuration,
  LEAST_LEASE_MS,
  ownOptions,
} from './util/validate.js'
import { checkNameMapper, type NameMapper } from './wire/names.js'

export interface ClientOptions {
  /**
   * Lease of a hold without `leaseTimeMs`, ms; renewed every third of it. Default 30 000.
   * Redisson's `lockWatchdogTimeout`: use the same value on both sides.
   */
  lockWatchdogTimeoutMs?: number | undefined
  /** How many holds one script call renews. Default 100. Redisson's option of the same name. */
  lockWatchdogBatchSize?: number | undefined
  /**
   * How long a waiter without `waitTimeMs` may be silent in the queue of a fair lock, ms. Default 300 000. Redisson's
   * `fairLockWaitTimeout`: use the same value on both sides.
   */
  fairLockWaitTimeoutMs?: number | undefined
  /** Makes the names in Redis of those in the program. Default: they are the same. Redisson's option of the same name. */
  nameMapper?: NameMapper | undefined
  /** How long Redis may take to answer one command, ms. Default 3 000. Redisson's `timeout`. */
  commandTimeoutMs?: number | undefined
  /**
   * Whether a lock counts as taken only when at least one replica has it, if there are any. Default: with Sentinel and in a
   * cluster. Redisson's option of the same name.
   */
  checkLockSyncedSlaves?: boolean | undefined
  /** How long replicas have to acknowledge, ms. Default 1 000. Redisson's `slavesSyncTimeout`. */
  slavesSyncTimeoutMs?: number | undefined
  /**
   * Whether a lock counts as taken only when the server has fsynced it to its AOF, so that a power failure cannot undo it.
   * Needs `appendonly yes`, and Redis 8.0 or later; with `appendfsync always` also Redis 7.2 and Valkey. The server has two
   * thirds of `commandTimeoutMs` for it. Default false.
   */
  checkLockFsynced?: boolean | undefined
  /** Default of the option of the same name, ms. Default: no limit. */
  maxHoldMs?: number | undefined
  /** Default of the option of the same name, ms. Default: never. */
  warnAfterMs?: number | undefined
  /**
   * How often in a row a lock may go from one caller of this client to the next without asking Redis, if both have no
   * lease of their own. Then it is released, and others who wait for it go first. Default 1 000; 0: never.
   */
  maxHandOffs?: number | undefined
  /** For how long it may go on like that, ms from the grant of Redis. Default 20. */
  maxHandOffMs?: number | undefined
  /**
   * Whether a call inside `withLock` or a scope re-enters what its call chain holds. Default true. With false only the
   * option `within` re-enters: for programs with batchers or queues, where a job may run in the call chain of a task that
   * it does not belong to.
   */
  implicitReentry?: boolean | undefined
}

type CheckedOptions = Pick<
  Context,
  | 'watchdogTimeoutMs'
  | 'commandTimeoutMs'
  | 'maxHoldMs'
  | 'warnAfterMs'
  | 'maxHandOffs'
  | 'maxHandOffMs'
  | 'implicitReentry'
> & {
  readonly checkLockSyncedSlaves: boolean | undefined
  readonly slavesSyncTimeoutMs: number
  readonly checkLockFsynced: boolean
  readonly watchdogBatchSize: number
  readonly fairWaitMs: number
  readonly nameMapper: NameMapper | undefined
}

export const CLIENT_OPTIONS = [
  'lockWatchdogTimeoutMs',
  'lockWatchdogBatchSize',
  'fairLockWaitTimeoutMs',
  'nameMapper',
  'commandTimeoutMs',
  'checkLockSyncedSlaves',
  'slavesSyncTimeoutMs',
  'checkLockFsynced',
  'maxHoldMs',
  'warnAfterMs',
  'maxHandOffs',
  'maxHandOffMs',
  'implicitReentry',
]

/** More would keep Redis busy with one call for too long. */
const MAX_BATCH_SIZE = 10_000

/** @throws {ConfigError} a value that cannot work */
export function checkClientOptions(options: ClientOptions): CheckedOptions {
  const own = ownOptions(options, CLIENT_OPTIONS)
  const { lockWatchdogTimeoutMs = 30_000, commandTimeoutMs = 3_000, slavesSyncTimeoutMs = 1_000 } = own
  const { lockWatchdogBatchSize = 100, fairLockWaitTimeoutMs = 300_000, nameMapper } = own
  const {
    checkLockSyncedSlaves,
    checkLockFsynced,
    maxHoldMs,
    warnAfterMs,
    maxHandOffs = 1_000,
    maxHandOffMs = 20,
    implicitReentry,
  } = own
  return {
    watchdogTimeoutMs: checkDuration('lockWatchdogTimeoutMs', lockWatchdogTimeoutMs, LEAST_LEASE_MS),
    watchdogBatchSize: checkCount('lockWatchdogBatchSize', lockWatchdogBatchSize, 1, undefined, MAX_BATCH_SIZE),
    fairWaitMs: checkDuration('fairLockWaitTimeoutMs', fairLockWaitTimeoutMs, 1),
    nameMapper: checkNameMapper(nameMapper),
    commandTimeoutMs: checkDuration('commandTimeoutMs', commandTimeoutMs, 1),
    checkLockSyncedSlaves: checkOptionalBoolean('checkLockSyncedSlaves', checkLockSyncedSlaves),
    slavesSyncTimeoutMs: checkDuration('slavesSyncTimeoutMs', slavesSyncTimeoutMs, 1),
    checkLockFsynced: checkOptionalBoolean('checkLockFsynced', checkLockFsynced) ?? false,
    maxHoldMs: checkOptionalDuration('maxHoldMs', maxHoldMs, 1),
    warnAfterMs: checkOptionalDuration('warnAfterMs', warnAfterMs, 1),
    maxHandOffs: checkCount('maxHandOffs', maxHandOffs, 0),
    maxHandOffMs: checkDuration('maxHandOffMs', maxHandOffMs, 0),
    implicitReentry: checkOptionalBoolean('implicitReentry', implicitReentry) ?? true,
  }
}
