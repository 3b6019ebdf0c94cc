import { OutcomeUnknownError } from '../errors.js'
import { lockInspect } from '../lua/generated.js'
import { type ScriptCall, Unanswered } from '../lua/run.js'
import type { Context } from './context.js'

/** One who holds a lock, as Redis has it. */
export interface Holder {
  /** `<client id>:<owner id>`; of a Java holder `<uuid>:<thread id>`. */
  readonly holder: string
  readonly holdCount: number
}

export interface Inspection {
  /** What is left of the lease, ms; 0: free; Infinity: a key without expiry. */
  readonly remainingLeaseMs: number
  readonly holders: readonly Holder[]
}

export async function inspect(context: Context, lockName: string): Promise<Inspection> {
  const [pttl, ...fields] = await ask(context, lockName, 'inspect', lockInspect(lockName), toWords)
  const holders: Holder[] = []
  for (let index = 0; index + 1 < fields.length; index += 2) {
    holders.push({ holder: fields[index] as string, holdCount: Number(fields[index + 1]) })
  }
  const ttl = Number(pttl)
  return { remainingLeaseMs: ttl === -1 ? Number.POSITIVE_INFINITY : Math.max(0, ttl), holders }
}

/** Run a script once for a caller; no answer becomes the error that users know. */
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
    throw error instanceof Unanswered ? new OutcomeUnknownError(lockName, operation, error) : error
  }
}

function toWords(reply: unknown): string[] {
  if (Array.isArray(reply)) return reply.map(String)
  throw new Unanswered(`the Redis client answered ${String(reply)}, which is no reply of the script`)
}
