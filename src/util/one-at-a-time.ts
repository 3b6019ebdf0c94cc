/** Runs actions one after the other, in the order in which they came. */
export class OneAtATime {
  /** The actions that wait for the one that runs; undefined: none runs. */
  #waiting: (() => void)[] | undefined

  get isIdle(): boolean {
    return this.#waiting === undefined
  }

  async run<T>(action: () => Promise<T> | T): Promise<T> {
    if (this.#waiting) await new Promise<void>((resolve) => this.#waiting?.push(resolve))
    this.#waiting ??= []
    const waiting = this.#waiting
    try {
      return await action()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else this.#waiting = undefined
    }
  }
}
