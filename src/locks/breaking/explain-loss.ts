// Explains unlock() of a lost hold: the error names the operator who forced it.
import type { LeaseLostError } from '../../errors.js'
import type { Context } from '../context.js'
import type { Hold } from '../hold.js'
import type { LockKind } from '../kinds/lock-kind.js'
import { holdForced } from '../reporting/observation.js'
import { readMark } from './mark.js'

/** How long the caller of `unlock()` may wait for the explanation of a loss, ms. */
const EXPLAIN_MS = 250

interface LostLease {
  readonly context: Context
  readonly kind: LockKind
  readonly key: string
  readonly holder: string
  readonly grantedAt: number
  /** Number of its live holds. */
  readonly count: number
  releaseInBackground(): void
}

/**
 * `unlock()` of a hold that has ended.
 * @throws {LeaseLostError} it was lost
 */
export function unlockLost(
  lease: LostLease,
  hold: Hold,
  gracefulEnd: { stopped(hold: Hold): void } | undefined,
): Promise<never> | undefined {
  const error = hold.lostError
  if (!error) return undefined
  gracefulEnd?.stopped(hold)
  // After a renewal without a reply Redis may keep the key for a while longer: free it for the others. If an operator has
  // ended the holds around this one, their work may still be running, and the end of that frees it.
  const mayBeThere = (error.reason === 'expired' || error.reason === 'maxHold') && gracefulEnd === undefined
  if (mayBeThere && lease.count === 0) lease.releaseInBackground()
  return error.reason === 'gone' ? throwExplained(lease, hold, error) : Promise.reject(error)
}

/** @throws {LeaseLostError} the loss of a holder that Redis no longer has; it names the operator, if a mark does */
export async function throwExplained(lease: LostLease, hold: Hold, error: LeaseLostError): Promise<never> {
  const { context, kind, key, holder, grantedAt } = lease
  const found = kind.isDivisible
    ? undefined
    : await readMark(context, { key, holder }, EXPLAIN_MS).catch(() => undefined)
  if (found && found.setBetween[1] >= grantedAt) {
    const { by, reason } = found.mark
    const forced = { by, reason }
    if (hold.lostError?.forced === undefined) holdForced(hold, forced, 'freed')
    for (const loss of [hold.lostError, error]) loss?.explain(forced)
  }
  throw error
}
