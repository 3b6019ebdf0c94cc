// Limits how many leases are requested at once.
import type { Clock } from '../util/clock.js'

/** The limit even for a lease of a few milliseconds: one full batch. */
const MIN_IN_FLIGHT = 32
/** How long to wait for replies to the calls in flight, ms, before sending more: those may be for another server. */
const MAX_STALL_MS = 250

/** A caller whose call may not be sent yet. */
interface HeldBack {
  readonly leaseTimeMs: number
  readonly admit: () => void
}

/**
 * Limits how many calls that request a lease are in flight. Without it thousands of locks requested in one turn of the event
 * loop would spend their leases on the way, and renewals would wait behind all of them, on the connection and in this
 * process.
 */
export class Admission {
  readonly #clock: Clock
  readonly #heldBack: HeldBack[] = []
  #inFlight = 0
  /** Admitted, but not sent yet. */
  #admitted = 0
  /** How many renewals are being sent. They take precedence. */
  #renewals = 0
  /** When the last reply arrived, on the clock. */
  #repliedAt = 0
  #cancelTimer: (() => void) | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** How many calls are in flight. */
  get inFlight(): number {
    return this.#inFlight
  }

  /** Whether a call for a lease this long may be sent now. */
  hasRoom(leaseTimeMs: number): boolean {
    if (this.#heldBack.length > 0 || this.#renewals > 0) return false
    return this.#inFlight + this.#admitted < MIN_IN_FLIGHT || this.#isAllowed(leaseTimeMs)
  }

  /** Resolves when it may be sent. */
  async room(leaseTimeMs: number): Promise<void> {
    await new Promise<void>((admit) => {
      this.#heldBack.push({ leaseTimeMs, admit })
      if (this.#heldBack.length > 1) return
      this.#repliedAt = this.#clock.now()
      this.#watchStall()
    })
    this.#admitted--
  }

  sent(): void {
    this.#inFlight++
  }

  /** Calls have received their replies, or failed. */
  finished(calls: number): void {
    this.#inFlight -= calls
    if (this.#heldBack.length === 0) return
    this.#repliedAt = this.#clock.now()
    this.#admit()
  }

  /**
   * Holds back calls for leases while renewals are sent, which takes several turns of the event loop.
   * @returns ends that
   */
  holdBack(): () => void {
    this.#renewals++
    return () => {
      this.#renewals--
      this.#admit()
    }
  }

  #isAllowed(leaseTimeMs: number): boolean {
    return this.#renewals === 0 && this.#inFlight + this.#admitted < maxInFlight(leaseTimeMs)
  }

  /** First come, first served, so that longer leases do not overtake a short one forever. */
  #admit(isStalled = false): void {
    let count = 0
    for (const { leaseTimeMs, admit } of this.#heldBack) {
      if (isStalled ? count >= maxInFlight(leaseTimeMs) : !this.#isAllowed(leaseTimeMs)) break
      this.#admitted++
      count++
      admit()
    }
    this.#heldBack.splice(0, count)
    if (this.#heldBack.length > 0) return
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
  }

  #watchStall(): void {
    const { leaseTimeMs } = this.#heldBack[0] as HeldBack
    const stallMs = Math.min(leaseTimeMs / 8, MAX_STALL_MS)
    const cancel = this.#clock.after(this.#repliedAt + stallMs - this.#clock.now(), () =>
      // Replies that arrived while the event loop was blocked may not have been read yet.
      this.#clock.afterPoll(() => {
        if (this.#cancelTimer !== cancel) return
        const now = this.#clock.now()
        if (now >= this.#repliedAt + stallMs) {
          this.#repliedAt = now
          this.#admit(true)
        }
        if (this.#heldBack.length > 0) this.#watchStall()
      }),
    )
    this.#cancelTimer = cancel
  }
}

/** A busy machine needs a millisecond per call, and a quarter of the lease may be spent on the way. */
function maxInFlight(leaseTimeMs: number): number {
  return Math.max(MIN_IN_FLIGHT, leaseTimeMs / 4)
}
