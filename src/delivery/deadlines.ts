// The time limits of commands in flight, with one timer.
import type { Clock } from '../util/clock.js'

/** A command in flight. */
export interface Limited {
  /** When its time is over, on the clock. */
  readonly endsAt: number
  readonly timeOut: () => void
  /** It has received its reply, or its time was over. */
  isDone: boolean
  /** The one that was sent next. */
  next: Limited | undefined
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
  #first: Limited | undefined
  #last: Limited | undefined
  #cancelTimer: (() => void) | undefined
  #isClosed = false

  constructor(clock: Clock, limitMs: number) {
    this.#clock = clock
    this.#limitMs = limitMs
  }

  /** A command is sent now. */
  add(command: Limited): void {
    if (this.#first && this.#last) this.#last.next = command
    else this.#first = command
    this.#last = command
    if (!this.#cancelTimer) this.#wakeIn(this.#limitMs)
  }

  /** One of them is done. */
  ended(): void {
    while (this.#first?.isDone) {
      const { next } = this.#first
      // One that has grown old must not keep all later ones until the next full garbage collection: see `DenseSet`.
      this.#first.next = undefined
      this.#first = next
    }
    if (!this.#first && this.#isClosed) this.#stopTimer()
  }

  /** From now on no timer outlasts the last command. */
  close(): void {
    this.#isClosed = true
    if (!this.#first) this.#stopTimer()
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
    const due: Limited[] = []
    let one = this.#first
    for (; one && (one.isDone || one.endsAt <= now); one = one.next) due.push(one)
    if (one) this.#wakeIn(one.endsAt - now)
    // Timers run before I/O: after a blocked event loop the reply may have arrived in time, and not been read yet.
    for (const each of due) this.#clock.afterPoll(() => each.isDone || each.timeOut())
  }
}
