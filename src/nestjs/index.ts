// holdfast/nestjs.
export { HoldfastHealth, type HoldfastHealthOptions, type HoldfastHealthResult } from './health.js'
export { getHoldfastToken, InjectHoldfast } from './inject.js'
export { LockKey } from './lock-name.js'
export {
  currentHold,
  Locked,
  type LockedDecorator,
  type LockedKind,
  type LockedOptions,
  type OnBusy,
} from './locked.js'
export {
  type HoldfastAsyncOptions,
  HoldfastModule,
  type HoldfastModuleOptions,
  type HoldfastOptions,
  type HoldfastOptionsFactory,
} from './module.js'
