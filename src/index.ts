export type { IoredisLike } from './adapters/ioredis.js'
export type { NodeRedisLike } from './adapters/node-redis.js'
export type { PortEvents, RedisPort } from './adapters/port.js'
export type { Client, ClientOptions, CloseOptions } from './client.js'
export { type ConnectOptions, connect } from './config/open.js'
export {
  ClientClosedError,
  ConfigError,
  LeaseLostError,
  LockError,
  type LockErrorCode,
  type LossReason,
  NotHeldError,
  OutcomeUnknownError,
  WaitTimeoutError,
} from './errors.js'
export type { ClientEvents } from './primitives/context.js'
export type { Hold } from './primitives/hold.js'
export type { Holder } from './primitives/inspection.js'
export type { Guarded, HoldOptions, Lock, LockOptions, WithLockOptions } from './primitives/lock.js'
