import type { Clock } from '../util/clock.js'

/** Even a lease of a few milliseconds may be asked for this often at once: one full batch. */
const LEAST_IN_FLIGHT = 32
/** How long to stay behind calls of which none is answered, ms: they may be on their way to another server. */
const LONGEST_STALL_MS = 250

/** A caller that is not sent yet. */
interface Held {
  readonly leaseTimeMs: number
  readonly admit: () => void
}

/**
 * Bounds how many calls that ask for a lease are on their way at once. Without it thousands of them that are asked for in
 * one turn would use up their leases on the way, and renewals would wait behind all of them, at the connection and in this
 * process.
 */
export class Admission {
  readonly #clock: Clock
  readonly #held: Held[] = []
  #inFlight = 0
  /** Admitted, but not on their way yet. */
  #admitted = 0
  /** How many renewals are being sent. They go first. */
  #renewals = 0
  /** When a call was answered last, on the clock. */
  #heardAt = 0
  #cancelTimer: (() => void) | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** How many calls are on their way. */
  get inFlight(): number {
    return this.#inFlight
  }

  /** Whether a lease this long may be asked for now. */
  hasRoom(leaseTimeMs: number): boolean {
    return this.#held.length === 0 && this.#mayGo(leaseTimeMs)
  }

  /** Resolves when it may. */
  async room(leaseTimeMs: number): Promise<void> {
    await new Promise<void>((admit) => {
      this.#held.push({ leaseTimeMs, admit })
      if (this.#held.length > 1) return
      this.#heardAt = this.#clock.now()
      this.#watchStall()
    })
    this.#admitted--
  }

  sent(): void {
    this.#inFlight++
  }

  answered(calls: number): void {
    this.#inFlight -= calls
    if (this.#held.length === 0) return
    this.#heardAt = this.#clock.now()
    this.#admit()
  }

  /** Hold back what asks for leases while renewals are sent, which takes several turns of the event loop. */
  holdBack(): () => void {
    this.#renewals++
    return () => {
      this.#renewals--
      this.#admit()
    }
  }

  #mayGo(leaseTimeMs: number): boolean {
    return this.#renewals === 0 && this.#inFlight + this.#admitted < mostInFlight(leaseTimeMs)
  }

  /** First come, first served: a short lease is not overtaken for ever by longer ones. */
  #admit(isStalled = false): void {
    let count = 0
    for (const { leaseTimeMs, admit } of this.#held) {
      if (isStalled ? count >= mostInFlight(leaseTimeMs) : !this.#mayGo(leaseTimeMs)) break
      this.#admitted++
      count++
      admit()
    }
    this.#held.splice(0, count)
    if (this.#held.length > 0) return
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
  }

  #watchStall(): void {
    const { leaseTimeMs } = this.#held[0] as Held
    const stallMs = Math.min(leaseTimeMs / 8, LONGEST_STALL_MS)
    const cancel = this.#clock.after(this.#heardAt + stallMs - this.#clock.now(), () =>
      // What was answered during a block may not be read yet.
      this.#clock.afterPoll(() => {
        if (this.#cancelTimer !== cancel) return
        const now = this.#clock.now()
        if (now >= this.#heardAt + stallMs) {
          this.#heardAt = now
          this.#admit(true)
        }
        if (this.#held.length > 0) this.#watchStall()
      }),
    )
    this.#cancelTimer = cancel
  }
}

/** A busy machine needs a millisecond for one; a quarter of the lease may be spent on the way. */
function mostInFlight(leaseTimeMs: number): number {
  return Math.max(LEAST_IN_FLIGHT, leaseTimeMs / 4)
}
