import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { expectTwoCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { expectKeys, NAMES, recordMessages, repliesForgotten } from '../support/key-contents.js'
import { openTwin } from '../support/redisson-twin/twin.js'
import { renewed } from '../support/renewed.js'
import { listening } from '../support/subscribers.js'
import { waitUntil } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000
const TOKENS = 'redisson_lock_token:{order}'

describe('the wire format of a fenced lock', () => {
  const fixture = setUpFixture()

  /** The counters stay for ever; a test ends without them. */
  function forgetTokens(tokens = TOKENS): void {
    fixture.onEnd(() => fixture.server.admin.del(tokens))
  }

  for (const [name, tagged] of NAMES) {
    it(`a fenced lock named ${JSON.stringify(name)} is the plain hash, and a counter that ends in ${tagged} and never expires`, async () => {
      const tokens = `redisson_lock_token:${tagged}`
      forgetTokens(tokens)
      const client = await fixture.connect()
      const lock = client.getFencedLock(name)
      const messages = await recordMessages(fixture)
      assert.equal(await lock.getToken(), 0n)
      await expectKeys(fixture.server, {})
      for (const token of ['1', '2']) {
        const hold = await lock.lock()
        const held = (count: string) => ({
          [name]: { hash: { [hold.holder]: count }, ttl: WATCHDOG_MS },
          [tokens]: { string: token },
        })
        assert.equal(hold.fencingToken, BigInt(token))
        await expectKeys(fixture.server, held('1'))
        const again = await lock.lock({ within: hold })
        assert.equal(again.fencingToken, BigInt(token), 'a re-entry has the token of the outer hold')
        await expectKeys(fixture.server, held('2'))
        await again.unlock()
        await expectKeys(fixture.server, held('1'))
        await hold.unlock()
        await expectKeys(fixture.server, { [tokens]: { string: token } })
        assert.equal(await lock.getToken(), BigInt(token))
      }
      const channel = `redisson_lock__channel:${tagged}`
      assert.deepEqual(await messages(), [
        [channel, '0'],
        [channel, '0'],
      ])
    })
  }

  it('a fixed lease, a renewal and a forced release leave the token counter without a TTL', async () => {
    forgetTokens()
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
    const lock = client.getFencedLock('order')
    const leased = await lock.lock({ leaseTimeMs: 5_000 })
    await expectKeys(fixture.server, {
      order: { hash: { [leased.holder]: '1' }, ttl: 5_000 },
      [TOKENS]: { string: '1' },
    })
    await leased.unlock()
    const hold = await lock.lock()
    await renewed([hold])
    await expectKeys(fixture.server, { order: { hash: { [hold.holder]: '1' }, ttl: 2_400 }, [TOKENS]: { string: '2' } })
    const messages = await recordMessages(fixture)
    assert.equal(await lock.forceUnlock(), true)
    assert.equal(await lock.forceUnlock(), false)
    await repliesForgotten(fixture.server)
    await expectKeys(fixture.server, { [TOKENS]: { string: '2' } })
    assert.deepEqual(await messages(), [['redisson_lock__channel:{order}', '0']])
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
  })

  it('a transfer of a fenced lock replaces the field of the holder and draws the next token', async () => {
    forgetTokens()
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await client.getFencedLock('order').lock()
    const adopted = await other.getFencedLock('order').adopt(hold.handOver())
    assert.equal(adopted.fencingToken, 2n)
    await expectKeys(fixture.server, {
      order: { hash: { [`${other.id}:1`]: '1' }, ttl: WATCHDOG_MS },
      [TOKENS]: { string: '2' },
    })
    await adopted.unlock()
  })

  it('waiters of a fenced lock use the plain channel, and each grant draws one token', async () => {
    forgetTokens()
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await client.getFencedLock('order').lock()
    const waiting = other.getFencedLock('order').lock()
    const refused = await other.getFencedLock('order').tryLock()
    assert.equal(refused, null)
    await listening(fixture)
    assert.deepEqual(await fixture.server.admin.pubsub('CHANNELS'), ['redisson_lock__channel:{order}'])
    assert.equal(await fixture.server.admin.get(TOKENS), '1', 'a refusal draws none')
    await hold.unlock()
    const next = await waiting
    assert.equal(next.fencingToken, 2n)
    await next.unlock()
  })

  it('an uncontended lock and unlock costs two commands', async () => {
    forgetTokens()
    const client = await fixture.connect()
    const inside = ['exists', 'get', 'hdel', 'hset', 'incr', 'lpop', 'pexpire', 'publish', 'time']
    await expectTwoCommands(fixture, client.getFencedLock('order'), inside)
  })

  it('fencing tokens count exactly beyond 2^53, the limit of numbers in Lua and JavaScript', async () => {
    forgetTokens()
    const client = await fixture.connect()
    for (const last of [2n ** 53n, 2n ** 62n + 1n]) {
      await fixture.server.admin.set(TOKENS, String(last))
      const lock = client.getFencedLock('order')
      const hold = await lock.lock()
      assert.equal(hold.fencingToken, last + 1n)
      assert.equal(await lock.getToken(), last + 1n)
      assert.equal(await fixture.server.admin.get(TOKENS), String(last + 1n))
      await hold.unlock()
    }
  })

  describe('next to a Redisson peer', () => {
    it('a fenced lock shares the counter with a Redisson peer: tokens are unique and rise', async () => {
      forgetTokens()
      const client = await fixture.connect()
      const peer = await openTwin(fixture)
      const tokens: number[] = []
      for (let n = 0; n < 5; n++) {
        tokens.push((await peer.fencedAcquire('order', 7, WATCHDOG_MS)) ?? 0)
        assert.equal(await client.getFencedLock('order').tryLock(), null)
        await peer.release('order', 7)
        const hold = await client.getFencedLock('order').lock()
        assert.equal(await peer.fencedAcquire('order', 7, WATCHDOG_MS), null)
        tokens.push(Number(hold.fencingToken))
        await hold.unlock()
      }
      assert.deepEqual(tokens, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    })

    it('a fenced lock continues from a counter that a Redisson peer raised', async () => {
      forgetTokens()
      const client = await fixture.connect()
      const peer = await openTwin(fixture)
      await fixture.server.admin.set(TOKENS, '41')
      await peer.fencedAcquire('order', 7, WATCHDOG_MS)
      assert.equal(await peer.fencedAcquire('order', 7, WATCHDOG_MS), 43, 'its re-entry draws one, too')
      await peer.release('order', 7)
      await peer.release('order', 7)
      const hold = await client.getFencedLock('order').lock()
      assert.equal(hold.fencingToken, 44n)
      await hold.unlock()
    })

    it('a fenced lock wakes a Redisson peer and is woken by it', async () => {
      forgetTokens()
      const client = await fixture.connect()
      const peer = await openTwin(fixture)
      const hold = await client.getFencedLock('order').lock()
      const peerWaits = peer.lock('order', 7, WATCHDOG_MS, 60_000)
      await waitUntil(() => peer.sleeping === 1)
      await hold.unlock()
      assert.equal(await peerWaits, true)
      const waiting = client.getFencedLock('order').lock()
      await listening(fixture)
      const releasedAt = performance.now()
      await peer.release('order', 7)
      const next = await waiting
      assert(performance.now() - releasedAt < 3_000, 'woken, not polling')
      await next.unlock()
    })

    it('a fenced lock and a plain Redisson lock of one name exclude each other, and the plain lock draws no token', async () => {
      forgetTokens()
      const client = await fixture.connect()
      const peer = await openTwin(fixture)
      await peer.acquire('order', 7, WATCHDOG_MS)
      assert.equal(await client.getFencedLock('order').tryLock(), null)
      await expectKeys(fixture.server, { order: { hash: { [peer.holder(7)]: '1' }, ttl: WATCHDOG_MS } })
      await peer.release('order', 7)
      const hold = await client.getFencedLock('order').lock()
      assert.notEqual(await peer.acquire('order', 7, WATCHDOG_MS), null)
      await hold.unlock()
    })
  })
})
