import type { Operation } from '../delivery/idempotency.js'
import { NoReplyError } from '../delivery/replies.js'
import { OutcomeUnknownError } from '../errors.js'
import type { Context } from '../locks/context.js'
import { semaphoreAddPermits } from '../lua/generated.js'
import type { ScriptCall } from '../lua/script.js'
import { semaphoreChannel } from '../wire/keys.js'

/** For how long an operation without an answer is repeated in the background, ms. */
export const SETTLE_MS = 60_000

/**
 * An operation on a counter, done once: repeated until it is answered, for `commandTimeoutMs`.
 * @throws {OutcomeUnknownError} it was not answered, and is repeated in the background
 */
export async function countOnce(
  context: Context,
  name: string,
  title: string,
  callOf: (operation: Operation) => ScriptCall,
): Promise<number> {
  const { clock, idempotencyKeys: receipts, backgroundRetries: settlements, commandTimeoutMs } = context
  context.assertUsable(name)
  const operation = receipts.open(name)
  const send = (timeoutMs?: number): Promise<number> => receipts.send(operation, callOf, timeoutMs)
  let isUnanswered = false
  try {
    const reply = await settlements.retryUntilAnswered(send, commandTimeoutMs, (error) => {
      isUnanswered ||= error instanceof NoReplyError
    })
    receipts.close(operation)
    return reply as number
  } catch (error) {
    if (!isUnanswered) throw error
    void settlements.retryInBackground(send, clock.now() + SETTLE_MS).then(() => receipts.close(operation))
    throw new OutcomeUnknownError(name, title, error)
  }
}

/**
 * Change the number of permits, of either kind of semaphore.
 * @param generation  the key of the generation; the name, if permits have ids
 * @param permits     how many more; below 0: fewer
 */
export async function addPermits(
  context: Context,
  name: string,
  generation: string,
  title: string,
  permits: number,
): Promise<void> {
  if (permits === 0) return
  await countOnce(context, name, title, ({ key, number, openedAt }) =>
    semaphoreAddPermits(name, key, generation, permits, semaphoreChannel(name), number, openedAt),
  )
}
