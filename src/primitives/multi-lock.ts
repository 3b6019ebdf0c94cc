import type { Clock } from '../clock.js'
import { ConfigError, LeaseLostError } from '../errors.js'
import { Waiter } from '../waiting/waiter.js'
import { AnyLock, type Request } from './any-lock.js'
import type { Hold, HoldTerms } from './hold.js'
import { Joint } from './joint.js'
import { Lock } from './lock.js'
import type { Possession } from './possession.js'

/** How long to go on holding some locks while waiting for the next, ms for each lock. As in Redisson. */
const PATIENCE_MS = 1_500
/** Longest pause after giving back, ms. */
const PAUSE_MS = 100

/**
 * Several locks as one: all or none. They may be of any kind, and of different clients on different servers.
 *
 * They are taken in the order of their names, whatever order they are given in, so that two that want the same locks do
 * not wait for each other. Where somebody else takes them in another order, what was taken is given back after a while
 * and tried again.
 * @see Redisson `RedissonMultiLock`: same locks
 */
export class MultiLock extends AnyLock {
  readonly #locks: readonly Lock[]

  /** @internal Locks come from `getMultiLock`. */
  constructor(locks: readonly Lock[]) {
    const checked = checkLocks('getMultiLock', locks)
    super(checked[0].context, `multi-lock of ${checked.map(({ name }) => JSON.stringify(name)).join(', ')}`)
    this.#locks = checked.toSorted(byNameAndKind)
  }

  /** @internal */
  async acquire({ terms, waitTimeMs, signal, within }: Request): Promise<Hold | undefined> {
    refuseWithin(within, this.name)
    const { clock, random } = this.context
    const deadlineAt = clock.now() + (waitTimeMs ?? Number.POSITIVE_INFINITY)
    const waiter = new Waiter(clock, this.name, deadlineAt, signal)
    try {
      for (;;) {
        waiter.throwIfDismissed()
        const hold = await this.#takeAll({ terms, waitTimeMs, signal, within }, deadlineAt)
        if (hold) return hold
        if (waiter.isTimeOver) return undefined
        await waiter.pause(random.fraction() * PAUSE_MS)
      }
    } finally {
      waiter.end()
    }
  }

  /** One round: take one after the other, or give all back. */
  async #takeAll({ terms, waitTimeMs, signal }: Request, deadlineAt: number): Promise<Hold | undefined> {
    const { clock, random } = this.context
    const { leaseTimeMs } = terms
    const taken: Hold[] = []
    const stopKeeping = leaseTimeMs === undefined ? undefined : keep(taken, leaseTimeMs, clock)
    try {
      for (const lock of this.#locks) {
        const left = deadlineAt - clock.now()
        // Nobody waits for us as long as we have nothing; then not in step with those who want the same.
        const patience = PATIENCE_MS * this.#locks.length * (0.5 + random.fraction() / 2)
        const forMs = taken.length === 0 ? left : Math.min(left, patience)
        const hold = await lock.acquire({
          terms,
          waitTimeMs:
            waitTimeMs === 0 ? 0 : forMs === Number.POSITIVE_INFINITY ? undefined : Math.max(1, Math.ceil(forMs)),
          signal,
          within: undefined,
        })
        if (!hold) break
        taken.push(hold)
      }
      if (taken.length === this.#locks.length) {
        if (leaseTimeMs !== undefined) {
          await Promise.all(taken.map((hold) => (hold.holding as Possession).lease(hold, leaseTimeMs)))
        }
        const { hold } = new Joint(this.context, this.name, taken, taken.length, taken.length, terms.label)
        if (hold.isLive) return hold
        throw taken.find(({ lostError }) => lostError)?.lostError
      }
    } catch (error) {
      const given = giveBack(taken)
      if (!signal?.aborted) await given
      if (!isWorthAnotherRound(error, terms)) throw error
      return undefined
    } finally {
      stopKeeping?.()
    }
    await giveBack(taken)
    return undefined
  }
}

/**
 * Renew what was taken until all are: then the lease of the caller begins. Not by the watchdog: no renewal shortens the
 * lease that it gives, which may be longer than the caller's.
 */
function keep(taken: readonly Hold[], leaseTimeMs: number, clock: Clock): () => void {
  const renew = (): void => {
    // One that is lost is found out when all are taken.
    for (const hold of taken) void (hold.holding as Possession).lease(hold, leaseTimeMs).catch(() => {})
    cancel = clock.after(leaseTimeMs / 3, renew)
  }
  let cancel = clock.after(leaseTimeMs / 3, renew)
  return () => cancel()
}

/** One that was taken away meanwhile may be had the next time; not so if the lease is shorter than the taking. */
function isWorthAnotherRound(error: unknown, { leaseTimeMs }: HoldTerms): boolean {
  if (!(error instanceof LeaseLostError)) return false
  const { reason } = error
  return reason === 'gone' || reason === 'forced' || (reason === 'expired' && leaseTimeMs === undefined)
}

/** What cannot be released now is released in the background. */
export async function giveBack(holds: readonly Hold[]): Promise<void> {
  await Promise.all(holds.map((hold) => hold.unlock().catch(() => {})))
}

/** @throws {ConfigError} there is none, one of them is no lock, or two would exclude each other */
export function checkLocks(call: string, locks: readonly Lock[]): readonly [Lock, ...Lock[]] {
  const [first, ...rest] = locks
  if (!first) throw new ConfigError(call, undefined, 'at least one lock')
  for (const [index, lock] of locks.entries()) {
    if (!(lock instanceof Lock)) throw new ConfigError(`${call}: lock ${index + 1}`, lock, 'a lock of a client')
    const twin = locks.slice(0, index).find((other) => other.name === lock.name && other.context === lock.context)
    if (twin && lock.kind.nestingIn(twin.kind) !== 'apart') {
      throw new ConfigError(`${call}: lock ${index + 1}`, undefined, 'a lock that is not given twice', {
        lockName: lock.name,
      })
    }
  }
  return [first, ...rest]
}

export function refuseWithin(within: Hold | undefined, lockName: string): void {
  if (within === undefined) return
  throw new ConfigError('within', undefined, 'a lock of its own: a lock made of others has no hold to re-enter', {
    lockName,
  })
}

function byNameAndKind(a: Lock, b: Lock): number {
  const [first, second] = [a, b].map(({ name, kind }) => `${name} ${kind.title}`) as [string, string]
  return first < second ? -1 : first > second ? 1 : 0
}

/**
 * Several locks as one: all or none, of any kind and of any clients.
 * @throws {ConfigError} there is none, one of them is no lock, or one is given twice
 * @see Redisson `RedissonClient.getMultiLock(locks)`
 */
export function getMultiLock(...locks: readonly Lock[]): MultiLock {
  return new MultiLock(locks)
}
