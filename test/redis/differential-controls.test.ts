/** Whether differential.test.ts can fail: it must find every error that is planted in the Redis in memory. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { Differential } from '../support/differential.js'
import { PLANTED } from '../support/planted-errors.js'
import { IS_BEFORE_7 } from '../support/servers/engine.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'

/** An error that one seed finds late, another finds soon: each in turn, with more calls each time. */
const SEEDS = [4, 1]
const ROUNDS = [3_000, 6_000, 12_000].flatMap((calls) => SEEDS.map((seed) => ({ seed, calls })))

describe('the comparison with a real Redis', { skip: IS_BEFORE_7 && 'error texts and expiries as of Redis 7' }, () => {
  let server: RedisServer
  before(async () => {
    server = await startRedis()
  })
  after(() => server?.stop())

  for (const [error, plant] of Object.entries(PLANTED)) {
    it(`the comparison with a real Redis finds ${error}`, async (t) => {
      const undo = plant()
      try {
        let found: unknown
        for (const { seed, calls } of ROUNDS) {
          found = await new Differential(server, seed).run(calls).then(
            () => undefined,
            (failure: unknown) => failure,
          )
          if (found) break
        }
        assert(found, 'not found')
        t.diagnostic(`${String(found).slice(0, 100)}`)
      } finally {
        undo()
      }
    })
  }
})
