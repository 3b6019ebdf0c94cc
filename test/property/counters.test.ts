/**
 * Random sequences of operations by several clients on semaphores and latches, on a real Redis and on a small model: each
 * result and each number must be what the model says, in whatever order callers are served, and nobody waits for something
 * available. To repeat a failure: PROPERTY_SEED=… with the number that it printed. More sequences, as nightly: PROPERTY_RUNS=20000
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { Client, CountDownLatch, Permit, PermitExpirableSemaphore, Semaphore } from '../../src/index.js'
import { setUpFixture } from '../support/fixture.js'
import { waitUntil } from '../support/wait-until.js'

const { PROPERTY_RUNS: runs = '300', PROPERTY_SEED: seed, TEST_FILE_LIMIT_MS: limit } = process.env
const LIMIT_MS = Math.max(280_000, Number(limit ?? 0))
const CLIENTS = 3
const MOST_WAITERS = 3
const ABORTED = new Error('aborted')
/** The longest that a waiter may wait for something available: a poll and a bit more. */
const SERVED_WITHIN_MS = 8_000

/** What to do, by whom and how many: what it means depends on the kind. */
interface Step {
  readonly verb: number
  readonly who: number
  readonly many: number
}

const steps = fc.array(
  fc.record({ verb: fc.nat(99), who: fc.nat(CLIENTS - 1), many: fc.integer({ min: 1, max: 3 }) }),
  { minLength: 1, maxLength: 20, size: 'max' },
)

interface Waiter<T> {
  readonly many: number
  readonly abort: AbortController
  outcome: 'waiting' | 'aborted' | { readonly granted: T }
}

/** Begins to wait, and keeps what becomes of it. */
function begin<T>(many: number, wait: (signal: AbortSignal) => Promise<T>): Waiter<T> {
  const abort = new AbortController()
  const waiter: Waiter<T> = { many, abort, outcome: 'waiting' }
  wait(abort.signal).then(
    (granted) => {
      waiter.outcome = { granted }
    },
    (error: unknown) => {
      assert.equal(error, ABORTED)
      waiter.outcome = 'aborted'
    },
  )
  return waiter
}

/** One object, its model, and what can be done with it. */
interface Play {
  /** How often each is chosen, and what it does: to the object first, then to the model. */
  readonly verbs: readonly (readonly [weight: number, act: (step: Step) => Promise<unknown>])[]
  /** Resolves when the object is as the model says, and nobody waits for something available. */
  settle(): Promise<void>
  end(): Promise<void>
}

