// Estimates the time at each server.
import type { Clock } from '../util/clock.js'

/** How long to rely on an estimate, ms: clocks drift apart, and servers are replaced. */
const FRESH_MS = 60_000

interface Estimate {
  /** By how much the clock of the server is ahead of ours, ms. */
  readonly aheadMs: number
  readonly learnedAt: number
}

/**
 * Estimates the time at each server from its replies. The estimate is late by the time that the reply took to arrive, so a
 * command never looks younger than it is.
 */
export class RedisClocks {
  readonly #clock: Clock
  readonly #read: (key: string) => Promise<void>
  /** The requests in flight, by server. */
  readonly #reads = new Map<string | undefined, Promise<void>>()
  readonly #servers = new Map<string, Estimate>()

  /** @param read  requests the time at the server of a key, and passes the reply to `learn` */
  constructor(clock: Clock, read: (key: string) => Promise<void>) {
    this.#clock = clock
    this.#read = read
  }

  /** Whether the time at the server of `key` is known. What was learned long ago is asked for again, in the background. */
  isKnown(server: string | undefined, key: string, now: number): boolean {
    const estimate = server === undefined ? undefined : this.#servers.get(server)
    if (!estimate) return false
    if (now >= estimate.learnedAt + FRESH_MS) void this.refresh(server, key).catch(() => {})
    return true
  }

  /** Whether any server is being asked for its time. */
  get isReading(): boolean {
    return this.#reads.size > 0
  }

  /** Whether a server that has never replied is being asked for its time. */
  isAwaited(server: string | undefined): boolean {
    return this.#reads.has(server) && (server === undefined || !this.#servers.has(server))
  }

  /** Asks the server of `key`, once for all callers. @throws as `Scripts.run` */
  refresh(server: string | undefined, key: string): Promise<void> {
    const read = this.#reads.get(server) ?? this.#read(key).finally(() => this.#reads.delete(server))
    this.#reads.set(server, read)
    return read
  }

  /** The time at a server, epoch ms; undefined: not known. */
  timeAt(server: string, now: number): number | undefined {
    const estimate = this.#servers.get(server)
    return estimate && Math.floor(now + estimate.aheadMs)
  }

  /** @param time  of the server, epoch ms, in a reply that has just arrived */
  learn(server: string, time: number): void {
    const now = this.#clock.now()
    this.#servers.set(server, { aheadMs: time - now, learnedAt: now })
  }
}
