/** What every kind of lock promises, on one server. */
import { describe } from 'node:test'
import { contract, contractOfProcesses } from '../contract/locks.js'
import { kinds, kindsThrough } from '../support/kinds.js'
import { type Driver, drivers, type SetUp, setUpLab, watchWholeProcess } from '../support/lab.js'

const through =
  (driver: Driver): SetUp =>
  (options) =>
    setUpLab(driver, [], { ...options, isBesideOthers: true })

describe('every kind of lock', { concurrency: 5 }, () => {
  watchWholeProcess()
  for (const { kind, driver } of kindsThrough(drivers)) {
    describe(`a ${kind.name}, through ${driver.name}`, { concurrency: 1 }, () => contract(kind, through(driver)))
  }
  const [driver] = drivers as [Driver]
  for (const kind of kinds) {
    describe(`a ${kind.name}, in several processes`, { concurrency: 1 }, () =>
      contractOfProcesses(kind, through(driver), driver),
    )
  }
})
