// Several locks as one.
import { Buffer } from 'node:buffer'
import { isRetryable } from '../delivery/replies.js'
import { LeaseLostError, OutcomeUnknownError } from '../errors.js'
import type { WaitDetails } from '../holder-info.js'
import { type Outcome, waitFor } from '../waiting/wait-loop.js'
import { canBeTakenTogether, releaseAll, takeTogether, whereTheyAre } from './all-or-none.js'
import type { Hold } from './hold.js'
import { JointLease } from './joint-lease.js'
import { firstHeld, JointLock } from './joint-lock.js'
import type { Lease } from './lease.js'
import type { Lock } from './lock.js'
import type { Request } from './options.js'
import { LongWait } from './reporting/long-wait.js'

/** Maximum time to keep the locks taken so far while waiting for another, ms. Doubles each time. */
const KEEP_MS = 100
/** The limit of that where locks have no order that all clients share: two that wait for each other do so for this long. */
const MAX_KEEP_MS = 1_000
/** How many leases in a row may run out while the rest is being taken. */
const MAX_EXPIRIES = 3

/**
 * Several locks as one: all or none. They may be of any kind, and of different clients on different servers.
 *
 * Plain locks of one server, or of one slot of a cluster, are taken in one command. If one of them is held, the caller waits
 * for that one in its queue. It keeps the locks it already has for a moment only, then releases them without leaving the
 * queue: it neither loses its place nor keeps locks that it cannot use. When its turn comes it takes the rest, with more
 * patience each time, so that it eventually gets them all however busy they are.
 * @see Redisson `RedissonMultiLock`: same locks
 */
export class MultiLock extends JointLock {
  readonly #inOrder: readonly Lock[]

  /** @internal Locks come from `getMultiLock`. */
  constructor(locks: readonly Lock[]) {
    super('getMultiLock', 'multi-lock', locks)
    this.#inOrder = this.locks.toSorted(byKeyAndQueue)
  }

  /** @internal */
  async acquire(request: Request): Promise<Hold | undefined> {
    this.checkRequest(request)
    const attempt = new MultiAcquisition(this, this.#inOrder, request)
    const longWait = new LongWait(
      this.context,
      this.name,
      request.terms,
      (waitedMs) => attempt.whoHolds(waitedMs),
      request.observed,
    )
    if (request.waitTimeMs !== 0) longWait.refused()
    try {
      return await attempt.run()
    } finally {
      longWait.end()
    }
  }
}

/** One call that takes a multi-lock. */
class MultiAcquisition {
  readonly #multi: MultiLock
  readonly #locks: readonly Lock[]
  readonly #terms: Request['terms']
  /** The request for each lock. Reports of the hold and its longest duration are those of the joint hold. */
  readonly #request: Request
  readonly #deadlineAt: number
  #taken = new Map<Lock, Hold>()
  /** Whether the leases of the locks taken so far began with one command; undefined before the first one. */
  #isEven: boolean | undefined
  /** The lock to wait for first. */
  #next: Lock | undefined
  #keepMs = KEEP_MS
  readonly #maxKeepMs: number
  /** How many leases in a row ran out while the rest was being taken. */
  #expiries = 0
  #stopKeeping: (() => void) | undefined

  constructor(multi: MultiLock, locks: readonly Lock[], request: Request) {
    const { terms, waitTimeMs } = request
    this.#multi = multi
    this.#locks = locks
    this.#terms = terms
    this.#request = { ...request, isMember: true, terms: { ...terms, maxHoldMs: undefined, warnAfterMs: undefined } }
    const isOrdered = locks.slice(1).every((lock, index) => {
      const before = locks[index] as Lock
      return before.key !== lock.key || before.context === lock.context
    })
    this.#maxKeepMs = isOrdered ? Number.POSITIVE_INFINITY : MAX_KEEP_MS
    this.#deadlineAt = multi.context.clock.now() + (waitTimeMs ?? Number.POSITIVE_INFINITY)
  }

  /** The holder of the first lock that is still to be taken. */
  async whoHolds(waitedMs: number): Promise<WaitDetails> {
    return await firstHeld(
      this.#locks.filter((lock) => !this.#taken.has(lock)),
      waitedMs,
    )
  }

