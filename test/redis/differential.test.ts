/**
 * The Redis in memory against a real one: random calls of every script, alone and in batches, with good and bad arguments, on
 * keys of every type. A failure names seed and step. To repeat one: DIFFERENTIAL_SEED=17. For more: DIFFERENTIAL_CALLS=1000000
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { SCRIPTS } from '../../src/lua/generated.js'
import { Differential } from '../support/differential.js'
import { IS_BEFORE_7 } from '../support/servers/engine.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'

const CALLS = Number(process.env['DIFFERENTIAL_CALLS'] ?? 1_000)
const SEED = Number(process.env['DIFFERENTIAL_SEED'] ?? Date.now() % 1e9)

describe('the Redis in memory', { skip: IS_BEFORE_7 && 'error texts and expiries as of Redis 7' }, () => {
  let server: RedisServer
  before(async () => {
    server = await startRedis()
  })
  after(() => server?.stop())

  it(`the Redis in memory acts as a real one in ${CALLS} random calls from seed ${SEED}`, async (t) => {
    const { byScript, undecided, messages } = await new Differential(server, SEED).run(CALLS)
    const fewest = Math.min(...SCRIPTS.map(({ name }) => byScript.get(name) ?? 0))
    t.diagnostic(`each script at least ${fewest} times, ${messages} messages, ${undecided} undecided by time`)
    assert(fewest >= Math.floor(CALLS / SCRIPTS.length / 2), 'every script is called')
    assert(undecided < CALLS / 2, `${undecided} calls took too long to be compared`)
    assert(messages > 0)
  })
})
