// One call of the Redis client: an outcome within its time limit, and what its errors mean.
import type { RedisPort } from '../adapters/port.js'
import { messageOf } from '../errors.js'
import type { Clock } from '../util/clock.js'
import { withoutSecrets } from '../util/secrets.js'
import { Deadlines, type Limited } from './deadlines.js'
import { advised, NoReplyError } from './replies.js'

/** Calls of one Redis client, each of which has an outcome within its time limit. */
export class Calls {
  readonly #port: RedisPort
  readonly #clock: Clock
  readonly #timeoutMs: number
  /** Deadlines of the calls with the default timeout, which nearly all have. */
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
    let cancelTimer: (() => void) | undefined
    const command: Limited = {
      endsAt: now + timeoutMs,
      isDone: false,
      next: undefined,
      timeOut: () => {
        if (isLate()) return
        reject(new NoReplyError(this.#withConnectionError(`no reply within ${timeoutMs} ms`)))
      },
    }
    /** Whether it had an outcome before. */
    const isLate = (): boolean => {
      if (command.isDone) return true
      command.isDone = true
      if (cancelTimer) cancelTimer()
      else this.#deadlines.ended()
      return false
    }
    if (timeoutMs === this.#timeoutMs) this.#deadlines.add(command)
    // Timers run before I/O: after a blocked event loop the reply may have arrived in time, and not been read yet.
    else cancelTimer = this.#clock.after(timeoutMs, () => this.#clock.afterPoll(command.timeOut))
    let replying: Promise<T>
    try {
      replying = call()
    } catch (error) {
      replying = Promise.reject(error)
    }
    replying.then(
      (reply) => {
        if (!isLate()) resolve(reply)
      },
      (raw: unknown) => {
        if (isLate()) return
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

  /** Clients say that a command failed, and not why there is no connection. */
  #withConnectionError(message: string): string {
    const { connectionError } = this.#port
    const why = connectionError === undefined ? '' : messageOf(withoutSecrets(connectionError))
    return message.includes(why) ? message : `${message} (${why})`
  }
}
