/** What every kind of lock promises, on one server, through one way to reach it each: contract-ways.test.ts has the others. */
import { describe } from 'node:test'
import { contract } from '../contract/locks.js'
import { type Driver, drivers, setUpFixture, watchWholeProcess } from '../support/fixture.js'
import { kinds } from '../support/kinds.js'

/** Where nothing runs side by side, as on Bun and Deno: which of how many processes this is. */
const [part, parts = 1] = (process.env['TEST_PART'] ?? '0/1').split('/').map(Number)

describe('every kind of lock', { concurrency: 5 }, () => {
  watchWholeProcess()
  for (const [index, kind] of kinds.entries()) {
    if (index % parts !== part) continue
    const driver = drivers[index % drivers.length] as Driver
    describe(`a ${kind.name}, through ${driver.name}`, { concurrency: 1 }, () =>
      contract(kind, (options) => setUpFixture(driver, [], { ...options, isBesideOthers: true })),
    )
  }
})