describe('counters agree with the model after every step of random sequences', () => {
  const fixture = setUpFixture()

  async function agree(play: (clients: readonly Client[], name: string) => Play): Promise<string> {
    const clients = await Promise.all(Array.from({ length: CLIENTS }, () => fixture.connect()))
    let sequence = 0
    const property = fc.asyncProperty(steps, async (sequenceOfSteps) => {
      const { verbs, settle, end } = play(clients, `counter:${++sequence}`)
      const choices = verbs.flatMap(([weight, act]) => new Array<typeof act>(weight).fill(act))
      try {
        for (const step of sequenceOfSteps) {
          await choices[step.verb % choices.length]?.(step)
          await settle()
        }
      } finally {
        await end()
      }
    })
    const chosen = seed === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(seed)
    const details = await fc.check(property, { numRuns: Number(runs), seed: chosen, endOnFailure: true })
    if (details.failed) {
      const { counterexample, errorInstance } = details
      assert.fail(`PROPERTY_SEED=${chosen}: ${JSON.stringify(counterexample)}\n${(errorInstance as Error)?.stack}`)
    }
    return `${details.numRuns} sequences, seed ${chosen}`
  }

  const sum = (waiters: readonly Waiter<unknown>[]): number => waiters.reduce((all, { many }) => all + many, 0)
  const isGranted = ({ outcome }: Waiter<unknown>): boolean => typeof outcome === 'object'

  it('a semaphore agrees with the model after every step of random sequences', { timeout: LIMIT_MS }, async (t) => {
    const play = (clients: readonly Client[], name: string): Play => {
      const by = ({ who }: Step): Semaphore => (clients[who] as Client).getSemaphore(name)
      let permits: number | undefined
      let waiters: Waiter<void>[] = []
      const book = (): void => {
        const served = waiters.filter(isGranted)
        permits = served.length > 0 ? (permits ?? 0) - sum(served) : permits
        waiters = waiters.filter(({ outcome }) => outcome === 'waiting')
      }
      const settle = async (): Promise<void> => {
        const semaphore = by({ verb: 0, who: 0, many: 1 })
        let seen = 0
        const isSettled = async (): Promise<boolean> => {
          seen = await semaphore.availablePermits()
          book()
          return seen === (permits ?? 0) && !waiters.some(({ many }) => many <= seen)
        }
        await waitUntil(isSettled, {
          timeoutMs: SERVED_WITHIN_MS,
          message: () => `${seen} permits, not ${permits}; ${waiters.length} wait`,
        })
      }
      return {
        verbs: [
          [
            2,
            async (step) => {
              assert.equal(await by(step).trySetPermits(step.many), permits === undefined)
              permits ??= step.many
            },
          ],
          [
            4,
            async (step) => {
              const isTaken = (permits ?? 0) >= step.many
              assert.equal(await by(step).tryAcquire({ permits: step.many }), isTaken)
              if (isTaken) permits = (permits ?? 0) - step.many
            },
          ],
          [
            4,
            async (step) => {
              if (waiters.length === MOST_WAITERS) return
              const { many } = step
              waiters.push(begin(many, (signal) => by(step).acquire({ permits: many, signal })))
            },
          ],
          [2, async (step) => waiters[step.many % Math.max(1, waiters.length)]?.abort.abort(ABORTED)],
          [
            6,
            async (step) => {
              permits = (permits ?? 0) + step.many
              await by(step).release(step.many)
            },
          ],
          [
            1,
            async (step) => {
              const exists = permits !== undefined
              if (exists) permits = (permits ?? 0) + step.many
              assert.equal(await by(step).releaseIfExists(step.many), exists)
            },
          ],
          [
            1,
            async (step) => {
              permits = (permits ?? 0) + step.many
              await by(step).addPermits(step.many)
            },
          ],
          [
            1,
            async (step) => {
              permits = (permits ?? 0) - step.many
              await by(step).reducePermits(step.many)
            },
          ],
          [
            1,
            async (step) => {
              assert.equal(await by(step).drainPermits(), permits ?? 0)
              if (permits !== undefined) permits = 0
            },
          ],
          [
            1,
            async (step) => {
              assert.equal(await by(step).delete(), permits !== undefined)
              permits = undefined
            },
          ],
        ],
        settle,
        async end() {
          for (const { abort } of waiters) abort.abort(ABORTED)
          await waitUntil(() => !waiters.some(({ outcome }) => outcome === 'waiting'))
          await by({ verb: 0, who: 0, many: 1 }).delete()
        },
      }
    }
    t.diagnostic(await agree(play))
  })

  it('a semaphore whose permits can expire agrees with the model after every random step', {
    timeout: LIMIT_MS,
  }, async (t) => {
    const { admin } = fixture.server
    const play = (clients: readonly Client[], name: string): Play => {
      const by = ({ who }: Step): PermitExpirableSemaphore => (clients[who] as Client).getPermitExpirableSemaphore(name)
      /** In all, held or not. */
      let total: number | undefined
      let held: Permit[] = []
      let waiters: Waiter<Permit>[] = []
      const isHeld = (): number => held.reduce((all, { permitIds }) => all + permitIds.length, 0)
      const available = (): number => (total ?? 0) - isHeld()
      const book = (): void => {
        for (const { outcome } of waiters) if (typeof outcome === 'object') held.push(outcome.granted)
        waiters = waiters.filter(({ outcome }) => outcome === 'waiting')
      }
      const settle = async (): Promise<void> => {
        const semaphore = by({ verb: 0, who: 0, many: 1 })
        let seen: readonly number[] = []
        const isSettled = async (): Promise<boolean> => {
          seen = [await semaphore.availablePermits(), await semaphore.acquiredPermits(), await semaphore.getPermits()]
          book()
          const isSame = seen.join() === [available(), isHeld(), total ?? 0].join()
          return isSame && !waiters.some(({ many }) => many <= available())
        }
        await waitUntil(isSettled, {
          timeoutMs: SERVED_WITHIN_MS,
          message: () => `${seen}, not ${[available(), isHeld(), total]}; ${waiters.length} wait`,
        })
      }
      const pick = ({ many, who }: Step): Permit | undefined => held[(many + who) % Math.max(1, held.length)]
      return {
        verbs: [
          [
            2,
            async (step) => {
              assert.equal(await by(step).trySetPermits(step.many), total === undefined)
              total ??= step.many
            },
          ],
          [
            2,
            async (step) => {
              total = step.many
              await by(step).setPermits(step.many)
            },
          ],
          [
            1,
            async (step) => {
              total = (total ?? 0) + step.many
              await by(step).addPermits(step.many)
            },
          ],
          [
            5,
            async (step) => {
              const options = step.who === 0 ? { leaseTimeMs: 60_000 } : {}
              const permit = await by(step).tryAcquire({ permits: step.many, ...options })
              assert.equal(permit !== null, available() >= step.many)
              if (permit) held.push(permit)
            },
          ],
          [
            4,
            async (step) => {
              if (waiters.length === MOST_WAITERS) return
              const { many } = step
              waiters.push(begin(many, (signal) => by(step).acquire({ permits: many, signal })))
            },
          ],
          [2, async (step) => waiters[step.many % Math.max(1, waiters.length)]?.abort.abort(ABORTED)],
          [
            5,
            async (step) => {
              const permit = pick(step)
              held = held.filter((other) => other !== permit)
              await permit?.unlock()
            },
          ],
          // Somebody releases them by their ids.
          [
            2,
            async (step) => {
              const permit = pick(step)
              held = held.filter((other) => other !== permit)
              const ids = permit?.permitIds ?? []
              for (const some of ids.length % 2 === 0 ? ids : [ids]) {
                assert.equal(await by(step).tryRelease(some), true)
                assert.equal(await by(step).tryRelease(some), false)
              }
              if (permit) await assert.rejects(permit.unlock(), { code: 'LOCK_LEASE_LOST' })
            },
          ],
          // Their leases end.
          [
            2,
            async (step) => {
              const permit = pick(step)
              held = held.filter((other) => other !== permit)
              for (const id of permit?.permitIds ?? []) await admin.zadd(`{${name}}:timeout`, 1, Buffer.from(id, 'hex'))
              if (permit) assert.equal(await permit.isHeld(), false)
            },
          ],
          [
            1,
            async (step) => {
              const permit = pick(step)
              if (permit) assert.equal(await permit.isHeld(), true)
            },
          ],
        ],
        settle,
        async end() {
          for (const { abort } of waiters) abort.abort(ABORTED)
          await waitUntil(() => !waiters.some(({ outcome }) => outcome === 'waiting'))
          book()
          for (const permit of held) await permit.unlock().catch(() => {})
          await by({ verb: 0, who: 0, many: 1 }).delete()
        },
      }
    }
    t.diagnostic(await agree(play))
  })

  it('a latch agrees with the model after every step of random sequences', { timeout: LIMIT_MS }, async (t) => {
    const play = (clients: readonly Client[], name: string): Play => {
      const by = ({ who }: Step): CountDownLatch => (clients[who] as Client).getCountDownLatch(name)
      let count = 0
      let waiters: Waiter<boolean>[] = []
      return {
        verbs: [
          [
            3,
            async (step) => {
              assert.equal(await by(step).trySetCount(step.many), count === 0)
              if (count === 0) count = step.many
            },
          ],
          [
            6,
            async (step) => {
              await by(step).countDown()
              count = Math.max(0, count - 1)
            },
          ],
          [
            5,
            async (step) => {
              if (waiters.length < MOST_WAITERS) waiters.push(begin(1, (signal) => by(step).await({ signal })))
            },
          ],
          [1, async (step) => assert.equal(await by(step).await({ waitTimeMs: 0 }), count === 0)],
          [2, async (step) => waiters[step.many % Math.max(1, waiters.length)]?.abort.abort(ABORTED)],
          [
            1,
            async (step) => {
              assert.equal(await by(step).delete(), count > 0)
              count = 0
            },
          ],
        ],
        async settle() {
          assert.equal(await by({ verb: 0, who: 0, many: 1 }).getCount(), count)
          const hasNobody = (): boolean => !waiters.some(({ outcome }) => outcome === 'waiting')
          if (count === 0)
            await waitUntil(hasNobody, { timeoutMs: SERVED_WITHIN_MS, message: 'an open latch has no waiters' })
          for (const { outcome } of waiters) {
            if (typeof outcome !== 'object') continue
            assert.equal(outcome.granted, true)
            assert.equal(count, 0, 'a closed latch releases no waiter')
          }
          waiters = waiters.filter(({ outcome }) => outcome === 'waiting')
        },
        async end() {
          for (const { abort } of waiters) abort.abort(ABORTED)
          await waitUntil(() => !waiters.some(({ outcome }) => outcome === 'waiting'))
          await by({ verb: 0, who: 0, many: 1 }).delete()
        },
      }
    }
    t.diagnostic(await agree(play))
  })
})
