import { Redis } from 'ioredis'
import { sleep } from '../../support/wait-until.js'
import { monotonicMs } from '../beliefs.js'
import { MOST_INSIDE } from './messages.js'
import type { Section, Worker } from './sections.js'
import type { Held } from './stays.js'
import type { VerdictName } from './verdict.js'

/** Ways to break a lock, each with the verdict that has to notice it. */
export interface Control {
  readonly name: string
  /** The lock that is broken: nothing else may be wrong with it. */
  readonly lock: string
  readonly verdict: VerdictName
}

const OPEN = 'control:entered-without'
const UNCHECKED = 'control:unchecked-store'
const BLIND = 'control:held-after-its-lease'
const KEPT = 'control:never-released'
const CROWD = 'control:entered-without-permit'
const TAKEN = 'control:permit-taken-for-good'
const CREATED = 'control:permit-created'
const IMMORTAL = 'control:without-expiry'
const REPEATED = 'control:token-repeated'
const LATCH = 'control:latch'

export const CONTROLS: readonly Control[] = [
  { name: 'enters without the lock', lock: OPEN, verdict: 'overlaps' },
  { name: 'the order of accesses, without a clock, shows it too', lock: OPEN, verdict: 'interleavings' },
  { name: 'ignores the loss, and the store checks no token', lock: UNCHECKED, verdict: 'staleWrites' },
  { name: 'says that it holds after its lease', lock: BLIND, verdict: 'dishonest' },
  { name: 'never releases', lock: KEPT, verdict: 'stuck' },
  { name: 'enters without a permit', lock: CROWD, verdict: 'crowds' },
  { name: 'takes a permit for good', lock: TAKEN, verdict: 'permits' },
  { name: 'releases a permit that it did not acquire', lock: CREATED, verdict: 'permits' },
  { name: 'leaves a key without an expiry', lock: IMMORTAL, verdict: 'keysLeft' },
  { name: 'grants a token twice', lock: REPEATED, verdict: 'staleTokens' },
  { name: 'opens a latch early', lock: LATCH, verdict: 'failures' },
]

/** Semaphores of the controls, with as many permits as any other. */
export const CONTROL_SEMAPHORES: readonly string[] = [CROWD, TAKEN, CREATED]

/** A hold that nobody has: what a lock without a lease would say. */
const forever = (token?: bigint): Held => ({
  signal: new AbortController().signal,
  remainingMs: () => 60_000,
  ...(token === undefined ? {} : { fencingToken: token }),
})

/** Only once in each process, and again if it fails: one of them blocks the event loop, so that calls of others time out. */
function once(act: (worker: Worker) => Promise<void>): Section {
  let isDone = false
  return async (worker) => {
    if (isDone) return await sleep(100)
    await act(worker)
    isDone = true
  }
}

/** What the broken process does. */
export const BROKEN: Readonly<Record<string, Section>> = {
  [OPEN]: async (worker) => {
    await worker.stay(OPEN, [OPEN], forever())
    await sleep(worker.random(100))
  },
  [UNCHECKED]: once(async (worker) => {
    const { fencingToken } = await worker.client.getFencedLock(UNCHECKED).lock({ leaseTimeMs: 300 })
    // By the time of the write others have higher tokens.
    await worker.stay(UNCHECKED, [UNCHECKED], { ...forever(fencingToken), isUnchecked: true }, undefined, 1_000)
  }),
  [BLIND]: once(async (worker) => {
    const stay = worker.stay(BLIND, [BLIND], forever(), undefined, 1_500 + 2 * worker.leaseMs)
    // The others may come first: their calls time out meanwhile.
    await sleep(1_500)
    const endsAt = monotonicMs() + 2 * worker.leaseMs
    while (monotonicMs() < endsAt);
    await stay
  }),
  [KEPT]: once(async ({ client }) => {
    await client.getLock(KEPT).lock({ leaseTimeMs: 60_000 })
  }),
  [CROWD]: async (worker) => {
    const all = Array.from({ length: MOST_INSIDE + 1 }, () => worker.stay(CROWD, [CROWD], undefined, 'shared', 20))
    await Promise.all(all)
  },
  [TAKEN]: once(async ({ client }) => {
    await client.getSemaphore(TAKEN).acquire()
  }),
  [CREATED]: once(async ({ client }) => {
    await client.getSemaphore(CREATED).release()
  }),
  [IMMORTAL]: once(async ({ redisUrl }) => {
    const redis = new Redis(redisUrl)
    await redis.hset(IMMORTAL, 'nobody', 1)
    redis.disconnect()
  }),
  [REPEATED]: async (worker) => {
    await worker.stay(REPEATED, [REPEATED], forever(1n))
  },
  [LATCH]: once(async (worker) => {
    const since = monotonicMs()
    const latch = worker.client.getCountDownLatch(LATCH)
    await latch.trySetCount(MOST_INSIDE)
    for (let n = 0; n < MOST_INSIDE; n++) await latch.countDown()
    if (await latch.await({ waitTimeMs: 1_000 })) worker.fail(`${LATCH}: opened early`, since)
  }),
}

/** What another process does meanwhile with the same locks. */
export const HONEST: Readonly<Record<string, Section>> = {
  [OPEN]: async (worker) => {
    await worker.client.getLock(OPEN).withLock(async (hold) => await worker.stay(OPEN, [OPEN], hold))
  },
  [UNCHECKED]: async (worker) => {
    await worker.client
      .getFencedLock(UNCHECKED)
      .withLock(async (hold) => await worker.stay(UNCHECKED, [UNCHECKED], hold))
  },
  [KEPT]: async ({ client }) => {
    await client.getLock(KEPT).withLock(() => {})
  },
  [CROWD]: async (worker) => {
    await worker.client
      .getSemaphore(CROWD)
      .withPermit(async () => await worker.stay(CROWD, [CROWD], undefined, 'shared'))
  },
}
