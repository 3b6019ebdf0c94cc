/** What every kind of lock promises, on one server, through one way to reach it each: contract-ways.test.ts has the others. */
import { describe } from 'node:test'
import { contract } from '../contract/locks.js'
import { type Driver, drivers, setUpFixture, watchWholeProcess } from '../support/fixture.js'
import { kinds } from '../support/kinds.js'
import { isOurs } from '../support/parts.js'

describe('every kind of lock', { concurrency: 5 }, () => {
  watchWholeProcess()
  for (const [index, kind] of kinds.entries()) {
    if (!isOurs(index)) continue
    const driver = drivers[index % drivers.length] as Driver
    describe(`a ${kind.name}, through ${driver.name}`, { concurrency: 1 }, () =>
      contract(kind, (options) => setUpFixture(driver, [], { ...options, isBesideOthers: true })),
    )
  }
})
