// Runs the callback of a granted request, and releases the lock.
import { LeaseLostError, OutcomeUnknownError } from '../errors.js'
import { throwExplained } from '../locks/breaking/explain-loss.js'
import type { Context } from '../locks/context.js'
import type { Hold } from '../locks/hold.js'
import type { Lease } from '../locks/lease.js'
import { runWithHold } from '../locks/ownership.js'
import { runObserved } from '../locks/reporting/observation.js'
import { onAbort } from '../util/abort.js'
import { releaseFailed } from '../warnings.js'
import { stolenError } from './steal.js'

/**
 * Runs the callback with the lock held, and releases it when the result has settled.
 * @returns the result, after the reply to the release. Without one it is released in the background: a warning
 * @throws what the callback threw
 * @throws {DOMException} `AbortError`: the lock was stolen. The callback may still run
 * @throws {LeaseLostError} the callback succeeded, but the lock was lost meanwhile; or the lock was lost before
 */
export async function runCallback(context: Context, hold: Hold, callback: () => unknown): Promise<unknown> {
  // It waited for earlier requests to call back.
  if (!hold.isLive) await refuseLost(hold)
  let stopListening = (): void => {}
  const stolen = new Promise<never>((_, reject) => {
    stopListening = onAbort(hold.signal, () => {
      void lossOf(hold).then((error) => {
        if (error) reject(error)
      })
    })
  })
  try {
    return await Promise.race([runAndRelease(context, hold, callback), stolen])
  } finally {
    stopListening()
  }
}

/** @throws as `runCallback` */
async function refuseLost(hold: Hold): Promise<void> {
  try {
    hold.assertHeld()
  } catch (error) {
    throw (await lossOf(hold)) ?? error
  }
}

async function runAndRelease(context: Context, hold: Hold, body: () => unknown): Promise<unknown> {
  let value: unknown
  try {
    value = await runObserved(hold, () => runWithHold(hold, body))
  } catch (error) {
    await hold.unlock().catch((cause: unknown) => {
      if (!(cause instanceof LeaseLostError)) context.emit('warning', releaseFailed(hold.lockName, cause))
    })
    throw error
  }
  try {
    await hold.unlock()
  } catch (error) {
    if (error instanceof LeaseLostError) throw stolenError(error) ?? error
    if (!(error instanceof OutcomeUnknownError)) throw error
    context.emit('warning', error)
  }
  return value
}

/** The error of a request whose hold has ended; undefined: it was not stolen. */
async function lossOf(hold: Hold): Promise<DOMException | undefined> {
  const { lostError } = hold
  if (!lostError) return undefined
  // Redis no longer had the holder: the mark beside the lock may say why.
  if (lostError.reason === 'gone') await throwExplained(hold.lease as Lease, hold, lostError).catch(() => {})
  return stolenError(lostError)
}
