import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { countCommands, expectTwoCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { expectKeys, NAMES, recordMessages, repliesForgotten } from '../support/key-contents.js'
import { openTwin } from '../support/redisson-twin/twin.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000
describe('the wire format of a spin lock', () => {
  const fixture = setUpFixture()

  for (const [name] of NAMES) {
    it(`a spin lock named ${JSON.stringify(name)} is the hash of the plain lock, without a message`, async () => {
      const client = await fixture.connect()
      const messages = await recordMessages(fixture)
      const lock = client.getSpinLock(name)
      const held = (count: string) => ({ [name]: { hash: { [`${client.id}:1`]: count }, ttl: WATCHDOG_MS } })
      const hold = await lock.lock()
      await expectKeys(fixture.server, held('1'))
      const again = await lock.lock({ within: hold })
      await expectKeys(fixture.server, held('2'))
      await again.unlock()
      await expectKeys(fixture.server, held('1'))
      await hold.unlock()
      await expectKeys(fixture.server, {})
      await lock.lock()
      assert.equal(await lock.forceUnlock(), true)
      assert.equal(await lock.forceUnlock(), false)
      await repliesForgotten(fixture.server)
      await expectKeys(fixture.server, {})
      assert.deepEqual(await messages(), [])
    })
  }

  it('a waiter of a spin lock attempts at the pace of its back-off, without a subscription', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await client.getSpinLock('order').lock()
    const lock = other.getSpinLock('order', { backOff: { type: 'constant', delayMs: 100 } })
    const waiting = lock.lock()
    await waitUntil(async () => /cmdstat_hexists:calls/.test(await fixture.server.admin.info('commandstats')))
    const count = await countCommands(fixture.server, () => sleep(2_000))
    assert(count.scripts >= 5 && count.scripts <= 21, `${count.scripts} attempts in 2 s`)
    assert.deepEqual(await fixture.server.admin.pubsub('CHANNELS'), [])
    assert.equal(count.calls['subscribe'], undefined)
    await hold.unlock()
    await (await waiting).unlock()
  })

  it('an uncontended lock and unlock costs two commands', async () => {
    const client = await fixture.connect()
    await expectTwoCommands(fixture, client.getSpinLock('order'), ['hdel', 'hset', 'pexpire', 'pttl', 'time'])
  })

  it('a spin lock and a spin or plain lock of a Redisson peer exclude each other', async () => {
    const client = await fixture.connect()
    const peer = await openTwin(fixture)
    const hold = await client.getSpinLock('order').lock()
    assert.notEqual(await peer.acquire('order', 7, WATCHDOG_MS), null)
    await hold.unlock()
    assert.equal(await peer.acquire('order', 7, WATCHDOG_MS), null)
    assert.equal(await client.getSpinLock('order').tryLock(), null)
    const waiting = client.getSpinLock('order').lock()
    await peer.release('order', 7)
    const startedAt = performance.now()
    await (await waiting).unlock()
    assert(performance.now() - startedAt < 3_000, 'it polls')
  })
})
