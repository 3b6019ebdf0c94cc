// Periodic work without overlap.
import { clearTimeout, setTimeout } from '../util/real-time.js'

/** Runs a task every `everyMs`, never twice at once. Does not keep the process alive. */
export class PeriodicTask {
  #timer: NodeJS.Timeout
  #isStopped = false

  constructor(everyMs: number, task: () => Promise<unknown>) {
    const schedule = (): NodeJS.Timeout =>
      setTimeout(() => {
        const again = (): void => {
          if (!this.#isStopped) this.#timer = schedule()
        }
        task().then(again, again) // the connection may be down: try again next time
      }, everyMs).unref()
    this.#timer = schedule()
  }

  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
  }
}
