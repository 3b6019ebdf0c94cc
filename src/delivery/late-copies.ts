import type { Context } from '../locks/context.js'

/**
 * The commands that take a lock for one owner, of which copies may take it once more after it was released: one that got no
 * reply, and after a reconnect any that the Redis client may have sent again. Later than `Scripts.lateAfterMs` none runs.
 */
export class LateCopies {
  /** One of them got no reply. */
  isInDoubt = false
  readonly #context: Pick<Context, 'clock' | 'scripts'>
  #until = 0
  /** The reconnects of the connection when the first of those commands was sent. */
  #reconnects = 0

  constructor(context: Pick<Context, 'clock' | 'scripts'>) {
    this.#context = context
  }

  /** A command that takes the lock is about to be sent. */
  sending(at: number): void {
    const { reconnects, lateAfterMs } = this.#context.scripts
    if (at >= this.#until) this.#reconnects = reconnects
    this.#until = at + lateAfterMs
  }

  /** Until when they may arrive, on the clock; 0: there are none. */
  get until(): number {
    const { clock, scripts } = this.#context
    const mayBeCopied = this.isInDoubt || scripts.reconnects !== this.#reconnects
    return mayBeCopied && clock.now() < this.#until ? this.#until : 0
  }
}
