import { LocalFsync } from './fsync.js'
import type { Acknowledgement, Fsync } from './port.js'
import { SharedCall } from './shared-call.js'

export type { Acknowledgement, Fsync }

/** How long to believe that a server has so many replicas, ms. That it has none is never believed for longer than asked. */
const BELIEVE_MS = 5_000
/** How long not to trust a server that lost all its replicas while we were connected, ms: less than who waits is patient. */
const WARY_MS = 10_000

/** Asks the replicas of one server, on the connection that the writes go by. One WAIT serves all who ask meanwhile. */
export class Replicas {
  readonly #call: (...command: [string, ...string[]]) => Promise<unknown>
  #count: Promise<number> | undefined
  #countedAt = 0
  /** The most that there were on this connection. */
  #most = 0
  /** Since when there are none, on the monotonic clock. */
  #noneSince: number | undefined
  readonly #wait: SharedCall<number>
  readonly #fsync: LocalFsync

  constructor(call: (...command: [string, ...string[]]) => Promise<unknown>) {
    this.#call = call
    this.#wait = new SharedCall((timeoutMs) => call('WAIT', '1', String(timeoutMs)).then(Number))
    this.#fsync = new LocalFsync(call)
  }

  /** @throws what the client library throws if the server refuses, or does not answer */
  async acknowledge(timeoutMs: number): Promise<Acknowledgement> {
    const replicas = await this.#connected()
    if (replicas === 0) {
      this.#count = undefined
      return { replicas: this.#isSuspicious() ? this.#most : 0, acknowledged: 0 }
    }
    this.#most = Math.max(this.#most, replicas)
    this.#noneSince = undefined
    const acknowledged = await this.#wait.ask(timeoutMs)
    if (acknowledged === 0) this.#count = undefined // there may be none any more
    return { replicas, acknowledged }
  }

  /**
   * Whether the server itself has fsynced to its AOF what was written on this connection.
   * @throws what the client library throws if the server refuses, or does not reply
   */
  fsynced(timeoutMs: number): Promise<Fsync> {
    return this.#fsync.ask(timeoutMs)
  }

  /** The connection is a new one: what was known is of another server, perhaps. */
  forget(): void {
    this.#count = undefined
    this.#most = 0
    this.#noneSince = undefined
  }

  /**
   * A master whose replicas all went away may have been replaced by one of them, and not know it yet: a failover by order, a
   * server that was frozen or cut off. Until it is demoted it grants what its successor grants, too.
   */
  #isSuspicious(): boolean {
    if (this.#most === 0) return false
    const now = performance.now()
    this.#noneSince ??= now
    return now - this.#noneSince < WARY_MS
  }

  #connected(): Promise<number> {
    const now = performance.now()
    if (this.#count !== undefined && now - this.#countedAt < BELIEVE_MS) return this.#count
    this.#countedAt = now
    const count = this.#call('INFO', 'replication').then((info) =>
      Number(/^connected_slaves:(\d+)/m.exec(String(info))?.[1] ?? 0),
    )
    count.catch(() => {
      if (this.#count === count) this.#count = undefined
    })
    this.#count = count
    return count
  }
}
