// The lock of SET NX PX, as other libraries have it.
import {
  stringLockAcquire,
  stringLockAdopt,
  stringLockExtend,
  stringLockInspect,
  stringLockRelease,
  stringLockRenew,
  stringLockShorten,
} from '../../lua/generated.js'
import type { ScriptCall } from '../../lua/script.js'
import type { Random } from '../../util/random.js'
import { lockChannel, UNLOCK_MESSAGE } from '../../wire/keys.js'
import type { AcquireRequest, LockKind } from './lock-kind.js'
import { PlainKind } from './plain.js'

/** Other libraries with this convention poll and publish nothing: node-redlock every 200 ms, redis-py every 100 ms. */
const POLL_MS = 100

/**
 * The lock of `SET key value NX PX` and compare-and-delete, as in node-redlock, redis-py, redsync and many others: a string
 * at the lock's name. It has no hold count in Redis, so re-entries are counted here.
 */
class StringKind extends PlainKind {
  override readonly id = 'string'
  override readonly tracesHolds = false
  override readonly adopt: LockKind['adopt'] = ({ lockName, holder, leaseTimeMs }, from) =>
    stringLockAdopt(lockName, leaseTimeMs, from, holder)

  override channel(lockName: string): string {
    return lockChannel(lockName)
  }

  pace(random: Random): () => number {
    return () => POLL_MS * (0.5 + random.fraction())
  }

  override acquire({ lockName, holder, leaseTimeMs }: AcquireRequest): ScriptCall {
    return stringLockAcquire(lockName, leaseTimeMs, holder)
  }

  override reenter(lockName: string, holder: string, leaseTimeMs: number): ScriptCall {
    return stringLockExtend(lockName, leaseTimeMs, holder)
  }

  override releaseOne(lockName: string, holder: string, leaseTimeMs: number): ScriptCall {
    return stringLockExtend(lockName, leaseTimeMs, holder)
  }

  override renew(lockName: string, holder: string, leaseTimeMs: number): ScriptCall {
    return stringLockRenew([lockName], [holder, leaseTimeMs])
  }

  override shorten(lockName: string, holder: string, leaseTimeMs: number): ScriptCall {
    return stringLockShorten(lockName, leaseTimeMs, holder)
  }

  override release(lockName: string, holder: string): ScriptCall {
    return stringLockRelease(lockName, holder, lockChannel(lockName), UNLOCK_MESSAGE)
  }

  override inspect(lockName: string): ScriptCall {
    return stringLockInspect(lockName)
  }
}

export const STRING: LockKind = new StringKind()
