// The lock that has certain keys, to break it.
import { ConfigError } from '../errors.js'
import { FairKind } from '../locks/kinds/fair.js'
import { FencedKind } from '../locks/kinds/fenced.js'
import { orderedKind } from '../locks/kinds/ordered.js'
import { REENTRANT } from '../locks/kinds/plain.js'
import { STRING } from '../locks/kinds/string.js'
import type { LeaseContext } from '../locks/lease.js'
import { Lock } from '../locks/lock.js'
import { ReadWriteLock } from '../locks/read-write-lock.js'
import { isWriter } from '../wire/keys.js'
import { KIND, type LockKeys } from './lock-keys.js'

/**
 * The lock that has these keys, to release what one holder has of it. If others wait for it in order, the first of them gets it.
 * @param name  what the program calls it
 * @throws {ConfigError} it is no lock with one name
 */
export function lockOf(context: LeaseContext, name: string, keys: LockKeys, holder: string): Lock {
  const { key, kind, exists, priorities } = keys
  const isOrdered = priorities.size > 0
  // Nobody holds it, whatever it was.
  if (!exists) return new Lock(context, REENTRANT, name, key)
  switch (kind) {
    case KIND.lock:
      return new Lock(context, isOrdered ? orderedKind() : REENTRANT, name, key)
    case KIND.fair:
      // How long a waiter waits is of no importance for a release.
      return new Lock(context, new FairKind('fair', 0), name, key)
    case KIND.fenced:
      return new Lock(context, new FencedKind(), name, key)
    case KIND.string:
      return new Lock(context, STRING, name, key)
    case KIND.readWrite: {
      const both = new ReadWriteLock(context, name, key, isOrdered ? { order: 'fifo' } : undefined)
      return isWriter(holder) ? both.writeLock() : both.readLock()
    }
    default:
      throw new ConfigError('forceUnlock', kind, 'a lock on one name, not a semaphore or a lock on values', {
        lockName: name,
      })
  }
}
