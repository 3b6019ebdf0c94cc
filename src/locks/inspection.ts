import { isErrorOf, NoReplyError } from '../delivery/replies.js'
import { OutcomeUnknownError, WrongTypeError } from '../errors.js'
import type { ScriptCall } from '../lua/script.js'
import type { Context } from './context.js'
import type { Inspection, LockKind } from './kinds/lock-kind.js'

/** What Redis knows about a lock. @param operation  what asks, for errors */
export async function inspect(
  context: Context,
  kind: LockKind,
  lockName: string,
  timeoutMs?: number,
  operation = 'inspect',
): Promise<Inspection> {
  const call = kind.inspect(lockName)
  return await ask(context, lockName, operation, call, (reply) => kind.parseInspection(reply), timeoutMs)
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
  const { holders, partial } = await inspect(context, kind, lockName)
  return partial?.includes(holder) ? undefined : holders.find((other) => other.holder === holder)?.holdCount
}

/**
 * Runs a script once on behalf of a caller.
 * @param timeoutMs  how long to wait for the reply, ms; default the client's `commandTimeoutMs`
 * @throws {OutcomeUnknownError} Redis did not answer
 */
export async function ask<T>(
  context: Context,
  lockName: string,
  operation: string,
  call: ScriptCall,
  decode: (reply: unknown) => T,
  timeoutMs?: number,
): Promise<T> {
  context.assertUsable(lockName)
  try {
    return decode(await context.scripts.run(call, timeoutMs))
  } catch (error) {
    throw await asLockError(context, lockName, operation, error)
  }
}

/** How long Redis may take to say what is there, ms. */
const TYPE_MS = 250

/** What a caller gets for an error of a script: whether it ran is unknown, something else has the name, or the error itself. */
export async function asLockError(context: Context, name: string, operation: string, error: unknown): Promise<unknown> {
  if (error instanceof NoReplyError) return new OutcomeUnknownError(name, operation, error)
  if (!isErrorOf(error, 'WRONGTYPE')) return error
  const type = await context.scripts.ask(['TYPE', name], name, TYPE_MS).catch(() => undefined)
  return new WrongTypeError(name, type === undefined || String(type) === 'none' ? undefined : String(type), error)
}
