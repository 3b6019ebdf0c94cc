/** Nested and successive holds of one lock object do not change each other’s lease. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { countCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { listening } from '../support/subscribers.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000

/** Each test shows that a known defect of Redisson’s RedissonLock and RedissonBaseLock (one `internalLockLeaseTime` for each lock object) does not occur here. */
describe('the lease of a hold', () => {
  const fixture = setUpFixture()

  async function expectLease(leaseMs: number, name = 'a'): Promise<void> {
    const left = await fixture.server.admin.pttl(name)
    assert(left > leaseMs - 4_000 && left <= leaseMs + 50, `PTTL is ${left}, not about ${leaseMs}`)
  }

  it('an expired lease is not the lease of the next hold of the same lock object', async () => {
    const lock = (await fixture.connect()).getLock('a')
    const first = await lock.lock({ leaseTimeMs: 300 })
    await waitUntil(() => first.signal.aborted)
    const hold = await lock.lock()
    await expectLease(WATCHDOG_MS)
    await hold.unlock()
  })

  it('the release of an inner hold keeps the lease of the outer one', async () => {
    const lock = (await fixture.connect()).getLock('a')
    const outer = await lock.lock({ leaseTimeMs: 60_000 })
    await (await lock.lock({ within: outer, leaseTimeMs: 500 })).unlock()
    await expectLease(60_000)
    await sleep(700)
    outer.assertHeld()
    await outer.unlock()
  })

  it('a waiter on the same lock object does not inherit the lease of the previous holder', async () => {
    const lock = (await fixture.connect()).getLock('a')
    for (let round = 0; round < 10; round++) {
      const hold = await lock.lock({ leaseTimeMs: 2_000 })
      const waiting = lock.lock()
      await listening(fixture, 1, 'holdfast_inbox:*')
      await hold.unlock()
      const next = await waiting
      await expectLease(WATCHDOG_MS)
      await next.unlock()
      await listening(fixture, 0)
    }
  })

  it('a lease that would round to zero is refused, and nothing is sent', async () => {
    const lock = (await fixture.connect()).getLock('a')
    const count = await countCommands(fixture.server, async () => {
      for (const leaseTimeMs of [0, 0.5, 1, -1])
        await assert.rejects(lock.lock({ leaseTimeMs }), { code: 'LOCK_CONFIG' })
    })
    assert.equal(count.total, 0)
  })

  it('a re-entry with a short lease expires by itself without ending or shortening the outer hold', async () => {
    const lock = (await fixture.connect()).getLock('a')
    const outer = await lock.lock()
    const inner = await lock.lock({ within: outer, leaseTimeMs: 300 })
    await expectLease(WATCHDOG_MS)
    await waitUntil(() => inner.signal.aborted)
    await assert.rejects(inner.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    outer.assertHeld()
    assert.equal(await outer.isHeld(), true)
    await outer.unlock()
  })
})
