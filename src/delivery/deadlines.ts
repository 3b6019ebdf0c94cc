// The time limits of commands in flight, with one timer.
import type { Clock } from '../util/clock.js'

/** A command in flight. */
interface Deadline {
  /** On the clock. */
  readonly at: number
  /** Called when the time is over; undefined: the command has received its reply. */
  timeOut: (() => void) | undefined
  /** The one that was sent next. */
  next: Deadline | undefined
}

/**
 * The time limits of commands that all may take equally long, so that they end in the order in which they were sent. One timer
 * serves them all: arming and cancelling one for each command costs more than the rest of its bookkeeping. It stays armed
 * after the last reply, and then finds nothing to do.
 */
export class Deadlines {
  readonly #clock: Clock
  readonly #limitMs: number
  /** The earliest that has not ended; undefined: no command is in flight. */
  #first: Deadline | undefined
  #last: Deadline | undefined
  #cancelTimer: (() => void) | undefined
  #isClosed = false

  constructor(clock: Clock, limitMs: number) {
    this.#clock = clock
    this.#limitMs = limitMs
  }

  /**
   * A command is about to be sent.
   * @param now  on the clock
   * @returns to be called when it has received its reply
   */
  add(now: number, timeOut: () => void): () => void {
    const deadline: Deadline = { at: now + this.#limitMs, timeOut, next: undefined }
    if (this.#first && this.#last) this.#last.next = deadline
    else this.#first = deadline
    this.#last = deadline
    if (!this.#cancelTimer) this.#wakeIn(this.#limitMs)
    return () => this.#end(deadline)
  }

  /** From now on no timer outlasts the last command. */
  close(): void {
    this.#isClosed = true
    if (!this.#first) this.#stopTimer()
  }

  #end(deadline: Deadline): void {
    deadline.timeOut = undefined
    while (this.#first && this.#first.timeOut === undefined) {
      const { next } = this.#first
      // One that has grown old must not keep all later ones until the next full garbage collection: see `DenseSet`.
      this.#first.next = undefined
      this.#first = next
    }
    if (!this.#first && this.#isClosed) this.#stopTimer()
  }

  #stopTimer(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
  }

  #wakeIn(ms: number): void {
    // The connection keeps the process alive while a command is in flight.
    this.#cancelTimer = this.#clock.after(ms, () => this.#onTimer(), false)
  }

  #onTimer(): void {
    this.#cancelTimer = undefined
    const now = this.#clock.now()
    const due: Deadline[] = []
    let one = this.#first
    for (; one && (one.timeOut === undefined || one.at <= now); one = one.next) due.push(one)
    if (one) this.#wakeIn(one.at - now)
    // Timers run before I/O: after a blocked event loop the reply may have arrived in time, and not been read yet.
    for (const each of due) this.#clock.afterPoll(() => each.timeOut?.())
  }
}
