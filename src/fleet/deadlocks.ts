/**
 * Deadlocks among call chains of any processes. The nodes are holds: a hold leads to those that must end before it can end
 * itself, because its call chain waits for them. Not owners: two tasks of one scope share an owner, but one can continue
 * while the other waits.
 */
import { cyclesIn } from '../util/cycles.js'
import { isMarked } from '../wire/client-id.js'
import { clientIdOf } from '../wire/holder.js'
import type { Doubt } from './doubts.js'
import type { HolderInfo, HolderStatus, LockInfo, WaiterInfo } from './lock-info.js'

/** Holds that wait for each other. */
export interface Cycle {
  /** `locks[i]` is held by `owners[i]`, whose call chain waits for the next lock; the last one waits for the first lock. */
  readonly locks: readonly string[]
  readonly owners: readonly HolderInfo[]
  /** When the first of the waits gives up, ms from now, which ends the deadlock; null: never. */
  readonly endsInMs: number | null
}

export interface Deadlocks {
  /** Each of them is certain. */
  readonly cycles: readonly Cycle[]
  /**
   * Possible ones: a client waits outside of any call chain, and which of its holds the wait keeps from ending is not known;
   * or a Java process waits for a plain lock, and the keys do not say which one it is.
   */
  readonly suspected: readonly Cycle[]
  /** What this search could not see: there may be deadlocks in that. */
  readonly doubts: readonly Doubt[]
}

interface Hold {
  readonly lock: string
  readonly holder: HolderInfo
  /** The client and the owner, without the `:write` of a write lock. */
  readonly owner: string
}

/** To each hold that must end first, and when the wait for it gives up, ms. */
type Waits = Map<Hold, Map<Hold, number>>

/** @param locks  of one moment: what is found may be gone already, see `confirm` */
export function deadlocksIn(locks: readonly LockInfo[]): Cycle[] {
  return cyclesOf(knownWaits(locks.filter(isExclusive)))
}

/** The possible ones, apart from those in `deadlocksIn`. */
export function suspectedIn(locks: readonly LockInfo[]): Cycle[] {
  const exclusive = locks.filter(isExclusive)
  const waits = knownWaits(exclusive)
  for (const certain of cyclesIn(waits).flat()) waits.delete(certain)
  const holds = [...waits.keys()]
  for (const lock of exclusive) {
    const targets = holds.filter((hold) => hold.lock === lock.name)
    for (const waiter of lock.waiters.filter(hasNoChain)) {
      const sources = holds.filter((hold) => clientIdOf(hold.owner) === waiter.client?.id && isOlder(hold, waiter))
      // Tasks of one process that contend for a lock are no reason for suspicion.
      const others = targets.filter((hold) => clientIdOf(hold.owner) !== waiter.client?.id)
      connect(waits, sources, others, waiter.givesUpInMs)
    }
    if (lock.otherListeners === 0) continue
    // If no wait of a cycle had to be known, any two contended Java locks would be suspected.
    const sources = holds.filter((hold) => isOfJava(hold.owner, hold.holder.status) && hold.lock !== lock.name)
    const others = targets.filter((hold) => !isOfJava(hold.owner, hold.holder.status))
    connect(waits, sources, others, undefined)
  }
  return cyclesOf(waits)
}

/**
 * Only what is in both of two snapshots: a hold and a wait that are in both have lasted from the first to the second, so
 * there was a moment when all of them existed, however uneven each snapshot is.
 */
export function confirm(
  first: readonly LockInfo[],
  second: readonly LockInfo[],
  doubts: readonly Doubt[] = [],
): Deadlocks {
  const before = new Map(first.map((lock) => [lock.name, lock]))
  const lasting = second.flatMap((lock) => {
    const earlier = before.get(lock.name)
    return earlier ? [inBoth(earlier, lock)] : []
  })
  return { cycles: deadlocksIn(lasting), suspected: suspectedIn(lasting), doubts }
}

function inBoth(earlier: LockInfo, lock: LockInfo): LockInfo {
  return {
    ...lock,
    holders: lock.holders.filter((holder) => earlier.holders.some((one) => isSameHold(one, holder))),
    waiters: lock.waiters.filter((waiter) => earlier.waiters.some((one) => isSameWait(one, waiter))),
    otherListeners: Math.min(earlier.otherListeners, lock.otherListeners),
  }
}

