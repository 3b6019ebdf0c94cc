// on(), once(), off(): typed listeners of a client.
import { EventEmitter } from 'node:events'
import type { ClientEvents } from './locks/context.js'

type Listener<E extends keyof ClientEvents> = (...details: ClientEvents[E]) => void

/**
 * Declares what listeners call, because programs without `@types/node` do not have the types of an EventEmitter. With those of
 * version 25 or later, an `EventEmitter<ClientEvents>` cannot declare it.
 */
export class ClientEmitter extends EventEmitter {
  /**
   * Listens to an event. No event needs a listener, and one that throws is only a process warning.
   * - `acquired`, `({ hold, waitedMs, path })`: a call got a lock: `direct`, after a `wait`, by a `handoff` inside this client,
   *   or by `reentry`
   * - `released`, `({ hold, heldMs, path })`: a hold ended: `released`, `handed_off` inside this client, or `transferred`
   * - `lost`, `({ hold, error })`: a hold was lost before it was released; its `signal` aborted with the same error
   * - `longWait`, `({ lockName, label, waitedMs, heldBy, holders, position })`: a call has waited for `warnAfterMs`, 60 s by default
   * - `longHold`, `({ hold, heldMs })`: a hold has lasted for `warnAfterMs`
   * - `warning`, `(warning)`: something works worse than it should; some have a `code`
   * @returns this client
   * @example `client.on('lost', ({ hold, error }) => console.error(hold.lockName, error.reason))`
   */
  override on<E extends keyof ClientEvents>(event: E, listener: Listener<E>): this {
    return super.on(event, listener)
  }

  /**
   * Calls `listener` the next time, as `on` does every time.
   * @example `client.once('lost', ({ error }) => console.error(error))`
   */
  override once<E extends keyof ClientEvents>(event: E, listener: Listener<E>): this {
    return super.once(event, listener)
  }

  /**
   * Removes a listener of `on` or `once`.
   * @example `client.off('lost', report)`
   */
  override off<E extends keyof ClientEvents>(event: E, listener: Listener<E>): this {
    return super.off(event, listener)
  }
}
