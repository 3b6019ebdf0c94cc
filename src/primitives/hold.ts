import { setMaxListeners } from 'node:events'
import { LeaseLostError, type LossReason } from '../errors.js'
import { runOutside } from './ownership.js'
import type { Possession } from './possession.js'

/** The terms on which a hold was taken. */
export interface HoldTerms {
  /** Lease of its own, ms, from the grant; undefined: renewed by the watchdog. */
  readonly leaseTimeMs: number | undefined
  readonly maxHoldMs: number | undefined
  readonly warnAfterMs: number | undefined
  readonly label: string | undefined
}

/**
 * One possession of a lock, as a value: `lock()` answers it, and whoever has it may release it.
 *
 * A hold knows until when it is surely valid: the monotonic time before the winning command was sent, plus the lease,
 * minus a small margin for clocks that run at different speeds. Past that, or once Redis says that the holder is gone, it
 * is lost for good: `assertHeld()` throws in the very first turn after a pause, `signal` aborts, and the client emits
 * `lost`. No late renewal revives it.
 */
export class Hold {
  /** What the caller said it is for. */
  readonly label: string | undefined
  /** When it was granted, ms since the epoch by this machine's wall clock. For people; nothing is computed from it. */
  readonly acquiredAt: number
  readonly #possession: Possession
  #ending: 'released' | LeaseLostError | undefined
  #abort: AbortController | undefined

  /** @internal Holds come from `lock()` and its like. */
  constructor(possession: Possession, label: string | undefined) {
    this.#possession = possession
    this.label = label
    this.acquiredAt = Date.now()
  }

  get lockName(): string {
    return this.#possession.lockName
  }

  /** How the holder is spelled in Redis: `<client id>:<owner id>`, as Redisson's `<uuid>:<thread id>`. */
  get holder(): string {
    return this.#possession.holder
  }

  /** Who holds it, inside this client: what a thread id is in Java. */
  get ownerId(): number {
    return this.#possession.owner.id
  }

  /** How many holds its owner has on this lock at the moment, this one included; 0 when this one has ended. */
  get count(): number {
    this.#notice()
    return this.#ending ? 0 : this.#possession.count
  }

  /**
   * Aborts with a `LeaseLostError` the moment the hold is lost; never after a clean release. Pass it to what the lock
   * guards: `fetch(url, { signal: hold.signal })`.
   */
  get signal(): AbortSignal {
    if (!this.#abort) {
      this.#abort = new AbortController()
      setMaxListeners(0, this.#abort.signal) // a body may well pass it to more than ten calls
      if (this.#ending instanceof LeaseLostError) this.#abort.abort(this.#ending)
    }
    this.#notice()
    return this.#abort.signal
  }

  /** For how long it is surely held unless renewed, ms; 0 when it has ended. Answers without I/O. */
  remainingMs(): number {
    this.#notice()
    return this.#ending ? 0 : this.#possession.remainingMs(this)
  }

  /**
   * Throws unless the lock is surely held right now. Synchronous and without I/O: call it before each step that must not
   * happen twice.
   * @throws {LeaseLostError} the hold was lost
   * @throws {NotHeldError} it was released
   */
  assertHeld(): void {
    this.#notice()
    if (this.#ending instanceof LeaseLostError) throw this.#ending
    if (this.#ending) throw this.#possession.notHeld(`the hold was already ${this.#ending}`)
  }

  /**
   * Ask Redis whether the lock is still held by this owner.
   * @returns false once the hold has ended, or if Redis does not know the holder: then it is lost, and `signal` aborts
   * @throws {OutcomeUnknownError} Redis did not answer
   * @see Redisson `RLock.isHeldByThread`
   */
  async isHeld(): Promise<boolean> {
    this.#notice()
    if (this.#ending) return false
    return (await this.#possession.askHoldCount()) > 0 && this.#ending === undefined
  }

  /**
   * Release this hold: the last one of its owner frees the lock and wakes the waiters. Releasing twice is harmless.
   * @throws {LeaseLostError} the hold had been lost before; what it guarded may not have been exclusive
   * @throws {OutcomeUnknownError} Redis did not answer; the release is repeated in the background, and the lease ends it
   *   at the latest
   * @see Redisson `RLock.unlock`
   */
  async unlock(): Promise<void> {
    this.#notice()
    if (this.#ending === 'released') return
    await this.#possession.release(this)
  }

  /**
   * Stop holding without releasing, so that another process can go on: `client.adopt(lockName, holder)` there. The lock
   * stays taken until its lease ends, so adopt it before that. All holds of this owner on this lock end with it.
   * @returns the holder to give to `adopt`
   * @throws {LeaseLostError} the hold had been lost before
   * @throws {NotHeldError} it was released before
   */
  handOver(): string {
    this.assertHeld()
    this.#possession.handOver()
    return this.holder
  }

  /** Releases at the end of an `await using` block. Never throws: a loss is told by `signal` and the `lost` event. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.unlock().catch(() => {})
  }

  /** @internal */
  get isLive(): boolean {
    this.#notice()
    return this.#ending === undefined
  }

  /** @internal */
  get lostError(): LeaseLostError | undefined {
    return this.#ending instanceof LeaseLostError ? this.#ending : undefined
  }

  /** @internal */
  get possession(): Possession {
    return this.#possession
  }

  /** @internal Called by the possession only. A release may still turn out to have come too late. */
  end(how: 'released' | LossReason): LeaseLostError | undefined {
    if (this.#ending instanceof LeaseLostError) return undefined
    if (how === 'released') {
      this.#ending = how
      return undefined
    }
    this.#ending = new LeaseLostError(this.lockName, this.holder, how)
    const abort = this.#abort
    if (abort) runOutside(() => abort.abort(this.#ending))
    return this.#ending
  }

  /** A deadline that has passed ends the hold here and now, not when a timer gets its turn. */
  #notice(): void {
    if (!this.#ending) this.#possession.notice(this)
  }
}
