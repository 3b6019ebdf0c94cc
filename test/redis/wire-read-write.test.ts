import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { countCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { expectKeys, lasting, NAMES, recordMessages, repliesForgotten } from '../support/key-contents.js'
import { keyNames, openTwin } from '../support/redisson-twin/twin.js'
import { renewed } from '../support/renewed.js'
import { listening } from '../support/subscribers.js'

const WATCHDOG_MS = 30_000
const CHANNEL = 'redisson_rwlock:{order}'

const { readHold } = keyNames('order')

describe('the wire format of a read-write lock', () => {
  const fixture = setUpFixture()

  for (const [name, tagged] of NAMES) {
    it(`a read-write lock named ${JSON.stringify(name)} is one hash for both sides; read holds begin with ${tagged}`, async () => {
      const client = await fixture.connect()
      const { server } = fixture
      const channel = `redisson_rwlock:${tagged}`
      const key = (index: number) => `${tagged}:${client.id}:1:rwlock_timeout:${index}`
      const messages = await recordMessages(fixture)

      const readLock = client.getReadWriteLock(name).readLock()
      const read = await readLock.lock()
      assert.equal(read.holder, `${client.id}:1`)
      const reads = (count: string) => ({
        [name]: { hash: { mode: 'read', [read.holder]: count }, ttl: WATCHDOG_MS },
        [key(1)]: lasting(WATCHDOG_MS),
      })
      await expectKeys(server, reads('1'))
      const again = await readLock.lock({ within: read })
      await expectKeys(server, { ...reads('2'), [key(2)]: lasting(WATCHDOG_MS) })
      await read.unlock()
      await expectKeys(server, reads('1'))
      await again.unlock()
      await expectKeys(server, {})

      const writeLock = client.getReadWriteLock(name).writeLock()
      const write = await writeLock.lock()
      assert.equal(write.holder, `${client.id}:2:write`)
      const writes = (count: string) => ({
        [name]: { hash: { mode: 'write', [write.holder]: count }, ttl: WATCHDOG_MS },
      })
      await expectKeys(server, writes('1'))
      const deeper = await writeLock.lock({ within: write })
      await expectKeys(server, writes('2'))
      await deeper.unlock()
      await expectKeys(server, writes('1'))
      await write.unlock()
      await expectKeys(server, {})

      assert.deepEqual(await messages(), [
        [channel, '0'],
        [channel, '1'],
      ])
    })
  }

  it('each reader has a field and a hold key, and the last one that leaves publishes', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const messages = await recordMessages(fixture)
    const first = await client.getReadWriteLock('order').readLock().lock()
    const second = await other.getReadWriteLock('order').readLock().lock({ leaseTimeMs: 60_000 })
    await expectKeys(fixture.server, {
      order: { hash: { mode: 'read', [first.holder]: '1', [second.holder]: '1' }, ttl: 60_000 },
      [readHold(first.holder, 1)]: lasting(WATCHDOG_MS),
      [readHold(second.holder, 1)]: lasting(60_000),
    })
    await second.unlock()
    await expectKeys(fixture.server, {
      order: { hash: { mode: 'read', [first.holder]: '1' }, ttl: WATCHDOG_MS },
      [readHold(first.holder, 1)]: lasting(WATCHDOG_MS),
    })
    await first.unlock()
    assert.deepEqual(await messages(), [[CHANNEL, '0']])
  })

  it('a writer that also reads has both fields, and becomes a read lock with the lease of the reads after the write', async () => {
    const client = await fixture.connect()
    const { writeLock, readLock } = {
      writeLock: client.getReadWriteLock('order').writeLock(),
      readLock: client.getReadWriteLock('order').readLock(),
    }
    const messages = await recordMessages(fixture)
    const write = await writeLock.lock({ leaseTimeMs: 60_000 })
    const read = await readLock.lock({ within: write })
    const owner = `${client.id}:1`
    assert.deepEqual([write.holder, read.holder], [`${owner}:write`, owner])
    await expectKeys(fixture.server, {
      order: { hash: { mode: 'write', [`${owner}:write`]: '1', [owner]: '1' }, ttl: 60_000 },
      [readHold(owner, 1)]: lasting(WATCHDOG_MS),
    })
    await write.unlock()
    await expectKeys(fixture.server, {
      order: { hash: { mode: 'read', [owner]: '1' }, ttl: WATCHDOG_MS },
      [readHold(owner, 1)]: lasting(WATCHDOG_MS),
    })
    await read.unlock()
    await expectKeys(fixture.server, {})
    assert.deepEqual(await messages(), [
      [CHANNEL, '1'],
      [CHANNEL, '0'],
    ])
  })

  it('a writer that ends its read first stays a writer, and publishes nothing before its release', async () => {
    const client = await fixture.connect()
    const messages = await recordMessages(fixture)
    const write = await client.getReadWriteLock('order').writeLock().lock()
    const read = await client.getReadWriteLock('order').readLock().lock({ within: write })
    await read.unlock()
    await expectKeys(fixture.server, { order: { hash: { mode: 'write', [write.holder]: '1' }, ttl: WATCHDOG_MS } })
    await write.unlock()
    assert.deepEqual(await messages(), [[CHANNEL, '1']])
  })

  it('nested read or write holds have the longest lease, never the sum', async () => {
    const client = await fixture.connect()
    const { server } = fixture
    const lock = client.getReadWriteLock('order')
    const write = await lock.writeLock().lock({ leaseTimeMs: 20_000 })
    const deeper = await lock.writeLock().lock({ within: write, leaseTimeMs: 10_000 })
    await expectKeys(server, { order: { hash: { mode: 'write', [write.holder]: '2' }, ttl: 20_000 } })
    await deeper.unlock()
    await write.unlock()
    const read = await lock.readLock().lock({ leaseTimeMs: 20_000 })
    const longer = await lock.readLock().lock({ within: read, leaseTimeMs: 60_000 })
    await expectKeys(server, {
      order: { hash: { mode: 'read', [read.holder]: '2' }, ttl: 60_000 },
      [readHold(read.holder, 1)]: lasting(60_000),
      [readHold(read.holder, 2)]: lasting(60_000),
    })
    await longer.unlock()
    await read.unlock()
  })

  it('a renewal of a read-write lock sets the TTL of the hash and of the read holds of this owner only', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
    const peer = await openTwin(fixture)
    await peer.readAcquire('order', 7, 20_000)
    const read = await client.getReadWriteLock('order').readLock().lock()
    const again = await client.getReadWriteLock('order').readLock().lock({ within: read })
    await renewed([read])
    await expectKeys(fixture.server, {
      order: { hash: { mode: 'read', [peer.holder(7)]: '1', [read.holder]: '2' }, ttl: 20_000 },
      [readHold(peer.holder(7), 1)]: lasting(20_000),
      [readHold(read.holder, 1)]: lasting(2_400),
      [readHold(read.holder, 2)]: lasting(2_400),
    })
    assert(
      Number(await fixture.server.admin.pttl(readHold(peer.holder(7), 1))) < 18_700,
      'nobody renews it for the peer',
    )
    await again.unlock()
    await read.unlock()
    await peer.readRelease('order', 7)
  })

  it('a forced release of a read or write lock is DEL with all read holds and its message; of the other side it does nothing', async () => {
    const client = await fixture.connect()
    const peer = await openTwin(fixture)
    const { readLock, writeLock } = {
      readLock: client.getReadWriteLock('order').readLock(),
      writeLock: client.getReadWriteLock('order').writeLock(),
    }
    const messages = await recordMessages(fixture)
    assert.equal(await readLock.forceUnlock(), false)
    assert.equal(await writeLock.forceUnlock(), false)
    await peer.readAcquire('order', 7, WATCHDOG_MS)
    await peer.readAcquire('order', 7, WATCHDOG_MS)
    const read = await readLock.lock()
    assert.equal(await writeLock.forceUnlock(), false)
    read.assertHeld()
    assert.equal(await readLock.forceUnlock(), true)
    await repliesForgotten(fixture.server)
    await expectKeys(fixture.server, {})
    await assert.rejects(read.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })

    const write = await writeLock.lock()
    const within = await readLock.lock({ within: write })
    assert.equal(await readLock.forceUnlock(), false)
    assert.equal(await writeLock.forceUnlock(), true)
    await repliesForgotten(fixture.server)
    await expectKeys(fixture.server, {})
    await assert.rejects(write.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
    await assert.rejects(within.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
    assert.deepEqual(await messages(), [
      [CHANNEL, '0'],
      [CHANNEL, '1'],
    ])
  })

  it('readers and writers wait on one channel', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const write = await client.getReadWriteLock('order').writeLock().lock()
    const waits = [
      other.getReadWriteLock('order').readLock().lock(),
      other.getReadWriteLock('order').readLock().lock(),
      other.getReadWriteLock('order').writeLock().lock(),
    ]
    await listening(fixture)
    assert.deepEqual(await fixture.server.admin.pubsub('CHANNELS'), [CHANNEL])
    await expectKeys(fixture.server, { order: { hash: { mode: 'write', [write.holder]: '1' }, ttl: WATCHDOG_MS } })
    await write.unlock()
    await Promise.all(waits.map((waiting) => waiting.then((hold) => hold.unlock())))
    await expectKeys(fixture.server, {})
  })

  it('an uncontended read or write lock and unlock costs two commands', async () => {
    const client = await fixture.connect()
    const lock = client.getReadWriteLock('order')
    const inside = {
      read: ['del', 'exists', 'hdel', 'hexists', 'hget', 'hscan', 'hset', 'pexpire', 'pttl', 'publish', 'set', 'time'],
      write: ['del', 'exists', 'hdel', 'hexists', 'hscan', 'hset', 'pexpire', 'pttl', 'publish', 'time'],
    }
    for (const [side, commands] of Object.entries(inside)) {
      const own = side === 'read' ? lock.readLock() : lock.writeLock()
      await (await own.lock()).unlock() // Redis knows the scripts from here on
      const count = await countCommands(fixture.server, async () => {
        for (let n = 0; n < 10; n++) await (await own.lock()).unlock()
      })
      assert.equal(count.scripts, 20)
      const unexpected = Object.keys(count.calls).filter((call) => call !== 'evalsha' && !commands.includes(call))
      assert.deepEqual(unexpected, [])
    }
  })
})
