import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { expectTwoCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { repliesForgotten } from '../support/key-contents.js'
import { measureLateness } from '../support/lateness.js'
import { type Listening, openTwin, type Twin } from '../support/redisson-twin/twin.js'
import { listening, REDISSON_CHANNELS } from '../support/subscribers.js'
import { sleep } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000

/** Names and the channel that Redisson's naming rule gives them. */
const NAMES: readonly (readonly [name: string, channel: string])[] = [
  ['order', 'redisson_lock__channel:{order}'],
  ['lock:order:1001', 'redisson_lock__channel:{lock:order:1001}'],
  ['{shop}:order', 'redisson_lock__channel:{shop}:order'],
  ['a{t}b', 'redisson_lock__channel:a{t}b'],
  ['a{b', 'redisson_lock__channel:a{b'],
  ['a}b', 'redisson_lock__channel:{a}b}'],
  ['{}', 'redisson_lock__channel:{}'],
  ['Schloß 锁 🔒', 'redisson_lock__channel:{Schloß 锁 🔒}'],
]

describe('the wire format of a plain lock', () => {
  const fixture = setUpFixture()

  async function listen(peer: Twin, name: string): Promise<Listening> {
    const listening = await peer.listen(name)
    fixture.onEnd(() => listening.stop())
    return listening
  }

  async function expectKey(
    name: string,
    fields: Record<string, string>,
    ttl: readonly [number, number],
  ): Promise<void> {
    const { admin } = fixture.server
    assert.equal(await admin.type(name), 'hash')
    assert.deepEqual(await admin.hgetall(name), fields)
    const pttl = await admin.pttl(name)
    assert(pttl > ttl[0] && pttl <= ttl[1], `PTTL ${pttl} should be within ${ttl.join('…')}`)
    assert.deepEqual(await admin.keys('*'), [name], 'no other key than the lock')
  }

  for (const [name, channel] of NAMES) {
    it(`a plain lock named ${JSON.stringify(name)} is the hash of that name and the channel ${channel}`, async () => {
      const client = await fixture.connect()
      const peer = await openTwin(fixture)
      const heard = await listen(peer, name)
      assert.equal(peer.keyNames(name).channel, channel)

      const hold = await client.getLock(name).lock()
      assert.match(hold.holder, /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}:[1-9]\d*$/)
      assert.equal(hold.holder, `${client.id}:${hold.ownerId}`)
      await expectKey(name, { [hold.holder]: '1' }, [WATCHDOG_MS - 1_000, WATCHDOG_MS])

      const again = await client.getLock(name).lock({ within: hold })
      await expectKey(name, { [hold.holder]: '2' }, [WATCHDOG_MS - 1_000, WATCHDOG_MS])
      assert.equal(again.holder, hold.holder)

      await again.unlock()
      await expectKey(name, { [hold.holder]: '1' }, [WATCHDOG_MS - 1_000, WATCHDOG_MS])
      assert.equal(heard.messages.length, 0, 'a partial release publishes nothing')

      await hold.unlock()
      assert.deepEqual(await fixture.server.admin.keys('*'), [])
      const message = await heard.next()
      assert.deepEqual([message.channel, message.payload], [channel, '0'])
      await sleep(20)
      assert.equal(heard.messages.length, 1)
    })
  }

  it('a fixed lease of a plain lock is its TTL', async () => {
    const client = await fixture.connect()
    const hold = await client.getLock('leased').lock({ leaseTimeMs: 5_000 })
    await expectKey('leased', { [hold.holder]: '1' }, [4_000, 5_000])
    await hold.unlock()
  })

  it('nested holds set the longest lease, and never shorten it before the last release', async () => {
    const client = await fixture.connect()
    const lock = client.getLock('nested')
    const outer = await lock.lock({ leaseTimeMs: 20_000 })
    const shorter = await lock.lock({ within: outer, leaseTimeMs: 1_000 })
    await expectKey('nested', { [outer.holder]: '2' }, [19_000, 20_000])
    await shorter.unlock()
    await expectKey('nested', { [outer.holder]: '1' }, [19_000, 20_000])
    const longer = await lock.lock({ within: outer, leaseTimeMs: 60_000 })
    await expectKey('nested', { [outer.holder]: '2' }, [59_000, 60_000])
    await longer.unlock()
    await expectKey('nested', { [outer.holder]: '1' }, [59_000, 60_000])
    await outer.unlock()
  })

  it('a forced release of a plain lock deletes it with the message 0; of a free lock it does nothing', async () => {
    const client = await fixture.connect()
    const heard = await listen(await openTwin(fixture), 'forced')
    assert.equal(await client.getLock('forced').forceUnlock(), false)
    const hold = await client.getLock('forced').lock()
    assert.equal(await client.getLock('forced').forceUnlock(), true)
    await repliesForgotten(fixture.server)
    assert.deepEqual(await fixture.server.admin.keys('*'), [])
    assert.equal((await heard.next()).payload, '0')
    assert.equal(heard.messages.length, 1)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
  })

  it('an uncontended lock and unlock costs two commands', async () => {
    const client = await fixture.connect()
    const inside = ['hdel', 'hset', 'lpop', 'pexpire', 'pttl', 'publish', 'time']
    await expectTwoCommands(fixture, client.getLock('cheap'), inside)
  })

  it('a plain lock keeps a Redisson twin out, and wakes it within 100 ms', async () => {
    const client = await fixture.connect()
    const peer = await openTwin(fixture)
    const hold = await client.getLock('shared').lock()
    const left = await peer.acquire('shared', 7, WATCHDOG_MS)
    assert(left !== null && left > WATCHDOG_MS - 1_000 && left <= WATCHDOG_MS)
    assert.equal(await peer.release('shared', 7), null, 'a peer that does not hold it cannot release it')

    const waiting = peer.lock('shared', 7, WATCHDOG_MS, 10_000)
    await listening(fixture)
    const releasedAt = performance.now()
    await hold.unlock()
    assert.equal(await waiting, true)
    assert(performance.now() - releasedAt < 100, 'woken, not polling')
    assert.deepEqual(await fixture.server.admin.hgetall('shared'), { [`${peer.clientId}:7`]: '1' })
    await peer.release('shared', 7)
  })

  it('a plain lock is refused by a Redisson twin, and woken by it within 100 ms', async () => {
    const client = await fixture.connect()
    const lock = client.getLock('shared')
    const peer = await openTwin(fixture)
    assert.equal(await peer.acquire('shared', 7, WATCHDOG_MS), null)
    assert.equal(await peer.acquire('shared', 7, WATCHDOG_MS), null)
    assert.deepEqual(await lock.getHolders(), [{ holder: `${peer.clientId}:7`, holdCount: 2 }])
    assert.equal(await lock.tryLock(), null)

    const waiting = lock.lock()
    await listening(fixture, 1, REDISSON_CHANNELS)
    assert.equal(await peer.release('shared', 7), 0)
    await sleep(20)
    const latenessMs = measureLateness()
    const releasedAt = performance.now()
    assert.equal(await peer.release('shared', 7), 1)
    const hold = await waiting
    assert(performance.now() - releasedAt < 100 + latenessMs(), 'woken, not polling')
    assert.equal(await peer.renew('shared', 7, WATCHDOG_MS), 0)
    await hold.unlock()
  })

  it('a Redisson twin that renews keeps the lock, and one that stops loses it', async () => {
    const client = await fixture.connect()
    const lock = client.getLock('crashed')
    const peer = await openTwin(fixture)
    await peer.acquire('crashed', 7, 5_000)
    await sleep(200)
    const latenessMs = measureLateness()
    const renewedAt = performance.now()
    assert.equal(await peer.renew('crashed', 7, 600), 1)
    const hold = await lock.lock()
    const waitedMs = performance.now() - renewedAt
    assert(waitedMs > 590 && waitedMs < 1_600 + latenessMs(), `taken when the lease had ended, after ${waitedMs} ms`)
    await hold.unlock()
  })

  it('a Redisson twin can force a plain lock, which the next renewal notices', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 1_500 })
    const peer = await openTwin(fixture)
    const hold = await client.getLock('forced').lock()
    const lost = new Promise((resolve) => client.once('lost', resolve))
    assert.equal(await peer.force('forced'), 1)
    await lost
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert.equal(hold.signal.aborted, true)
  })
})
