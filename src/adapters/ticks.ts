/** Calls every `everyMs`, never twice at once, and does not keep the process alive. */
export class Ticks {
  #timer: NodeJS.Timeout
  #isStopped = false

  constructor(everyMs: number, tick: () => Promise<unknown>) {
    const next = (): NodeJS.Timeout =>
      setTimeout(() => {
        const again = (): void => {
          if (!this.#isStopped) this.#timer = next()
        }
        tick().then(again, again) // the connection is not there: next time
      }, everyMs).unref()
    this.#timer = next()
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }
}
