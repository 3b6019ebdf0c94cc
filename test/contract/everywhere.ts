import { describe } from 'node:test'
import type { Driver } from '../support/drivers.js'
import { type Kind, kinds, kindsThrough } from '../support/kinds.js'
import { type SetUp, setUpLabAt, watchWholeProcess } from '../support/lab.js'
import type { Place } from '../support/places.js'
import { latchContract } from './count-down-latch.js'
import { contract, contractOfProcesses } from './locks.js'
import { permitContract } from './permit-expirable-semaphore.js'
import { semaphoreContract } from './semaphore.js'

/**
 * All contracts on a deployment of several servers: of the plain lock and of the synchronizers through every driver, of
 * each other kind of lock through one. Each driver has a separate deployment, because the suites count commands and check
 * for leftovers in all of it; so the drivers run in parallel.
 */
export function contracts(what: string, drivers: readonly Driver[], setUpPlace: () => () => Place): void {
  describe(`every kind of lock and synchronizer, ${what}`, { concurrency: drivers.length }, () => {
    watchWholeProcess()
    for (const driver of drivers) {
      describe(driver.name, { concurrency: 1 }, () => {
        const place = setUpPlace()
        const setUp: SetUp = (options) => setUpLabAt(place, driver, { ...options, isBesideOthers: true })
        const through = (name: string, tests: () => void): void => {
          describe(`${name}, through ${driver.name}`, { concurrency: 1 }, tests)
        }
        for (const { kind } of kindsThrough(drivers).filter((one) => one.driver === driver)) {
          through(`a ${kind.name}`, () => contract(kind, setUp))
        }
        // What several processes do is the same for all kinds, once their commands arrive; and processes are slow to start.
        const [plain] = kinds as [Kind]
        through(`a ${plain.name} of several processes`, () => contractOfProcesses(plain, setUp, driver))
        through('a semaphore', () => semaphoreContract(setUp))
        through('a permit-expirable semaphore', () => permitContract(setUp))
        through('a count-down latch', () => latchContract(setUp))
      })
    }
  })
}
