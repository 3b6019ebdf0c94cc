/**
 * A blocking command that covers all that was sent before it, such as WAIT. It keeps the connection to itself, so only one
 * is under way at a time: callers that arrive meanwhile, and those of one turn of the event loop, share the next one.
 */
export class SharedCall<T> {
  readonly #send: (timeoutMs: number) => Promise<T>
  /** Settles with the one that was sent last. */
  #last: Promise<unknown> = Promise.resolve()
  /** The one that is not sent yet. */
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
    // Replies that came in one packet bring their callers in one turn.
    await new Promise<void>((resolve) => process.nextTick(resolve))
    this.#next = undefined
    const reply = this.#send(timeoutMs)
    this.#last = reply
    return await reply
  }
}
