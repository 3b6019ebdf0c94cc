// lock.forceUnlock(): frees the lock at once, or interrupts one holder.
import type { Named } from '../../wire/names.js'
import type { LockKind } from '../kinds/lock-kind.js'
import type { LeaseContext } from '../lease.js'
import { freeAll } from './free.js'
import { type ForceUnlockOptions, type ForceUnlockResult, interruptHolder } from './interrupt.js'

/** @param given  what the caller passed: an option object that is missing by mistake must not free the lock */
export async function forceUnlock(
  context: LeaseContext,
  kind: LockKind,
  lock: Named,
  given: readonly [] | readonly [ForceUnlockOptions],
): Promise<boolean | ForceUnlockResult> {
  const [options] = given
  if (given.length === 0) return await freeAll(context, kind, lock)
  return await interruptHolder(context, kind, lock, options as ForceUnlockOptions)
}
