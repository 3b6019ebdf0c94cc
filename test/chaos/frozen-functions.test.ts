/** What holds in functions whose processes are frozen between two calls, as on AWS Lambda. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { drivers, setUpFixture } from '../support/fixture.js'
import { type Child, spawnChild } from '../support/processes/child.js'

const FUNCTION = new URL('../support/processes/function-process.js', import.meta.url)

for (const driver of drivers) {
  describe(`a function, through ${driver.name},`, () => {
    const fixture = setUpFixture(driver)

    async function startFunction(): Promise<{ child: Child; said: (at: string) => Promise<object> }> {
      const child = spawnChild(FUNCTION, [fixture.server.url, driver.name])
      fixture.onEnd(() => child.stop())
      const said = async (at: string): Promise<object> =>
        await child.nextMessage<{ at: string }>((message) => message.at === at)
      await said('ready')
      return { child, said }
    }

    it('a function that was frozen takes the lock again, also if its connection is gone', async () => {
      const { child, said } = await startFunction()
      for (const isConnected of [true, false, true]) {
        child.send({ isLong: false })
        assert.deepEqual(await said('returned'), { at: 'returned', ran: true })
        child.freeze()
        if (!isConnected) await fixture.server.admin.call('CLIENT', 'KILL', 'TYPE', 'normal')
        await sleep(200)
        child.thaw()
      }
    })

    it('a function that is frozen inside has lost its lock when it goes on, and frees no other', async () => {
      const { child, said } = await startFunction()
      child.send({ isLong: true })
      await said('inside')
      child.freeze()
      const hold = await (await fixture.connect()).getLock('a').lock({ waitTimeMs: 10_000 })
      child.thaw()
      assert.deepEqual(await said('returned'), { at: 'returned', code: 'LOCK_LEASE_LOST' })
      assert(await hold.isHeld())
      await hold.unlock()
    })
  })
}