/** An owner may have released the lock and taken it again. */
function isSameHold(earlier: HolderInfo, later: HolderInfo): boolean {
  return earlier.holder === later.holder && (later.heldMs ?? Number.POSITIVE_INFINITY) >= (earlier.heldMs ?? 0)
}

function isSameWait(earlier: WaiterInfo, later: WaiterInfo): boolean {
  if (later.wait === undefined) return later.holder !== undefined && later.holder === earlier.holder
  return later.wait === earlier.wait && later.client?.id === earlier.client?.id
}

/** A semaphore can be served by any of its holders. */
function isExclusive({ kind }: LockInfo): boolean {
  return !/semaphore|latch/.test(kind)
}

function knownWaits(locks: readonly LockInfo[]): Waits {
  const waits: Waits = new Map()
  const byLink = new Map<string, Hold[]>()
  const byOwner = new Map<string, Hold[]>()
  const byLock = new Map<string, Hold[]>()
  for (const { name, holders } of locks) {
    for (const holder of holders) {
      const hold = { lock: name, holder, owner: ownerOf(holder.holder) }
      waits.set(hold, new Map())
      append(byLink, linkKey(hold), hold)
      append(byOwner, hold.owner, hold)
      append(byLock, name, hold)
    }
  }
  for (const { name, waiters } of locks) {
    for (const waiter of waiters) {
      const { holder = '', status, chain, givesUpInMs } = waiter
      // The recorded waits of a client that does not reply may be over. A Java thread holds what its name holds.
      if (status !== 'responding' && !isOfJava(holder, status)) continue
      const sources =
        status === 'responding'
          ? chain.flatMap(({ lock, holder }) => byLink.get(linkKey({ lock, owner: ownerOf(holder) })) ?? [])
          : byOwner.get(ownerOf(holder))
      connect(waits, sources ?? [], byLock.get(name) ?? [], givesUpInMs)
    }
  }
  return waits
}

/** Each of `sources` waits for each of `targets`. */
function connect(
  waits: Waits,
  sources: readonly Hold[],
  targets: readonly Hold[],
  givesUpInMs = Number.POSITIVE_INFINITY,
): void {
  for (const source of sources) {
    const successors = waits.get(source)
    // A call chain may wait in parallel: it continues when the last one gives up.
    for (const target of targets) successors?.set(target, Math.max(successors.get(target) ?? 0, givesUpInMs))
  }
}

function cyclesOf(waits: Waits): Cycle[] {
  return cyclesIn(waits).map((cycle) => {
    const holds = fromFirstName(cycle)
    const ends = holds.map((hold, index) => waits.get(hold)?.get(holds[(index + 1) % holds.length] as Hold) ?? 0)
    const endsInMs = Math.min(...ends)
    return {
      locks: holds.map(({ lock }) => lock),
      owners: holds.map(({ holder }) => holder),
      endsInMs: Number.isFinite(endsInMs) ? endsInMs : null,
    }
  })
}

/** The same cycle, begun where its names begin: it is the same each time it is found. */
function fromFirstName(cycle: readonly Hold[]): Hold[] {
  const keys = cycle.map(({ lock, owner }) => `${lock} ${owner}`)
  const start = keys.indexOf([...keys].sort()[0] ?? '')
  return [...cycle.slice(start), ...cycle.slice(0, start)]
}

function append(lists: Map<string, Hold[]>, key: string, hold: Hold): void {
  const list = lists.get(key)
  if (list) list.push(hold)
  else lists.set(key, [hold])
}

function linkKey({ lock, owner }: { lock: string; owner: string }): string {
  return `${owner} ${lock}`
}

function ownerOf(holder: string): string {
  return holder.replace(/:write$/, '')
}

/** An older Holdfast is unlisted too, but several of its tasks may share an owner. */
function isOfJava(holder: string, status: HolderStatus): boolean {
  return status === 'unlisted' && holder.includes(':') && !isMarked(clientIdOf(ownerOf(holder)))
}

function hasNoChain({ status, chain }: WaiterInfo): boolean {
  return status === 'responding' && chain.length === 0
}

/** A wait cannot block a hold that was taken after it began. */
function isOlder({ holder }: Hold, { waitedMs = 0 }: WaiterInfo): boolean {
  return (holder.heldMs ?? 0) >= waitedMs
}
