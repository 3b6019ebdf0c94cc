// Why a semaphore grants nothing, for a message.
import type { WaitDetails } from '../holder-info.js'
import type { Context } from '../locks/context.js'
import { NOT_KNOWN } from '../locks/reporting/who-holds.js'

/** How long Redis may take to say that there is no semaphore, ms: it is asked when the caller has waited long enough. */
const TIMEOUT_MS = 250

const DOES_NOT_EXIST = 'it does not exist, so it has no permits: create it with trySetPermits()'

/** Why a semaphore grants nothing. Nothing known: its permits are all in use, or Redis did not say. */
export async function whyNoPermits({ scripts }: Context, key: string): Promise<WaitDetails> {
  try {
    const count = await scripts.command(['EXISTS', key], key, TIMEOUT_MS)
    return Number(count) === 0 ? { ...NOT_KNOWN, heldBy: DOES_NOT_EXIST } : NOT_KNOWN
  } catch {
    return NOT_KNOWN
  }
}
