import { OutcomeUnknownError } from '../errors.js'
import { semaphoreChannel } from '../keys.js'
import { semaphoreAddPermits } from '../lua/generated.js'
import { type ScriptCall, Unanswered } from '../lua/run.js'
import type { Receipt } from '../receipts.js'
import type { Context } from './context.js'

/** For how long an operation without an answer is repeated in the background, ms. */
export const SETTLE_MS = 60_000

/**
 * An operation on a counter, done once: repeated until it is answered, for `commandTimeoutMs`.
 * @throws {OutcomeUnknownError} it was not answered, and goes on in the background
 */
export async function countOnce(
  context: Context,
  name: string,
  operation: string,
  callOf: (receipt: Receipt) => ScriptCall,
): Promise<number> {
  const { clock, receipts, settlements, commandTimeoutMs } = context
  context.assertUsable(name)
  const receipt = receipts.open(name)
  const call = callOf(receipt)
  let mayHaveRun = false
  try {
    const reply = await settlements.insist(call, commandTimeoutMs, (error) => {
      mayHaveRun ||= error instanceof Unanswered
    })
    if (!mayHaveRun) receipts.close(receipt)
    return reply as number
  } catch (error) {
    if (!mayHaveRun) throw error
    void settlements.start(call, clock.now() + SETTLE_MS)
    throw new OutcomeUnknownError(name, operation, error)
  }
}

/** Let there be so many more permits, of either kind of semaphore; below 0: fewer. */
export async function addPermits(context: Context, name: string, operation: string, permits: number): Promise<void> {
  if (permits === 0) return
  await countOnce(context, name, operation, (receipt) =>
    semaphoreAddPermits(name, receipt.key, permits, semaphoreChannel(name), receipt.operation),
  )
}
