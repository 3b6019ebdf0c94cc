import { mayBeGranted } from '../delivery/replica-acks.js'
import { isErrorOf, NoReplyError, toInteger } from '../delivery/replies.js'
import { OutcomeUnknownError } from '../errors.js'
import { lockAcquireAll } from '../lua/generated.js'
import { tryOnce, waitFor } from '../waiting/wait-loop.js'
import type { Hold } from './hold.js'
import { NON_REENTRANT, REENTRANT } from './kinds/plain.js'
import type { Lease } from './lease.js'
import { isTransient, type Lock } from './lock.js'
import type { Request } from './options.js'
import { isReady, untilReady } from './ready.js'

/**
 * Whether one script can take these locks: plain ones, of one client, with keys in one slot.
 * @throws {SelfDeadlockError} one of them would wait for the caller
 */
export function canBeTakenTogether(locks: readonly Lock[]): boolean {
  const [first] = locks
  if (!first || locks.length < 2) return false
  const { context, name } = first
  const slot = context.scripts.slotOf(name)
  return locks.every((lock) => {
    const isPlain = lock.kind === REENTRANT || lock.kind === NON_REENTRANT
    // What the caller is inside of is taken once more by itself.
    return isPlain && lock.context === context && context.scripts.slotOf(lock.name) === slot && !lock.isInside()
  })
}

/**
 * Take locks of which that is so, all or none, in one command. It waits for nobody, but repeats the command if there is no
 * reply, like any attempt to take a lock.
 * @returns the holds, or the lock that somebody else holds
 * @throws as `Lock.acquire`
 */
export async function takeTogether(
  locks: readonly Lock[],
  { terms, waitTimeMs, signal }: Request,
  deadlineAt: number,
): Promise<readonly Hold[] | Lock> {
  const { context, name: lockName } = locks[0] as Lock
  context.assertOpen(lockName)
  // A single attempt is made however long it takes until it can be sent.
  const attempt = new JointAttempt(locks, terms, waitTimeMs === 0 ? Number.POSITIVE_INFINITY : deadlineAt)
  const wait = {
    lockName,
    attempt: async () => ({ granted: await attempt.run(), leaseMs: 0 }),
    isWorthRetrying: isTransient,
    giveBack: (late: readonly Hold[] | Lock) => void (Array.isArray(late) && releaseAll(late)),
    line: Symbol(lockName),
    channel: undefined,
    deadlineAt,
    signal,
  }
  try {
    const outcome = waitTimeMs === 0 ? await tryOnce(wait, context) : await waitFor(wait, context)
    return outcome as readonly Hold[] | Lock // it is never refused
  } catch (error) {
    // Their keys cannot be in one script, now (a slot on the move) or ever (a proxy): one after the other then.
    if (isErrorOf(error, 'CROSSSLOT', 'TRYAGAIN')) return locks[0] as Lock
    throw error instanceof NoReplyError ? new OutcomeUnknownError(lockName, 'lock', error) : error
  } finally {
    attempt.end()
  }
}

/** What cannot be released now is released in the background. */
export async function releaseAll(holds: readonly Hold[]): Promise<void> {
  await Promise.all(holds.map((hold) => hold.unlock().catch(() => {})))
}

/** The attempts of one caller to take several locks in one command. */
class JointAttempt {
  readonly #locks: readonly Lock[]
  readonly #terms: Request['terms']
  readonly #leaseTimeMs: number
  readonly #deadlineAt: number
  readonly #leases: readonly Lease[]
  /** Whether Redis may have granted something that no hold stands for. */
  #mayBeHeld = false
  #isInFlight = false
  /** The caller has its outcome. */
  #isOver = false

  /** @param deadlineAt  when it is too late to send another one, on the clock */
  constructor(locks: readonly Lock[], terms: Request['terms'], deadlineAt: number) {
    this.#locks = locks
    this.#deadlineAt = deadlineAt
    this.#terms = terms
    this.#leaseTimeMs = terms.leaseTimeMs ?? (locks[0] as Lock).context.watchdogTimeoutMs
    this.#leases = locks.map((lock) => lock.possess())
  }

  async run(): Promise<readonly Hold[] | Lock> {
    const { context, name } = this.#locks[0] as Lock
    const { scripts, replication } = context
    if (!isReady(context, name, this.#leaseTimeMs)) {
      await untilReady(context, name, this.#leaseTimeMs)
      if (this.#isOver) return []
      if (context.clock.now() >= this.#deadlineAt) return this.#locks[0] as Lock
    }
    const route = replication.routeTo(name)
    const attempts = this.#leases.map((lease) => ({ lease, hasWon: false, isForced: false }))
    for (const one of attempts) context.attempts.add(one)
    let sentAt = context.clock.now()
    this.#isInFlight = true
    try {
      const names = this.#locks.map((lock) => lock.name)
      const holders = this.#leases.map(({ holder }) => holder)
      const call = lockAcquireAll(names, [this.#leaseTimeMs, ...holders])
      const reply = await scripts.run(call, undefined, (at) => {
        sentAt = at
        for (const lease of this.#leases) lease.requesting(this.#leaseTimeMs, at)
      })
      const refused = toInteger(reply)
      if (refused !== null) return this.#locks[refused] as Lock
      if (replication.isWanted) await replication.confirm(name, route)
      // Granted, and taken away since: the others are given back.
      const forced = attempts.findIndex(({ isForced }) => isForced)
      this.#mayBeHeld ||= forced >= 0
      if (forced >= 0) return this.#locks[forced] as Lock
      const holds = this.#begin(sentAt)
      for (const one of attempts) one.hasWon = true
      return holds
    } catch (error) {
      this.#mayBeHeld ||= mayBeGranted(error)
      throw error
    } finally {
      this.#isInFlight = false
      for (const one of attempts) context.attempts.delete(one)
      if (this.#isOver) this.#giveUp()
    }
  }

  /** No more tries, and nobody waits for the one on its way. */
  end(): void {
    this.#isOver = true
    if (!this.#isInFlight) this.#giveUp()
  }

  #begin(sentAt: number): readonly Hold[] {
    const holds: Hold[] = []
    const mayHaveStrays = this.#mayBeHeld
    this.#mayBeHeld = true
    try {
      for (const lease of this.#leases) {
        lease.mayHaveLateCopies ||= mayHaveStrays
        holds.push(lease.begin(this.#terms, sentAt))
      }
    } catch (error) {
      void releaseAll(holds)
      throw error
    }
    this.#mayBeHeld = false
    return holds
  }

  #giveUp(): void {
    for (const lease of this.#leases) {
      if (lease.count > 0) continue
      if (this.#mayBeHeld) lease.releaseInBackground()
      else lease.owner.free(lease.field)
    }
  }
}
