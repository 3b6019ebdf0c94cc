import { clientWarning } from '../errors.js'
import type { ScriptCall } from '../lua/script.js'
import type { Place } from '../waiting/wait-queue.js'
import type { Context } from './context.js'
import type { LockKind, TurnQueueScripts } from './kinds/lock-kind.js'

/** How clients stand in line for a lock of this kind; undefined: they do not. */
export function turnQueueOf(context: Context, kind: LockKind): TurnQueueScripts | undefined {
  return context.hasTurnQueue ? kind.turnQueue : undefined
}

/** How a client leaves the turn queue of a lock; undefined: it is in none. */
export function leavingTurnQueue(context: Context, kind: LockKind, lockName: string): Place['quit'] {
  const turnQueue = turnQueueOf(context, kind)
  if (!turnQueue?.acquire) return undefined
  return (ticket) => void context.scripts.run(turnQueue.leave(lockName, ticket)).catch(() => {})
}

/** Frees the lock in the background, until `untilAt` on the clock at most. */
export function settle(context: Context, kind: LockKind, lockName: string, holder: string, untilAt: number): void {
  const otherwise = kind.release(lockName, holder)
  const call = turnQueueOf(context, kind)?.release(lockName, holder) ?? otherwise
  void context.backgroundRetries.retryInBackground(call, untilAt, otherwise)
}

/**
 * Runs the call that knows of the turn queue. If this user may not touch the line, the other one does, from then on for
 * all: a release wakes all clients.
 */
export function runInTurnQueue<T>(
  context: Context,
  inLine: ScriptCall | undefined,
  otherwise: () => ScriptCall,
  run: (call: ScriptCall) => Promise<T>,
): Promise<T> {
  if (!inLine) return run(otherwise())
  return run(inLine).catch(async (error: unknown) => {
    if (!(error instanceof Error) || !/\bNOPERM\b/.test(error.message)) throw error
    const answer = await run(otherwise())
    context.hasTurnQueue = false
    const message =
      `Redis refuses the turn queue to this user (${error.message}): a release wakes all that wait instead of one. ` +
      'Allow the keys holdfast_waiters:* in its ACL'
    context.emit('warning', clientWarning('TURN_QUEUE_REFUSED', message, { cause: error }))
    return answer
  })
}
