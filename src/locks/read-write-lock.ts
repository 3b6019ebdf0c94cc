// Many readers or one writer.
import type { LockKind } from './kinds/lock-kind.js'
import { orderedKinds } from './kinds/ordered.js'
import { READ, WRITE } from './kinds/read-write.js'
import type { LeaseContext } from './lease.js'
import { Lock } from './lock.js'
import { checkOrder, type OrderOptions } from './options.js'

const UNORDERED = { read: READ, write: WRITE }

/**
 * Many owners may read, or one may write. Both sides are re-entrant. A writer may also read, and continue to read after the
 * write (a downgrade). A reader cannot upgrade to a writer, since two that tried would wait for each other: that rejects
 * with a `SelfDeadlockError` immediately. Readers join readers, so an uninterrupted stream of them keeps writers out, unless
 * the lock is ordered.
 * @see Redisson `RReadWriteLock`: same keys, fields and channel
 */
export class ReadWriteLock {
  readonly name: string
  readonly #key: string
  readonly #context: LeaseContext
  readonly #kinds: { readonly read: LockKind; readonly write: LockKind }

  /** @internal Locks come from `client.getReadWriteLock`. */
  constructor(context: LeaseContext, name: string, key: string, options?: OrderOptions) {
    const ordered = options && checkOrder(options, name)
    this.#kinds = ordered ? orderedKinds(ordered.maxWaiters) : UNORDERED
    this.name = name
    this.#key = key
    this.#context = context
  }

  /**
   * The shared side. @see Redisson `RReadWriteLock.readLock`
   * @example `await prices.readLock().withLock(async () => await readPrices())`
   */
  readLock(): Lock {
    return new Lock(this.#context, this.#kinds.read, this.name, this.#key)
  }

  /**
   * The exclusive side. @see Redisson `RReadWriteLock.writeLock`
   * @example `await prices.writeLock().withLock(async () => await writePrices())`
   */
  writeLock(): Lock {
    return new Lock(this.#context, this.#kinds.write, this.name, this.#key)
  }
}
