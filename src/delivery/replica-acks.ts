// A grant counts once a replica has it.
import { NotDurableError, NotReplicatedError } from '../errors.js'
import type { Clock } from '../util/clock.js'
import { waitRefused } from '../warnings.js'
import type { Named } from '../wire/names.js'
import type { Durability } from './durability.js'
import { isLasting, mayHaveRun, NoReplyError } from './replies.js'
import type { Scripts } from './scripts.js'

/** Whether an attempt that failed with this error may have been granted anyway, and so must be released. */
export function mayBeGranted(error: unknown): boolean {
  return mayHaveRun(error) || error instanceof NotReplicatedError || error instanceof NotDurableError
}

const ELSEWHERE = 'the connection was lost, or another server owns the key now'

/**
 * Ensures that a grant survives a failover: at least one replica has it before the caller receives it. And a power failure,
 * if required: the server has it on disk.
 * @see Redisson `CommandAsyncService.syncedEval`: `checkLockSyncedSlaves`, `slavesSyncTimeout`
 */
export class Replication {
  /** Whether grants need any confirmation. */
  readonly isWanted: boolean
  readonly #clock: Clock
  readonly #scripts: Scripts
  readonly #timeoutMs: number
  readonly #warn: (warning: Error) => void
  readonly #durability: Durability | undefined
  /** When to ask replicas again after Redis refused it, on the clock. */
  #refusedUntil = 0

  /**
   * @param timeoutMs   how long replicas may take; undefined: they are not asked
   * @param durability  what the server itself must confirm, if anything
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
    this.isWanted = this.#timeoutMs > 0 || durability !== undefined
  }

  /** Whether the route of a command for `key` is known, or irrelevant. If not, `Scripts.locate` finds out. */
  isLocated(key: string): boolean {
    return !this.isWanted || this.#scripts.routeTo(key) !== undefined
  }

  /** The current route of a command for `key`, for `confirm`. */
  routeTo(key: string): string {
    return (this.isWanted && this.#scripts.routeTo(key)) || ''
  }

  /**
   * @param route  the route of the grant: WAIT covers only its own connection
   * @throws {NotReplicatedError} no replica has it, and there are some
   * @throws {NotDurableError} the server has not fsynced it
   * @throws {NoReplyError} no reply in time, or the connection failed
   */
  async confirm(lock: Named, route: string): Promise<void> {
    await this.#confirmReplicated(lock, route)
    await this.#durability?.confirm(lock, route)
  }

  /**
   * Finds out in the background whether the server of `key` was replaced: a client that grants nothing, and only renews,
   * would stay with it. The port leaves such a server.
   */
  checkMaster(key: string): void {
    if (this.#timeoutMs === 0 || this.#clock.now() < this.#refusedUntil) return
    this.#scripts.acknowledge(key, this.#timeoutMs).catch(() => {})
  }

  async #confirmReplicated({ key, name }: Named, route: string): Promise<void> {
    if (this.#timeoutMs === 0 || this.#clock.now() < this.#refusedUntil) return
    try {
      const acks = await this.#scripts.acknowledge(key, this.#timeoutMs)
      if (acks === undefined) return
      const isSame = this.#scripts.routeTo(key) === route
      const { replicas, acknowledged, why = isSame ? undefined : ELSEWHERE } = acks
      if (isSame && (acknowledged > 0 || replicas === 0)) return
      throw new NotReplicatedError(name, Math.max(1, replicas), this.#timeoutMs, why === undefined ? {} : { why })
    } catch (cause) {
      if (cause instanceof NoReplyError || cause instanceof NotReplicatedError) throw cause
      // Any other error says nothing about the grant.
      if (!isLasting(cause)) throw new NotReplicatedError(name, 1, this.#timeoutMs, { cause })
      this.#refusedUntil = this.#clock.now() + 60_000
      this.#warn(waitRefused(cause))
    }
  }
}
