// Time, replaceable in tests.
import { sinceBoot } from '../platform.js'
import { clearTimeout, monotonicNow, setImmediate, setTimeout, threadNow, wallNow } from './real-time.js'

/** Everything that measures time or waits does so through a clock; unit tests and the simulator replace it. */
export interface Clock {
  /** Monotonic time, ms. Never goes back, and includes the time that a suspended machine slept. */
  now(): number
  /**
   * Calls `action` once, `delayMs` from now; a delay of any length works.
   * @param keepAlive  whether the pending timer keeps the process alive; default true
   * @returns a function that cancels the call
   */
  after(delayMs: number, action: () => void, keepAlive?: boolean): () => void
  /** Calls `action` once everything that has already arrived on the sockets of this process has been read. */
  afterPoll(action: () => void): void
}

/** `setTimeout` fires after 1 ms, with a warning, for anything longer. */
export const MAX_TIMEOUT_MS = 2 ** 31 - 1

/** How far the wall clock and the monotonic clock may drift apart before we check whether the machine slept, ms. */
const SUSPICIOUS_DRIFT_MS = 500

/** Where the system clock reads the time; replaced in unit tests. */
export interface TimeSources {
  monotonic(): number
  wall(): number
  sinceBoot(): number
}

/** The timers of the system clock; replaced in unit tests. */
export interface Timers {
  setTimeout(action: () => void, ms: number): NodeJS.Timeout
  clearTimeout(timer: NodeJS.Timeout): void
}

/** Not the functions themselves: those of Cloudflare Workers refuse to be called as methods. */
const TIMERS: Timers = {
  setTimeout: (action, ms) => setTimeout(action, ms),
  clearTimeout: (timer) => clearTimeout(timer),
}

/** The clocks and timers of the machine. */
export const SYSTEM: TimeSources = {
  monotonic: monotonicNow,
  wall: wallNow,
  sinceBoot,
}

/**
 * The clock of the machine.
 *
 * CLOCK_MONOTONIC, which Node reads, stops while a laptop is suspended, but a lease on the server does not. The wall
 * clock jumps ahead after a sleep, but also when it is set. So a jump of the wall clock only makes us read the time
 * since boot, which includes sleep and is never set; the amount by which it ran ahead is added to the monotonic time.
 */
export class SystemClock implements Clock {
  readonly #sources: TimeSources
  readonly #timers: Timers
  #sleptMs = 0
  #wallAhead: number
  #bootAhead: number

  constructor(sources: TimeSources = SYSTEM, timers: Timers = TIMERS) {
    this.#sources = sources
    this.#timers = timers
    const monotonic = sources.monotonic()
    this.#wallAhead = sources.wall() - monotonic
    this.#bootAhead = sources.sinceBoot() - monotonic
  }

  now(): number {
    const monotonic = this.#sources.monotonic()
    const wallAhead = this.#sources.wall() - monotonic
    if (Math.abs(wallAhead - this.#wallAhead) > SUSPICIOUS_DRIFT_MS) {
      this.#wallAhead = wallAhead
      const bootAhead = this.#sources.sinceBoot() - monotonic
      const sleptMs = bootAhead - this.#bootAhead
      if (sleptMs > SUSPICIOUS_DRIFT_MS / 2) {
        this.#sleptMs += sleptMs
        this.#bootAhead = bootAhead
      }
    }
    return monotonic + this.#sleptMs
  }

  after(delayMs: number, action: () => void, keepAlive = true): () => void {
    return after(delayMs, action, keepAlive, this.#timers)
  }

  afterPoll(action: () => void): void {
    afterPoll(action)
  }
}

function after(delayMs: number, action: () => void, keepAlive = true, timers = TIMERS): () => void {
  if (delayMs <= MAX_TIMEOUT_MS) {
    const timer = timers.setTimeout(action, Math.max(0, Math.ceil(delayMs)))
    if (!keepAlive) timer.unref?.()
    return () => timers.clearTimeout(timer)
  }
  let timer: NodeJS.Timeout
  const arm = (leftMs: number): void => {
    const stepMs = Math.min(leftMs, MAX_TIMEOUT_MS)
    timer = timers.setTimeout(() => (leftMs > stepMs ? arm(leftMs - stepMs) : action()), stepMs)
    if (!keepAlive) timer.unref?.()
  }
  arm(delayMs)
  return () => timers.clearTimeout(timer)
}

/**
 * An immediate runs after the poll phase, which reads the sockets. The second one is for data read in two steps, as
 * with TLS.
 */
function afterPoll(action: () => void): void {
  setImmediate(() => setImmediate(action))
}

/**
 * A clock that all threads of a process share on Node; on Bun and Deno each has its own (`SetClock`). It does not include
 * the time that a suspended machine slept, so a thread is given an instant as a distance from one that both sides know.
 */
export const threadClock: Clock = {
  now: threadNow,
  after: (delayMs, action, keepAlive) => after(delayMs, action, keepAlive),
  afterPoll,
}
