// Looks at who holds the lock of a sale, and who waits.
import type { Redis } from 'ioredis'
import { connect } from '../../connect.js'
import type { LockInfo } from '../../fleet/lock-info.js'
import { sleep } from '../../util/sleep.js'

/** How often it looks at most: the lock may be free for a moment, or its next holder be inside before the last one replies. */
const LOOKS = 25
const PAUSE_MS = 20
/** How long the selling processes have to reply, ms. */
const REPLY_MS = 200
const COMMAND_MS = 500

/**
 * Looks at a lock as an operator would: with a client that takes part in nothing. Never rejects, because the demo goes on
 * without it.
 * @param isOver  whether there is nothing to see any more
 * @returns undefined: nobody was seen to hold it
 */
export async function lookAt(redis: Redis, lockName: string, isOver: () => boolean): Promise<LockInfo | undefined> {
  let seen: LockInfo | undefined
  try {
    await using client = await connect({ client: redis, inspection: false, commandTimeoutMs: COMMAND_MS })
    for (let looks = 0; looks < LOOKS && !isOver() && !isComplete(seen); looks++) {
      if (looks > 0) await sleep(PAUSE_MS)
      const lock = await client.fleet.inspect(lockName, { timeoutMs: REPLY_MS })
      if (lock.holders.length > 0) seen = lock
    }
  } catch {
    // What was seen so far is enough.
  }
  return seen
}

/** Whether it says since when the lock is held, and who is waiting. */
function isComplete(lock: LockInfo | undefined): boolean {
  return lock !== undefined && lock.holders[0]?.heldMs !== undefined && lock.waiters.length > 0
}
