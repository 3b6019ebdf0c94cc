import type { Clock } from '../../src/util/clock.js'

interface Timer {
  readonly dueAt: number
  readonly action: () => void
  readonly keepsAlive: boolean
}

/** Time that passes only when a test says so. Between two timers all microtasks run, as in Node. */
export class FakeClock implements Clock {
  readonly #timers = new Set<Timer>()
  #now = 1_000

  now(): number {
    return this.#now
  }

  after(delayMs: number, action: () => void, keepAlive = true): () => void {
    // Whole ms, rounded up, as the system clock has it: a timer that fired early could spin.
    const timer = { dueAt: this.#now + Math.max(0, Math.ceil(delayMs)), action, keepsAlive: keepAlive }
    this.#timers.add(timer)
    return () => this.#timers.delete(timer)
  }

  /** Nothing is ever left to read. */
  afterPoll(action: () => void): void {
    action()
  }

  /** How many timers are pending, whether they keep the process alive or not. */
  get pending(): number {
    return this.#timers.size
  }

  /** How many of them keep the process alive. */
  get keepingAlive(): number {
    return [...this.#timers].filter((timer) => timer.keepsAlive).length
  }

  /** Let time pass, and fire in order what comes due, also what that starts. */
  async advance(ms: number): Promise<void> {
    const until = this.#now + ms
    await turn()
    while ((this.#next()?.dueAt ?? Number.POSITIVE_INFINITY) <= until) await this.step()
    this.#now = Math.max(this.#now, until)
  }

  /** Goes to the next timer and fires it. @returns whether there was one */
  async step(): Promise<boolean> {
    const timer = this.#next()
    if (!timer) return false
    this.#timers.delete(timer)
    this.#now = Math.max(this.#now, timer.dueAt)
    timer.action()
    await turn()
    return true
  }

  /** Let time pass until the promise settles, for at most `limitMs`. */
  async until<T>(promise: Promise<T>, limitMs = 600_000): Promise<T> {
    let isSettled = false
    const settled = (): void => {
      isSettled = true
    }
    promise.then(settled, settled)
    const limit = this.#now + limitMs
    await turn()
    while (!isSettled) {
      if (this.#now > limit || !(await this.step())) throw new Error(`still pending at ${this.#now} ms`)
    }
    return await promise
  }

  /** Time passes and nothing runs, as while the event loop is blocked: timers that came due fire late. */
  block(ms: number): void {
    this.#now += ms
  }

  #next(): Timer | undefined {
    let next: Timer | undefined
    for (const timer of this.#timers) if (!next || timer.dueAt < next.dueAt) next = timer
    return next
  }
}

/** Everything that can run without time passing runs. */
export function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
