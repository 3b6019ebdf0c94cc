import type { ScriptCall } from '../lua/run.js'
import type { Renewal } from '../watchdog.js'

/** What differs between kinds of locks: their scripts and their channel. Everything else is shared. */
export interface LockKind {
  /** Where a release is announced. */
  channel(lockName: string): string
  /** Reply: null, taken; else what is left of the present lease, ms. */
  acquire(lockName: string, holder: string, leaseTimeMs: number): ScriptCall
  /** Reply: 1, the hold count is now `count`; 0, not held. */
  reenter(lockName: string, holder: string, leaseTimeMs: number, count: number): ScriptCall
  /** Reply: 1, the hold count is now `count`; 0, not held. */
  stepDown(lockName: string, holder: string, leaseTimeMs: number, count: number): ScriptCall
  /** Reply: null, not held; else released, and how many heard it (-1: publishing was refused). */
  release(lockName: string, holder: string): ScriptCall
  readonly renewal: Renewal
}
