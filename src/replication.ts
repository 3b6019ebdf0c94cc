import type { Clock } from './clock.js'
import { impediment, NotReplicatedError } from './errors.js'
import { type Scripts, Unanswered } from './lua/run.js'

/** Errors of a server that changes its role, or is not itself at the moment: whether replicas have it is not known. */
const NOT_KNOWN = /\b(UNBLOCKED|LOADING|BUSY|READONLY|MASTERDOWN|CLUSTERDOWN|MOVED|TRYAGAIN)\b|replica instances/

/** Whether an attempt that failed with this may have been granted all the same: then it has to be given back. */
export function mayBeGranted(error: unknown): boolean {
  return error instanceof Unanswered || error instanceof NotReplicatedError
}

/**
 * Makes sure that what was granted survives a failover: at least one replica has it before the caller gets it.
 * @see Redisson `CommandAsyncService.syncedEval`: `checkLockSyncedSlaves`, `slavesSyncTimeout`
 */
export class Replication {
  readonly #clock: Clock
  readonly #scripts: Scripts
  readonly #timeoutMs: number
  readonly #warn: (warning: Error) => void
  /** When to try again after a refusal, on the clock. */
  #refusedUntil = 0

  /** @param timeoutMs  how long replicas have for it; undefined: nobody asks them */
  constructor(clock: Clock, scripts: Scripts, timeoutMs: number | undefined, warn: (warning: Error) => void) {
    this.#clock = clock
    this.#scripts = scripts
    this.#timeoutMs = timeoutMs ?? 0
    this.#warn = warn
  }

  /** Whether there is anything to confirm. */
  get isWanted(): boolean {
    return this.#timeoutMs > 0
  }

  /**
   * @param reconnects  those there had been before it was written: it counts on one connection only
   * @throws {NotReplicatedError} no replica has it, and there are some
   * @throws {Unanswered} nobody answered
   */
  async confirm(name: string, reconnects: number): Promise<void> {
    if (!this.isWanted || this.#clock.now() < this.#refusedUntil) return
    try {
      const answer = await this.#scripts.acknowledge(name, this.#timeoutMs)
      if (answer === undefined || answer.replicas === 0) return
      const isSame = this.#scripts.reconnects === reconnects
      const { replicas, acknowledged, why } = answer
      if (acknowledged > 0 && isSame) return
      throw new NotReplicatedError(name, replicas, this.#timeoutMs, why === undefined ? {} : { why })
    } catch (cause) {
      if (cause instanceof Unanswered || cause instanceof NotReplicatedError) throw cause
      const why = cause instanceof Error ? cause.message : String(cause)
      if (NOT_KNOWN.test(why)) throw new NotReplicatedError(name, 1, this.#timeoutMs, { cause })
      this.#refusedUntil = this.#clock.now() + 60_000
      const message =
        `Redis refuses to tell whether replicas have what this client holds (${why}): it goes on without, and a failover ` +
        'may let in a second holder. Allow INFO and WAIT, or set checkLockSyncedSlaves to false'
      this.#warn(impediment('WAIT_REFUSED', message, { cause }))
    }
  }
}
