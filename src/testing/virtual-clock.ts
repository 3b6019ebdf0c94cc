// Time that passes only when a test says so.
import { AsyncResource } from 'node:async_hooks'
import { setImmediate } from 'node:timers'
import type { Clock } from '../util/clock.js'

/** Not that of fake timers, which may replace it later. */
const nextTurn = setImmediate

interface Timer {
  readonly dueAt: number
  /** Timers that are due at the same time fire in the order in which they were armed. */
  readonly index: number
  readonly action: () => void
  readonly keepsAlive: boolean
  isPending: boolean
}

/** Time that passes only when a test says so. Between two timers all microtasks run, as in Node. */
export class VirtualClock implements Clock {
  /** A binary heap: the next one comes first. Those that were cancelled stay in it until their time. */
  readonly #timers: Timer[] = []
  #pending = 0
  #armed = 0
  #now = 1_000

  now(): number {
    return this.#now
  }

  after(delayMs: number, action: () => void, keepAlive = true): () => void {
    // Whole ms, rounded up, as the system clock has it: a timer that fired early could spin.
    const dueAt = this.#now + Math.max(0, Math.ceil(delayMs))
    // In the context of this call, as with `setTimeout`, and not of the code that lets the time pass.
    const context = new AsyncResource('HoldfastTimer', { requireManualDestroy: true })
    const timer: Timer = {
      dueAt,
      index: this.#armed++,
      action: () => context.runInAsyncScope(action),
      keepsAlive: keepAlive,
      isPending: true,
    }
    this.#add(timer)
    return () => this.#end(timer)
  }

  /** Nothing is ever left to read. */
  afterPoll(action: () => void): void {
    action()
  }

  /** How many timers are pending, whether they keep the process alive or not. */
  get pending(): number {
    return this.#pending
  }

  /** How many of them keep the process alive. */
  get keepingAlive(): number {
    return this.#timers.filter(({ isPending, keepsAlive }) => isPending && keepsAlive).length
  }

  /** Lets time pass, and fires in order what comes due, also what that starts. */
  async advance(ms: number): Promise<void> {
    const until = this.#now + ms
    await this.settle()
    while ((this.#next()?.dueAt ?? Number.POSITIVE_INFINITY) <= until) await this.step()
    this.#now = Math.max(this.#now, until)
  }

  /** Goes to the next timer and fires it. @returns whether there was one */
  async step(): Promise<boolean> {
    const timer = this.#next()
    if (!timer) return false
    this.#end(timer)
    this.#now = Math.max(this.#now, timer.dueAt)
    timer.action()
    await this.settle()
    return true
  }

  /** Lets time pass until the promise settles, for at most `limitMs`. */
  async until<T>(promise: Promise<T>, limitMs = 600_000): Promise<T> {
    let isSettled = false
    const settled = (): void => {
      isSettled = true
    }
    promise.then(settled, settled)
    const limit = this.now() + limitMs
    await this.settle()
    while (!isSettled) {
      if (this.now() > limit || !(await this.step())) throw new Error(`still pending at ${this.now()} ms`)
    }
    return await promise
  }

  /** Time passes and nothing runs, as while the event loop is blocked: timers that came due fire late. */
  block(ms: number): void {
    this.#now += ms
  }

  /** Everything that can run without time passing runs. */
  protected settle(): Promise<void> {
    return turn()
  }

  #add(timer: Timer): void {
    const timers = this.#timers
    this.#pending++
    let at = timers.length
    for (let above = (at - 1) >> 1; at > 0 && isBefore(timer, timers[above] as Timer); above = (at - 1) >> 1) {
      timers[at] = timers[above] as Timer
      at = above
    }
    timers[at] = timer
  }

  #end(timer: Timer): void {
    if (timer.isPending) this.#pending--
    timer.isPending = false
  }

  #next(): Timer | undefined {
    while (this.#timers[0]?.isPending === false) this.#removeFirst()
    return this.#timers[0]
  }

  #removeFirst(): void {
    const timers = this.#timers
    const last = timers.pop() as Timer
    const size = timers.length
    if (size === 0) return
    let at = 0
    for (let below = 1; below < size; below = 2 * at + 1) {
      const right = timers[below + 1]
      if (right && isBefore(right, timers[below] as Timer)) below++
      if (isBefore(last, timers[below] as Timer)) break
      timers[at] = timers[below] as Timer
      at = below
    }
    timers[at] = last
  }
}

function isBefore(one: Timer, other: Timer): boolean {
  return one.dueAt === other.dueAt ? one.index < other.index : one.dueAt < other.dueAt
}

/** Everything that can run without time passing runs. */
export function turn(): Promise<void> {
  return new Promise((resolve) => void nextTurn(resolve))
}