  /** @returns undefined if the wait time ended first */
  async run(): Promise<Hold | undefined> {
    const { signal } = this.#request
    try {
      for (;;) {
        signal?.throwIfAborted()
        const rest = this.#rest()
        if (rest.length > 0) {
          if (await this.#takeMore(rest)) continue
          await this.#releaseTaken()
          return undefined
        }
        if (this.#isEven || this.#terms.leaseTimeMs === undefined) return this.#join()
        await this.#lease(this.#terms.leaseTimeMs)
      }
    } catch (error) {
      const releasing = this.#releaseTaken()
      if (!signal?.aborted) await releasing
      throw error
    } finally {
      this.#stopKeeping?.()
    }
  }

  #join(): Hold {
    const members = this.#locks.map((lock) => this.#taken.get(lock) as Hold)
    return new JointLease(this.#multi, members, this.#terms).hold
  }

  /** The locks that are still to be taken, or were lost meanwhile. */
  #rest(): readonly Lock[] {
    for (const [lock, hold] of this.#taken) {
      if (hold.isLive) continue
      this.#taken.delete(lock)
      void releaseAll([hold]) // Redis may still have it
      if (hold.lostError) this.#retryOrThrow(hold.lostError)
    }
    return this.#locks.filter((lock) => !this.#taken.has(lock))
  }

  /** @returns false: the wait time has ended */
  async #takeMore(rest: readonly Lock[]): Promise<boolean> {
    const { waitTimeMs } = this.#request
    const isOnce = waitTimeMs === 0
    const { clock } = this.#multi.context
    let next = this.#next ?? (isOnce ? undefined : rest.find(isWaitedFor))
    this.#next = undefined
    try {
      if (!next) {
        await whereTheyAre(rest)
        const outcome = canBeTakenTogether(rest) ? await takeTogether(rest, this.#request, this.#deadlineAt) : undefined
        if (Array.isArray(outcome)) return this.#add(rest, outcome)
        if (outcome && (isOnce || clock.now() >= this.#deadlineAt)) return false
        next = outcome as Lock | undefined
      }
      next ??= rest[0] as Lock
      const forMs = isOnce ? 0 : Math.max(1, Math.ceil(this.#deadlineAt - clock.now()))
      return await this.#waitFor(next, waitTimeMs === undefined ? undefined : forMs)
    } catch (error) {
      this.#retryOrThrow(error)
      this.#request.signal?.throwIfAborted()
      // A re-entry whose hold turned out to be lost: now it is waited for, before the others.
      this.#next = next
      return clock.now() < this.#deadlineAt
    }
  }

  /** Waits for one lock in its queue; the other locks of the caller are released once it has kept them for long enough. */
  async #waitFor(lock: Lock, waitTimeMs: number | undefined): Promise<boolean> {
    const { clock, random } = this.#multi.context
    let released: Promise<void> | undefined
    let cancel: (() => void) | undefined
    const onRefused = (): void => {
      if (cancel || this.#taken.size === 0) return
      const isInOrder = !this.#locks.slice(this.#locks.indexOf(lock)).some((later) => this.#taken.has(later))
      // At random, so that two callers that want each other's locks do not give way in step.
      const forMs = isInOrder ? this.#keepMs * (0.5 + random.fraction() / 2) : 0
      cancel = clock.after(forMs, () => {
        if (isInOrder) this.#keepMs = Math.min(2 * this.#keepMs, this.#maxKeepMs)
        this.#expiries = 0
        released = this.#releaseTaken()
      })
    }
    try {
      const hold = await lock.acquire({ ...this.#request, waitTimeMs, within: undefined, onRefused })
      await released
      return hold !== undefined && this.#add([lock], [hold])
    } finally {
      cancel?.()
    }
  }

  #add(locks: readonly Lock[], holds: readonly Hold[]): true {
    this.#isEven = this.#taken.size === 0
    for (const [index, lock] of locks.entries()) this.#taken.set(lock, holds[index] as Hold)
    if (this.#terms.leaseTimeMs !== undefined) this.#stopKeeping ??= this.#keep(this.#terms.leaseTimeMs)
    return true
  }

  #releaseTaken(): Promise<void> {
    const holds = [...this.#taken.values()]
    this.#taken.clear()
    return releaseAll(holds)
  }

  /**
   * Renews the locks taken so far until all are taken and the caller's lease begins. Not by the watchdog: its lease may be
   * longer than the caller's, and no renewal shortens a lease.
   */
  #keep(leaseTimeMs: number): () => void {
    const { clock } = this.#multi.context
    const renew = (): void => {
      // A loss is noticed once the next lock has been taken.
      for (const hold of this.#taken.values()) void (hold.lease as Lease).lease(hold, leaseTimeMs).catch(() => {})
      cancel = clock.after(leaseTimeMs / 3, renew)
    }
    let cancel = clock.after(leaseTimeMs / 3, renew)
    return () => cancel()
  }

  /** All locks are taken: their leases begin now. */
  async #lease(leaseTimeMs: number): Promise<void> {
    const lease = (hold: Hold): Promise<unknown> => {
      const lease = hold.lease as Lease
      const { name: lockName, context } = lease
      const run = async (): Promise<Outcome<Hold>> => {
        await lease.lease(hold, leaseTimeMs)
        return { is: 'granted', value: hold, leaseMs: 0 }
      }
      const wait = {
        lockName,
        attempt: { run, undo: () => {} },
        isTransient: (error: unknown) => error instanceof OutcomeUnknownError || isRetryable(error),
        queue: Symbol(lockName),
        channel: undefined,
        deadlineAt: this.#deadlineAt,
        signal: this.#request.signal,
      }
      return waitFor(wait, context)
    }
    try {
      await Promise.all([...this.#taken.values()].map(lease))
      this.#isEven = true
    } catch (error) {
      this.#retryOrThrow(error)
    }
  }

  /** @throws the error, unless another round may succeed */
  #retryOrThrow(error: unknown): void {
    if (!(error instanceof LeaseLostError)) throw error
    const { reason } = error
    // A lock that was taken away may be granted the next time; not so if the lease is shorter than it takes to get them all.
    if (reason === 'gone' || reason === 'forced') return
    if (reason !== 'expired' || this.#terms.leaseTimeMs !== undefined) throw error
    if (++this.#expiries >= MAX_EXPIRIES) throw error
  }
}

/** Whether another caller of this client waits for it. */
function isWaitedFor({ context, queue }: Lock): boolean {
  return context.waitQueues.isWanted(queue)
}

/** An order that all clients share; several locks on values of one group are ordered by their digests. */
function byKeyAndQueue(a: Lock, b: Lock): number {
  const [first, second] = [a, b].map(({ key, kind }) => Buffer.from(`${key} ${kind.queue}`)) as [Buffer, Buffer]
  return first.compare(second)
}

/**
 * Several locks as one: all or none, of any kind and of any clients.
 * @throws {ConfigError} there is none, one of them is no lock, or one is given twice
 * @example `await getMultiLock(client.getLock('lock:a'), client.getLock('lock:b')).withLock(async () => await transfer())`
 * @see Redisson `RedissonClient.getMultiLock(locks)`
 */
export function getMultiLock(...locks: readonly Lock[]): MultiLock {
  return new MultiLock(locks)
}
