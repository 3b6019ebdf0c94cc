// First come, first served, by a queue in Redis; giving up a place.
import { fairLockAcquire, fairLockLeave, fairLockRelease } from '../../lua/generated.js'
import type { ScriptCall } from '../../lua/script.js'
import { fairChannelPrefix, fairDeadlines, fairQueue, UNLOCK_MESSAGE } from '../../wire/keys.js'
import type { Named } from '../../wire/names.js'
import { type AcquireReply, type AcquireRequest, refuseFull } from './lock-kind.js'
import { PlainKind } from './plain.js'

/**
 * First come, first served, across clients and languages: Redisson's `RedissonFairLock`. The hash is the plain lock's;
 * waiters are queued in a list, and each has a channel of its own. The other id is Redisson's `RedissonNonReentrantFairLock`.
 */
export class FairKind extends PlainKind {
  readonly #of: 'fair' | 'nonReentrantFair'
  readonly #waitMs: number
  readonly #maxWaiters: number

  /**
   * @param waitMs  the wait time in Redis of a waiter that has none of its own. Redisson's `fairLockWaitTimeout`
   * @param maxWaiters  a call that finds as many waiting is refused at once; -1: any number
   */
  constructor(id: 'fair' | 'nonReentrantFair', waitMs: number, maxWaiters = -1) {
    super(id)
    this.#of = id
    this.#waitMs = waitMs
    this.#maxWaiters = maxWaiters
  }

  /** The same with a limit. @param maxWaiters  undefined: none */
  withMaxWaiters(maxWaiters: number | undefined): FairKind {
    return maxWaiters === undefined ? this : new FairKind(this.#of, this.#waitMs, maxWaiters)
  }

  override channel(key: string, holder: string): string {
    return fairChannelPrefix(key) + holder
  }

  override acquire({ key, holder, leaseTimeMs, waitTimeMs }: AcquireRequest): ScriptCall {
    const keys = [key, fairQueue(key), fairDeadlines(key)] as const
    const isQueueing = waitTimeMs === 0 ? 0 : 1
    const prefix = fairChannelPrefix(key)
    const args = [leaseTimeMs, holder, waitTimeMs || this.#waitMs, isQueueing, prefix, UNLOCK_MESSAGE] as const
    return fairLockAcquire(...keys, ...args, this.#maxWaiters)
  }

  override parseReply(reply: unknown, lock: Named): AcquireReply {
    refuseFull(reply, lock.name)
    return super.parseReply(reply, lock)
  }

  leave(key: string, holder: string, waitTimeMs: number | undefined): ScriptCall {
    const keys = [key, fairQueue(key), fairDeadlines(key)] as const
    return fairLockLeave(...keys, holder, waitTimeMs || this.#waitMs, fairChannelPrefix(key), UNLOCK_MESSAGE)
  }

  override release(key: string, holder: string): ScriptCall {
    const keys = [key, fairQueue(key), fairDeadlines(key)] as const
    return fairLockRelease(...keys, holder, fairChannelPrefix(key), UNLOCK_MESSAGE)
  }
}
