import { uptime } from 'node:os'

/** The seam for time. Everything that measures or waits goes through it; unit tests and the simulator bring their own. */
export interface Clock {
  /** Monotonic time, ms. Never goes back, and counts the time a suspended machine slept. */
  now(): number
  /**
   * Call `action` once, `delayMs` from now; answers how to cancel. Any length is fine.
   * @param keepAlive  whether the pending timer keeps the process alive; default true
   */
  after(delayMs: number, action: () => void, keepAlive?: boolean): () => void
  /** Call `action` once everything that had arrived by now was read. */
  afterPoll(action: () => void): void
}

/** setTimeout fires after 1 ms, with a warning, for anything longer. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1

/** How far wall clock and monotonic clock may drift apart before we look whether the machine slept. */
const SUSPICIOUS_DRIFT_MS = 500

/** Where the system clock reads its times; replaced in unit tests. */
export interface TimeSources {
  monotonic(): number
  wall(): number
  sinceBoot(): number
}

const SYSTEM: TimeSources = {
  monotonic: () => performance.now(),
  wall: () => Date.now(),
  sinceBoot: () => uptime() * 1000,
}

/**
 * The clock of the machine.
 *
 * CLOCK_MONOTONIC, which Node reads, stands still while a laptop is suspended, but a lease at the server does not. The
 * wall clock jumps ahead after a sleep, but also when somebody sets it. So a jump of the wall clock only makes us look at
 * the time since boot, which counts sleep and nothing else; by how much that ran ahead is added to the monotonic time.
 */
export class SystemClock implements Clock {
  readonly #sources: TimeSources
  #sleptMs = 0
  #wallAhead: number
  #bootAhead: number

  constructor(sources: TimeSources = SYSTEM) {
    this.#sources = sources
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
    return after(delayMs, action, keepAlive)
  }

  afterPoll(action: () => void): void {
    afterPoll(action)
  }
}

function after(delayMs: number, action: () => void, keepAlive = true): () => void {
  if (delayMs <= MAX_TIMEOUT_MS) {
    const timer = setTimeout(action, Math.max(0, Math.ceil(delayMs)))
    if (!keepAlive) timer.unref()
    return () => clearTimeout(timer)
  }
  let timer: NodeJS.Timeout
  const arm = (leftMs: number): void => {
    const stepMs = Math.min(leftMs, MAX_TIMEOUT_MS)
    timer = setTimeout(() => (leftMs > stepMs ? arm(leftMs - stepMs) : action()), stepMs)
    if (!keepAlive) timer.unref()
  }
  arm(delayMs)
  return () => clearTimeout(timer)
}

/** An immediate runs after the poll phase, which reads. A second one, for what is read in two steps, as with TLS. */
function afterPoll(action: () => void): void {
  setImmediate(() => setImmediate(action))
}

/**
 * A clock that all threads of a process share. It does not count the time a suspended machine slept, so an instant on it is
 * passed on by its distance to one that both sides know.
 */
export const threadClock: Clock = {
  now: () => Number(process.hrtime.bigint() / 1_000n) / 1_000,
  after,
  afterPoll,
}
