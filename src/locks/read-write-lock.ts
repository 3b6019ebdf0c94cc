// Many readers or one writer.
import { ConfigError } from '../errors.js'
import { checkOneOf, ownOptions } from '../util/validate.js'
import type { LockKind } from './kinds/lock-kind.js'
import { orderedKinds } from './kinds/ordered.js'
import { READ, WRITE } from './kinds/read-write.js'
import type { LeaseContext } from './lease.js'
import { Lock } from './lock.js'
import { checkMaxWaiters, type QueueOptions } from './options.js'

export interface ReadWriteLockOptions extends QueueOptions {
  /**
   * `'fifo'`: requests are granted in order, across clients: a reader that comes later waits behind a writer that waits, and
   * consecutive readers enter together. Redisson, and locks without this option, exclude and are excluded, but overtake.
   * Default: readers join readers, whoever waits.
   */
  order?: 'fifo' | undefined
}

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
  constructor(context: LeaseContext, name: string, key: string, options: ReadWriteLockOptions = {}) {
    const { order, maxWaiters } = ownOptions(options, { order: 1, maxWaiters: 1 }, name)
    checkOneOf('order', order, ['fifo'], name)
    const most = checkMaxWaiters(maxWaiters, name)
    if (most !== undefined && order === undefined) {
      throw new ConfigError('maxWaiters', most, "a read-write lock with `order: 'fifo'`", { lockName: name })
    }
    this.#kinds = order === undefined ? UNORDERED : orderedKinds(most)
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
