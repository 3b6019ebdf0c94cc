/**
 * A process that is killed as soon as all cases that need that are ready. They share one, because it takes a while to
 * start.
 */
export class Doomed<T> {
  readonly #start: () => Promise<T>
  readonly #kill: (process: T) => unknown
  readonly #death: Promise<unknown>
  readonly #ready = new Set<object>()
  #missing: number
  #process: Promise<T> | undefined
  #settle: (killed?: unknown) => void = () => {}
  #ended: Promise<void> | undefined

  /** @param missing  how many will call `die` or `giveUp` */
  constructor(missing: number, start: () => Promise<T>, kill: (process: T) => unknown) {
    this.#missing = missing
    this.#start = start
    this.#kill = kill
    this.#death = new Promise((resolve) => {
      this.#settle = resolve
    })
  }

  /** The process, alive. */
  async alive(): Promise<T> {
    this.#process ??= this.#start()
    return await this.#process
  }

  /** One more is ready. Resolves when it has been killed. */
  async die(who: object): Promise<void> {
    await this.alive() // or there would be nothing to kill
    this.giveUp(who)
    await this.#death
  }

  /** One less to wait for. */
  giveUp(who: object): void {
    if (this.#ready.has(who)) return
    this.#ready.add(who)
    this.#missing--
    if (this.#missing === 0) void this.end()
  }

  /** Once. */
  async end(): Promise<void> {
    this.#ended ??= this.#end()
    await this.#ended
  }

  async #end(): Promise<void> {
    const process = await this.#process?.catch(() => undefined)
    this.#settle(process === undefined ? undefined : this.#kill(process)) // as it ends, and with it its waiters
  }
}
