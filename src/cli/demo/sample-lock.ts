// Samples the holder and the waiters of the lock of a sale.
import type { Redis } from 'ioredis'
import { connect } from '../../connect.js'
import type { LockInfo } from '../../fleet/lock-info.js'
import { sleep } from '../../util/sleep.js'

/** Maximum number of samples: one may find the lock free, or its next holder inside before the last one replies. */
const MAX_TRIES = 25
const PAUSE_MS = 20
/** How long the selling processes have to reply, ms. */
const REPLY_MS = 200
const COMMAND_MS = 500

/**
 * Inspects a lock as an operator would: with a client that takes part in nothing. Never rejects, because the demo can do
 * without it.
 * @param isOver  whether there is nothing to see any more
 * @returns undefined: nobody was seen to hold it
 */
export async function sampleLock(redis: Redis, lockName: string, isOver: () => boolean): Promise<LockInfo | undefined> {
  let seen: LockInfo | undefined
  try {
    await using client = await connect({ client: redis, inspection: false, commandTimeoutMs: COMMAND_MS })
    for (let tries = 0; tries < MAX_TRIES && !isOver() && !isComplete(seen); tries++) {
      if (tries > 0) await sleep(PAUSE_MS)
      const lock = await client.fleet.inspect(lockName, { timeoutMs: REPLY_MS })
      if (lock.holders.length > 0) seen = lock
    }
  } catch {
    // The locks seen so far are enough.
  }
  return seen
}

/** Whether it shows since when the lock is held, and who is waiting. */
function isComplete(lock: LockInfo | undefined): boolean {
  return lock !== undefined && lock.holders[0]?.heldMs !== undefined && lock.waiters.length > 0
}
