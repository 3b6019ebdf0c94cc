// The commands that release a lock, also in the background.
import type { LateCopies } from '../delivery/late-copies.js'
import { toInteger } from '../delivery/replies.js'
import type { ScriptCall } from '../lua/script.js'
import type { WaitQueue } from '../waiting/wait-queue.js'
import { publishRefused } from '../warnings.js'
import type { Owner } from '../wire/holder.js'
import type { Context } from './context.js'
import { asLockError } from './inspection.js'
import type { LockKind } from './kinds/lock-kind.js'

/** How long the release that follows the last copy may take, ms. */
const LAST_RELEASE_MS = 1_000

/** What is released. */
interface Releasable {
  readonly context: Context
  readonly kind: LockKind
  readonly key: string
  readonly name: string
  readonly holder: string
  readonly handOffs: number
  readonly owner: Owner
  /** Of the owner. */
  readonly field: string
  readonly copies: LateCopies
  releaseInBackground(): void
}

/** What became of a release. */
export interface Released {
  /** How many subscribers were notified; -1: Redis refused to publish; null: Redis does not know the holder. */
  readonly receivers: number | null
  /** Whether a copy of the command may have run before the one that got a reply: then null proves nothing. */
  readonly mayHaveRunBefore: boolean
  readonly usesTurnQueue: boolean
}

/**
 * Frees a lock in Redis, and repeats the command until Redis replies or `commandTimeoutMs` is over.
 * @param queue  the callers of this client that wait for it
 * @throws {OutcomeUnknownError} Redis did not answer; the release is repeated in the background
 * @throws {WrongTypeError} something else was written to the key: the lock is gone
 */
export async function release(lease: Releasable, queue: WaitQueue | undefined): Promise<Released> {
  const { context, kind, key, name, holder, handOffs } = lease
  const { scripts, backgroundRetries, commandTimeoutMs } = context
  const { reconnects } = scripts
  let failures = 0
  const run = (call: ScriptCall): Promise<number | null> =>
    backgroundRetries.retryUntilAnswered(call, commandTimeoutMs, () => failures++)
  const withoutTurnQueue = (): ScriptCall => {
    failures = 0 // a refused command did not run
    return kind.release(key, holder)
  }
  try {
    const withTurnQueue = context.turnQueues.of(kind)?.release(key, holder, queue?.ticketForRelease(handOffs > 0))
    const receivers = await context.turnQueues.run(withTurnQueue, withoutTurnQueue, run)
    if (receivers === -1) context.emit('warning', publishRefused(name))
    const mayHaveRunBefore = failures > 0 || scripts.reconnects !== reconnects
    return { receivers, mayHaveRunBefore, usesTurnQueue: withTurnQueue !== undefined }
  } catch (error) {
    lease.releaseInBackground()
    throw await asLockError(context, lease, 'unlock', error)
  }
}

/**
 * After a release: what that means for the owner of the field, and for those who wait.
 * @returns whether another client has been notified of its turn. Those of this process read that in the same poll of the
 *   event loop, and would always be later than a caller that takes the lock again at once
 */
export function settleRelease(
  lease: Releasable,
  { receivers, mayHaveRunBefore, usesTurnQueue }: Released,
  queue: WaitQueue | undefined,
): boolean {
  const { owner, field } = lease
  if (lease.copies.until > 0) lease.releaseInBackground()
  else if (mayHaveRunBefore) owner.retire(field)
  else owner.released(field)
  const others = (receivers ?? 0) - (queue?.ownReceivers ?? 0)
  queue?.released(receivers ?? 0)
  return usesTurnQueue && others > 0
}

/**
 * Reports to Redis that one of several holds has ended.
 * @param count  of the holds that are left
 * @returns whether Redis knows the holder; undefined: there was no reply, or an error. Nothing depends on this command:
 *   the next one writes the right count, and the last release deletes the field whatever the count is
 */
export async function releaseOne(
  { context, kind, key, holder }: Releasable,
  leaseTimeMs: number,
  count: number,
): Promise<boolean | undefined> {
  const replying = context.scripts.run(kind.releaseOne(key, holder, leaseTimeMs, count))
  return await replying.then((reply) => toInteger(reply) === 1).catch(() => undefined)
}

/** What is released in the background. */
interface Abandoned extends Pick<Releasable, 'context' | 'kind' | 'key' | 'holder' | 'copies'> {
  /** When the last lease that was requested ends, on the clock. */
  readonly leaseEndsAt: number
}

/** Frees a lock in the background. */
export function releaseInBackground({ context, kind, key, holder, leaseEndsAt, copies }: Abandoned): void {
  const withoutTurnQueue = kind.release(key, holder)
  const call = context.turnQueues.of(kind)?.release(key, holder) ?? withoutTurnQueue
  const untilAt = Math.max(leaseEndsAt, copies.until + LAST_RELEASE_MS)
  void context.backgroundRetries.retryInBackground(call, untilAt, copies.until, withoutTurnQueue)
}
