/** The attempts of a spin lock. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { countCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'

const WATCHDOG_MS = 30_000

/** Each test shows that a known defect of Redisson’s RedissonSpinLock does not occur here. */
describe('a spin lock', () => {
  const fixture = setUpFixture()

  it('refused attempts of a spin lock change no lease, of the holder or of the next one', async () => {
    const client = await fixture.connect()
    const lock = client.getSpinLock('a')
    const hold = await lock.lock()
    assert.equal(await lock.tryLock({ leaseTimeMs: 500 }), null)
    assert.equal(await lock.tryLock({ leaseTimeMs: 500, waitTimeMs: 100 }), null)
    const waiting = lock.lock({ waitTimeMs: 10_000 })
    const refused = lock.tryLock({ leaseTimeMs: 500, waitTimeMs: 100 })
    assert.equal(await refused, null)
    for (const held of [hold, waiting]) {
      const live = await held
      const left = await fixture.server.admin.pttl('a')
      assert(left > WATCHDOG_MS - 4_000 && left <= WATCHDOG_MS + 50, `PTTL is ${left}`)
      await live.unlock()
    }
  })

  it('a wait for a spin lock ends on time, however long the next pause would be', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await other.getSpinLock('a').lock()
    const lock = client.getSpinLock('a', { backOff: { type: 'constant', delayMs: 60_000 } })
    const startedAt = performance.now()
    assert.equal(await lock.tryLock({ waitTimeMs: 300 }), null)
    assert(performance.now() - startedAt < 10_000)
    await hold.unlock()
  })

  it('the back-off of a spin lock keeps attempts rare', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await other.getSpinLock('a').lock()
    const count = await countCommands(fixture.server, async () => {
      assert.equal(await client.getSpinLock('a').tryLock({ waitTimeMs: 2_000 }), null)
    })
    assert(count.scripts <= 30, `${count.scripts} attempts in 2 s; at 128 ms that is 16, and a few at first`)
    await hold.unlock()
  })
})
