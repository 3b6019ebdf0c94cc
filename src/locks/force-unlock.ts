import { toInteger } from '../delivery/replies.js'
import type { ScriptCall } from '../lua/script.js'
import { ask } from './inspection.js'
import type { LockKind } from './kinds/lock-kind.js'
import type { Lease, LeaseContext } from './lease.js'
import { runInTurnQueue, turnQueueOf } from './turn-scripts.js'

/**
 * Frees a lock regardless of its holder. Leases of this client on the lock are lost, and so are the grants of attempts that
 * are in flight now. Redis grants later attempts after the release.
 * @returns whether the lock was held
 */
export async function forceUnlock(context: LeaseContext, kind: LockKind, lockName: string): Promise<boolean> {
  const isOnLock = (lease: Lease): boolean => lease.lockName === lockName && kind.nestingIn(lease.kind) !== 'apart'
  const leases = context.leases.named(lockName).filter(isOnLock)
  const attempts = [...context.attempts].filter(({ lease }) => isOnLock(lease))
  const withTurnQueue = turnQueueOf(context, kind)?.forceRelease(lockName)
  const force = (call: ScriptCall): Promise<number | null> => ask(context, lockName, 'forceUnlock', call, toInteger)
  for (const lease of leases) lease.isBeingForced = true
  let wasHeld = false
  try {
    wasHeld = (await runInTurnQueue(context, withTurnQueue, () => kind.forceRelease(lockName), force)) === 1
  } finally {
    for (const lease of leases) {
      lease.isBeingForced = false
      if (wasHeld) lease.loseAll('forced')
    }
  }
  for (const attempt of wasHeld ? attempts : []) {
    attempt.isForced = true
    // Once it is released, the owner may have taken the lock again.
    if (!attempt.hasWon || !attempt.lease.isLive) continue
    attempt.lease.loseAll('forced')
    attempt.lease.releaseInBackground() // Redis may have granted it after the forced release
  }
  return wasHeld
}
