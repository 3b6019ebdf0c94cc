/** A read-write lock of a client and one of a peer that runs the scripts of Redisson, on one name. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setUpFixture } from '../support/fixture.js'
import { expectKeys, lasting, recordMessages } from '../support/key-contents.js'
import { keyNames, openTwin } from '../support/redisson-twin/twin.js'
import { renewed } from '../support/renewed.js'
import { listening } from '../support/subscribers.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000
const CHANNEL = 'redisson_rwlock:{order}'

const { readHold } = keyNames('order')

describe('a read-write lock next to a Redisson peer', () => {
  const fixture = setUpFixture()

  it('a read lock keeps a Redisson writer out, lets Redisson readers in, and wakes the writer', async () => {
    const client = await fixture.connect()
    const peer = await openTwin(fixture)
    const read = await client.getReadWriteLock('order').readLock().lock()
    const left = await peer.writeAcquire('order', 7, WATCHDOG_MS)
    assert(left !== null && left > WATCHDOG_MS - 4_000 && left <= WATCHDOG_MS)
    assert.equal(await peer.readAcquire('order', 8, WATCHDOG_MS), null)
    await expectKeys(fixture.server, {
      order: { hash: { mode: 'read', [read.holder]: '1', [peer.holder(8)]: '1' }, ttl: WATCHDOG_MS },
      [readHold(read.holder, 1)]: lasting(WATCHDOG_MS),
      [readHold(peer.holder(8), 1)]: lasting(WATCHDOG_MS),
    })
    assert.equal(await peer.readRelease('order', 8), 0)
    const waiting = peer.writeLock('order', 7, WATCHDOG_MS, 60_000)
    await listening(fixture)
    const releasedAt = performance.now()
    await read.unlock()
    assert.equal(await waiting, true)
    assert(performance.now() - releasedAt < 3_000, 'woken, not polling')
    await expectKeys(fixture.server, {
      order: { hash: { mode: 'write', [`${peer.holder(7)}:write`]: '1' }, ttl: WATCHDOG_MS },
    })
    assert.equal(await peer.writeRelease('order', 7), 1)
  })

  it('a write lock keeps all threads of a Redisson peer out, and wakes its readers', async () => {
    const client = await fixture.connect()
    const peer = await openTwin(fixture)
    const write = await client.getReadWriteLock('order').writeLock().lock()
    assert.notEqual(await peer.writeAcquire('order', 7, WATCHDOG_MS), null)
    const waits = [7, 8].map((threadId) => peer.readLock('order', threadId, WATCHDOG_MS, 60_000))
    await waitUntil(() => peer.sleeping === 2, { message: 'both pause: a message 1 wakes them' })
    const releasedAt = performance.now()
    await write.unlock()
    assert.deepEqual(await Promise.all(waits), [true, true])
    assert(performance.now() - releasedAt < 3_000, 'woken, not polling')
    assert.equal(await peer.readRelease('order', 7), 0)
    assert.equal(await peer.readRelease('order', 8), 1)
  })

  it('a Redisson writer keeps the client out, and its message 1 wakes all readers of the client', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const peer = await openTwin(fixture)
    await peer.writeAcquire('order', 7, WATCHDOG_MS)
    const reader = client.getReadWriteLock('order').readLock()
    assert.equal(await reader.tryLock(), null)
    assert.equal(await client.getReadWriteLock('order').writeLock().tryLock(), null)
    const waits = [reader.lock(), reader.lock(), other.getReadWriteLock('order').readLock().lock()]
    await listening(fixture)
    await sleep(100)
    const releasedAt = performance.now()
    assert.equal(await peer.writeRelease('order', 7), 1)
    const holds = await Promise.all(waits)
    assert(performance.now() - releasedAt < 3_000, 'woken, not polling')
    assert.equal(await fixture.server.admin.hlen('order'), 4)
    for (const hold of holds) await hold.unlock()
  })

  it('Redisson readers keep the client from writing, and their message 0 wakes its writer', async () => {
    const client = await fixture.connect()
    const peer = await openTwin(fixture)
    await peer.readAcquire('order', 7, WATCHDOG_MS)
    await peer.readAcquire('order', 7, WATCHDOG_MS)
    const reader = client.getReadWriteLock('order').readLock()
    assert.deepEqual(await reader.getHolders(), [{ holder: peer.holder(7), holdCount: 2 }])
    const waiting = client.getReadWriteLock('order').writeLock().lock()
    await listening(fixture)
    assert.equal(await peer.readRelease('order', 7), 0)
    assert.equal(await peer.readRelease('order', 7), 1)
    const releasedAt = performance.now()
    const write = await waiting
    assert(performance.now() - releasedAt < 3_000, 'woken, not polling')
    await expectKeys(fixture.server, { order: { hash: { mode: 'write', [write.holder]: '1' }, ttl: WATCHDOG_MS } })
    await write.unlock()
  })

  it('the reads of a Redisson peer survive a release: the lock lasts as long as the longest of them', async () => {
    const client = await fixture.connect()
    const peer = await openTwin(fixture)
    const messages = await recordMessages(fixture)
    const read = await client.getReadWriteLock('order').readLock().lock()
    await peer.readAcquire('order', 7, 20_000)
    await peer.readAcquire('order', 7, 8_000)
    await peer.readAcquire('order', 8, 12_000)
    await read.unlock()
    await expectKeys(fixture.server, {
      order: { hash: { mode: 'read', [peer.holder(7)]: '2', [peer.holder(8)]: '1' }, ttl: 20_000 },
      [readHold(peer.holder(7), 1)]: lasting(20_000),
      [readHold(peer.holder(7), 2)]: lasting(8_000),
      [readHold(peer.holder(8), 1)]: lasting(12_000),
    })
    assert.equal(await peer.readRelease('order', 7), 0)
    assert.equal(await peer.readRelease('order', 7), 0)
    assert.equal(await peer.readRelease('order', 8), 1)
    assert.deepEqual(await messages(), [[CHANNEL, '0']])
  })

  it('a release of a Redisson peer shortens the lock to the longest local read, and a renewal restores it', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
    const peer = await openTwin(fixture)
    await peer.readAcquire('order', 7, 60_000)
    const read = await client.getReadWriteLock('order').readLock().lock()
    const again = await client.getReadWriteLock('order').readLock().lock({ within: read })
    assert.equal(await peer.readRelease('order', 7), 0)
    await expectKeys(fixture.server, {
      order: { hash: { mode: 'read', [read.holder]: '2' }, ttl: 2_400 },
      [readHold(read.holder, 1)]: lasting(2_400),
      [readHold(read.holder, 2)]: lasting(2_400),
    })
    await renewed([read])
    await again.unlock()
    await read.unlock()
    await expectKeys(fixture.server, {})
  })

  it('a release does not wait for dead Redisson readers: it frees the lock and publishes that', async () => {
    const client = await fixture.connect()
    const peer = await openTwin(fixture)
    const heard = await peer.listen('order', CHANNEL)
    const read = await client.getReadWriteLock('order').readLock().lock()
    await peer.readAcquire('order', 7, 50)
    await peer.readAcquire('order', 8, 50)
    await waitUntil(async () => (await fixture.server.admin.exists(readHold(peer.holder(8), 1))) === 0)
    assert.equal((await client.getReadWriteLock('order').readLock().getHolders()).length, 1, 'we read alone')
    await read.unlock()
    await expectKeys(fixture.server, {})
    assert.equal((await heard.next()).payload, '0')
    assert.equal(heard.messages.length, 1)
    await heard.stop()
  })

  it('a reader joins Redisson readers without shortening the lock', async () => {
    const client = await fixture.connect()
    const peer = await openTwin(fixture)
    await peer.readAcquire('order', 7, 60_000)
    const read = await client.getReadWriteLock('order').readLock().lock({ leaseTimeMs: 5_000 })
    await expectKeys(fixture.server, {
      order: { hash: { mode: 'read', [peer.holder(7)]: '1', [read.holder]: '1' }, ttl: 60_000 },
      [readHold(peer.holder(7), 1)]: lasting(60_000),
      [readHold(read.holder, 1)]: lasting(5_000),
    })
    await read.unlock()
    await peer.readRelease('order', 7)
  })

  it('a downgraded writer lets Redisson readers in, and keeps reading with them', async () => {
    const client = await fixture.connect()
    const peer = await openTwin(fixture)
    const write = await client.getReadWriteLock('order').writeLock().lock()
    const read = await client.getReadWriteLock('order').readLock().lock({ within: write })
    const waiting = peer.readLock('order', 7, 20_000, 60_000)
    await waitUntil(() => peer.sleeping === 1)
    await write.unlock()
    assert.equal(await waiting, true)
    await expectKeys(fixture.server, {
      order: { hash: { mode: 'read', [read.holder]: '1', [peer.holder(7)]: '1' }, ttl: WATCHDOG_MS },
      [readHold(read.holder, 1)]: lasting(WATCHDOG_MS),
      [readHold(peer.holder(7), 1)]: lasting(20_000),
    })
    await read.unlock()
    assert.equal(await peer.readRelease('order', 7), 1)
  })

  it('a reader joins a downgraded Redisson writer, and is woken when that has finished', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const peer = await openTwin(fixture)
    await peer.writeAcquire('order', 7, WATCHDOG_MS)
    await peer.readAcquire('order', 7, WATCHDOG_MS)
    assert.equal(await client.getReadWriteLock('order').readLock().tryLock(), null)
    assert.deepEqual(await client.getReadWriteLock('order').writeLock().getHolders(), [
      { holder: `${peer.holder(7)}:write`, holdCount: 1 },
    ])
    assert.equal(await peer.writeRelease('order', 7), 1)
    const read = await client.getReadWriteLock('order').readLock().lock()
    await read.unlock()
    const writing = other.getReadWriteLock('order').writeLock().lock()
    await listening(fixture)
    assert.equal(await peer.readRelease('order', 7), 1)
    await (await writing).unlock()
  })
})
