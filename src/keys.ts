/**
 * Every Redis key, channel and message shared with Redisson (its `RedissonObject.prefixName`).
 *
 * A name that contains `{` anywhere is used as it is, any other is put in braces, so that key and channel of one lock
 * share a cluster slot. The rule looks at nothing else: not at `}`, not at order, not at emptiness.
 */
function tagged(name: string): string {
  return name.includes('{') ? name : `{${name}}`
}

/** Where waiters for a plain lock listen. */
export function lockChannel(lockName: string): string {
  return `redisson_lock__channel:${tagged(lockName)}`
}

/** Lock channel message: "it was released, try again" (`LockPubSub.UNLOCK_MESSAGE`). */
export const UNLOCK_MESSAGE = '0'
