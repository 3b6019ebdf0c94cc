/**
 * Permits are conserved whichever process is killed at whatever moment: never more are held than there are, and in the end
 * none is missing. To repeat a failure: PROPERTY_SEED=… More fleets, as nightly: PROPERTY_RUNS=20000
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { setUpFixture } from '../support/fixture.js'
import { spawnChild } from '../support/processes/child.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const { PROPERTY_RUNS: runs = '300', PROPERTY_SEED: seed } = process.env
const TAKER = new URL('permit-taker.js', import.meta.url)

interface Fleet {
  readonly permits: number
  readonly processes: number
  readonly tasks: number
  /** Which process is killed and started again, and after which pause, ms. */
  readonly kills: readonly { readonly who: number; readonly afterMs: number }[]
}

const fleets: fc.Arbitrary<Fleet> = fc.record({
  permits: fc.integer({ min: 1, max: 5 }),
  processes: fc.integer({ min: 2, max: 4 }),
  tasks: fc.integer({ min: 1, max: 4 }),
  kills: fc.array(fc.record({ who: fc.nat(3), afterMs: fc.integer({ min: 0, max: 400 }) }), {
    minLength: 3,
    maxLength: 6,
  }),
})

describe('permits that can expire', () => {
  const fixture = setUpFixture()

  async function live({ permits, processes, tasks, kills }: Fleet): Promise<void> {
    const { admin, url } = fixture.server
    const client = await fixture.connect()
    const semaphore = client.getPermitExpirableSemaphore('permits')
    await semaphore.setPermits(permits)
    const start = async () => {
      const child = spawnChild(TAKER, [url, String(permits), String(tasks)])
      await child.nextMessage(({ at }) => at === 'ready', 20_000)
      return child
    }
    const children = await Promise.all(Array.from({ length: processes }, start))
    try {
      for (const { who, afterMs } of kills) {
        await sleep(afterMs)
        const index = who % processes
        await children[index]?.stop()
        children[index] = await start()
      }
      // Live processes continue.
      const before = Number(await admin.get('sections'))
      await waitUntil(async () => Number(await admin.get('sections')) > before, { timeoutMs: 20_000 })
    } finally {
      await Promise.all(children.map((child) => child.stop()))
    }
    assert.equal(await admin.get('violations'), null, 'at some moment more permits were held than there are')

    await waitUntil(async () => (await semaphore.availablePermits()) === permits, {
      timeoutMs: 10_000,
      message: 'every permit has come back',
    })
    assert.equal(await semaphore.getPermits(), permits)
    assert.equal(await admin.zcard('{permits}:timeout'), 0)
    await semaphore.delete()
    await client.close()
    await admin.flushall()
  }

  it('permits are conserved while processes are killed at random', async (t) => {
    const property = fc.asyncProperty(fleets, live)
    const details = await fc.check(property, {
      numRuns: Math.ceil(Number(runs) / 100),
      seed: seed === undefined ? Math.floor(Math.random() * 2 ** 31) : Number(seed),
      endOnFailure: true,
    })
    t.diagnostic(`${details.numRuns} fleets, seed ${details.seed}`)
    if (details.failed) assert.fail(`PROPERTY_SEED=${details.seed}: ${String(details.errorInstance)}`)
  })
})
