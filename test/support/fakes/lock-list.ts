import type { Doubt } from '../../../src/fleet/doubts.js'
import type { LockInfo, LockList } from '../../../src/fleet/lock-info.js'

/** A list as of `client.fleet.locks()`. */
export function lockList(locks: AsyncIterable<LockInfo>, doubts: readonly Doubt[] = []): LockList {
  return { [Symbol.asyncIterator]: () => locks[Symbol.asyncIterator](), doubts }
}
