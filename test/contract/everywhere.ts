import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Driver } from '../support/drivers.js'
import { type SetUp, setUpFixtureAt, watchWholeProcess } from '../support/fixture.js'
import { type Kind, KindFixture, kindNamed, kinds } from '../support/kinds.js'
import type { Place } from '../support/places.js'
import { latchContract } from './count-down-latch.js'
import { contract, contractOfProcesses } from './locks.js'
import { permitContract } from './permit-expirable-semaphore.js'
import { semaphoreContract } from './semaphore.js'

/** One kind for each trait that matters here: a queue of its own, sharing, and members in several slots. */
const TRAITS = ['fair lock', 'read lock', 'multi-lock']

/**
 * All contracts on a deployment of several servers: of the plain lock and of the synchronizers through every driver, of one
 * kind of lock for each trait through one. The scripts of the others are the same as on one server: a round of each shows
 * that they work here. Each driver has a separate deployment, because the suites count commands and check for leftovers in
 * all of it; so the drivers run in parallel.
 */
export function contracts(what: string, drivers: readonly Driver[], setUpPlace: () => () => Place): void {
  describe(`every kind of lock and synchronizer, ${what}`, { concurrency: drivers.length }, () => {
    watchWholeProcess()
    for (const driver of drivers) {
      describe(driver.name, { concurrency: 1 }, () => {
        const place = setUpPlace()
        const setUp: SetUp = (options) => setUpFixtureAt(place, driver, { ...options, isBesideOthers: true })
        const through = (name: string, tests: () => void): void => {
          describe(`${name}, through ${driver.name}`, { concurrency: 1 }, tests)
        }
        const [plain, ...others] = kinds as [Kind, ...Kind[]]
        through(`a ${plain.name}`, () => contract(plain, setUp))
        for (const [index, name] of TRAITS.entries()) {
          if (drivers[index % drivers.length] === driver) through(`a ${name}`, () => contract(kindNamed(name), setUp))
        }
        through('each other kind of lock', () =>
          rounds(
            others.filter(({ name }) => !TRAITS.includes(name)),
            setUp,
          ),
        )
        // What several processes do is the same for all kinds, once their commands arrive; and processes are slow to start.
        through(`a ${plain.name} of several processes`, () => contractOfProcesses(plain, setUp, driver))
        through('a semaphore', () => semaphoreContract(setUp))
        through('a permit-expirable semaphore', () => permitContract(setUp))
        through('a count-down latch', () => latchContract(setUp))
      })
    }
  })
}

function rounds(some: readonly Kind[], setUp: SetUp): void {
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
      for (const part of kindFixture.parts(two)) assert.equal(await part.forceUnlock(), true)
      await assert.rejects(next.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
      assert.equal(await kindFixture.isFree(), true)
    })
  }
}
