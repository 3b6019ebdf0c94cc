/** What the replicas of one server said. */
export interface Acknowledgement {
  /** How many were connected. */
  readonly replicas: number
  /** How many have all that was written on our connection. */
  readonly acknowledged: number
}

/** How long to believe that a server has so many replicas, ms. */
const BELIEVE_MS = 5_000

/** Asks the replicas of one server, on the connection that the writes go by. One WAIT serves all who ask meanwhile. */
export class Replicas {
  readonly #call: (...command: [string, ...string[]]) => Promise<unknown>
  #count: Promise<number> | undefined
  #countedAt = 0
  #running: Promise<number> | undefined
  #next: Promise<number> | undefined

  constructor(call: (...command: [string, ...string[]]) => Promise<unknown>) {
    this.#call = call
  }

  /** @throws what the client library throws if the server refuses, or does not answer */
  async acknowledge(timeoutMs: number): Promise<Acknowledgement> {
    const replicas = await this.#connected()
    if (replicas === 0) return { replicas, acknowledged: 0 }
    const acknowledged = await this.#wait(timeoutMs)
    if (acknowledged === 0) this.#count = undefined // there may be none any more
    return { replicas, acknowledged }
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

  /** WAIT keeps the connection for itself: so never more than one, which is for all that was written before it. */
  #wait(timeoutMs: number): Promise<number> {
    if (this.#running === undefined) return this.#start(timeoutMs)
    this.#next ??= this.#running.then(
      () => this.#start(timeoutMs),
      () => this.#start(timeoutMs),
    )
    return this.#next
  }

  #start(timeoutMs: number): Promise<number> {
    this.#next = undefined
    const running = this.#call('WAIT', '1', String(timeoutMs)).then(Number)
    this.#running = running
    const ended = (): void => {
      if (this.#running === running) this.#running = undefined
    }
    running.then(ended, ended)
    return running
  }
}
