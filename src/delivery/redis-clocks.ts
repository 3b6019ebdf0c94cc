import type { Clock } from '../util/clock.js'

/** How long to rely on an estimate, ms: clocks drift apart, and servers are replaced. */
const FRESH_MS = 60_000

interface Estimate {
  /** By how much the clock of the server is ahead of ours, ms. */
  readonly aheadMs: number
  readonly learnedAt: number
}

/**
 * What time it is at each server, by its own replies. A reply was on its way for a while, so the estimate is late by that:
 * a command never looks younger than it is.
 */
export class RedisClocks {
  readonly #clock: Clock
  readonly #servers = new Map<string, Estimate>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** The time at a server, epoch ms; undefined: not known. */
  timeAt(server: string): number | undefined {
    const estimate = this.#servers.get(server)
    return estimate && Math.floor(this.#clock.now() + estimate.aheadMs)
  }

  isFresh(server: string): boolean {
    const estimate = this.#servers.get(server)
    return estimate !== undefined && this.#clock.now() < estimate.learnedAt + FRESH_MS
  }

  /** @param time  of the server, epoch ms, in a reply that has just arrived */
  learn(server: string, time: number): void {
    const now = this.#clock.now()
    this.#servers.set(server, { aheadMs: time - now, learnedAt: now })
  }
}
