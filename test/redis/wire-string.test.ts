import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { expectTwoCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { expectKeys, NAMES, recordMessages, repliesForgotten } from '../support/key-contents.js'
import { renewed } from '../support/renewed.js'
import { listeningOn } from '../support/subscribers.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000
const CHANNEL = 'redisson_lock__channel:{order}'

describe('the wire format of a string lock', () => {
  const fixture = setUpFixture()

  for (const [name, tagged] of NAMES) {
    it(`a string lock named ${JSON.stringify(name)} is a string with the holder, as SET NX PX leaves it`, async () => {
      const client = await fixture.connect()
      const messages = await recordMessages(fixture)
      const lock = client.getStringLock(name)
      const held = { [name]: { string: `${client.id}:1`, ttl: WATCHDOG_MS } }
      const hold = await lock.lock()
      await expectKeys(fixture.server, held)
      const again = await lock.lock({ within: hold })
      await expectKeys(fixture.server, held)
      await again.unlock()
      await expectKeys(fixture.server, held)
      await hold.unlock()
      await expectKeys(fixture.server, {})
      assert.deepEqual(await messages(), [[`redisson_lock__channel:${tagged}`, '0']])
    })
  }

  it('a string lock has the lease as its TTL, which a re-entry or renewal never shortens', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
    const lock = client.getStringLock('order')
    const hold = await lock.lock()
    const longer = await lock.lock({ within: hold, leaseTimeMs: 20_000 })
    await renewed([hold])
    await expectKeys(fixture.server, { order: { string: hold.holder, ttl: 20_000 } })
    await longer.unlock()
    await hold.unlock()
  })

  it('a forced release of a string lock is DEL and the message 0; a transfer is the new holder', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const messages = await recordMessages(fixture)
    const lock = client.getStringLock('order')
    assert.equal(await lock.forceUnlock(), false)
    const hold = await lock.lock()
    const adopted = await other.getStringLock('order').adopt(hold.handOver())
    await expectKeys(fixture.server, { order: { string: `${other.id}:1`, ttl: WATCHDOG_MS } })
    assert.equal(await lock.forceUnlock(), true)
    await repliesForgotten(fixture.server)
    await expectKeys(fixture.server, {})
    assert.deepEqual(await messages(), [[CHANNEL, '0']])
    await assert.rejects(adopted.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
  })

  it('an uncontended lock and unlock costs two commands', async () => {
    const client = await fixture.connect()
    await expectTwoCommands(fixture, client.getStringLock('order'), ['del', 'get', 'publish', 'set', 'time'])
  })

  it('a string lock and SET NX exclude each other, and an unpublished DEL is noticed within a second', async () => {
    const client = await fixture.connect()
    const { admin } = fixture.server
    const lock = client.getStringLock('order')
    const hold = await lock.lock()
    assert.equal(await admin.set('order', 'theirs', 'PX', WATCHDOG_MS, 'NX'), null)
    await hold.unlock()
    assert.equal(await admin.set('order', 'theirs', 'PX', WATCHDOG_MS, 'NX'), 'OK')
    assert.equal(await lock.tryLock(), null)
    assert.deepEqual(await lock.getHolders(), [{ holder: 'theirs', holdCount: 1 }])
    const waiting = lock.lock()
    await listeningOn(fixture, CHANNEL)
    await sleep(300)
    await expectKeys(fixture.server, { order: { string: 'theirs', ttl: WATCHDOG_MS } })
    await admin.del('order')
    const freeAt = performance.now()
    const next = await waiting
    assert(performance.now() - freeAt < 1_000, 'it polls')
    await next.unlock()
  })

  it('a string lock whose lease ended does not release what another program set', async () => {
    const client = await fixture.connect()
    const hold = await client.getStringLock('order').lock({ leaseTimeMs: 200 })
    await waitUntil(() => hold.signal.aborted)
    await fixture.server.admin.set('order', 'theirs', 'PX', WATCHDOG_MS)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    await sleep(300)
    await expectKeys(fixture.server, { order: { string: 'theirs', ttl: WATCHDOG_MS } })
    await fixture.server.admin.del('order')
  })
})
