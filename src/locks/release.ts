// The commands that release a lock, also in the background.
import { AsyncResource } from 'node:async_hooks'
import type { Caller } from '../delivery/batch.js'
import type { LateCopies } from '../delivery/late-copies.js'
import { toInteger } from '../delivery/replies.js'
import type { ScriptCall } from '../lua/script.js'
import type { WaitQueue } from '../waiting/wait-queue.js'
import { publishRefused } from '../warnings.js'
import type { Owner } from '../wire/holder.js'
import type { Context } from './context.js'
import type { Hold } from './hold.js'
import { asLockError } from './inspection.js'
import type { LockKind } from './kinds/lock-kind.js'
import { endIsObserved, holdEnded } from './reporting/observation.js'

/** How long the release that follows the last copy may take, ms. */
const LAST_RELEASE_MS = 1_000

/** A lease to release. */
interface Releasable {
  readonly context: Context
  readonly kind: LockKind
  readonly key: string
  readonly name: string
  readonly holder: string
  readonly handOffs: number
  readonly owner: Owner
  /** The owner's field in Redis. */
  readonly field: string
  readonly copies: LateCopies
  releaseInBackground(): void
  /** Redis did not know the holder when its last hold was released. @returns rejects with the loss */
  releasedLate(hold: Hold): Promise<never>
}

/** The outcome of a release. */
interface Released {
  /** How many subscribers were notified; -1: Redis refused to publish; null: Redis does not know the holder. */
  readonly receivers: number | null
  /** Whether a copy of the command may have run before the one that got a reply: then null proves nothing. */
  readonly mayHaveRunBefore: boolean
  readonly usesTurnQueue: boolean
}

/**
 * Ends the last hold of a lease in Redis, after the lease has ended it: frees the lock, and repeats the command until Redis
 * replies or `commandTimeoutMs` is over.
 * @param now  on the clock
 * @param leasedUntil  until when Redis was certain to keep the lease, on the clock
 * @param queue  the callers of this client that wait for the lock
 * @throws {LeaseLostError} the lock was lost before
 * @throws {OutcomeUnknownError} Redis did not answer: the release is repeated in the background
 * @throws {WrongTypeError} something else was written to the key: the lock is gone
 */
export function releaseLast(
  lease: Releasable,
  hold: Hold,
  now: number,
  leasedUntil: number,
  queue: WaitQueue | undefined,
): Promise<void> {
  const { context, kind, key, holder, handOffs } = lease
  const withTurnQueue = context.turnQueues.of(kind)?.release(key, holder, queue?.ticketForRelease(handOffs > 0))
  return new Promise((released, failed) => {
    const release = new Release(lease, hold, now, leasedUntil, queue, withTurnQueue, released, failed)
    context.scripts.submit(release, undefined, now)
  })
}

/** The release of the last hold of a lease, from when it is sent until its caller has the outcome. */
class Release implements Caller {
  readonly call: ScriptCall
  readonly #reconnects: number
  /** Whoever observes the end of a hold does so in the context of the call that ended it. */
  readonly #caller: AsyncResource | undefined

  constructor(
    readonly lease: Releasable,
    readonly hold: Hold,
    readonly sentAt: number,
    readonly leasedUntil: number,
    readonly queue: WaitQueue | undefined,
    /** The call, if it uses the turn queue. */
    readonly withTurnQueue: ScriptCall | undefined,
    readonly released: (loss?: Promise<never>) => void,
    readonly failed: (error: unknown) => void,
  ) {
    const { context, kind, key, holder } = lease
    this.call = withTurnQueue ?? kind.release(key, holder)
    this.#reconnects = context.scripts.reconnects
    if (endIsObserved(context)) this.#caller = new AsyncResource('HoldfastRelease')
  }

  resolve(reply: unknown): void {
    const { lease, withTurnQueue } = this
    const { context, name } = lease
    let receivers: number | null
    try {
      receivers = toInteger(reply)
    } catch (error) {
      this.reject(error)
      return
    }
    if (receivers === -1) context.emit('warning', publishRefused(name))
    const mayHaveRunBefore = context.scripts.reconnects !== this.#reconnects
    this.#done({ receivers, mayHaveRunBefore, usesTurnQueue: withTurnQueue !== undefined })
  }

  reject(error: unknown): void {
    releaseAgain(this.lease, this.withTurnQueue, this.sentAt, this.#reconnects, error).then(
      (released) => this.#done(released),
      (failure: unknown) => {
        this.#ended() // it is not known to have been lost
        this.failed(failure)
      },
    )
  }

  #done(released: Released): void {
    const { lease, hold, queue, leasedUntil } = this
    const { clock } = lease.context
    // If only the release came too late, the critical section was over in time.
    if (released.receivers === null && !released.mayHaveRunBefore && clock.now() < leasedUntil) {
      this.released(
        this.#caller ? this.#caller.runInAsyncScope(() => lease.releasedLate(hold)) : lease.releasedLate(hold),
      )
      return
    }
    this.#ended()
    if (settleRelease(lease, released, queue)) clock.afterPoll(this.released)
    else this.released()
  }

  #ended(): void {
    if (this.#caller) this.#caller.runInAsyncScope(holdEnded, undefined, this.hold, 'released')
    else holdEnded(this.hold, 'released')
  }
}

/**
 * The first release failed.
 * @param withTurnQueue  the call that failed, if it used the turn queue
 * @param sentAt  when it was sent, on the clock
 * @param reconnects  of the connection before
 * @throws as `releaseLast`
 */
async function releaseAgain(
  lease: Releasable,
  withTurnQueue: ScriptCall | undefined,
  sentAt: number,
  reconnects: number,
  error: unknown,
): Promise<Released> {
  const { context, kind, key, name, holder } = lease
  const { scripts, backgroundRetries, commandTimeoutMs, clock } = context
  const leftMs = sentAt + commandTimeoutMs - clock.now()
  let isFirst = true
  let failures = 0
  const run = (call: ScriptCall): Promise<number | null> => {
    const send = (): Promise<unknown> => {
      if (!isFirst) return scripts.run(call)
      isFirst = false
      return Promise.reject(error)
    }
    return backgroundRetries.retryUntilReply(send, leftMs, () => failures++)
  }
  const withoutTurnQueue = (): ScriptCall => {
    failures = 0 // a refused command did not run
    return kind.release(key, holder)
  }
  try {
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
 * Updates the owner and the wait queue after a release.
 * @returns whether another client has been notified of its turn. Those of this process read that in the same poll of the
 *   event loop, and would always be later than a caller that takes the lock again at once
 */
function settleRelease(
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
  if (lease.context.pace) queue?.wake() // no message does
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

/** A lease to release in the background. */
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
