import { EventEmitter } from 'node:events'
import type { ClientEvents } from './locks/context.js'

type Listener<E extends keyof ClientEvents> = (...details: ClientEvents[E]) => void

/** Declares what listeners call, because programs without `@types/node` do not have the types of an EventEmitter. */
export class ClientEmitter extends EventEmitter<ClientEvents> {
  /**
   * Calls `listener` each time: `lost` (a hold ended before its release), `longWait` and `longHold` (a call waited, or a hold
   * lasted, for `warnAfterMs`) and `warning` (something works worse than it should, or cannot work).
   * @returns this client
   * @example client.on('lost', ({ hold, error }) => console.error(hold.lockName, error.reason))
   */
  override on<E extends keyof ClientEvents>(event: E, listener: Listener<E>): this {
    return super.on(event, listener as never)
  }

  /** Calls `listener` the next time, as `on` does every time. */
  override once<E extends keyof ClientEvents>(event: E, listener: Listener<E>): this {
    return super.once(event, listener as never)
  }

  /** Removes a listener of `on` or `once`. */
  override off<E extends keyof ClientEvents>(event: E, listener: Listener<E>): this {
    return super.off(event, listener as never)
  }
}
