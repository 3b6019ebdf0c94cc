// Public exports, no logic.
export type { IoredisLike } from './adapters/ioredis/port.js'
export type { NodeRedisLike } from './adapters/node-redis/port.js'
export type { PortEvents, RedisPort } from './adapters/port.js'
export { Client } from './client.js'
export type { ClientOptions, InspectionOptions } from './client-options.js'
export type { Credentials, CredentialsResolver, IgnoredKey, RedissonConfig } from './config/schema.js'
export type { TlsFiles } from './config/tls.js'
export { type ConnectOptions, connect, type WatchdogOptions } from './connect.js'
export {
  ClientClosedError,
  ConfigError,
  type ForcedBy,
  LeaseLostError,
  LockError,
  type LockErrorCode,
  type LossReason,
  NotDurableError,
  NotHeldError,
  NotReplicatedError,
  OutcomeUnknownError,
  QueueFullError,
  QuorumError,
  SelfDeadlockError,
  WaitTimeoutError,
  WrongTypeError,
} from './errors.js'
export {
  FENCED_SET,
  type FencedSetOptions,
  type FencedUpdate,
  type FencedUpdateOptions,
  fencedSet,
  fencedUpdate,
} from './fencing.js'
export type { Cycle, Deadlocks } from './fleet/deadlocks.js'
export type { Doubt } from './fleet/doubts.js'
export type { Fleet, InspectOptions, ListOptions } from './fleet/fleet.js'
export type { JobInfo, JobState } from './fleet/job-info.js'
export type { ChainLink, LockInfo, LockList, WaiterInfo } from './fleet/lock-info.js'
export type { ClientInfo, HolderInfo, HolderStatus, KnownHolder } from './holder-info.js'
export type { BaseLock } from './locks/base-lock.js'
export type { AuditEntry, ForceOutcome } from './locks/breaking/audit.js'
export type { ForceUnlockOptions, ForceUnlockResult } from './locks/breaking/interrupt.js'
export type { AcquirePath, ClientEvents, ReleasePath } from './locks/context.js'
export type { Election, ElectionOptions } from './locks/election.js'
export type { FencedHold, FencedLock } from './locks/fenced-lock.js'
export type { Hold } from './locks/hold.js'
export type { Holder } from './locks/kinds/lock-kind.js'
export type { BackOff, SpinLockOptions } from './locks/kinds/spin.js'
export type { Lock } from './locks/lock.js'
export { getMultiLock, type MultiLock } from './locks/multi-lock.js'
export type {
  HoldOptions,
  LockedCallback,
  LockOptions,
  MaybeRan,
  OrderOptions,
  QueueOptions,
  WithLockOptions,
} from './locks/options.js'
export type { ReadWriteLock } from './locks/read-write-lock.js'
export { getRedLock, type RedLock } from './locks/red-lock.js'
export type { HoldfastChannels } from './locks/reporting/observation.js'
export type { LockState, WatchOptions } from './locks/watch.js'
export type { CloseOptions, SignalOptions } from './shutdown.js'
export type { AwaitOptions, CountDownLatch } from './synchronizers/count-down-latch.js'
export type {
  PermitExpirableSemaphore,
  PermitOptions,
  WithPermitOptions,
} from './synchronizers/permit-expirable-semaphore.js'
export type { Permit } from './synchronizers/permit-lease.js'
export type { Semaphore, SemaphoreOptions, WithPermits } from './synchronizers/semaphore.js'
export type { WebLockCallback, WebLockOptions } from './web-locks/arguments.js'
export { WebLockManager } from './web-locks/manager.js'
export { WebLock, type WebLockInfo, type WebLockMode, type WebLockSnapshot } from './web-locks/web-lock.js'
export type { NameMapper } from './wire/names.js'
