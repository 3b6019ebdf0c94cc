import { clientWarning, NotDurableError, NotReplicatedError } from '../errors.js'
import type { Clock } from '../util/clock.js'
import { type Durability, NOT_KNOWN } from './durability.js'
import { NoReplyError } from './replies.js'
import type { Scripts } from './scripts.js'

/** Whether an attempt that failed with this may have been granted all the same: then it has to be given back. */
export function mayBeGranted(error: unknown): boolean {
  return error instanceof NoReplyError || error instanceof NotReplicatedError || error instanceof NotDurableError
}

const ELSEWHERE = 'the connection was lost, or another server owns the key now'

/**
 * Makes sure that what was granted survives a failover: at least one replica has it before the caller gets it. And, if
 * wanted, a power failure: the server has it on disk.
 * @see Redisson `CommandAsyncService.syncedEval`: `checkLockSyncedSlaves`, `slavesSyncTimeout`
 */
export class Replication {
  readonly #clock: Clock
  readonly #scripts: Scripts
  readonly #timeoutMs: number
  readonly #warn: (warning: Error) => void
  readonly #durability: Durability | undefined
  /** When to try again after a refusal, on the clock. */
  #refusedUntil = 0

  /**
   * @param timeoutMs   how long replicas have for it; undefined: nobody asks them
   * @param durability  what the server itself has to confirm, if anything
   */
  constructor(
    clock: Clock,
    scripts: Scripts,
    timeoutMs: number | undefined,
    warn: (warning: Error) => void,
    durability?: Durability,
  ) {
    this.#clock = clock
    this.#scripts = scripts
    this.#timeoutMs = timeoutMs ?? 0
    this.#warn = warn
    this.#durability = durability
  }

  /** Whether there is anything to confirm. */
  get isWanted(): boolean {
    return this.#timeoutMs > 0 || this.#durability !== undefined
  }

  /** Whether it is known which way a command for `name` goes, or of no importance. If not, `Scripts.locate` finds out. */
  isLocated(name: string): boolean {
    return !this.isWanted || this.#scripts.routeTo(name) !== undefined
  }

  /** The way that a command for `name` goes now, for `confirm`. */
  routeTo(name: string): string {
    return (this.isWanted && this.#scripts.routeTo(name)) || ''
  }

  /**
   * @param route  the one that it was sent by: it counts on one connection to one server only
   * @throws {NotReplicatedError} no replica has it, and there are some
   * @throws {NotDurableError} the server has not fsynced it
   * @throws {NoReplyError} nobody answered
   */
  async confirm(name: string, route: string): Promise<void> {
    await this.#replicated(name, route)
    await this.#durability?.confirm(name, route)
  }

  async #replicated(name: string, route: string): Promise<void> {
    if (this.#timeoutMs === 0 || this.#clock.now() < this.#refusedUntil) return
    try {
      const answer = await this.#scripts.acknowledge(name, this.#timeoutMs)
      if (answer === undefined) return
      const isSame = this.#scripts.routeTo(name) === route
      const { replicas, acknowledged, why = isSame ? undefined : ELSEWHERE } = answer
      if (isSame && (acknowledged > 0 || replicas === 0)) return
      throw new NotReplicatedError(name, Math.max(1, replicas), this.#timeoutMs, why === undefined ? {} : { why })
    } catch (cause) {
      if (cause instanceof NoReplyError || cause instanceof NotReplicatedError) throw cause
      const why = cause instanceof Error ? cause.message : String(cause)
      if (NOT_KNOWN.test(why)) throw new NotReplicatedError(name, 1, this.#timeoutMs, { cause })
      this.#refusedUntil = this.#clock.now() + 60_000
      const message =
        `Redis refuses to tell whether replicas have what this client holds (${why}): it goes on without, and a failover ` +
        'may let in a second holder. Allow INFO and WAIT, or set checkLockSyncedSlaves to false'
      this.#warn(clientWarning('WAIT_REFUSED', message, { cause }))
    }
  }
}
