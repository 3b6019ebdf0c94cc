// Until when copies of a command may take a lock again after its release.
import type { Clock } from '../util/clock.js'
import type { Scripts } from './scripts.js'

/** The part of a client that is needed here. */
interface SendingClient {
  readonly clock: Clock
  readonly scripts: Scripts
}

/**
 * The commands that take a lock for one owner, of which copies may take it once more after it was released: one that got no
 * reply, and after a reconnect any that the Redis client may have sent again. Later than `Scripts.lateAfterMs` none runs.
 */
export class LateCopies {
  /** One of them got no reply. */
  isInDoubt = false
  readonly #client: SendingClient
  #until = 0
  /** The reconnects of the connection when the first of those commands was sent. */
  #reconnects = 0

  constructor(client: SendingClient) {
    this.#client = client
  }

  /** A command that takes the lock is about to be sent. */
  sending(at: number): void {
    const { reconnects, lateAfterMs } = this.#client.scripts
    if (at >= this.#until) this.#reconnects = reconnects
    this.#until = at + lateAfterMs
  }

  /** Until when they may arrive, on the clock; 0: there are none. */
  get until(): number {
    const { clock, scripts } = this.#client
    const mayBeCopied = this.isInDoubt || scripts.reconnects !== this.#reconnects
    return mayBeCopied && clock.now() < this.#until ? this.#until : 0
  }
}
