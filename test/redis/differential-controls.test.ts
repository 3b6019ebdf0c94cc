/** Whether differential.test.ts can fail: it must find every error that is planted in the Redis in memory. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Differential } from '../support/differential.js'
import { PLANTED } from '../support/planted-errors.js'
import { IS_BEFORE_7 } from '../support/servers/engine.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'

const SEED = 1
const MOST_CALLS = 20_000

describe('the comparison with a real Redis', { skip: IS_BEFORE_7 && 'error texts and expiries as of Redis 7' }, () => {
  let server: RedisServer
  before(async () => {
    server = await startRedis()
  })
  after(() => server?.stop())

  for (const [error, plant] of Object.entries(PLANTED)) {
    it(`finds ${error}`, async (t) => {
      const undo = plant()
      try {
        const found = await new Differential(server, SEED).run(MOST_CALLS).then(
          () => undefined,
          (failure: unknown) => failure,
        )
        assert(found, `not found in ${MOST_CALLS} calls`)
        t.diagnostic(`${String(found).slice(0, 100)}`)
      } finally {
        undo()
      }
    })
  }
})
