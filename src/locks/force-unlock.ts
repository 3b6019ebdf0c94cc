import { toInteger } from '../delivery/replies.js'
import type { ScriptCall } from '../lua/script.js'
import { ask } from './inspection.js'
import type { LockKind } from './kinds/lock-kind.js'
import type { Lease, LeaseContext } from './lease.js'
import { runInTurnQueue, turnQueueOf } from './turn-scripts.js'

/**
 * Free a lock, whoever holds it. What this client has of it, or asked for before this call, is lost with it; what it asks for
 * later Redis grants after that.
 * @returns whether it was held
 */
export async function forceUnlock(context: LeaseContext, kind: LockKind, lockName: string): Promise<boolean> {
  const isMeant = (lease: Lease): boolean => lease.lockName === lockName && kind.nestingIn(lease.kind) !== 'apart'
  const condemned = context.leases.named(lockName).filter(isMeant)
  const attempts = [...context.attempts].filter(({ lease }) => isMeant(lease))
  const inLine = turnQueueOf(context, kind)?.forceRelease(lockName)
  const force = (call: ScriptCall): Promise<number | null> => ask(context, lockName, 'forceUnlock', call, toInteger)
  for (const lease of condemned) lease.isBeingForced = true
  let wasHeld = false
  try {
    wasHeld = (await runInTurnQueue(context, inLine, () => kind.forceRelease(lockName), force)) === 1
  } finally {
    for (const lease of condemned) {
      lease.isBeingForced = false
      if (wasHeld) lease.loseAll('forced')
    }
  }
  for (const attempt of wasHeld ? attempts : []) {
    attempt.isForced = true
    if (attempt.hasWon) attempt.lease.loseAll('forced')
  }
  return wasHeld
}
