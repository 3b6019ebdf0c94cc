// Two isolates and a process of Node exclude each other while requests get lost, late and doubled.
import assert from 'node:assert/strict'
import { connect } from 'holdfast'
import { Dice } from './dice.mjs'
import { inWorkerd } from './runtime.mjs'
import { enterAndLeave, overlapsIn } from './sections.mjs'

const FAULTS = [{ is: 'request lost' }, { is: 'reply lost' }, { is: 'late', ms: 150 }, { is: 'doubled', ms: 50 }]
const FAULTY = 0.33
const seed = Math.floor(Math.random() * 2 ** 32)
const dice = new Dice(seed)

await inWorkerd(async ({ start, faulty, redis }) => {
  const [one, two] = [start(), start()]
  const log = (entry) => redis.rpush('log', entry)
  const client = await connect({ client: redis, lockWatchdogTimeoutMs: 2_000 })
  /** @returns how many sections there were, and overlaps */
  const run = async (path, lock) => {
    await redis.del('log')
    const counts = await Promise.all([one(path), two(path), enterAndLeave(lock, log)])
    return [counts.reduce((sum, count) => sum + count), overlapsIn(await redis.lrange('log', 0, -1))]
  }
  faulty.fault = () => (dice.chance(FAULTY) ? dice.pick(FAULTS) : undefined)
  assert.deepEqual(await run('/storm', client.getLock('lock:storm')), [48, 0], `with the seed ${seed}`)
  assert(faulty.arrived.requests > 64, 'the isolates used the front with the faults')
  const [, overlaps] = await run('/control')
  assert(overlaps > 0, 'without the lock, sections overlap')
  console.log(`seed ${seed}: 0 overlaps in 48 sections, and ${overlaps} without the lock`)
  await client.close()
})
