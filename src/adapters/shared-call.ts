// Shares one blocking command among callers.
import { type Clock, threadClock } from '../util/clock.js'
import { nextTick } from '../util/real-time.js'
import { within } from '../util/timeout.js'

/**
 * A blocking command, such as WAIT, whose reply covers everything that was sent before it. It occupies the connection,
 * so only one is in flight at a time: callers that arrive meanwhile, or in the same turn of the event loop, share the
 * next one. It does not wait forever for one whose reply a Redis client lost.
 */
export class SharedCall<T> {
  readonly #send: (timeoutMs: number) => Promise<T>
  readonly #clock: Pick<Clock, 'after'>
  /** The call in flight. */
  #last: Promise<T> | undefined
  /** The call that is not sent yet. */
  #next: Promise<T> | undefined

  /** @param clock  replaced in the simulation */
  constructor(send: (timeoutMs: number) => Promise<T>, clock: Pick<Clock, 'after'> = threadClock) {
    this.#send = send
    this.#clock = clock
  }

  /** Settles like a command that is sent after this call. */
  join(timeoutMs: number): Promise<T> {
    this.#next ??= this.#sendInTurn(timeoutMs)
    return this.#next
  }

  async #sendInTurn(timeoutMs: number): Promise<T> {
    if (this.#last !== undefined) await within(timeoutMs, this.#last, undefined, this.#clock).catch(() => {})
    // Replies that arrived in one packet resume their callers in one turn.
    await new Promise<void>((resolve) => nextTick(resolve))
    this.#next = undefined
    const reply = this.#send(timeoutMs)
    this.#last = reply
    const end = (): void => {
      if (this.#last === reply) this.#last = undefined
    }
    reply.then(end, end)
    return await reply
  }
}
