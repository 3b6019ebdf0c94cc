// A granted request of client.locks.
import type { Hold } from '../locks/hold.js'
import { type Inspect, SHOWN } from '../util/visible.js'

/** `exclusive`: one holder. `shared`: any number, and no exclusive one. */
export type WebLockMode = 'exclusive' | 'shared'

/** A request that holds a lock or waits for it. */
export interface WebLockInfo {
  name: string
  mode: WebLockMode
  /** The id of its client, of Holdfast or Redisson. */
  clientId: string
}

export interface WebLockSnapshot {
  held: WebLockInfo[]
  /** Of one name in the order in which they are granted. */
  pending: WebLockInfo[]
}

const OURS = Symbol('made by client.locks')

/**
 * The lock that the callback of `client.locks.request` gets: the platform's `Lock`, and a way to notice a loss, which the
 * platform does not have.
 */
export class WebLock {
  readonly #hold: Hold
  readonly #name: string
  readonly #mode: WebLockMode

  private constructor(key: symbol, hold: Hold, name: string, mode: WebLockMode) {
    if (key !== OURS) throw new TypeError('Illegal constructor')
    this.#hold = hold
    this.#name = name
    this.#mode = mode
  }

  /** The name that was requested. */
  get name(): string {
    return this.#name
  }

  get mode(): WebLockMode {
    return this.#mode
  }

  /** Aborts with a `LeaseLostError` when the lock is lost or stolen. Pass it to the guarded work. */
  get signal(): AbortSignal {
    return this.#hold.signal
  }

  /**
   * Throws unless the lock is certain to be held right now. Synchronous, without I/O.
   * @throws {LeaseLostError} it was lost or stolen
   * @throws {NotHeldError} it was released: the callback has settled
   * @example `await client.locks.request('lock:order:1001', (lock) => lock.assertHeld())`
   */
  assertHeld(): void {
    this.#hold.assertHeld()
  }

  get [Symbol.toStringTag](): string {
    return 'Lock'
  }

  /** @internal What `console.log` shows. */
  [SHOWN](_depth: number, _options: object, inspect: Inspect): string {
    return `WebLock ${inspect({ name: this.#name, mode: this.#mode })}`
  }
}

export function newWebLock(hold: Hold, name: string, mode: WebLockMode): WebLock {
  return Reflect.construct(WebLock, [OURS, hold, name, mode]) as WebLock
}
