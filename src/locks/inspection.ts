// Inspects a lock in Redis.
import { isErrorOf, NoReplyError } from '../delivery/replies.js'
import { OutcomeUnknownError, WrongTypeError } from '../errors.js'
import type { ScriptCall } from '../lua/script.js'
import { backoffMs } from '../util/backoff.js'
import { retry } from '../util/retry.js'
import type { Named } from '../wire/names.js'
import type { Context } from './context.js'
import type { Holder, Inspection, LockKind } from './kinds/lock-kind.js'

export interface InspectionOptions {
  /** How long to wait for a reply, ms; default the client's `commandTimeoutMs`. */
  readonly timeoutMs?: number
  /** The operation that needs it, for errors. */
  readonly operation?: string
  /** Whether all holders are wanted, in as many calls as that takes; otherwise some of them, if it has any. */
  readonly listsAll?: boolean
}

/** Reads the state of a lock from Redis. */
export async function inspect(
  context: Context,
  kind: LockKind,
  lock: Named,
  { timeoutMs, operation = 'inspect', listsAll = false }: InspectionOptions = {},
): Promise<Inspection> {
  const page = (from?: string): Promise<Inspection> => {
    const call = kind.inspect(lock.key, undefined, from)
    return runScript(context, lock, operation, call, (reply) => kind.parseInspection(reply), timeoutMs)
  }
  let found = await page()
  while (found.next !== undefined && (listsAll || !hasHolders(found))) found = joined(found, await page(found.next))
  return found
}

function hasHolders({ holders, blockers }: Inspection): boolean {
  return holders.length > 0 || (blockers?.holders ?? []).length > 0
}

/** Some holders, and what the next call has found: it may list some of them again. */
function joined(before: Inspection, { blockers, ...after }: Inspection): Inspection {
  const holders = distinct(before.holders, after.holders)
  const remainingLeaseMs = Math.max(before.remainingLeaseMs, after.remainingLeaseMs)
  if (!blockers) return { ...after, holders, remainingLeaseMs }
  const others = distinct(before.blockers?.holders ?? [], blockers.holders)
  return { ...after, holders, remainingLeaseMs, blockers: { ...blockers, holders: others } }
}

function distinct<T extends Holder>(some: readonly T[], more: readonly T[]): readonly T[] {
  return [...new Map([...some, ...more].map((one) => [one.holder, one])).values()]
}

/**
 * The hold count of one holder according to Redis, for kinds that keep one there.
 * @returns undefined: it does not have the lock, or only a part of it
 */
export async function inspectHolder(
  context: Context,
  kind: LockKind,
  lock: Named,
  holder: string,
): Promise<number | undefined> {
  const call = kind.inspect(lock.key, holder)
  const { holders, partial } = await runScript(context, lock, 'inspect', call, (reply) => kind.parseInspection(reply))
  return partial?.includes(holder) ? undefined : holders.find((other) => other.holder === holder)?.holdCount
}

/**
 * Runs a script once for a caller. Waits while a cluster cannot serve the slot.
 * @param timeoutMs  how long to wait for the reply, ms; default the client's `commandTimeoutMs`
 * @throws {OutcomeUnknownError} Redis did not answer
 */
export async function runScript<T>(
  context: Context,
  lock: Named,
  operation: string,
  call: ScriptCall,
  decode: (reply: unknown) => T,
  timeoutMs?: number,
): Promise<T> {
  context.assertUsable(lock.name)
  try {
    const { clock, scripts, commandTimeoutMs, random } = context
    const run = (): Promise<unknown> => scripts.run(call, timeoutMs)
    const reply = await retry(run, {
      clock,
      delayMs: (failures) => backoffMs(failures, 50, 1_000, random),
      until: clock.now() + (timeoutMs ?? commandTimeoutMs),
      isRetryable: (error) => isErrorOf(error, 'TRYAGAIN', 'CLUSTERDOWN'), // nothing has run
    })
    return decode(reply)
  } catch (error) {
    throw await asLockError(context, lock, operation, error)
  }
}

/** How long Redis may take to say what is there, ms. */
const TYPE_MS = 250

/** The error for the caller of a failed script: the outcome is unknown, the key has another type, or the error itself. */
export async function asLockError(
  context: Context,
  { key, name }: Named,
  operation: string,
  error: unknown,
): Promise<unknown> {
  if (error instanceof NoReplyError) return new OutcomeUnknownError(name, operation, error)
  if (!isErrorOf(error, 'WRONGTYPE')) return error
  const type = await context.scripts.command(['TYPE', key], key, TYPE_MS).catch(() => undefined)
  return new WrongTypeError(name, type === undefined || String(type) === 'none' ? undefined : String(type), error)
}
