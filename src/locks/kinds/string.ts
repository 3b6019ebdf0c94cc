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
  override readonly tracesHolds = false
  override readonly adopt: LockKind['adopt'] = ({ key, holder, leaseTimeMs }, from) =>
    stringLockAdopt(key, leaseTimeMs, from, holder)

  override channel(key: string): string {
    return lockChannel(key)
  }

  pace(random: Random): () => number {
    return () => POLL_MS * (0.5 + random.fraction())
  }

  override acquire({ key, holder, leaseTimeMs }: AcquireRequest): ScriptCall {
    return stringLockAcquire(key, leaseTimeMs, holder)
  }

  override reenter(key: string, holder: string, leaseTimeMs: number): ScriptCall {
    return stringLockExtend(key, leaseTimeMs, holder)
  }

  override releaseOne(key: string, holder: string, leaseTimeMs: number): ScriptCall {
    return stringLockExtend(key, leaseTimeMs, holder)
  }

  override renew(key: string, holder: string, leaseTimeMs: number): ScriptCall {
    return stringLockRenew([key], [holder, leaseTimeMs])
  }

  override shorten(key: string, holder: string, leaseTimeMs: number): ScriptCall {
    return stringLockShorten(key, leaseTimeMs, holder)
  }

  override release(key: string, holder: string): ScriptCall {
    return stringLockRelease(key, holder, lockChannel(key), UNLOCK_MESSAGE)
  }

  override inspect(key: string): ScriptCall {
    return stringLockInspect(key)
  }
}

export const STRING: LockKind = new StringKind('string')
