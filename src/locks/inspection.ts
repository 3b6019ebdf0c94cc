import { NoReplyError } from '../delivery/replies.js'
import { OutcomeUnknownError } from '../errors.js'
import type { ScriptCall } from '../lua/script.js'
import type { Context } from './context.js'
import type { Inspection, LockKind } from './kinds/lock-kind.js'

/** What Redis knows about a lock. */
export async function inspect(context: Context, kind: LockKind, lockName: string): Promise<Inspection> {
  return await ask(context, lockName, 'inspect', kind.inspect(lockName), (reply) => kind.parseInspection(reply))
}

/**
 * Runs a script once on behalf of a caller.
 * @throws {OutcomeUnknownError} Redis did not answer
 */
export async function ask<T>(
  context: Context,
  lockName: string,
  operation: string,
  call: ScriptCall,
  decode: (reply: unknown) => T,
): Promise<T> {
  context.assertUsable(lockName)
  try {
    return decode(await context.scripts.run(call))
  } catch (error) {
    throw error instanceof NoReplyError ? new OutcomeUnknownError(lockName, operation, error) : error
  }
}
