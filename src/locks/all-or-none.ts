// Several plain locks of one slot in one command.
import { untilReady } from '../delivery/ready.js'
import { mayBeGranted } from '../delivery/replica-acks.js'
import { BAD_SCRIPT, isCrossSlot, isErrorOf, toInteger } from '../delivery/replies.js'
import { lockAcquireAll } from '../lua/generated.js'
import { type Attempt, type Outcome, tryOnce, waitFor } from '../waiting/wait-loop.js'
import { isTransient } from './acquisition.js'
import type { Hold } from './hold.js'
import { asLockError } from './inspection.js'
import { NON_REENTRANT, REENTRANT } from './kinds/plain.js'
import type { Lease, LeaseContext } from './lease.js'
import type { Lock } from './lock.js'
import type { Request } from './options.js'

/** One command takes them all, and Redis serves nobody else meanwhile. */
const MAX_TOGETHER = 1_000

/**
 * Whether one script can take these locks: plain ones, of one client, with keys in one slot or on one server, and not too
 * many.
 * @throws {SelfDeadlockError} the caller would wait for itself
 */
export function canBeTakenTogether(locks: readonly Lock[]): boolean {
  if (locks.length < 2 || locks.length > MAX_TOGETHER) return false
  const { context, key } = locks[0] as Lock
  const group = context.scripts.groupOf(key)
  return locks.every((lock) => {
    const isPlain = lock.kind === REENTRANT || lock.kind === NON_REENTRANT
    // A lock that the caller is inside of is re-entered by itself.
    return isPlain && lock.context === context && context.scripts.groupOf(lock.key) === group && !lock.isInside()
  })
}

/** Learns whether one server has them, if that is not known: it decides whether they can be taken together. */
export function whereTheyAre(locks: readonly Lock[]): Promise<void> | undefined {
  const [first, ...others] = locks
  if (!first || others.length === 0) return undefined
  return first.context.scripts.learn(locks.map(({ key }) => key))
}

/**
 * Takes locks for which that is true, all or none, in one command. It waits for no other caller, but repeats the command if
 * there is no reply, like any attempt to take a lock.
 * @returns the holds, or the lock that another holder has; undefined: no single command can take them
 * @throws as `Lock.acquire`
 */
export async function takeTogether(
  locks: readonly Lock[],
  { terms, waitTimeMs, signal }: Request,
  deadlineAt: number,
): Promise<readonly Hold[] | Lock | undefined> {
  const first = locks[0] as Lock
  const { context, name: lockName } = first
  context.assertOpen(lockName)
  const wait = {
    lockName,
    attempt: new JointAcquisition(locks, terms),
    isTransient,
    queue: Symbol(lockName),
    channel: undefined,
    deadlineAt,
    signal,
  }
  try {
    const taken = waitTimeMs === 0 ? await tryOnce(wait, context) : await waitFor(wait, context)
    return taken ?? first
  } catch (error) {
    // Their keys cannot be in one script, now (a slot is being moved) or ever (a proxy, which may also refuse this one), or
    // one of them is no lock, and its own request says which.
    if (isCrossSlot(error) || isErrorOf(error, 'TRYAGAIN', 'WRONGTYPE', BAD_SCRIPT)) return undefined
    throw await asLockError(context, first, 'lock', error)
  }
}

/** Releases holds; in the background if that fails at first. */
export async function releaseAll(holds: readonly Hold[]): Promise<void> {
  await Promise.all(holds.map((hold) => hold.unlock().catch(() => {})))
}

/** One caller takes several locks in one command: its attempts, and what is undone if it ends without the locks. */
class JointAcquisition implements Attempt<readonly Hold[] | Lock> {
  readonly #locks: readonly Lock[]
  readonly #context: LeaseContext
  /** One of them, which determines the server of all. */
  readonly #first: Lock
  readonly #terms: Request['terms']
  readonly #leaseTimeMs: number
  /** The leases of every attempt, until one of them releases its grant. */
  #leases: readonly Lease[] = []

  constructor(locks: readonly Lock[], terms: Request['terms']) {
    const first = locks[0] as Lock
    const { context } = first
    this.#locks = locks
    this.#context = context
    this.#first = first
    this.#terms = terms
    this.#leaseTimeMs = terms.leaseTimeMs ?? context.watchdogTimeoutMs
  }

  untilReady(): Promise<void> | undefined {
    return untilReady(this.#context, this.#first, this.#leaseTimeMs)
  }

  async run(): Promise<Outcome<readonly Hold[] | Lock>> {
    const { scripts, replication, attempts, clock } = this.#context
    const route = replication.routeTo(this.#first.key)
    if (this.#leases.length === 0) this.#leases = this.#locks.map((lock) => lock.possess())
    const ours = this.#leases.map((lease) => ({ lease, hasWon: false, isForced: false, attempted: -1 }))
    for (const one of ours) attempts.add(one)
    let sentAt = clock.now()
    let isGranted = false
    try {
      const keys = this.#locks.map(({ key }) => key)
      scripts.assertTogether(keys)
      const holders = this.#leases.map(({ holder }) => holder)
      const reply = await scripts.run(lockAcquireAll(keys, [this.#leaseTimeMs, ...holders]), undefined, (at) => {
        sentAt = at
        for (const lease of this.#leases) {
          lease.copies.sending(at)
          lease.requesting(this.#leaseTimeMs, at)
        }
      })
      const refused = toInteger(reply)
      // The caller waits for that lock.
      if (refused !== null) return { is: 'granted', value: this.#locks[refused] as Lock, leaseMs: 0 }
      isGranted = true
      await replication.confirm(this.#first, route)
      // Granted, but one of them was force-unlocked since.
      if (ours.some(({ isForced }) => isForced)) {
        this.#release()
        return { is: 'unknown' }
      }
      const value = this.#begin(sentAt)
      for (const one of ours) one.hasWon = true
      return { is: 'granted', value, leaseMs: 0 }
    } catch (error) {
      if (!isGranted && !mayBeGranted(error)) throw error
      for (const lease of this.#leases) lease.copies.isInDoubt = true
      return { is: 'unknown', error }
    } finally {
      for (const one of ours) attempts.delete(one)
    }
  }

  undo(left: readonly Outcome<readonly Hold[] | Lock>[]): void {
    for (const lease of this.#leases) {
      if (lease.count > 0) continue // the release of the hold frees what late copies take
      if (lease.copies.isInDoubt || lease.copies.until > 0) lease.releaseInBackground()
      else lease.owner.unclaim(lease.field)
    }
    for (const outcome of left) if ('value' in outcome && Array.isArray(outcome.value)) void releaseAll(outcome.value)
  }

  #begin(sentAt: number): readonly Hold[] {
    const holds: Hold[] = []
    try {
      for (const lease of this.#leases) holds.push(lease.begin(this.#terms, sentAt))
    } catch (error) {
      this.#release(holds)
      throw error
    }
    return holds
  }

  /** Releases what was granted. The next attempt is by new owners: a late copy of the release would free what it takes. */
  #release(begun: readonly Hold[] = []): void {
    for (const hold of begun) (hold.lease as Lease).end(hold, 'released')
    for (const lease of this.#leases) lease.releaseInBackground()
    this.#leases = []
  }
}
