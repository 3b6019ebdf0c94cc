// The locks of the deployment under test, as many as are found in a moment.
import type { Client } from '../client.js'
import type { Doubt } from '../fleet/doubts.js'
import type { LockInfo } from '../fleet/lock-info.js'

/** For so long locks are read, ms: a big Redis has more than anyone wants to wait for. */
export const SAMPLE_MS = 700

/** The locks of a deployment. */
export interface LockSample {
  readonly locks: readonly LockInfo[]
  /** There was not enough time to find all of them. */
  readonly isCut: boolean
  /** What it does not say. */
  readonly doubts: readonly Doubt[]
}

/** @throws the error reply, such as NOPERM */
export async function sampleLocks({ fleet }: Client): Promise<LockSample> {
  const signal = AbortSignal.timeout(SAMPLE_MS)
  const locks: LockInfo[] = []
  const found = fleet.locks({ signal })
  try {
    for await (const lock of found) locks.push(lock)
    return { locks, isCut: false, doubts: found.doubts }
  } catch (error) {
    if (!signal.aborted) throw error
    return { locks, isCut: true, doubts: found.doubts }
  }
}
