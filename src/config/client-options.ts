// Which settings of a file are options of the client: lockWatchdogTimeout is lockWatchdogTimeoutMs.
import type { ClientOptions } from '../client-options.js'
import type { NameMapper } from '../wire/names.js'
import type { CheckedConfig } from './schema.js'

/** @param isSingle  there is one server, and thus no replica that acknowledges */
export function clientOptionsOf(
  { top, server }: CheckedConfig,
  isSingle: boolean,
  nameMapper: NameMapper | undefined,
): ClientOptions {
  return withoutAbsent({
    lockWatchdogTimeoutMs: top.lockWatchdogTimeout,
    lockWatchdogBatchSize: top.lockWatchdogBatchSize,
    fairLockWaitTimeoutMs: top.fairLockWaitTimeout,
    checkLockSyncedSlaves: top.checkLockSyncedSlaves ?? (isSingle ? undefined : true),
    slavesSyncTimeoutMs: top.slavesSyncTimeout,
    commandTimeoutMs: server.timeout,
    nameMapper,
  })
}

/** So that a key missing in the file does not override an option of `connect`. */
function withoutAbsent<T extends object>(options: T): T {
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)) as T
}
