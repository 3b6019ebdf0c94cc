/**
 * Clients on a Redis in memory, in virtual time, while nearly everything goes wrong: see README.md here. For more lives:
 * npm run simulate.
 */
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { CONTROLS } from './controls.js'
import { Lives } from './lives.js'
import { WORKLOADS } from './plan.js'

/** For each workload. */
const LIVES = 30
const MOST_CONTROL_LIVES = 60

const lives = new Lives()
after(() => lives[Symbol.asyncDispose]())

function seeds(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index + 1)
}

describe(`${LIVES} simulated lives`, () => {
  for (const workload of WORKLOADS) {
    it(`keep every promise: ${workload}`, async (t) => {
      const { lives: lived, failures } = await lives.run({ seeds: seeds(LIVES), workload })
      const grants = lived.reduce((sum, life) => sum + life.grants, 0)
      const losses = lived.reduce((sum, life) => sum + life.losses, 0)
      t.diagnostic(`${grants} holds, ${losses} lost`)
      assert.deepEqual(
        failures.map(({ seed, message, smallest, timeline = [] }) => [seed, message, smallest, ...timeline].join('\n')),
        [],
      )
      assert(grants > 10 * LIVES && grants > 3 * losses, 'the storm is neither too weak nor too strong')
    })
  }

  it('are the same for the same seed', async () => {
    const [first, second] = [await lives.run({ seeds: seeds(5) }), await lives.run({ seeds: seeds(5) })]
    assert.deepEqual(first, second)
    assert.equal(new Set(first.lives.map(({ digest }) => digest)).size, 5)
  })
})

describe('the simulation', () => {
  for (const [control, { finding }] of Object.entries(CONTROLS)) {
    it(`finds that ${control}`, async (t) => {
      const { failures } = await lives.run({ seeds: seeds(MOST_CONTROL_LIVES), control })
      assert(failures[0], `not found in ${MOST_CONTROL_LIVES} lives`)
      assert.match(failures[0].message, finding)
      t.diagnostic(`seed ${failures[0].seed}: ${failures[0].message.split('\n')[0]}`)
    })
  }
})
