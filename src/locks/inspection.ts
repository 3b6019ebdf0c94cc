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
 * The hold count of one holder according to Redis, for kinds that keep one there.
 * @returns undefined: it does not have the lock, or only a part of it
 */
export async function inspectHolder(
  context: Context,
  kind: LockKind,
  lockName: string,
  holder: string,
): Promise<number | undefined> {
  const { holders, partial = [] } = await inspect(context, kind, lockName)
  return partial.includes(holder) ? undefined : holders.find((other) => other.holder === holder)?.holdCount
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
