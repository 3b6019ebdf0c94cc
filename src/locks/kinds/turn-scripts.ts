// Chooses between scripts with and without the turn queue.
import type { ScriptCall } from '../../lua/script.js'
import { turnQueueRefused } from '../../warnings.js'
import type { Context } from '../context.js'
import type { LockKind, TurnQueueScripts } from './lock-kind.js'

/** The scripts with which clients queue for a lock of this kind in Redis; undefined: they do not. */
export function turnQueueOf(context: Context, kind: LockKind): TurnQueueScripts | undefined {
  return context.hasTurnQueue ? kind.turnQueue : undefined
}

/**
 * Runs the call that uses the turn queue. If the ACL of this user forbids the queue, the client stops using it for all
 * locks, and releases wake every client.
 */
export function runInTurnQueue<T>(
  context: Context,
  withTurnQueue: ScriptCall | undefined,
  withoutTurnQueue: () => ScriptCall,
  run: (call: ScriptCall) => Promise<T>,
): Promise<T> {
  if (!withTurnQueue) return run(withoutTurnQueue())
  return run(withTurnQueue).catch(async (error: unknown) => {
    if (!(error instanceof Error) || !/\bNOPERM\b/.test(error.message)) throw error
    const reply = await run(withoutTurnQueue())
    context.hasTurnQueue = false
    context.emit('warning', turnQueueRefused(error))
    return reply
  })
}
