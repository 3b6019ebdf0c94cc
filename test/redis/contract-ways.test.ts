/** What contract.test.ts leaves out: the plain lock through the other ways to reach Redis, and every kind in several processes. */
import { describe } from 'node:test'
import { contract, contractOfProcesses } from '../contract/locks.js'
import { type Driver, drivers, type SetUp, setUpFixture, watchWholeProcess } from '../support/fixture.js'
import { type Kind, kinds } from '../support/kinds.js'
import { isOurs } from '../support/parts.js'

const through =
  (driver: Driver): SetUp =>
  (options) =>
    setUpFixture(driver, [], { ...options, isBesideOthers: true })

describe('every kind of lock', { concurrency: 5 }, () => {
  watchWholeProcess()
  const [plain] = kinds as [Kind]
  const [first, ...others] = drivers as [Driver, ...Driver[]]
  for (const [index, driver] of others.entries()) {
    if (!isOurs(index)) continue
    describe(`a ${plain.name}, through ${driver.name}`, { concurrency: 1 }, () => contract(plain, through(driver)))
  }
  for (const [index, kind] of kinds.entries()) {
    if (!isOurs(index)) continue
    describe(`a ${kind.name}, in several processes`, { concurrency: 1 }, () =>
      contractOfProcesses(kind, through(first), first),
    )
  }
})
