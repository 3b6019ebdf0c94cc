// client.locks: the Web Locks API across processes and machines.
import type { LeaseContext } from '../locks/lease.js'
import { toRequest, type WebLockCallback, type WebLockOptions } from './arguments.js'
import type { Requests } from './requests.js'
import { newWebLock, type WebLock, type WebLockSnapshot } from './web-lock.js'

const OURS = Symbol('made by a client')

/**
 * The platform's `LockManager`, as `navigator.locks`: its locks are shared by all clients of this Redis, whatever process or
 * machine they are in. Each is the read-write lock of that name, which Redisson's `RReadWriteLock` excludes.
 */
export class WebLockManager {
  readonly #context: LeaseContext
  readonly #keyOf: (name: string) => string
  #requests: Requests | undefined
  #loading: Promise<Requests> | undefined

  private constructor(key: symbol, context: LeaseContext, keyOf: (name: string) => string) {
    if (key !== OURS) throw new TypeError('Illegal constructor')
    this.#context = context
    this.#keyOf = keyOf
  }

  /**
   * Requests a lock, and runs the callback with it held. The lock is released when what the callback returned has settled.
   * Requests are granted in order, and each is an owner of its own: one made inside a callback of the same name waits for
   * the other callback to end.
   * @param name  any text that does not begin with `-`
   * @returns what the callback returned, after the lock was released
   * @throws what the callback threw; arguments that cannot work reject as well
   * @throws {DOMException} `AbortError`: another request has stolen the lock; the callback may still run
   * @throws {LeaseLostError} the callback succeeded, but the lock was lost meanwhile: `lock.signal` has aborted
   * @throws {QueueFullError} `maxWaiters` others wait
   * @throws {WaitTimeoutError} `waitTimeMs` of the client ended first
   * @throws {OutcomeUnknownError} Redis did not reply; what it may have granted is released in the background
   * @throws {ClientClosedError} the client is closed
   * @throws the reason of `signal`, if it aborts before the grant
   * @example `await client.locks.request('lock:order:1001', async (lock) => await charge('1001', { signal: lock.signal }))`
   * @see the standard: https://w3c.github.io/web-locks/#dom-lockmanager-request
   */
  request<T>(name: string, callback: WebLockCallback<T, WebLock>): Promise<Awaited<T>>
  request<T>(
    name: string,
    options: WebLockOptions & { ifAvailable?: false | undefined },
    callback: WebLockCallback<T, WebLock>,
  ): Promise<Awaited<T>>
  request<T>(name: string, options: WebLockOptions, callback: WebLockCallback<T>): Promise<Awaited<T>>
  async request(...given: unknown[]): Promise<unknown> {
    const request = toRequest(given)
    const requests = this.#requests ?? (await this.#load())
    return await requests.request(request)
  }

  /**
   * Who holds the locks of `client.locks`, and who waits for them, of all clients: a snapshot of each name.
   * @throws {OutcomeUnknownError} Redis did not reply
   * @throws {ClientClosedError} the client is closed
   * @example `const { held, pending } = await client.locks.query()`
   * @see the standard: https://w3c.github.io/web-locks/#dom-lockmanager-query
   */
  async query(): Promise<WebLockSnapshot> {
    const requests = this.#requests ?? (await this.#load())
    return await requests.query()
  }

  get [Symbol.toStringTag](): string {
    return 'LockManager'
  }

  #load(): Promise<Requests> {
    this.#loading ??= import('./requests.js').then(({ Requests }) => {
      this.#requests = new Requests(this.#context, this.#keyOf, newWebLock)
      return this.#requests
    })
    return this.#loading
  }
}

/** @param keyOf  the key in Redis of a name. It throws if there can be none */
export function newWebLockManager(context: LeaseContext, keyOf: (name: string) => string): WebLockManager {
  return Reflect.construct(WebLockManager, [OURS, context, keyOf]) as WebLockManager
}
