// One call of the Redis client: an outcome within its time limit, and what its errors mean.
import type { RedisPort } from '../adapters/port.js'
import { messageOf } from '../errors.js'
import type { Clock } from '../util/clock.js'
import { withoutSecrets } from '../util/secrets.js'
import { Deadlines } from './deadlines.js'
import { advised, NoReplyError } from './replies.js'

/** Calls of one Redis client, each of which has an outcome within its time limit. */
export class Calls {
  readonly #port: RedisPort
  readonly #clock: Clock
  readonly #timeoutMs: number
  /** Of the calls that may take `#timeoutMs`: nearly all. */
  readonly #deadlines: Deadlines

  /** @param timeoutMs  the usual time limit */
  constructor(port: RedisPort, clock: Clock, timeoutMs: number) {
    this.#port = port
    this.#clock = clock
    this.#timeoutMs = timeoutMs
    this.#deadlines = new Deadlines(clock, timeoutMs)
  }

  /**
   * Calls `resolve` or `reject` once, in any asynchronous context.
   * @param now  on the clock
   * @param reject  called with a NoReplyError if there is no reply in time, or if the connection failed; else with the error
   *   reply of Redis, as the Redis client threw it
   */
  within<T>(
    timeoutMs: number,
    now: number,
    call: () => Promise<T>,
    resolve: (reply: T) => void,
    reject: (error: unknown) => void,
  ): void {
    const timeOut = (): void => {
      if (isFirst()) reject(new NoReplyError(this.#withConnectionError(`no reply within ${timeoutMs} ms`)))
    }
    const end = this.#limit(timeoutMs, now, timeOut)
    let isDone = false
    const isFirst = (): boolean => {
      if (isDone) return false
      isDone = true
      end()
      return true
    }
    callSafely(call).then(
      (reply) => {
        if (isFirst()) resolve(reply)
      },
      (raw: unknown) => {
        if (!isFirst()) return
        const error = advised(withoutSecrets(raw))
        if (this.#port.isErrorReply(error)) reject(error)
        else reject(new NoReplyError(this.#withConnectionError(messageOf(error)), { cause: error }))
      },
    )
  }

  /** The client is closed: from now on no timer outlasts the last call. */
  close(): void {
    this.#deadlines.close()
  }

  /** @returns to be called when there is a reply */
  #limit(timeoutMs: number, now: number, timeOut: () => void): () => void {
    if (timeoutMs === this.#timeoutMs) return this.#deadlines.add(now, timeOut)
    // Timers run before I/O: after a blocked event loop the reply may have arrived in time, and not been read yet.
    return this.#clock.after(timeoutMs, () => this.#clock.afterPoll(timeOut))
  }

  /** Clients say that a command failed, and not why there is no connection. */
  #withConnectionError(message: string): string {
    const { connectionError } = this.#port
    const why = connectionError === undefined ? '' : messageOf(withoutSecrets(connectionError))
    return message.includes(why) ? message : `${message} (${why})`
  }
}

/** Turns a synchronous throw of the Redis client into a rejection. */
function callSafely<T>(call: () => Promise<T>): Promise<T> {
  try {
    return call()
  } catch (error) {
    return Promise.reject(error)
  }
}
