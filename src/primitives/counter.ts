import { OutcomeUnknownError } from '../errors.js'
import { isWorthRetrying, type ScriptCall, toInteger, Unanswered } from '../lua/run.js'
import type { Receipt } from '../receipts.js'
import { backoffMs } from '../waiting/backoff.js'
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
  const { clock, random, receipts, scripts, settlements, commandTimeoutMs } = context
  context.assertUsable(name)
  const receipt = receipts.open(name)
  const call = callOf(receipt)
  const giveUpAt = clock.now() + commandTimeoutMs
  let mayHaveRun = false
  for (let failures = 0; ; failures++) {
    try {
      const reply = toInteger(await scripts.run(call)) as number
      if (!mayHaveRun) receipts.close(receipt)
      return reply
    } catch (error) {
      mayHaveRun ||= error instanceof Unanswered
      const delayMs = backoffMs(failures, 50, 1_000, random)
      const isOver = clock.now() + delayMs >= giveUpAt || settlements.isClosing
      if (isWorthRetrying(error) && !isOver) {
        await settlements.pause(delayMs)
        continue
      }
      if (!mayHaveRun) throw error
      void settlements.start(call, clock.now() + SETTLE_MS)
      throw new OutcomeUnknownError(name, operation, error)
    }
  }
}
