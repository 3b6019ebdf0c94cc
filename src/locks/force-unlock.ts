import { toInteger } from '../delivery/replies.js'
import type { ScriptCall } from '../lua/script.js'
import { ask } from './inspection.js'
import type { LockKind } from './kinds/lock-kind.js'
import type { Lease, LeaseContext } from './lease.js'
import { lineOf, runInLine } from './turn-scripts.js'

/**
 * Free a lock, whoever holds it. What this client has of it, or asked for before this call, is lost with it; what it asks for
 * later Redis grants after that.
 * @returns whether it was held
 */
export async function forceUnlock(context: LeaseContext, kind: LockKind, lockName: string): Promise<boolean> {
  const isMeant = (possession: Lease): boolean =>
    possession.lockName === lockName && kind.nestingIn(possession.kind) !== 'apart'
  const condemned = context.leases.named(lockName).filter(isMeant)
  const attempts = [...context.attempts].filter(({ lease: possession }) => isMeant(possession))
  const inLine = lineOf(context, kind)?.forceRelease(lockName)
  const force = (call: ScriptCall): Promise<number | null> => ask(context, lockName, 'forceUnlock', call, toInteger)
  for (const possession of condemned) possession.isBeingForced = true
  let wasHeld = false
  try {
    wasHeld = (await runInLine(context, inLine, () => kind.forceRelease(lockName), force)) === 1
  } finally {
    for (const possession of condemned) {
      possession.isBeingForced = false
      if (wasHeld) possession.loseAll('forced')
    }
  }
  for (const attempt of wasHeld ? attempts : []) {
    attempt.isForced = true
    if (attempt.hasWon) attempt.lease.loseAll('forced')
  }
  return wasHeld
}
