import type { RedisPort } from './adapters/port.js'
import { ClientClosedError } from './errors.js'
import type { LeaseContext } from './locks/lease.js'
import { sleep } from './util/sleep.js'

/** How a client ends: it accepts no new work, drains what it holds, releases the rest, and closes its connections. */
export class Shutdown {
  #closing: Promise<void> | undefined
  #cutDrain: (() => void) | undefined
  #onReleased: (() => void) | undefined
  #isDrained = false

  /** @throws {ClientClosedError} the client accepts no new work */
  assertOpen(lockName: string): void {
    if (this.#closing !== undefined) throw new ClientClosedError(lockName)
  }

  /** @throws {ClientClosedError} the client is closed, and has drained what it held */
  assertUsable(lockName: string): void {
    if (this.#isDrained) throw new ClientClosedError(lockName)
  }

  /** A lease ended, or a function that runs with permits. */
  released(): void {
    this.#onReleased?.()
  }

  /** Idempotent. A later call with a shorter `drainMs` cuts the drain. */
  async close(context: LeaseContext, port: RedisPort, drainMs: number): Promise<void> {
    this.#closing ??= this.#close(context, port)
    const cancel = context.clock.after(drainMs, () => this.#cutDrain?.())
    await this.#closing.finally(cancel)
  }

  async #close(context: LeaseContext, port: RedisPort): Promise<void> {
    const { clock, waitQueues, leases, idempotencyKeys, scripts, sections, backgroundRetries, watchdog } = context
    waitQueues.dismissAll((lockName) => new ClientClosedError(lockName))
    await this.#drain(context)
    for (const section of sections) section.giveUp()
    this.#isDrained = true
    for (const lease of leases) {
      lease.loseAll('closed')
      lease.releaseInBackground()
    }
    watchdog.close()
    // Commands in flight may still bring grants to release: until all is quiet for one turn of the event loop.
    do {
      await backgroundRetries.close()
      await idempotencyKeys.flush()
      await scripts.idle()
      await sleep(0, { clock })
      waitQueues.close() // by now every dismissed caller has left its queue
    } while (backgroundRetries.size > 0 || !idempotencyKeys.isFlushed || !scripts.isIdle)
    await watchdog.threadClient?.close()
    await port.close()
  }

  async #drain({ leases, sections }: LeaseContext): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#cutDrain = resolve // `close` calls it after `drainMs`
      this.#onReleased = () => {
        if (leases.size + sections.size === 0) resolve()
      }
      this.#onReleased()
    })
    this.#onReleased = undefined
    this.#cutDrain = undefined
  }
}

/**
 * Closes a client on SIGTERM and SIGINT, then lets the signal end the process. A second signal cuts the drain.
 * @returns how to remove the handlers
 */
export function closeOnSignals(
  close: (drainMs: number) => Promise<void>,
  drainMs: number,
  onError: (error: Error) => void,
): () => void {
  const signals = ['SIGTERM', 'SIGINT'] as const
  const stop = (): void => {
    for (const signal of signals) process.off(signal, onSignal)
  }
  let count = 0
  const onSignal = (signal: NodeJS.Signals): void => {
    const isFirst = count++ === 0
    const closed = close(isFirst ? drainMs : 0)
    if (!isFirst) return void closed.catch(() => {})
    void closed.catch(onError).then(() => {
      stop()
      // With other handlers of the signal, ending the process is up to them.
      if (process.listenerCount(signal) === 0) process.kill(process.pid, signal)
    })
  }
  for (const signal of signals) process.on(signal, onSignal)
  return stop
}
