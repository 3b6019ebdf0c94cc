import { fairChannelPrefix, fairDeadlines, fairQueue, UNLOCK_MESSAGE } from '../keys.js'
import { fairLockAcquire, fairLockForceRelease, fairLockLeave, fairLockRelease } from '../lua/generated.js'
import type { ScriptCall } from '../lua/run.js'
import type { Asked, LockKind, Nesting } from './kind.js'
import { PlainKind } from './plain-kind.js'

/** What a waiter without a wait time adds to the deadlines of the queue, ms. Redisson's `fairLockWaitTimeout`. */
const FAIR_WAIT_MS = 300_000

/**
 * First come, first served, across clients and languages: Redisson's `RedissonFairLock`. The hash is the plain lock's;
 * those who wait stand in a list, and each listens on a channel of its own.
 */
class FairKind extends PlainKind {
  override readonly title: string = 'fair lock'
  override readonly isQueuedInRedis = true

  override channel(lockName: string, holder: string): string {
    return fairChannelPrefix(lockName) + holder
  }

  override acquire({ lockName, holder, leaseTimeMs, waitTimeMs }: Asked): ScriptCall {
    const keys = [lockName, fairQueue(lockName), fairDeadlines(lockName)] as const
    const isQueueing = waitTimeMs === 0 ? 0 : 1
    const prefix = fairChannelPrefix(lockName)
    return fairLockAcquire(...keys, leaseTimeMs, holder, waitMs(waitTimeMs), isQueueing, prefix, UNLOCK_MESSAGE)
  }

  leave(lockName: string, holder: string, waitTimeMs: number | undefined): ScriptCall {
    const keys = [lockName, fairQueue(lockName), fairDeadlines(lockName)] as const
    return fairLockLeave(...keys, holder, waitMs(waitTimeMs), fairChannelPrefix(lockName), UNLOCK_MESSAGE)
  }

  override release(lockName: string, holder: string): ScriptCall {
    const keys = [lockName, fairQueue(lockName), fairDeadlines(lockName)] as const
    return fairLockRelease(...keys, holder, fairChannelPrefix(lockName), UNLOCK_MESSAGE)
  }

  override forceRelease(lockName: string): ScriptCall {
    return fairLockForceRelease(lockName, fairQueue(lockName), fairChannelPrefix(lockName), UNLOCK_MESSAGE)
  }
}

function waitMs(waitTimeMs: number | undefined): number {
  return waitTimeMs || FAIR_WAIT_MS
}

export const FAIR: LockKind = new FairKind()

class NonReentrantFairKind extends FairKind {
  override readonly title = 'non-reentrant fair lock'

  override nestingIn(): Nesting {
    return 'deadlock'
  }
}

/** Redisson's `RedissonNonReentrantFairLock`. */
export const NON_REENTRANT_FAIR: LockKind = new NonReentrantFairKind()
