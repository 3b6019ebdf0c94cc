// A majority of independent servers.
import { NoReplyError } from '../delivery/replies.js'
import { OutcomeUnknownError, QuorumError, SelfDeadlockError } from '../errors.js'
import { type Outcome, tryOnce, waitFor } from '../waiting/wait-loop.js'
import { isTransient, releaseLate } from './acquisition.js'
import { releaseAll } from './all-or-none.js'
import type { Hold } from './hold.js'
import { JointLease } from './joint-lease.js'
import { JointLock } from './joint-lock.js'
import type { Lock } from './lock.js'
import type { Request } from './options.js'
import { LongWait } from './reporting/long-wait.js'

/** Minimum pause before another round, ms. A random part is added, so that two callers do not split the votes again. */
const PAUSE_MS = 20
const MORE_PAUSE_MS = 100
/** How long to wait for the other servers once most have replied and the votes are split, ms. */
const STRAGGLER_MS = 200

/**
 * Locks on independent servers as one, held as long as a majority of them is. It survives the loss of a minority of the
 * servers with all their data, which a lock on one server and its replicas does not.
 *
 * All servers are asked at once. It is granted if a majority grants it and the result is still valid: lease − time since
 * the first command − clock drift. Otherwise whatever was granted is released on all servers. A wait repeats that. The hold
 * ends when its live members are no longer a majority.
 * @see Redisson `RedissonRedLock`: same locks
 * @see https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
 */
export class RedLock extends JointLock {
  /** The wait queue of its callers. */
  readonly #queue: string

  /** @internal Locks come from `getRedLock`. */
  constructor(locks: readonly Lock[]) {
    super('getRedLock', 'red lock', locks)
    this.#queue = `red lock of ${locks.map(({ key }) => JSON.stringify(key)).join(', ')}`
  }

  /** @internal A majority: a hold of fewer live locks is lost. */
  override get needed(): number {
    return Math.floor(this.locks.length / 2) + 1
  }

  /** @internal */
  async acquire(request: Request): Promise<Hold | undefined> {
    this.checkRequest(request)
    const { terms, waitTimeMs, signal, observed } = request
    const { context } = this
    const { clock } = context
    const isNested = this.#isNested()
    const deadlineAt = clock.now() + (waitTimeMs ?? Number.POSITIVE_INFINITY)
    const longWait = new LongWait(context, this.name, terms, (waitedMs) => this.whoHolds(waitedMs), observed)
    if (waitTimeMs !== 0) longWait.refused()
    try {
      const wait = {
        lockName: this.name,
        attempt: {
          run: () => this.#runRound(terms, waitTimeMs === 0 ? 0 : Math.max(1, deadlineAt - clock.now())),
          undo: releaseLate,
        },
        isTransient: (error: unknown) => error instanceof QuorumError && this.#mayPass(error),
        // Not behind callers that wait for what this one holds.
        onRefused: () => observed?.refused(),
        queue: isNested ? Symbol(this.name) : this.#queue,
        channel: undefined,
        pace: () => PAUSE_MS + context.random.fraction() * MORE_PAUSE_MS,
        deadlineAt,
        signal,
      }
      return waitTimeMs === 0 ? await tryOnce(wait, context) : await waitFor(wait, context)
    } finally {
      longWait.end()
    }
  }

  /** @throws {SelfDeadlockError} for a majority, the caller would wait for itself */
  #isNested(): boolean {
    let deadlocks = 0
    let isNested = false
    for (const lock of this.locks) {
      try {
        isNested = lock.isInside() || isNested
      } catch (error) {
        if (++deadlocks > this.locks.length - this.needed) throw error
      }
    }
    return isNested || deadlocks > 0
  }

  #mayPass({ errors }: QuorumError): boolean {
    const lasting = errors.filter(({ error }) => !isTransient(error) && !(error instanceof OutcomeUnknownError))
    return lasting.length <= this.locks.length - this.needed
  }

  /** One round, decided as soon as a majority has granted it or no longer can. */
  #runRound(terms: Request['terms'], leftMs: number): Promise<Outcome<Hold>> {
    return new Promise((resolve, reject) => new Vote(this, this.locks, terms, leftMs, resolve, reject))
  }
}

/** One round of a red lock: all servers are asked, and a majority decides. */
class Vote {
  readonly #red: RedLock
  readonly #needed: number
  readonly #locks: readonly Lock[]
  readonly #terms: Request['terms']
  readonly #leftMs: number
  readonly #resolve: (outcome: Outcome<Hold>) => void
  readonly #reject: (error: QuorumError) => void
  readonly #granted: Hold[] = []
  readonly #errors: { lockName: string; index: number; error: unknown }[] = []
  /** The indexes of the locks whose servers have not replied yet. */
  readonly #silent: Set<number>
  #joint: JointLease | undefined
  #isDecided = false
  #cancelLimit: () => void

