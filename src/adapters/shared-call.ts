/**
 * A blocking command that covers all that was sent before it, such as WAIT. It keeps the connection to itself, so only one
 * is under way at a time, and all callers that arrive meanwhile share the next one.
 */
export class SharedCall<T> {
  readonly #send: (timeoutMs: number) => Promise<T>
  #running: Promise<T> | undefined
  #next: Promise<T> | undefined

  constructor(send: (timeoutMs: number) => Promise<T>) {
    this.#send = send
  }

  /** Settles like a command that was sent after this call. */
  ask(timeoutMs: number): Promise<T> {
    if (this.#running === undefined) return this.#start(timeoutMs)
    this.#next ??= this.#running.then(
      () => this.#start(timeoutMs),
      () => this.#start(timeoutMs),
    )
    return this.#next
  }

  #start(timeoutMs: number): Promise<T> {
    this.#next = undefined
    const running = this.#send(timeoutMs)
    this.#running = running
    const ended = (): void => {
      if (this.#running === running) this.#running = undefined
    }
    running.then(ended, ended)
    return running
  }
}
