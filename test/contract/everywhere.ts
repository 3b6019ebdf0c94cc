import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Client, Lock } from '../../src/index.js'
import type { Driver } from '../support/drivers.js'
import { type AnyFixture, type SetUp, setUpFixtureAt, watchWholeProcess } from '../support/fixture.js'
import { type Kind, KindFixture, kindNamed, kinds } from '../support/kinds.js'
import type { Place } from '../support/places.js'
import { listening, WOKEN_MS } from '../support/subscribers.js'
import { settlesWithin } from '../support/wait-until.js'
import { latchContract } from './count-down-latch.js'
import { contract, contractOfProcesses } from './locks.js'
import { permitContract } from './permit-expirable-semaphore.js'
import { semaphoreContract } from './semaphore.js'
import { webLocksContract } from './web-locks.js'

/** One kind for each trait that matters here: a queue of its own, sharing, and members in several slots. */
const TRAITS = ['fair lock', 'read lock', 'write lock in order', 'multi-lock']

const SYNCHRONIZERS = [
  ['a semaphore', semaphoreContract],
  ['a permit-expirable semaphore', permitContract],
  ['a count-down latch', latchContract],
  ['client.locks', webLocksContract],
] as const

/**
 * All contracts on a deployment of several servers: of the plain lock through every driver, of the synchronizers and of one
 * kind of lock for each trait through one. The scripts are the same through every driver, and those of the other kinds as on
 * one server: a round of each shows that they work here. Each driver has a separate deployment, because the suites count
 * commands and check for leftovers in all of it; so the drivers run in parallel.
 */
export function contracts(what: string, drivers: readonly Driver[], setUpPlace: () => () => Place): void {
  describe(`every kind of lock and synchronizer, ${what}`, { concurrency: drivers.length }, () => {
    watchWholeProcess()
    for (const [number, driver] of drivers.entries()) {
      const isOf = (index: number): boolean => index % drivers.length === number
      describe(driver.name, { concurrency: 1 }, () => {
        const place = setUpPlace()
        const setUp: SetUp = (options) => setUpFixtureAt(place, driver, { ...options, isBesideOthers: true })
        const through = (name: string, tests: () => void): void => {
          describe(`${name}, through ${driver.name}`, { concurrency: 1 }, tests)
        }
        const [plain, ...others] = kinds as [Kind, ...Kind[]]
        through(`a ${plain.name}`, () => contract(plain, setUp))
        for (const [index, name] of TRAITS.entries()) {
          if (isOf(index)) through(`a ${name}`, () => contract(kindNamed(name), setUp))
        }
        through('each other kind of lock', () =>
          kindRounds(
            others.filter(({ name }) => !TRAITS.includes(name)),
            setUp,
          ),
        )
        // What several processes do is the same for all kinds, once their commands arrive; and processes are slow to start.
        through(`a ${plain.name} of several processes`, () => contractOfProcesses(plain, setUp, driver))
        for (const [index, [name, tests]] of SYNCHRONIZERS.entries()) if (isOf(index)) through(name, () => tests(setUp))
        through('each synchronizer', () => synchronizerRounds(setUp))
      })
    }
  })
}

export function kindRounds(some: readonly Kind[], setUp: SetUp): void {
  const fixture = setUp({ keysThatStay: /^redisson_lock_token:/ })
  for (const kind of some) {
    it(`a ${kind.name} is held, waited for, re-entered, forced free and released`, async () => {
      const kindFixture = new KindFixture(kind, fixture)
      const [one, two] = [await fixture.connect(), await fixture.connect()]
      await kindFixture.lock(one).withLock(async (hold) => {
        assert.equal(await kindFixture.rival(two).tryLock(), null)
        if (kind.isReentrant) await kindFixture.lock(one).withLock(() => kindFixture.expectCount(2))
        await kindFixture.expectCount(1)
        assert.equal(await hold.isHeld(), true)
      })
      const hold = await kindFixture.lock(one).lock()
      const waiting = kindFixture.rival(two).lock()
      await kindFixture.somebodyWaits()
      await hold.unlock()
      const next = await waiting
      const held = kind.isShared ? [kindFixture.rival(two) as Lock] : kindFixture.parts(two)
      for (const part of held) assert.equal(await part.forceUnlock(), true)
      await assert.rejects(next.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
      assert.equal(await kindFixture.isFree(), true)
    })
  }
}

export function synchronizerRounds(setUp: SetUp): void {
  const fixture = setUp()

  for (const [suffix, options] of [
    ['', undefined],
    [' in order', { order: 'fifo' }],
  ] as const) {
    it(`a semaphore${suffix} serves its waiter when a permit is released`, async () => {
      const [semaphore, other] = await connectTwice(fixture, (client) => client.getSemaphore('a', options))
      await semaphore.trySetPermits(1)
      await semaphore.acquire()
      const waiting = other.acquire()
      await listening(fixture)
      await semaphore.release()
      await settlesWithin(waiting, WOKEN_MS)
      assert.equal(await semaphore.availablePermits(), 0)
      await semaphore.delete()
    })

    it(`a permit-expirable semaphore${suffix} serves its waiter when a permit is released`, async () => {
      const [semaphore, other] = await connectTwice(fixture, (client) =>
        client.getPermitExpirableSemaphore('a', options),
      )
      await semaphore.trySetPermits(1)
      const permit = await semaphore.acquire()
      const waiting = other.acquire()
      await listening(fixture)
      await permit.unlock()
      await settlesWithin(waiting, WOKEN_MS)
      await (await waiting).unlock()
      assert.equal(await semaphore.availablePermits(), 1)
      await semaphore.delete()
    })
  }

  it('a count-down latch lets its waiter through when it opens', async () => {
    const [latch, other] = await connectTwice(fixture, (client) => client.getCountDownLatch('a'))
    await latch.trySetCount(1)
    const waiting = other.await()
    await listening(fixture)
    await latch.countDown()
    await settlesWithin(waiting, WOKEN_MS)
    assert.equal(await waiting, true)
  })
}

async function connectTwice<T>(fixture: AnyFixture, get: (client: Client) => T): Promise<readonly [T, T]> {
  return [get(await fixture.connect()), get(await fixture.connect())]
}
