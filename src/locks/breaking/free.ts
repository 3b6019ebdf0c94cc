// forceUnlock(): frees whoever holds the lock, each by name, at once.
import { WrongTypeError } from '../../errors.js'
import type { ScriptCall } from '../../lua/script.js'
import type { Named } from '../../wire/names.js'
import { inspect } from '../inspection.js'
import type { LockKind } from '../kinds/lock-kind.js'
import type { Lease, LeaseContext } from '../lease.js'
import { runOnce } from '../run-once.js'

/**
 * Frees a lock regardless of its holder: those who hold it now, each by name. Whoever takes it next keeps it, however late a
 * command arrives.
 * @returns whether it was held
 */
export async function freeAll(context: LeaseContext, kind: LockKind, lock: Named): Promise<boolean> {
  const isOnLock = (lease: Lease): boolean => lease.key === lock.key && kind.nestingIn(lease.kind) !== 'apart'
  const leases = context.leases.onKey(lock.key).filter(isOnLock)
  for (const lease of leases) lease.isBeingForced = true
  try {
    const holders = await holdersOf(context, kind, lock)
    const freed = await Promise.all(
      holders.map(({ of, holder, isPart }) => freeHolder(context, of, lock, holder, isPart)),
    )
    const isFreed = freed.includes(true)
    // Those that were not freed are gone: Redis did not have them.
    if (isFreed) for (const lease of leases) lease.loseAll('forced')
    return isFreed
  } finally {
    for (const lease of leases) lease.isBeingForced = false
  }
}

/**
 * Releases a lock on behalf of its holder. If the holder is of this client, its current holds, and grants already in flight,
 * are lost; later grants are not.
 * @param isPart  it has only a part of the lock, which is freed
 * @returns false: it no longer held the lock
 */
export async function freeHolder(
  context: LeaseContext,
  kind: LockKind,
  lock: Named,
  holder: string,
  isPart = false,
): Promise<boolean> {
  const { key } = lock
  const isTheirs = (lease: Lease): boolean => lease.key === key && lease.holder === holder
  const lease = context.leases.find(key, holder)
  const attempts = [...context.attempts].filter((attempt) => isTheirs(attempt.lease))
  const withTurnQueue = context.turnQueues.of(kind)?.release(key, holder)
  const run = (call: ScriptCall): Promise<number | null> => runOnce(context, lock, 'forceUnlock', call)
  const receivers = await context.turnQueues.run(withTurnQueue, () => kind.release(key, holder), run)
  if (receivers === null && !isPart) return false
  lease?.loseAll('forced')
  for (const attempt of attempts) {
    attempt.isForced = true
    if (attempt.hasWon) attempt.lease.loseAll('forced')
  }
  return true
}

/**
 * The holders of a lock, with the kind of each hold: a writer may also read.
 * @throws {WrongTypeError} something else has the name
 */
async function holdersOf(
  context: LeaseContext,
  kind: LockKind,
  lock: Named,
): Promise<readonly { readonly of: LockKind; readonly holder: string; readonly isPart?: boolean }[]> {
  const { holders, partial, blockers } = await inspect(context, kind, lock, {
    operation: 'forceUnlock',
    listsAll: true,
  })
  // Only the writer reads, inside its write: the lock is held in write mode.
  if (kind.isShared && blockers && blockers.holders.length > 0) return []
  const stranger = holders.find(({ holdCount }) => !Number.isSafeInteger(holdCount))
  if (stranger || (holders.length > 1 && !kind.isShared && !kind.isDivisible)) {
    throw new WrongTypeError(lock.name, 'hash', 'the hash is a lock of another kind, or data')
  }
  const inside = kind.inside
  const reads = inside && holders.length > 0 ? blockers?.holders.filter(({ mode }) => mode === inside.mode) : undefined
  return [
    ...holders.map(({ holder }) => ({ of: kind, holder, isPart: partial?.includes(holder) ?? false })),
    ...(reads ?? []).map(({ holder }) => ({ of: inside as LockKind, holder })),
  ]
}
