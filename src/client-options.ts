// Every client option: type, default, check.
import { ConfigError } from './errors.js'
import type { Inspection } from './fleet/client-info.js'
import {
  checkCount,
  checkDuration,
  checkOptionalBoolean,
  checkOptionalDuration,
  MIN_LEASE_MS,
  ownOptions,
} from './util/validate.js'
import { checkNameMapper, type NameMapper } from './wire/names.js'

export interface InspectionOptions {
  /** The name of this application where locks are listed. Default: the name of its package. */
  name?: string | undefined
  /** The name of this machine there; false: none. Default: its host name. */
  host?: string | false | undefined
  /** Whether every hold also says where in the program it was taken, which costs a few µs per lock. Default false. */
  stacks?: boolean | undefined
}

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
  /**
   * Maps names in the program to keys in Redis, which nothing outside Redis shows. Default: they are the same. Redisson's
   * option of the same name.
   */
  nameMapper?: NameMapper | undefined
  /** How long to wait for the reply to one command, ms. Default 3 000. Redisson's `timeout`. */
  commandTimeoutMs?: number | undefined
  /**
   * Whether a lock counts as taken only once at least one replica has it, if there are any. Default: with Sentinel and in a
   * cluster. Redisson's option of the same name.
   */
  checkLockSyncedSlaves?: boolean | undefined
  /** How long replicas have to acknowledge, ms. Default 1 000. Redisson's `slavesSyncTimeout`. */
  slavesSyncTimeoutMs?: number | undefined
  /**
   * Whether a lock counts as taken only once the server has fsynced it to its AOF, so that a power failure cannot undo it.
   * Needs `appendonly yes`, and Redis 8.0 or later; with `appendfsync always` also Redis 7.2 and Valkey. The server has two
   * thirds of `commandTimeoutMs` for it. Default false.
   */
  checkLockFsynced?: boolean | undefined
  /** Default of the option of the same name, ms. Default: no limit. */
  maxHoldMs?: number | undefined
  /**
   * Longest wait of a call without `waitTimeMs` of its own, ms, of those that wait without limit otherwise: `lock`, `withLock`,
   * `acquire`, `withPermit`, and `await` of a latch. Default: no limit.
   */
  waitTimeMs?: number | undefined
  /** Default of the option of the same name, ms. Default: 60 000 for waits, never for holds. */
  warnAfterMs?: number | undefined
  /**
   * How many hand-offs in a row a lock may go through, from one caller of this client to the next without a Redis command,
   * if neither has a lease of its own. Then it is released, and waiters in other clients take precedence. Default 1 000; 0:
   * none.
   */
  maxHandOffs?: number | undefined
  /** How long such a run of hand-offs may last, ms from the grant by Redis. Default 20. */
  maxHandOffMs?: number | undefined
  /**
   * Whether a call inside `withLock` or a scope re-enters what its call chain holds. Default true. With false only the
   * option `within` re-enters: for programs with batchers or queues, where a job may run in the call chain of a task that
   * it does not belong to.
   */
  implicitReentry?: boolean | undefined
  /**
   * Whether others may ask this client what it holds and waits for, and what its application is called: default true. It
   * subscribes to a channel of its own and writes one key, `holdfast_client:<client id>`, with its first wait, or once
   * something has been held for 1 s.
   */
  inspection?: boolean | InspectionOptions | undefined
}

/** The check and the default of every option. */
export const CLIENT_OPTIONS = {
  lockWatchdogTimeoutMs: (path: string, value: unknown = 30_000) => checkDuration(path, value, MIN_LEASE_MS),
  // A larger batch would keep Redis busy for too long.
  lockWatchdogBatchSize: (path: string, value: unknown = 100) => checkCount(path, value, 1, undefined, 10_000),
  fairLockWaitTimeoutMs: (path: string, value: unknown = 300_000) => checkDuration(path, value, 1),
  nameMapper: (_path: string, value: unknown) => checkNameMapper(value),
  commandTimeoutMs: (path: string, value: unknown = 3_000) => checkDuration(path, value, 1),
  checkLockSyncedSlaves: checkOptionalBoolean,
  slavesSyncTimeoutMs: (path: string, value: unknown = 1_000) => checkDuration(path, value, 1),
  checkLockFsynced: (path: string, value: unknown) => checkOptionalBoolean(path, value) ?? false,
  maxHoldMs: (path: string, value: unknown) => checkOptionalDuration(path, value, 1),
  waitTimeMs: (path: string, value: unknown) => checkOptionalDuration(path, value, 0),
  warnAfterMs: (path: string, value: unknown) => checkOptionalDuration(path, value, 1),
  maxHandOffs: (path: string, value: unknown = 1_000) => checkCount(path, value, 0),
  maxHandOffMs: (path: string, value: unknown = 20) => checkDuration(path, value, 0),
  implicitReentry: (path: string, value: unknown) => checkOptionalBoolean(path, value) ?? true,
  inspection: checkInspection,
} satisfies { [Name in keyof Required<ClientOptions>]: (path: string, value: unknown) => ClientOptions[Name] }

export type CheckedClientOptions = {
  readonly [Name in keyof typeof CLIENT_OPTIONS]: ReturnType<(typeof CLIENT_OPTIONS)[Name]>
}

/** @throws {ConfigError} an option cannot work */
export function checkClientOptions(options: ClientOptions): CheckedClientOptions {
  const own = ownOptions(options, CLIENT_OPTIONS) as Record<string, unknown>
  return Object.fromEntries(
    Object.entries(CLIENT_OPTIONS).map(([name, check]) => [name, check(name, own[name])]),
  ) as never
}

const MAX_NAME = 256
const INSPECTION_OPTIONS = { name: 1, host: 1, stacks: 1 }

/** @returns false: nobody may ask */
function checkInspection(path: string, value: unknown = true): Inspection | false {
  if (value === false) return false
  if (value !== true && (typeof value !== 'object' || value === null)) {
    throw new ConfigError(path, value, 'true, false, or an object with some of name, host, stacks')
  }
  const { name, host, stacks } = value === true ? {} : ownOptions(value as InspectionOptions, INSPECTION_OPTIONS)
  return {
    name: checkText(`${path}.name`, name),
    host: host === false ? false : checkText(`${path}.host`, host, 'false, or '),
    stacks: checkOptionalBoolean(`${path}.stacks`, stacks) ?? false,
  }
}

/** @param allowed  what else it may be */
function checkText(path: string, value: unknown, allowed = ''): string | undefined {
  if (value === undefined || (typeof value === 'string' && value.length <= MAX_NAME)) return value
  throw new ConfigError(path, value, `${allowed}text of at most ${MAX_NAME} characters`)
}
