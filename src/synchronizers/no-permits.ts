import type { Context } from '../locks/context.js'

/** How long Redis may take to say that there is no semaphore, ms: it is asked when the caller has waited long enough. */
const ASK_MS = 250

/** Why a semaphore grants nothing, as a part of a sentence; undefined: its permits are all in use, or that is not known. */
export async function whyNoPermits({ scripts }: Context, name: string): Promise<string | undefined> {
  try {
    const count = await scripts.ask(['EXISTS', name], name, ASK_MS)
    return Number(count) === 0 ? 'it does not exist, so it has no permits: create it with trySetPermits()' : undefined
  } catch {
    return undefined
  }
}