  /** @param leftMs  what is left of the wait time; 0: this is the only round */
  constructor(
    red: RedLock,
    locks: readonly Lock[],
    terms: Request['terms'],
    leftMs: number,
    resolve: (outcome: Outcome<Hold>) => void,
    reject: (error: QuorumError) => void,
  ) {
    this.#red = red
    this.#locks = locks
    this.#needed = red.needed
    this.#terms = terms
    this.#leftMs = leftMs > 0 ? leftMs : Number.POSITIVE_INFINITY
    this.#resolve = resolve
    this.#reject = reject
    this.#silent = new Set(locks.keys())
    const { clock, commandTimeoutMs, watchdogTimeoutMs } = red.context
    const startedAt = clock.now()
    const leaseTimeMs = terms.leaseTimeMs ?? watchdogTimeoutMs
    const limitMs = Math.min(commandTimeoutMs, Math.max(1, leaseTimeMs / 10))
    this.#cancelLimit = this.#limit(limitMs, limitMs, false)
    // Reports of the hold and its longest duration are those of the joint hold.
    const own = { ...terms, maxHoldMs: undefined, warnAfterMs: undefined }
    for (const [index, lock] of locks.entries()) void this.#requestAt(index, lock, own, startedAt)
  }

  async #requestAt(index: number, lock: Lock, terms: Request['terms'], startedAt: number): Promise<void> {
    try {
      const hold = await lock.acquire({ terms, waitTimeMs: 0, signal: undefined, within: undefined })
      if (hold) this.#add(hold)
    } catch (error) {
      // A server that refuses because the caller itself holds its lock has not failed.
      if (!(error instanceof SelfDeadlockError)) this.#errors.push({ lockName: lock.name, index, error })
    }
    this.#silent.delete(index)
    this.#decide()
    if (!this.#isDecided && this.#locks.length - this.#silent.size >= this.#needed) this.#hurry(startedAt)
  }

  #add(hold: Hold): void {
    if (!this.#isDecided) this.#granted.push(hold)
    // Late, but the joint hold has one more member: it is released with the others.
    else if (this.#joint?.hold.isLive) this.#joint.add(hold)
    else void releaseAll([hold])
  }

  /** Most servers have replied, and the votes are split: the others get little more time than these took. */
  #hurry(startedAt: number): void {
    const { clock } = this.#red.context
    const tookMs = clock.now() - startedAt
    const forMs = STRAGGLER_MS + 2 * tookMs
    const leftMs = Math.max(1, this.#leftMs - tookMs)
    const cancelLimit = this.#cancelLimit
    const cancel = this.#limit(Math.min(forMs, leftMs), tookMs + Math.min(forMs, leftMs), leftMs <= forMs)
    this.#cancelLimit = () => {
      cancelLimit()
      cancel()
    }
  }

  /**
   * @param inAllMs  since the round began
   * @param isWaitOver  whether the wait time of the caller ends then
   */
  #limit(ms: number, inAllMs: number, isWaitOver: boolean): () => void {
    const { clock } = this.#red.context
    // Replies that arrived while the event loop was blocked may not have been read yet.
    return clock.after(ms, () => clock.afterPoll(() => this.#endVote(inAllMs, isWaitOver)))
  }

  /** The time is over: a server that has not replied has not granted it. */
  #endVote(limitMs: number, isWaitOver: boolean): void {
    for (const index of this.#silent) {
      const lockName = (this.#locks[index] as Lock).name
      const error = new OutcomeUnknownError(
        lockName,
        'lock',
        new NoReplyError(`no reply within ${Math.ceil(limitMs)} ms`),
      )
      this.#errors.push({ lockName, index, error })
    }
    this.#silent.clear()
    this.#decide(isWaitOver)
  }

  /** @param isWaitOver  whether more servers might have replied if the caller had waited longer */
  #decide(isWaitOver = false): void {
    if (this.#isDecided) return
    // The first may have been lost since.
    const live = this.#granted.filter(({ isLive }) => isLive).length
    if (live < this.#needed && live + this.#silent.size >= this.#needed) return
    this.#isDecided = true
    this.#cancelLimit()
    if (live >= this.#needed) {
      this.#joint = new JointLease(this.#red, this.#granted, this.#terms)
      const { hold } = this.#joint
      return void this.#resolve({ is: 'granted', value: hold, leaseMs: hold.remainingMs() })
    }
    const errors = this.#errors.toSorted((a, b) => a.index - b.index)
    const isOutage = !isWaitOver && errors.length > this.#locks.length - this.#needed
    const released = releaseAll(this.#granted)
    void (isWaitOver ? Promise.resolve() : released).then(() => {
      if (isOutage) this.#reject(new QuorumError(this.#red.name, this.#needed, errors))
      else this.#resolve({ is: 'refused', heldForMs: -1 })
    })
  }
}

/**
 * Locks on independent servers as one that needs a majority of them: three or five locks, each of its own client.
 * @throws {ConfigError} there is none, one of them is no lock, or one is given twice
 * @example `await getRedLock(...clients.map((client) => client.getLock('lock:a'))).withLock(async () => await work())`
 * @see Redisson `RedissonRedLock`
 */
export function getRedLock(...locks: readonly Lock[]): RedLock {
  return new RedLock(locks)
}
