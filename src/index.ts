export type { IoredisLike } from './adapters/ioredis.js'
export type { NodeRedisLike } from './adapters/node-redis.js'
export type { PortEvents, RedisPort } from './adapters/port.js'
export { Client, type CloseOptions } from './client.js'
export type { ClientOptions } from './client-options.js'
export { type ConnectOptions, connect, type WatchdogOptions } from './config/open.js'
export type { Credentials, CredentialsResolver, IgnoredKey, RedissonConfig } from './config/schema.js'
export {
  ClientClosedError,
  ConfigError,
  LeaseLostError,
  LockError,
  type LockErrorCode,
  type LossReason,
  NotDurableError,
  NotHeldError,
  NotReplicatedError,
  OutcomeUnknownError,
  QuorumError,
  SelfDeadlockError,
  WaitTimeoutError,
} from './errors.js'
export {
  FENCED_SET,
  type FencedSetOptions,
  type FencedUpdate,
  type FencedUpdateOptions,
  fencedSet,
  fencedUpdate,
} from './fencing-guards.js'
export type { AnyLock, Guarded, HoldOptions, LockOptions, WithLockOptions } from './primitives/any-lock.js'
export type { ClientEvents } from './primitives/context.js'
export type { AwaitOptions, CountDownLatch } from './primitives/count-down-latch.js'
export type { FencedHold, FencedLock } from './primitives/fenced-lock.js'
export type { Hold } from './primitives/hold.js'
export type { Holder } from './primitives/inspection.js'
export type { Lock } from './primitives/lock.js'
export { getMultiLock, type MultiLock } from './primitives/multi-lock.js'
export type { NameMapper } from './primitives/names.js'
export type {
  Permit,
  PermitExpirableSemaphore,
  PermitOptions,
  WithPermitOptions,
} from './primitives/permit-expirable-semaphore.js'
export type { ReadWriteLock } from './primitives/read-write-lock.js'
export { getRedLock, type RedLock } from './primitives/red-lock.js'
export type { Semaphore, SemaphoreOptions, WithPermits } from './primitives/semaphore.js'
export type { BackOff, SpinLockOptions } from './primitives/spin-lock.js'
