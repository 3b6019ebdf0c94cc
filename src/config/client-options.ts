// Which settings of a file are options of the client: lockWatchdogTimeout is lockWatchdogTimeoutMs.
import type { ClientOptions } from '../client-options.js'
import { type CheckedConfig, sharedValuesOf } from './schema.js'

/** @param isSingle  there is one server, and thus no replica that acknowledges */
export function clientOptionsOf(checked: CheckedConfig, isSingle: boolean): ClientOptions {
  const { top, server } = checked
  return withoutAbsent({
    lockWatchdogTimeoutMs: top.lockWatchdogTimeout,
    lockWatchdogBatchSize: top.lockWatchdogBatchSize,
    fairLockWaitTimeoutMs: top.fairLockWaitTimeout,
    checkLockSyncedSlaves: top.checkLockSyncedSlaves ?? (isSingle ? undefined : true),
    slavesSyncTimeoutMs: top.slavesSyncTimeout,
    commandTimeoutMs: server.timeout,
    nameMapper: sharedValuesOf(checked)('nameMapper') ?? undefined,
  })
}

/** So that a key missing in the file does not override an option of `connect`. */
function withoutAbsent<T extends object>(options: T): T {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as T
}
