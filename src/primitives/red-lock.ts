import { OutcomeUnknownError, QuorumError } from '../errors.js'
import { type Attempted, tryOnce, waitFor } from '../waiting/wait-loop.js'
import { AnyLock, type Request, warnOfLongWait } from './any-lock.js'
import type { Hold } from './hold.js'
import { Joint } from './joint.js'
import { isPassing, type Lock } from './lock.js'
import { checkLocks, giveBack, refuseWithin } from './multi-lock.js'

/** How long to wait before another round, ms: at least, and at random on top, so that two do not split the votes again. */
const PAUSE_MS = 20
const MORE_PAUSE_MS = 100

/**
 * Locks on independent servers as one: held as long as a majority of them is. It survives the loss of a minority of the
 * servers with all their data, which a lock on one server and its replicas does not.
 *
 * All are asked at once. It is granted when a majority has granted it and that is still valid: lease − time since the
 * first command − drift of the clocks. Otherwise what was taken is given back on all of them. It is waited for by asking
 * again.
 * @see Redisson `RedissonRedLock`: same locks
 * @see https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
 */
export class RedLock extends AnyLock {
  readonly #locks: readonly Lock[]
  readonly #needed: number

  /** @internal Locks come from `getRedLock`. */
  constructor(locks: readonly Lock[]) {
    const checked = checkLocks('getRedLock', locks)
    super(checked[0].context, `red lock of ${checked.map(({ name }) => JSON.stringify(name)).join(', ')}`)
    this.#locks = checked
    this.#needed = Math.floor(checked.length / 2) + 1
  }

  /** @internal */
  async acquire({ terms, waitTimeMs, signal, within }: Request): Promise<Hold | undefined> {
    refuseWithin(within, this.name)
    const { context } = this
    const isNested = this.#isNested()
    const stopWarning = warnOfLongWait(context, this.name, terms)
    try {
      const wait = {
        lockName: this.name,
        attempt: () => this.#askAll(terms),
        isWorthRetrying: (error: unknown) => error instanceof QuorumError && this.#mayPass(error),
        giveBack: (late: Hold) => void giveBack([late]),
        // Not behind those who wait for what the caller itself holds.
        line: isNested ? Symbol(this.name) : this.name,
        channel: undefined,
        pace: () => PAUSE_MS + context.random.fraction() * MORE_PAUSE_MS,
        deadlineAt: context.clock.now() + (waitTimeMs ?? Number.POSITIVE_INFINITY),
        signal,
      }
      return waitTimeMs === 0 ? await tryOnce(wait, context) : await waitFor(wait, context)
    } finally {
      stopWarning?.()
    }
  }

  /** @throws {SelfDeadlockError} a majority would wait for the caller */
  #isNested(): boolean {
    let deadlocks = 0
    let isNested = false
    for (const lock of this.#locks) {
      try {
        isNested = lock.isInside() || isNested
      } catch (error) {
        if (++deadlocks > this.#locks.length - this.#needed) throw error
      }
    }
    return isNested || deadlocks > 0
  }

  #mayPass({ errors }: QuorumError): boolean {
    const lasting = errors.filter(({ error }) => !isPassing(error) && !(error instanceof OutcomeUnknownError))
    return lasting.length <= this.#locks.length - this.#needed
  }

  /** One round: decided as soon as a majority has granted it, or cannot any more. */
  #askAll(terms: Request['terms']): Promise<Attempted<Hold>> {
    return new Promise((resolve, reject) => this.#askEach(terms, resolve, reject))
  }

  #askEach(
    terms: Request['terms'],
    resolve: (attempted: Attempted<Hold>) => void,
    reject: (error: QuorumError) => void,
  ): void {
    const granted: Hold[] = []
    const errors: { lockName: string; index: number; error: unknown }[] = []
    let answers = 0
    let joint: Joint | undefined
    let isDecided = false

    const decide = (): void => {
      if (isDecided) return
      const canStill = granted.length + this.#locks.length - answers >= this.#needed
      if (granted.length < this.#needed && canStill) return
      isDecided = true
      if (granted.length >= this.#needed) {
        joint = new Joint(this.context, this.name, granted, this.#needed, this.#locks.length, terms.label)
        if (joint.hold.isLive) {
          resolve({ granted: joint.hold, leaseMs: joint.hold.remainingMs() })
          return
        }
      }
      const isOutage = errors.length > this.#locks.length - this.#needed
      const refusal = isOutage ? undefined : { heldForMs: -1 }
      void giveBack(granted).then(() => {
        if (refusal) resolve(refusal)
        else
          reject(
            new QuorumError(
              this.name,
              this.#needed,
              errors.toSorted((a, b) => a.index - b.index),
            ),
          )
      })
    }

    for (const [index, lock] of this.#locks.entries()) {
      void lock
        .acquire({ terms, waitTimeMs: 0, signal: undefined, within: undefined })
        .then(
          (hold) => {
            answers++
            if (!hold) return
            if (!isDecided) granted.push(hold)
            // Late, but one more: it is released with the others.
            else if (joint?.hold.isLive) joint.add(hold)
            else void giveBack([hold])
          },
          (error: unknown) => {
            answers++
            errors.push({ lockName: lock.name, index, error })
          },
        )
        .then(decide)
    }
  }
}

/**
 * Locks on independent servers as one that needs a majority of them: three or five, each from a client of its own.
 * @throws {ConfigError} there is none, one of them is no lock, or one is given twice
 * @see Redisson `RedissonRedLock`
 */
export function getRedLock(...locks: readonly Lock[]): RedLock {
  return new RedLock(locks)
}
