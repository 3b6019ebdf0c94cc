// The order in which the requests of one client call back.
import type { Clock } from '../util/clock.js'
import { within } from '../util/timeout.js'

/** How long requests are waited for that should go first, ms: their server may be slow, or down. */
const PATIENCE_MS = 100

/** The place of a request among those of its client. */
export interface Place {
  /** Resolves when no earlier request may be granted before it has to wait, or after 100 ms. */
  turn(): Promise<void>
  /** The request has called back, has to wait for its lock, or has failed. */
  leave(): void
}

/**
 * Requests that are granted at once call back in the order in which they were made, whatever their names: as if one server
 * had granted all, which in a cluster it has not.
 */
export class RequestOrder {
  readonly #clock: Clock
  /** Undefined: no request is in its place. */
  #settled: Promise<void> | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** When every request so far has left its place: Redis has granted or queued it. */
  get settled(): Promise<void> {
    return this.#settled ?? Promise.resolve()
  }

  enter(): Place {
    const before = this.#settled
    let leave = (): void => {}
    const left = new Promise<void>((resolve) => {
      leave = resolve
    })
    const settled = before === undefined ? left : before.then(() => left)
    this.#settled = settled
    void settled.then(() => {
      if (this.#settled === settled) this.#settled = undefined
    })
    return { leave, turn: () => this.#patiently(before) }
  }

  /**
   * Runs a callback.
   * @returns its result. If it has made requests before it returned, that settles when they have left their places: they go
   *   before the release
   */
  run(callback: () => unknown): unknown {
    const before = this.#settled
    const result = callback()
    const made = this.#settled
    return made === before ? result : this.#resultAfter(made, result)
  }

  async #resultAfter(made: Promise<void> | undefined, result: unknown): Promise<unknown> {
    try {
      return await result
    } finally {
      await this.#patiently(made)
    }
  }

  async #patiently(requests: Promise<void> | undefined): Promise<void> {
    if (requests !== undefined) await within(PATIENCE_MS, requests, undefined, this.#clock).catch(() => {})
  }
}
