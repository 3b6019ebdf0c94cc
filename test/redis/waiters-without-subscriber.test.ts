/** What a waiter does while the connection that listens is away, though the one for commands works. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Client, Lock } from '../../src/index.js'
import { drivers, setUpFixture } from '../support/fixture.js'
import { sleep, waitUntil } from '../support/wait-until.js'

/** Less than a poll of a waiter that relies on messages. */
const SOON_MS = 2_500

const LOCKS: Record<string, (client: Client) => Lock> = {
  'a plain lock': (client) => client.getLock('order'),
  'a fair lock': (client) => client.getFairLock('order'),
  'a read lock': (client) => client.getReadWriteLock('order').readLock(),
}

for (const driver of drivers) {
  describe(`waiters without a subscriber connection, through ${driver.name}`, () => {
    const fixture = setUpFixture(driver)

    for (const [title, lockOf] of Object.entries(LOCKS)) {
      it(`a waiter for ${title} without a subscriber connection polls and is served soon, in order`, async () => {
        const { client: deaf, proxy } = await fixture.connectThroughProxy()
        const [holding, other] = [await fixture.connect(), await fixture.connect()]
        const lock = lockOf(holding)
        const hold = await (title === 'a read lock' ? holding.getReadWriteLock('order').writeLock() : lock).lock()
        const order: string[] = []
        const channels = async (): Promise<number> => (await fixture.server.admin.pubsub('CHANNELS', '*order*')).length
        const first = lockOf(deaf).withLock(() => order.push('first'))
        await waitUntil(async () => (await channels()) === 1)
        await sleep(200) // it sleeps now
        const second = title === 'a fair lock' ? lockOf(other).withLock(() => order.push('second')) : undefined
        if (second) await waitUntil(async () => (await channels()) === 2)
        await sleep(200)

        proxy.refuse()
        await fixture.server.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
        await sleep(1_000) // what it does at once when the connection is lost does not count
        const releasedAt = performance.now()
        await hold.unlock()
        await first
        const tookMs = performance.now() - releasedAt
        await second
        assert(tookMs < SOON_MS, `${tookMs} ms`)
        assert.deepEqual(order, second ? ['first', 'second'] : ['first'])
        await proxy.accept()
      })
    }
  })
}
