// What time it is at each server.
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
  readonly #ask: (key: string) => Promise<void>
  /** The servers that are being asked. */
  readonly #asked = new Map<string | undefined, Promise<void>>()
  readonly #servers = new Map<string, Estimate>()

  /** @param ask  asks the server of a key, and learns what it replies */
  constructor(clock: Clock, ask: (key: string) => Promise<void>) {
    this.#clock = clock
    this.#ask = ask
  }

  /** Whether the time at the server of `key` is known. What was learned long ago is asked for again, in the background. */
  isKnown(server: string | undefined, key: string): boolean {
    const estimate = server === undefined ? undefined : this.#servers.get(server)
    if (!estimate) return false
    if (this.#clock.now() >= estimate.learnedAt + FRESH_MS) void this.ask(server, key).catch(() => {})
    return true
  }

  /** Whether a server that has never replied is being asked. */
  isAwaited(server: string | undefined): boolean {
    return this.#asked.size > 0 && this.#asked.has(server) && (server === undefined || !this.#servers.has(server))
  }

  /** Asks the server of `key`, once for all who want to know. @throws as `Scripts.run` */
  ask(server: string | undefined, key: string): Promise<void> {
    const asked = this.#asked.get(server) ?? this.#ask(key).finally(() => this.#asked.delete(server))
    this.#asked.set(server, asked)
    return asked
  }

  /** The time at a server, epoch ms; undefined: not known. */
  timeAt(server: string): number | undefined {
    const estimate = this.#servers.get(server)
    return estimate && Math.floor(this.#clock.now() + estimate.aheadMs)
  }

  /** @param time  of the server, epoch ms, in a reply that has just arrived */
  learn(server: string, time: number): void {
    const now = this.#clock.now()
    this.#servers.set(server, { aheadMs: time - now, learnedAt: now })
  }
}
