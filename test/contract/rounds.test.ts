/** A round of every kind of lock and synchronizer through every driver: what Bun and Deno run of the contracts in each build. */
import { describe } from 'node:test'
import { drivers, setUpFixture } from '../support/fixture.js'
import { kinds } from '../support/kinds.js'
import { kindRounds, synchronizerRounds } from './everywhere.js'

for (const driver of drivers) {
  describe(`a round of every kind, through ${driver.name}`, () => {
    kindRounds(kinds, (options) => setUpFixture(driver, [], options))
    synchronizerRounds((options) => setUpFixture(driver, [], options))
  })
}
