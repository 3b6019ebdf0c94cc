/** What every kind of lock and synchronizer promises, on the Redis in memory: the same suites as on real servers. */
import { describe } from 'node:test'
import { latchContract } from '../contract/count-down-latch.js'
import { contract } from '../contract/locks.js'
import { permitContract } from '../contract/permit-expirable-semaphore.js'
import { semaphoreContract } from '../contract/semaphore.js'
import { type SetUp, watchWholeProcess } from '../support/fixture.js'
import { kinds } from '../support/kinds.js'
import { setUpMemoryFixture } from '../support/memory-place.js'

const setUp: SetUp = (options) => setUpMemoryFixture({ ...options, isBesideOthers: true })

describe('every contract in memory', { concurrency: 20 }, () => {
  watchWholeProcess()
  for (const kind of kinds) describe(`a ${kind.name}`, { concurrency: 1 }, () => contract(kind, setUp))
  describe('a semaphore', { concurrency: 1 }, () => semaphoreContract(setUp))
  describe('a permit-expirable semaphore', { concurrency: 1 }, () => permitContract(setUp))
  describe('a count-down latch', { concurrency: 1 }, () => latchContract(setUp))
})
