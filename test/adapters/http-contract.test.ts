/** The contracts of locks and synchronizers over HTTP: all of the plain lock, and a round of each other kind. */
import { describe } from 'node:test'
import { Redis } from '@upstash/redis'
import { connect } from '../../src/index.js'
import { latchContract } from '../contract/count-down-latch.js'
import { kindRounds, synchronizerRounds } from '../contract/everywhere.js'
import { contract } from '../contract/locks.js'
import type { Driver } from '../support/drivers.js'
import { type SetUp, setUpFixture, watchWholeProcess } from '../support/fixture.js'
import { type Kind, kinds } from '../support/kinds.js'
import { startUpstashFront } from '../support/servers/upstash-front.js'

const overHttp: Driver = {
  name: 'an @upstash/redis client of the user',
  isPolled: true,
  async open(url, options) {
    const front = await startUpstashFront(url)
    const redis = new Redis({ url: front.url, token: front.token })
    return { client: await connect({ client: redis, ...options }), end: () => front.stop() }
  },
}

describe('every contract over HTTP', { concurrency: 3 }, () => {
  watchWholeProcess()
  const setUp: SetUp = (options) => setUpFixture(overHttp, [], { ...options, isBesideOthers: true })
  const [plain, ...others] = kinds as [Kind, ...Kind[]]
  describe(`a ${plain.name}`, { concurrency: 1 }, () => contract(plain, setUp))
  describe('each other kind of lock', { concurrency: 1 }, () => kindRounds(others, setUp))
  describe('a count-down latch', { concurrency: 1 }, () => latchContract(setUp))
  describe('each synchronizer', { concurrency: 1 }, () => synchronizerRounds(setUp))
})
