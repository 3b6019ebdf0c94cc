// Runs a change of somebody else's lock once, and not after its caller has left.
import type { ScriptCall } from '../lua/script.js'
import { once } from '../lua/variants.js'
import type { Named } from '../wire/names.js'
import type { Context } from './context.js'
import { asLockError } from './inspection.js'

/** The reply of a script that found nothing to do. */
const NIL = -2

/**
 * Runs a script on behalf of a caller, who may not own what it changes: once, however many copies of the command arrive, and
 * not at all after `commandTimeoutMs`, when the caller has been told that the outcome is unknown.
 * @returns its reply, an integer or null
 * @throws {OutcomeUnknownError} Redis did not reply
 */
export async function runOnce(context: Context, lock: Named, title: string, call: ScriptCall): Promise<number | null> {
  const { idempotencyKeys, backgroundRetries, commandTimeoutMs } = context
  context.assertUsable(lock.name)
  const operation = idempotencyKeys.open(lock.key)
  const send = (timeoutMs?: number): Promise<number> =>
    idempotencyKeys.send(operation, (opened) => once(call, opened), timeoutMs)
  try {
    const reply = await backgroundRetries.retryUntilReply(send, commandTimeoutMs, () => {})
    return reply === NIL ? null : reply
  } catch (error) {
    throw await asLockError(context, lock, title, error)
  } finally {
    idempotencyKeys.close(operation)
  }
}
