import { setMaxListeners } from 'node:events'
import { LeaseLostError, type LossReason, type NotHeldError } from '../errors.js'
import type { Owners } from '../wire/holder.js'
import { runOutside } from './call-chain.js'

/** The terms on which a hold was taken. */
export interface HoldTerms {
  /** Lease of its own, ms, from the grant; undefined: renewed by the watchdog. */
  readonly leaseTimeMs: number | undefined
  readonly maxHoldMs: number | undefined
  readonly warnAfterMs: number | undefined
  readonly label: string | undefined
}

/** What a hold's client is to its call chains. */
export interface HoldingClient {
  readonly owners: Owners
  /** Whether a call re-enters what its call chain holds. */
  readonly implicitReentry: boolean
}

/** What stands behind a hold, and knows about Redis. */
export interface HeldLease {
  /** The client whose it is. */
  readonly context: HoldingClient
  readonly lockName: string
  /** What the program calls it, if that is another name. */
  readonly programName?: string | undefined
  /** What that is the name of, at the beginning of a sentence. */
  readonly noun: string
  readonly holder: string
  readonly ownerId: number
  readonly count: number
  readonly fencingToken: bigint | undefined
  readonly permitIds?: readonly string[] | undefined
  /** Whether its holds keep where they were taken. */
  readonly tracesHolds: boolean
  /** The holds that a hold on several locks is made of. */
  readonly members?: readonly Hold[]
  /** For how long it is surely valid unless renewed, ms. */
  remainingMs(hold: Hold): number
  /** End the hold if its time is over. */
  expireIfDue(hold: Hold): void
  /** How often this owner holds the lock, by Redis. Noticing a loss is a by-product. */
  askHoldCount(): Promise<number>
  release(hold: Hold): Promise<void>
  handOver(): void
  notHeld(why: string): NotHeldError
}

/**
 * One hold of a lock, as a value: `lock()` returns it, and whoever has it may release it.
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
  readonly #holding: HeldLease
  #ending: 'released' | LeaseLostError | undefined
  #abort: AbortController | undefined

  /** @internal Holds come from `lock()` and its like. */
  constructor(lease: HeldLease, label: string | undefined) {
    this.#holding = lease
    this.label = label
    this.acquiredAt = Date.now()
  }

  get lockName(): string {
    return this.#holding.programName ?? this.#holding.lockName
  }

  /** How the holder is spelled in Redis: `<client id>:<owner id>`, as Redisson's `<uuid>:<thread id>`. */
  get holder(): string {
    return this.#holding.holder
  }

  /** Who holds it, inside this client: what a thread id is in Java. */
  get ownerId(): number {
    return this.#holding.ownerId
  }

  /**
   * A number higher than that of every earlier holder: give it to the resource that the lock guards, which refuses what
   * comes with a lower one. Only locks of `getFencedLock` have it; a re-entry has that of the outer hold.
   * @see Redisson `RFencedLock.lockAndGetToken`
   */
  get fencingToken(): bigint | undefined {
    return this.#holding.fencingToken
  }

  /**
   * Of permits of a `PermitExpirableSemaphore`: their ids, 32 hexadecimal digits each. Anybody can release them by these.
   * @see Redisson `RPermitExpirableSemaphore.acquire`
   */
  get permitIds(): readonly string[] | undefined {
    return this.#holding.permitIds
  }

  /** How many holds its owner has on this lock at the moment, this one included; 0 when this one has ended. */
  get count(): number {
    this.#notice()
    return this.#ending ? 0 : this.#holding.count
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
    return this.#ending ? 0 : this.#holding.remainingMs(this)
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
    if (this.#ending) throw this.#holding.notHeld(`the hold was already ${this.#ending}`)
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
    return (await this.#holding.askHoldCount()) > 0 && this.#ending === undefined
  }

  /**
   * Release this hold: the last one of its owner frees the lock and wakes the waiters. Releasing twice is harmless.
   * @throws {LeaseLostError} the hold had been lost before; what it guarded may not have been exclusive
   * @throws {OutcomeUnknownError} Redis did not answer; the release is repeated in the background, and the lease ends it
   *   at the latest
   * @see Redisson `RLock.unlock`
   */
  unlock(): Promise<void> {
    return this.#ending === 'released' ? Promise.resolve() : this.#holding.release(this)
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
    this.#holding.handOver()
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
  get lease(): HeldLease {
    return this.#holding
  }

  /** @internal Itself, or the holds that it is made of. */
  get members(): readonly Hold[] {
    return this.#holding.members ?? [this]
  }

  /** @internal Told when it has ended, however that came. */
  onEnd: (() => void) | undefined

  /** @internal Where it was taken, if its kind keeps that. Formatted when it is read, which costs more than to keep it. */
  takenAt: { stack?: string } | undefined

  /**
   * @internal Called by what stands behind it only. A release may still turn out to have come too late.
   * @param parts  what was lost of a hold on several locks
   */
  end(how: 'released' | LossReason, parts?: readonly LeaseLostError[]): LeaseLostError | undefined {
    if (this.#ending instanceof LeaseLostError) return undefined
    if (how === 'released') {
      this.#ending = how
      this.onEnd?.()
      return undefined
    }
    this.#ending = new LeaseLostError(this.lockName, this.holder, how, this.#holding.noun, parts)
    this.onEnd?.()
    const abort = this.#abort
    if (abort) runOutside(() => abort.abort(this.#ending))
    return this.#ending
  }

  /** A deadline that has passed ends the hold here and now, not when a timer gets its turn. */
  #notice(): void {
    if (!this.#ending) this.#holding.expireIfDue(this)
  }
}
