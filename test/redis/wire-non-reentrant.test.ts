import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Lock } from '../../src/index.js'
import { countCommands, expectTwoCommands } from '../support/command-stats.js'
import { type Fixture, setUpFixture } from '../support/fixture.js'
import { expectKeys, NAMES, recordMessages } from '../support/key-contents.js'
import { openTwin } from '../support/redisson-twin/twin.js'
import { listeningOn } from '../support/subscribers.js'
import { waitUntil } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000
/** How long a fair queue lasts after a waiter of a client has last asked. */
const QUEUE_TTL_MS = 86_400_000
const CHANNEL = 'redisson_lock__channel:{order}'

/** Fails unless the call chain of a hold is refused at once and nothing is sent. */
async function expectNoReentry(fixture: Fixture, lock: Lock): Promise<void> {
  await lock.withLock(async (hold) => {
    const count = await countCommands(fixture.server, async () => {
      await assert.rejects(lock.lock(), { code: 'LOCK_SELF_DEADLOCK' })
      assert.equal(await lock.tryLock(), null)
      await assert.rejects(lock.lock({ within: hold }), { code: 'LOCK_SELF_DEADLOCK' })
    })
    assert.equal(count.total, 0)
  })
}

describe('the wire format of a non-reentrant lock', () => {
  const fixture = setUpFixture()

  for (const [name, tagged] of NAMES) {
    it(`a non-reentrant lock named ${JSON.stringify(name)} is the plain hash with the count 1, and the plain message`, async () => {
      const client = await fixture.connect()
      const messages = await recordMessages(fixture)
      const hold = await client.getNonReentrantLock(name).lock()
      await expectKeys(fixture.server, { [name]: { hash: { [`${client.id}:1`]: '1' }, ttl: WATCHDOG_MS } })
      await hold.unlock()
      await expectKeys(fixture.server, {})
      assert.deepEqual(await messages(), [[`redisson_lock__channel:${tagged}`, '0']])
    })
  }

  it('an uncontended non-reentrant lock and unlock costs two commands, an attempt to re-enter none', async () => {
    const client = await fixture.connect()
    const lock = client.getNonReentrantLock('order')
    await expectTwoCommands(fixture, lock, ['hdel', 'hset', 'lpop', 'pexpire', 'pttl', 'publish', 'time'])
    await expectNoReentry(fixture, lock)
  })

  it('a fair non-reentrant lock is the hash, queue, deadlines and channels of the fair lock', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const waiter = `${other.id}:1`
    const messages = await recordMessages(fixture)
    const hold = await client.getNonReentrantFairLock('order').lock()
    const waiting = other.getNonReentrantFairLock('order').lock()
    await listeningOn(fixture, `${CHANNEL}:${waiter}`)
    await expectKeys(fixture.server, {
      order: { hash: { [hold.holder]: '1' }, ttl: WATCHDOG_MS },
      'redisson_lock_queue:{order}': { list: [waiter], ttl: QUEUE_TTL_MS },
      'redisson_lock_timeout:{order}': { zset: [waiter], ttl: QUEUE_TTL_MS },
    })
    await hold.unlock()
    await (await waiting).unlock()
    await expectKeys(fixture.server, {})
    assert.deepEqual(await messages(), [[`${CHANNEL}:${waiter}`, '0']])
    const inside = ['del', 'hexists', 'hset', 'lindex', 'pexpire', 'pttl', 'time']
    await expectTwoCommands(fixture, client.getNonReentrantFairLock('order'), inside)
    await expectNoReentry(fixture, client.getNonReentrantFairLock('order'))
  })

  it('a non-reentrant lock and a Redisson peer exclude and wake each other', async () => {
    const client = await fixture.connect()
    const peer = await openTwin(fixture)
    const hold = await client.getNonReentrantLock('order').lock()
    const peerWaits = peer.lock('order', 7, WATCHDOG_MS, 60_000)
    await waitUntil(() => peer.sleeping === 1)
    await hold.unlock()
    assert.equal(await peerWaits, true)
    assert.equal(await client.getNonReentrantLock('order').tryLock(), null)
    const waiting = client.getNonReentrantLock('order').lock()
    await listeningOn(fixture, CHANNEL)
    assert.equal(await peer.release('order', 7), 1)
    await (await waiting).unlock()
  })
})
