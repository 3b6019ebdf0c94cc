// The arguments of client.locks.request, as Web IDL converts them and the standard checks them.
import { checkPriority } from '../locks/options.js'
import { checkCount, checkLeaseTime } from '../util/validate.js'
import type { WebLock, WebLockMode } from './web-lock.js'

/** The options of `client.locks.request`: those of the platform, and three of Holdfast. */
export interface WebLockOptions {
  /** Default `exclusive`. */
  mode?: WebLockMode | undefined
  /** Call the callback with null if the lock is not available at once, or if others wait for it. Default false. */
  ifAvailable?: boolean | undefined
  /**
   * Take the lock from its holders, before all who wait: their promises reject with an `AbortError`, and their work is not
   * stopped. Needs the rights of an operator. Default false.
   */
  steal?: boolean | undefined
  /** Aborts the wait: the promise rejects with the signal's reason. Ignored once the lock is granted. */
  signal?: AbortSignal | undefined
  /** Higher first, −1,000 to 1,000; equal ones in order. Default 0. */
  priority?: number | undefined
  /** Reject at once with `QueueFullError` if as many wait already, of all clients. Default: no limit. */
  maxWaiters?: number | undefined
  /** Lease, ms, from the grant; at least 10. Absent: the watchdog renews the lock until the callback has settled. */
  leaseTimeMs?: number | undefined
}

/** @param lock  null if `ifAvailable` was set, and the lock was not available */
export type WebLockCallback<T, L extends WebLock | null = WebLock | null> = (lock: L) => T

/** A request whose arguments are converted. */
export interface WebLockRequest {
  readonly name: string
  readonly mode: WebLockMode
  readonly ifAvailable: boolean
  readonly steal: boolean
  readonly signal: AbortSignal | undefined
  readonly priority: number
  readonly maxWaiters: number | undefined
  readonly leaseTimeMs: number | undefined
  readonly callback: WebLockCallback<unknown>
}

/**
 * Converts the arguments in the order of Web IDL: name, members of the options by their names, callback.
 * @throws {TypeError} a conversion fails
 * @throws {ConfigError} an option of Holdfast cannot work
 * @throws {DOMException} `NotSupportedError`: the standard excludes the name, or the options together
 * @throws the reason of `signal`, if it has aborted
 */
export function toRequest(given: readonly unknown[]): WebLockRequest {
  if (given.length < 2) throw new TypeError(`request() needs a name and a callback, but got ${given.length} arguments`)
  const name = `${given[0] as string}` // unlike String(), this refuses symbols
  const [options, callback] = given.length === 2 ? [undefined, given[1]] : [given[1], given[2]]
  const converted = convertOptions(options, name)
  if (typeof callback !== 'function') throw new TypeError('The callback is not a function')
  const request = { name, ...converted, callback: callback as WebLockCallback<unknown> }
  checkTogether(request)
  request.signal?.throwIfAborted()
  return request
}

function convertOptions(given: unknown, name: string): Omit<WebLockRequest, 'name' | 'callback'> {
  if (given !== undefined && given !== null && typeof given !== 'object' && typeof given !== 'function') {
    throw new TypeError('The options are not an object')
  }
  const options = (given ?? {}) as Readonly<Record<string, unknown>>
  const ifAvailable = Boolean(options['ifAvailable'])
  const leaseTimeMs = checkLeaseTime(options['leaseTimeMs'], name)
  const { maxWaiters: mostWaiting } = options
  const maxWaiters = mostWaiting === undefined ? undefined : checkCount('maxWaiters', mostWaiting, 0, name)
  const mode = toMode(options['mode'])
  const priority = checkPriority(options['priority'] ?? undefined, name) ?? 0
  const signal = toSignal(options['signal'])
  const steal = Boolean(options['steal'])
  return { mode, ifAvailable, steal, signal, priority, maxWaiters, leaseTimeMs }
}

function toMode(given: unknown): WebLockMode {
  if (given === undefined) return 'exclusive'
  const mode = `${given as string}`
  if (mode === 'exclusive' || mode === 'shared') return mode
  throw new TypeError(`The mode ${JSON.stringify(mode)} is neither 'exclusive' nor 'shared'`)
}

function toSignal(given: unknown): AbortSignal | undefined {
  if (given === undefined || given instanceof AbortSignal) return given
  throw new TypeError('The signal is not an AbortSignal')
}

/** In the order of the standard. */
function checkTogether({ name, mode, ifAvailable, steal, signal }: WebLockRequest): void {
  if (name.startsWith('-')) throw notSupported('names that begin with "-" are reserved')
  if (steal && ifAvailable) throw notSupported("'steal' and 'ifAvailable' exclude each other")
  if (steal && mode !== 'exclusive') throw notSupported("'steal' needs the mode 'exclusive'")
  if (signal && steal) throw notSupported("'signal' and 'steal' exclude each other")
  if (signal && ifAvailable) throw notSupported("'signal' and 'ifAvailable' exclude each other")
}

function notSupported(why: string): DOMException {
  return new DOMException(`Lock request: ${why}`, 'NotSupportedError')
}
