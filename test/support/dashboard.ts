/** A fleet that says what a test tells it, and a dashboard on it. */

import type { FleetSource } from '../../src/dashboard/sampler.js'
import type { Doubt } from '../../src/fleet/doubts.js'
import type { JobInfo } from '../../src/fleet/job-info.js'
import type { ClientState, HolderInfo, LockInfo, LockList, WaiterInfo } from '../../src/fleet/lock-info.js'
import type { AuditEntry } from '../../src/locks/breaking/audit.js'
import { lockList } from './fakes/lock-list.js'

type UnlockOptions = Parameters<FleetSource['forceUnlock']>[1]

const ORDERS = { id: 'c0ffee', name: 'orders', host: 'orders-1', pid: 1, version: '1.0.0' }

export function heldLock(name: string, changes: Partial<LockInfo> = {}): LockInfo {
  return {
    name,
    kind: 'lock',
    remainingLeaseMs: 30_000,
    holders: [holder()],
    waiters: [],
    otherListeners: 0,
    doubts: [],
    ...changes,
  }
}

export function holder(changes: Partial<HolderInfo> = {}): HolderInfo {
  return { holder: 'c0ffee:1', holdCount: 1, status: 'responding', client: ORDERS, heldMs: 1_000, ...changes }
}

export function waiter(changes: Partial<WaiterInfo> = {}): WaiterInfo {
  return { status: 'responding', client: { ...ORDERS, id: 'beef' }, wait: 1, waitedMs: 500, chain: [], ...changes }
}

export class FakeFleet implements FleetSource {
  present: LockInfo[] = []
  presentClients: ClientState[] = [{ ...ORDERS, status: 'responding', lossesLastHour: 0 }]
  entries: AuditEntry[] = []
  /** What a list does not say. */
  doubts: readonly Doubt[] = []
  /** Thrown by every call. */
  failure: Error | undefined
  /** How often all locks were read, how often the contended ones, and single ones. */
  readonly reads = { all: 0, contended: 0, single: 0 }
  readonly unlocks: (UnlockOptions & { name: string })[] = []
  outcome: Awaited<ReturnType<FleetSource['forceUnlock']>> = { outcome: 'released' }
  /** Called before the locks are read. */
  beforeRead: () => void | Promise<void> = () => {}

  locks(options: { contended?: boolean; limit?: number } = {}): LockList {
    return lockList(this.#locks(options), this.doubts)
  }

  async *#locks({ contended = false, limit = Number.POSITIVE_INFINITY }) {
    this.reads[contended ? 'contended' : 'all']++
    await this.beforeRead()
    if (this.failure) throw this.failure
    const isWanted = (lock: LockInfo): boolean => !contended || lock.waiters.length + lock.otherListeners > 0
    yield* this.present.filter(isWanted).slice(0, limit)
  }

  /** Of the Redis user. */
  mayBreak: boolean | undefined = true

  async mayForceUnlock(): Promise<boolean | undefined> {
    return this.mayBreak
  }

  async inspect(name: string): Promise<LockInfo> {
    this.reads.single++
    if (this.failure) throw this.failure
    const free = heldLock(name, { holders: [], remainingLeaseMs: 0 })
    return this.present.find((lock) => lock.name === name) ?? free
  }

  async clients(): Promise<readonly ClientState[]> {
    return this.presentClients
  }

  presentJobs: JobInfo[] = []

  async jobs(): Promise<readonly JobInfo[]> {
    return this.presentJobs
  }

  async audit(): Promise<AuditEntry[]> {
    return this.entries
  }

  async forceUnlock(name: string, options: UnlockOptions) {
    this.unlocks.push({ name, ...options })
    return this.outcome
  }
}
