import { nextTick } from '../util/real-time.js'

/**
 * A blocking command, such as WAIT, whose reply covers everything that was sent before it. It occupies the connection,
 * so only one is in flight at a time: callers that arrive meanwhile, or in the same turn of the event loop, share the
 * next one.
 */
export class SharedCall<T> {
  readonly #send: (timeoutMs: number) => Promise<T>
  /** Settles with the call that was sent last. */
  #last: Promise<unknown> = Promise.resolve()
  /** The call that is not sent yet. */
  #next: Promise<T> | undefined

  constructor(send: (timeoutMs: number) => Promise<T>) {
    this.#send = send
  }

  /** Settles like a command that is sent after this call. */
  ask(timeoutMs: number): Promise<T> {
    this.#next ??= this.#sendInTurn(timeoutMs)
    return this.#next
  }

  async #sendInTurn(timeoutMs: number): Promise<T> {
    await this.#last.catch(() => {})
    // Replies that arrived in one packet resume their callers in one turn.
    await new Promise<void>((resolve) => nextTick(resolve))
    this.#next = undefined
    const reply = this.#send(timeoutMs)
    this.#last = reply
    return await reply
  }
}
