// Closes a client, also on SIGTERM.
import type { RedisPort } from './adapters/port.js'
import { ClientClosedError, ConfigError, toError } from './errors.js'
import type { LeaseContext } from './locks/lease.js'
import { nodeProcess } from './platform.js'
import { threadClock } from './util/clock.js'
import { listenTogether } from './util/shared-listener.js'
import { sleep } from './util/sleep.js'
import { checkDuration, ownOptions } from './util/validate.js'
import { closedBesideHandler } from './warnings.js'

export interface CloseOptions {
  /** How long holds may continue before they are aborted and released, ms from the call; default 0. */
  drainMs?: number | undefined
}

export interface SignalOptions extends CloseOptions {
  /**
   * Finishes what is under way, such as the requests of a server: called on the first signal, before the client closes.
   * Until the promise that it returns settles, locks may still be taken, for `drainMs` at most.
   */
  before?: (() => unknown) | undefined
}

/** How a client ends: it accepts no new work, drains what it holds, releases the rest, and closes its connections. */
export class Shutdown {
  #closing: Promise<void> | undefined
  #cutDrain: (() => void) | undefined
  #onReleased: (() => void) | undefined
  #isDrained = false
  #onClosed: (() => void)[] | undefined = []
  /** Why it was closed, for errors. */
  #why: string | undefined

  /** @throws {ClientClosedError} the client accepts no new work */
  assertOpen(lockName: string): void {
    if (this.#closing !== undefined) throw new ClientClosedError(lockName, this.#why)
  }

  /** @throws {ClientClosedError} the client is closed, and has drained what it held */
  assertUsable(lockName: string): void {
    if (this.#isDrained) throw new ClientClosedError(lockName, this.#why)
  }

  /** A lease ended, or a function that runs with permits. */
  released(): void {
    this.#onReleased?.()
  }

  /** The process is about to end: leaders resign, so that others are elected while this client finishes the rest. */
  begin({ sections }: LeaseContext): void {
    for (const section of [...sections]) section.closing?.()
  }

  /**
   * Idempotent. A later call with a shorter `drainMs` cuts the drain.
   * @param onDrained  called once all holds have ended, or the drain is over
   */
  async close(
    context: LeaseContext,
    port: RedisPort,
    drainMs: number,
    why?: string,
    onDrained: () => void = () => {},
  ): Promise<void> {
    if (this.#closing === undefined) this.#why = why
    this.#closing ??= this.#close(context, port, onDrained).finally(() => this.#closed())
    const cancel = context.clock.after(drainMs, () => this.#cutDrain?.())
    await this.#closing.finally(cancel)
  }

  async #close(context: LeaseContext, port: RedisPort, onDrained: () => void): Promise<void> {
    const { clock, waitQueues, leases, idempotencyKeys, scripts, sections, backgroundRetries, watchdog } = context
    this.begin(context)
    waitQueues.dismissAll((lockName) => new ClientClosedError(lockName, this.#why))
    await this.#drain(context)
    for (const section of sections) section.end()
    this.#isDrained = true
    onDrained()
    for (const lease of leases) {
      lease.loseAll('closed')
      lease.releaseInBackground()
    }
    // Commands in flight may still bring grants to release: until all is quiet for one turn of the event loop.
    do {
      await backgroundRetries.close()
      await idempotencyKeys.flush()
      await scripts.idle()
      await sleep(0, { clock })
      waitQueues.close() // every dismissed caller has left its queue already
    } while (backgroundRetries.size > 0 || !idempotencyKeys.isFlushed || !scripts.isIdle)
    scripts.close()
    watchdog.close()
    await watchdog.threadClient?.close()
    await port.close()
  }

  /** Calls it when the client is closed; at once if it is. */
  whenClosed(callback: () => void): void {
    if (this.#onClosed) this.#onClosed.push(callback)
    else callback()
  }

  #closed(): void {
    const callbacks = this.#onClosed ?? []
    this.#onClosed = undefined
    for (const callback of callbacks) callback()
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

/** @param why  for the errors of calls that come too late */
type Close = (drainMs: number, why: string) => Promise<void>

/**
 * As `Client.closeOnSignals`.
 * @param begin  called on the first signal
 * @param onError  what `before` threw, or `close`
 * @param whenClosed  calls a function when the client is closed, in whatever way
 */
export function closeOnSignals(
  begin: () => void,
  close: Close,
  options: SignalOptions,
  onError: (error: Error) => void,
  whenClosed: (callback: () => void) => void,
): () => void {
  const { before, drainMs = 10_000 } = ownOptions(options, { drainMs: 1, before: 1 })
  if (before !== undefined && typeof before !== 'function') throw new ConfigError('before', before, 'a function')
  const terms = { before, drainMs: checkDuration('drainMs', drainMs, 0), onError }
  const process = nodeProcess
  if (!process) throw new ConfigError('closeOnSignals', undefined, 'Node.js: nothing else tells a program to end')
  const signals = ['SIGTERM', 'SIGINT'] as const
  const cut = new AbortController()
  let count = 0
  const onSignal = (signal: NodeJS.Signals): void => {
    if (count++ > 0) {
      cut.abort()
      return void close(0, `the process received ${signal} again`).catch(() => {})
    }
    begin()
    // One of them is ours, for all clients.
    if (!before && process.listenerCount(signal) > 1) onError(closedBesideHandler(signal))
    void finishAndClose(close, terms, signal, cut.signal).then(() => {
      stop()
      // With other handlers of the signal, ending the process is up to them.
      if (process.listenerCount(signal) === 0) process.kill(process.pid, signal)
    })
  }
  const stops = signals.map((signal) => listenTogether(process, signal, onSignal))
  const stop = (): void => {
    for (const stopListening of stops) stopListening()
  }
  whenClosed(() => {
    if (count === 0) stop() // a signal that is being handled ends the process when `before` has finished
  })
  return stop
}

/** Work under way may still take locks; the client closes under it only when `drainMs` is over. Never rejects. */
async function finishAndClose(
  close: Close,
  { drainMs, before, onError }: { drainMs: number; before: SignalOptions['before']; onError: (error: Error) => void },
  signal: string,
  cut: AbortSignal,
): Promise<void> {
  const endsAt = threadClock.now() + drainMs
  const report = (error: unknown): void => onError(toError(error))
  let why = `the process received ${signal}. To finish what is under way first, pass \`before\` to closeOnSignals`
  if (before) {
    why = `the process received ${signal}, and drainMs (${drainMs} ms) ended before \`before\` had finished`
    const hasFinished = (): void => {
      why = `the process received ${signal}, and \`before\` has finished`
    }
    const finished = Promise.resolve().then(before).catch(report).then(hasFinished)
    const done = new AbortController()
    await Promise.race([finished, sleep(drainMs, { signal: AbortSignal.any([cut, done.signal]) })])
    done.abort()
  }
  await close(cut.aborted ? 0 : Math.max(0, Math.ceil(endsAt - threadClock.now())), why).catch(report)
}
