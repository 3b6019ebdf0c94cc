// The known state of a lock, its holders and waiters.
import type { ClientInfo, HolderInfo, HolderStatus } from '../holder-info.js'
import { counted, grouped } from '../util/counted.js'
import { isWriter } from '../wire/keys.js'
import type { Doubt } from './doubts.js'

export type { ClientInfo, HolderInfo, HolderStatus }

/** A client that can be asked. */
export interface ClientState extends ClientInfo {
  readonly status: HolderStatus
  /** How many holds it has lost in the last hour, up to 1,000. Undefined: it did not reply. */
  readonly lossesLastHour?: number
}

/** A lock that a waiting call chain holds. */
export interface ChainLink {
  readonly lock: string
  readonly holder: string
}

export interface WaiterInfo {
  readonly client?: ClientInfo
  /** Identifies the wait within its client: the same in two replies means the same wait. Undefined: it did not reply. */
  readonly wait?: number
  /** The holder that it will be, if that is known already. */
  readonly holder?: string
  /** How many permits in order it wants. */
  readonly permits?: number
  /** Its place in the queue in Redis, from 1. Undefined: no queue, or not in it. */
  readonly position?: number
  /** In the queue of an ordered lock. Undefined: 0, or there is none. */
  readonly priority?: number
  readonly label?: string
  /** ms */
  readonly waitedMs?: number
  /** When its `waitTimeMs` ends, ms from now. Undefined: never, or not known. */
  readonly givesUpInMs?: number
  /** The holds of its call chain while it waits. */
  readonly chain: readonly ChainLink[]
  readonly status: HolderStatus
}

/** A lock as `client.fleet.inspect()` and `client.fleet.locks()` find it. */
export interface LockInfo {
  readonly name: string
  /** Such as `lock`, `fair lock`, `read-write lock`, `semaphore`; `unknown` if nothing in Redis tells what it is. */
  readonly kind: string
  /** How many permits of a semaphore are free. A plain semaphore does not record who has the others. */
  readonly freePermits?: number
  /** How often a latch has to be counted down until it opens. */
  readonly count?: number
  /** Remaining lease, ms; 0: free; Infinity: a key without expiry. */
  readonly remainingLeaseMs: number
  /** The first one has held it for longest, as far as that is known. */
  readonly holders: readonly HolderInfo[]
  /** In the order of their turns, as far as there is one. */
  readonly waiters: readonly WaiterInfo[]
  /** Processes that listen for the release and are none of the clients that replied: Redisson, or an older Holdfast. */
  readonly otherListeners: number
  /** What is hidden, unknown or left out. In a list, only what concerns this lock. Empty: nothing. */
  readonly doubts: readonly Doubt[]
}

/** Locks that are read while the caller iterates. */
export interface LockList extends AsyncIterable<LockInfo> {
  /** What the list does not say: of all clients, and of keys that are not in it. Complete once the iteration has ended. */
  readonly doubts: readonly Doubt[]
}

/**
 * Whether it is held forever unless somebody releases it: nobody renews it, as it never expires. Permits without an end are as
 * Redisson's `acquire()` takes them.
 */
export function isEndless({ kind, holders, remainingLeaseMs }: LockInfo): boolean {
  return holders.length > 0 && remainingLeaseMs === Number.POSITIVE_INFINITY && !kind.includes('semaphore')
}

/** `2 of 5 permits free`, `no permit free`, `3 to count down`; undefined: it is no semaphore and no latch. */
export function countersOf(
  lock: Pick<LockInfo, 'freePermits' | 'count' | 'holders' | 'kind' | 'doubts'>,
): string | undefined {
  const { freePermits, count } = lock
  if (count !== undefined) return `${grouped(count)} to count down`
  if (freePermits === undefined) return undefined
  const taken = takenPermits(lock)
  if (taken !== undefined) return `${grouped(freePermits)} of ${counted(freePermits + taken, 'permit')} free`
  return freePermits === 0 ? 'no permit free' : `${counted(freePermits, 'permit')} free`
}

/** Undefined: Redis does not record them, or there are too many. */
export function takenPermits({
  kind,
  holders,
  doubts,
}: Pick<LockInfo, 'holders' | 'kind' | 'doubts'>): number | undefined {
  const isRecorded = kind === 'permit expirable semaphore' && !doubts.some(({ about }) => about === 'left-out')
  return isRecorded ? holders.length : undefined
}

/** Whether some may wait that are neither among the waiters nor among the listeners. */
export function mayHaveMoreWaiters({ doubts }: Pick<LockInfo, 'doubts'>): boolean {
  return doubts.some(({ about }) => about !== 'unknown-kind' && about !== 'overheard-clients')
}

/** Whether a waiter in the queue of a read-write lock is to write. */
export function isToWrite({ holder }: Pick<WaiterInfo, 'holder'>): boolean {
  return holder !== undefined && isWriter(holder)
}

/** How many wait, at least: each process that listens without describing itself does so once or more. */
export function countWaiters({ waiters, otherListeners }: Pick<LockInfo, 'waiters' | 'otherListeners'>): number {
  return waiters.length + otherListeners
}
