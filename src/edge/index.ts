// holdfast/edge, and what `holdfast` is on edge runtimes: the same, with another `connect`.
export { type HttpOptions, http, type UpstashLike } from '../adapters/http/port.js'
export { Client } from '../client.js'
export {
  ClientClosedError,
  ConfigError,
  LeaseLostError,
  LockError,
  NotDurableError,
  NotHeldError,
  NotReplicatedError,
  OutcomeUnknownError,
  QueueFullError,
  QuorumError,
  SelfDeadlockError,
  WaitTimeoutError,
  WrongTypeError,
} from '../errors.js'
export { FENCED_SET, fencedSet, fencedUpdate } from '../fencing.js'
export type * from '../index.js'
export { getMultiLock } from '../locks/multi-lock.js'
export { getRedLock } from '../locks/red-lock.js'
export { WebLockManager } from '../web-locks/manager.js'
export { WebLock } from '../web-locks/web-lock.js'
export { connect, type EdgeOptions } from './connect.js'
