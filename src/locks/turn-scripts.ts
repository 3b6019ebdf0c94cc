import { clientWarning } from '../errors.js'
import type { ScriptCall } from '../lua/script.js'
import type { Context } from './context.js'
import type { LockKind, TurnQueueScripts } from './kinds/lock-kind.js'

/** The scripts of the turn queue for a lock of this kind; undefined: it has none. */
export function turnQueueOf(context: Context, kind: LockKind): TurnQueueScripts | undefined {
  return context.hasTurnQueue ? kind.turnQueue : undefined
}

/** Frees the lock in the background; gives up at `untilAt` on the clock. */
export function settle(context: Context, kind: LockKind, lockName: string, holder: string, untilAt: number): void {
  const otherwise = kind.release(lockName, holder)
  const call = turnQueueOf(context, kind)?.release(lockName, holder) ?? otherwise
  void context.backgroundRetries.retryInBackground(call, untilAt, otherwise)
}

/**
 * Runs the call that maintains the turn queue. If an ACL forbids the queue, it runs the other one, as do all later calls of
 * this client: a release then wakes all clients.
 */
export function runInTurnQueue<T>(
  context: Context,
  inTurn: ScriptCall | undefined,
  otherwise: () => ScriptCall,
  run: (call: ScriptCall) => Promise<T>,
): Promise<T> {
  if (!inTurn) return run(otherwise())
  return run(inTurn).catch(async (error: unknown) => {
    if (!(error instanceof Error) || !/\bNOPERM\b/.test(error.message)) throw error
    const reply = await run(otherwise())
    context.hasTurnQueue = false
    const message =
      `Redis refuses the turn queue to this user (${error.message}): a release wakes all waiting clients instead of one. ` +
      'Allow the keys holdfast_turn_queue:* in its ACL'
    context.emit('warning', clientWarning('TURN_QUEUE_REFUSED', message, { cause: error }))
    return reply
  })
}
