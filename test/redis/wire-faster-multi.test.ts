import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { expectTwoCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { expectKeys, NAMES, recordMessages, repliesForgotten } from '../support/key-contents.js'
import { openTwin } from '../support/redisson-twin/twin.js'
import { renewed } from '../support/renewed.js'
import { listeningOn } from '../support/subscribers.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000
/** By how much a group outlives the values that it holds. */
const SLACK_MS = 10_000
const CHANNEL = 'redisson_lock__channel:{order}'

describe('the wire format of a faster multi-lock', () => {
  const fixture = setUpFixture()

  /** Redisson 4.7.0 with StringCodec: Hash.hash128toBase64. */
  const A = 'qwvAS12pR0CgRitaypEjUw'
  const B = 'Q5CdP+xmkHdTGWYr64Lw6A'
  const C = 'm+X1XZ25duGPQrbkAp0Bjg' // of "line 1"

  /** Three fields for a value; the expiry is checked separately. */
  async function expectGroup(
    group: string,
    owners: Readonly<Record<string, readonly [holder: string, count: string, leaseMs: number]>>,
    longestLeaseMs: number,
  ): Promise<void> {
    const hash = await fixture.server.admin.hgetall(group)
    const fields: Record<string, string> = {}
    for (const [digest, [holder, count, leaseMs]] of Object.entries(owners)) {
      const expiry = hash[`${digest}:${holder}:expire_time`] ?? 'none'
      assert.match(expiry, /^\d{13}$/)
      const left = Number(expiry) - Date.now()
      assert(left > leaseMs - 4_000 && left <= leaseMs + 50, `${left} ms left, not about ${leaseMs}`)
      fields[digest] = holder
      fields[`${digest}:${holder}:expire_time`] = expiry
      fields[`${digest}:${holder}:lock_count`] = count
    }
    await expectKeys(fixture.server, { [group]: { hash: fields, ttl: longestLeaseMs + SLACK_MS } })
  }

  for (const [name, tagged] of NAMES) {
    it(`a faster multi-lock named ${JSON.stringify(name)} is one hash with three fields for each value, and the plain channel`, async () => {
      const client = await fixture.connect()
      const messages = await recordMessages(fixture)
      const lock = client.getFasterMultiLock(name, ['b', 'a', 'b'])
      const holder = `${client.id}:1`
      const expectCount = (count: string) =>
        expectGroup(name, { [A]: [holder, count, WATCHDOG_MS], [B]: [holder, count, WATCHDOG_MS] }, WATCHDOG_MS)
      const hold = await lock.lock()
      await expectCount('1')
      const again = await lock.lock({ within: hold })
      await expectCount('2')
      await again.unlock()
      await expectCount('1')
      await hold.unlock()
      await expectKeys(fixture.server, {})
      assert.deepEqual(await messages(), [[`redisson_lock__channel:${tagged}`, '0']])
    })
  }

  it('faster multi-locks without common values share one hash, whose TTL is the longest lease and 10 s', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const first = await client.getFasterMultiLock('order', ['a', 'b']).lock()
    const second = await other.getFasterMultiLock('order', ['line 1']).lock({ leaseTimeMs: 60_000 })
    const firsts = [first.holder, '1', WATCHDOG_MS] as const
    await expectGroup('order', { [A]: firsts, [B]: firsts, [C]: [second.holder, '1', 60_000] }, 60_000)
    await second.unlock()
    await expectGroup('order', { [A]: firsts, [B]: firsts }, 60_000)
    await first.unlock()
    await expectKeys(fixture.server, {})
  })

  it('a renewal of a faster multi-lock sets the expiry of its own fields and the TTL of the hash', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
    const peer = await openTwin(fixture)
    const hold = await client.getFasterMultiLock('order', ['a']).lock()
    await peer.groupAcquire('order', [B], 7, 1_200)
    const expiryOfPeer = await fixture.server.admin.hget('order', `${B}:${peer.holder(7)}:expire_time`)
    await renewed([hold])
    assert.equal(await fixture.server.admin.hget('order', `${B}:${peer.holder(7)}:expire_time`), expiryOfPeer)
    const left = Number(await fixture.server.admin.hget('order', `${A}:${hold.holder}:expire_time`)) - Date.now()
    assert(left > 0 && left <= 2_400, `${left} ms`)
    await hold.unlock()
    await fixture.server.admin.del('order')
  })

  it('a forced release of a faster multi-lock is HDEL of its values with a message for each holder; of free values it does nothing', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const peer = await openTwin(fixture)
    const first = await client.getFasterMultiLock('order', ['a']).lock()
    await peer.groupAcquire('order', [B], 7, WATCHDOG_MS)
    const kept = await client.getFasterMultiLock('order', ['line 1']).lock()
    const messages = await recordMessages(fixture)
    const all = other.getFasterMultiLock('order', ['a', 'b', 'free'])
    assert.equal(await all.forceUnlock(), true)
    await repliesForgotten(fixture.server)
    await expectGroup('order', { [C]: [kept.holder, '1', WATCHDOG_MS] }, WATCHDOG_MS)
    assert.equal(await all.forceUnlock(), false)
    assert.deepEqual(await messages(), [
      [CHANNEL, '0'],
      [CHANNEL, '0'],
    ])
    await assert.rejects(first.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    await kept.unlock()
  })

  it('a waiter for a faster multi-lock subscribes to the channel of the group and writes nothing to the hash', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await client.getFasterMultiLock('order', ['a']).lock()
    const waiting = other.getFasterMultiLock('order', ['b', 'a']).lock()
    await listeningOn(fixture, CHANNEL)
    await expectGroup('order', { [A]: [hold.holder, '1', WATCHDOG_MS] }, WATCHDOG_MS)
    await hold.unlock()
    await (await waiting).unlock()
    await expectKeys(fixture.server, {})
  })

  it('an uncontended faster multi-lock and unlock costs two commands, however many values it has', async () => {
    const client = await fixture.connect()
    const values = Array.from({ length: 50 }, (_, n) => `line ${n}`)
    const inside = ['hdel', 'hget', 'hlen', 'hset', 'pexpire', 'pttl', 'publish', 'time']
    await expectTwoCommands(fixture, client.getFasterMultiLock('order', values), inside)
  })

  describe('next to a Redisson peer', () => {
    it('a faster multi-lock is refused by any value of a Redisson peer, learns its remaining lease, and is woken by its release', async () => {
      const client = await fixture.connect()
      const peer = await openTwin(fixture)
      await peer.groupAcquire('order', [B, C], 7, WATCHDOG_MS)
      const lock = client.getFasterMultiLock('order', ['a', 'b'])
      assert.equal(await lock.tryLock(), null)
      assert.deepEqual(await lock.getHolders(), [{ holder: peer.holder(7), holdCount: 1 }])
      const left = await lock.remainingLeaseMs()
      assert(left > WATCHDOG_MS - 4_000 && left <= WATCHDOG_MS)
      const theirs = [peer.holder(7), '1', WATCHDOG_MS] as const
      await expectGroup('order', { [B]: theirs, [C]: theirs }, WATCHDOG_MS)
      const waiting = lock.lock()
      await listeningOn(fixture, CHANNEL)
      const releasedAt = performance.now()
      assert.equal(await peer.groupRelease('order', [B, C], 7), 1)
      const hold = await waiting
      assert(performance.now() - releasedAt < 3_000, 'woken, not polling')
      await hold.unlock()
    })

    it('a faster multi-lock keeps a Redisson peer out, wakes it, and leaves its values alone', async () => {
      const client = await fixture.connect()
      const peer = await openTwin(fixture)
      const hold = await client.getFasterMultiLock('order', ['a', 'b']).lock()
      assert.equal(await peer.groupAcquire('order', [C], 8, WATCHDOG_MS), null)
      const left = await peer.groupAcquire('order', [B, C], 7, WATCHDOG_MS)
      assert(left !== null && left > WATCHDOG_MS - 4_000 && left <= WATCHDOG_MS)
      const peerWaits = peer.groupLock('order', [B], 7, WATCHDOG_MS, 60_000)
      await waitUntil(() => peer.sleeping === 1)
      await hold.unlock()
      assert.equal(await peerWaits, true)
      const firsts = [peer.holder(7), '1', WATCHDOG_MS] as const
      await expectGroup('order', { [B]: firsts, [C]: [peer.holder(8), '1', WATCHDOG_MS] }, WATCHDOG_MS)
      assert.equal(await peer.groupRelease('order', [B], 7), 1)
      assert.equal(await peer.groupRelease('order', [C], 8), 1)
    })

    it('a faster multi-lock takes values whose lease at a Redisson peer is over, and removes their remains', async () => {
      const client = await fixture.connect()
      const peer = await openTwin(fixture)
      await peer.groupAcquire('order', [C], 8, WATCHDOG_MS) // keeps the hash alive
      await peer.groupAcquire('order', [A, B], 7, 50)
      await sleep(100)
      const lock = client.getFasterMultiLock('order', ['a', 'b'])
      assert.equal(await lock.isLocked(), false)
      const hold = await lock.lock()
      const ours = [hold.holder, '1', WATCHDOG_MS] as const
      const theirs = [peer.holder(8), '1', WATCHDOG_MS] as const
      await expectGroup('order', { [A]: ours, [B]: ours, [C]: theirs }, WATCHDOG_MS)
      assert.equal(await peer.groupRelease('order', [A, B], 7), null)
      await hold.unlock()
      await expectGroup('order', { [C]: theirs }, WATCHDOG_MS)
      await peer.groupRelease('order', [C], 8)
    })
  })
})
