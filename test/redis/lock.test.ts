/** What only the plain lock promises; contract.test.ts has what every kind does. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { countCommands } from '../support/command-stats.js'
import { drivers, setUpFixture } from '../support/fixture.js'

for (const driver of drivers) {
  describe(`a plain lock, through ${driver.name}`, () => {
    const fixture = setUpFixture(driver)

    it('a waiter for a lock without an expiry sends at most 5 commands a second', async () => {
      const client = await fixture.connect()
      await fixture.server.admin.hset('a', 'foreign:1', 1)
      assert.equal(await client.getLock('a').remainingLeaseMs(), Number.POSITIVE_INFINITY)
      await client.getLock('a').tryLock({ waitTimeMs: 200 }) // Redis knows the scripts from here on
      const count = await countCommands(fixture.server, async () => {
        assert.equal(await client.getLock('a').tryLock({ waitTimeMs: 3_000 }), null)
      })
      assert(count.scripts <= 3 * 5, `${count.scripts} scripts`)
      await fixture.server.admin.del('a')
    })

    it('a lock released in time is not reported lost, although the release took longer than the lease', async () => {
      const { client, proxy } = await fixture.connectThroughProxy({ lockWatchdogTimeoutMs: 1_500 })
      let lost = 0
      client.on('lost', () => lost++)
      const hold = await client.getLock('a').lock()
      proxy.delay(1_800)
      await hold.unlock()
      assert.equal(lost, 0)
      proxy.pass()
    })

    it('client.adopt() adopts a plain lock as one hold, whatever its hold count was', async () => {
      const [one, two] = [await fixture.connect(), await fixture.connect()]
      const hold = await one.getLock('a').lock()
      await one.getLock('a').lock({ within: hold })
      const holder = hold.handOver()
      const adopted = await two.adopt('a', holder, { label: 'the next step' })
      assert.deepEqual([adopted.count, adopted.label], [1, 'the next step'])
      assert.deepEqual(await one.getLock('a').getHolders(), [{ holder: adopted.holder, holdCount: 1 }])
      await adopted.unlock()
      await assert.rejects(two.adopt('a', holder), { code: 'LOCK_NOT_HELD' })
      await assert.rejects(two.adopt('a', 'nonsense'), { code: 'LOCK_CONFIG', path: 'holder' })
    })
  })
}
