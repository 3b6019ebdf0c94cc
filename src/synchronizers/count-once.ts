// Changes a number exactly once.
import type { Operation } from '../delivery/idempotency.js'
import { mayHaveRun } from '../delivery/replies.js'
import { OutcomeUnknownError } from '../errors.js'
import type { Context } from '../locks/context.js'
import { asLockError } from '../locks/inspection.js'
import { semaphoreAddPermits } from '../lua/generated.js'
import type { ScriptCall } from '../lua/script.js'
import { semaphoreChannel } from '../wire/keys.js'
import type { Named } from '../wire/names.js'

/** How long an operation without a reply is retried in the background, ms. */
export const SETTLE_MS = 60_000

/**
 * Executes an operation on a counter exactly once: retries it until Redis replies, for `commandTimeoutMs`.
 * @throws {OutcomeUnknownError} Redis did not reply; the operation is retried in the background
 */
export async function countOnce(
  context: Context,
  counter: Named,
  title: string,
  callOf: (operation: Operation) => ScriptCall,
): Promise<number> {
  const { clock, idempotencyKeys, backgroundRetries, commandTimeoutMs } = context
  context.assertUsable(counter.name)
  const operation = idempotencyKeys.open(counter.key)
  const send = (timeoutMs?: number): Promise<number> => idempotencyKeys.send(operation, callOf, timeoutMs)
  let isInDoubt = false
  try {
    const reply = await backgroundRetries.retryUntilReply(send, commandTimeoutMs, (error) => {
      isInDoubt ||= mayHaveRun(error)
    })
    idempotencyKeys.close(operation)
    return reply as number
  } catch (error) {
    if (!isInDoubt) throw await asLockError(context, counter, title, error)
    void backgroundRetries.retryInBackground(send, clock.now() + SETTLE_MS).then(() => idempotencyKeys.close(operation))
    throw new OutcomeUnknownError(counter.name, title, error)
  }
}

/**
 * Changes the number of permits of either kind of semaphore.
 * @param generation  the key of the generation; the semaphore's, if permits have ids
 * @param permits     how many to add; negative: to remove
 */
export async function addPermits(
  context: Context,
  semaphore: Named,
  generation: string,
  title: string,
  permits: number,
): Promise<void> {
  if (permits === 0) return
  await countOnce(context, semaphore, title, ({ key, number, openedAt }) =>
    semaphoreAddPermits(semaphore.key, key, generation, permits, semaphoreChannel(semaphore.key), number, openedAt),
  )
}
