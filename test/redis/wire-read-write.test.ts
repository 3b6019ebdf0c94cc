import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { countCommands } from '../support/command-stats.js'
import { expectKeys, NAMES, recordMessages } from '../support/key-contents.js'
import { setUpLab } from '../support/lab.js'
import { renewed } from '../support/renewed.js'
import { startTwin, type Twin } from '../support/twin.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000
const CHANNEL = 'redisson_rwlock:{order}'

/** The key of one read hold of the lock `order`. */
function readHold(holder: string, index: number): string {
  return `{order}:${holder}:rwlock_timeout:${index}`
}

/** The content of such a key. */
function lasting(ttl: number) {
  return { string: '1', ttl } as const
}

describe('the wire of a read-write lock', () => {
  const lab = setUpLab()

  async function twin(): Promise<Twin> {
    const opened = await startTwin(lab.server.url)
    lab.onEnd(() => opened.close())
    return opened
  }

  async function listening(): Promise<void> {
    await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === 1)
  }

  for (const [name, tagged] of NAMES) {
    it(`of ${JSON.stringify(name)} is one hash for both sides; read holds begin with ${tagged}`, async () => {
      const client = await lab.connect()
      const { server } = lab
      const channel = `redisson_rwlock:${tagged}`
      const key = (index: number) => `${tagged}:${client.id}:1:rwlock_timeout:${index}`
      const messages = await recordMessages(lab)

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

  it('has a field and a hold key for each reader, and publishes when the last one leaves', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const messages = await recordMessages(lab)
    const first = await client.getReadWriteLock('order').readLock().lock()
    const second = await other.getReadWriteLock('order').readLock().lock({ leaseTimeMs: 60_000 })
    await expectKeys(lab.server, {
      order: { hash: { mode: 'read', [first.holder]: '1', [second.holder]: '1' }, ttl: 60_000 },
      [readHold(first.holder, 1)]: lasting(WATCHDOG_MS),
      [readHold(second.holder, 1)]: lasting(60_000),
    })
    await second.unlock()
    await expectKeys(lab.server, {
      order: { hash: { mode: 'read', [first.holder]: '1' }, ttl: WATCHDOG_MS },
      [readHold(first.holder, 1)]: lasting(WATCHDOG_MS),
    })
    await first.unlock()
    assert.deepEqual(await messages(), [[CHANNEL, '0']])
  })

  it('of a writer that reads, too, is both fields; after the write it is a read lock with the lease of the reads', async () => {
    const client = await lab.connect()
    const { writeLock, readLock } = {
      writeLock: client.getReadWriteLock('order').writeLock(),
      readLock: client.getReadWriteLock('order').readLock(),
    }
    const messages = await recordMessages(lab)
    const write = await writeLock.lock({ leaseTimeMs: 60_000 })
    const read = await readLock.lock({ within: write })
    const owner = `${client.id}:1`
    assert.deepEqual([write.holder, read.holder], [`${owner}:write`, owner])
    await expectKeys(lab.server, {
      order: { hash: { mode: 'write', [`${owner}:write`]: '1', [owner]: '1' }, ttl: 60_000 },
      [readHold(owner, 1)]: lasting(WATCHDOG_MS),
    })
    await write.unlock()
    await expectKeys(lab.server, {
      order: { hash: { mode: 'read', [owner]: '1' }, ttl: WATCHDOG_MS },
      [readHold(owner, 1)]: lasting(WATCHDOG_MS),
    })
    await read.unlock()
    await expectKeys(lab.server, {})
    assert.deepEqual(await messages(), [
      [CHANNEL, '1'],
      [CHANNEL, '0'],
    ])
  })

  it('of a writer that ends its read first stays that of a writer, and nothing is published before its release', async () => {
    const client = await lab.connect()
    const messages = await recordMessages(lab)
    const write = await client.getReadWriteLock('order').writeLock().lock()
    const read = await client.getReadWriteLock('order').readLock().lock({ within: write })
    await read.unlock()
    await expectKeys(lab.server, { order: { hash: { mode: 'write', [write.holder]: '1' }, ttl: WATCHDOG_MS } })
    await write.unlock()
    assert.deepEqual(await messages(), [[CHANNEL, '1']])
  })

  it('of nested holds has the longest lease; that of a write is never the sum', async () => {
    const client = await lab.connect()
    const { server } = lab
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

  it('of a renewal is the TTL of the hash, and of the read holds of this owner alone', async () => {
    const client = await lab.connect({ lockWatchdogTimeoutMs: 2_400 })
    const peer = await twin()
    await peer.readAcquire('order', 7, 20_000)
    const read = await client.getReadWriteLock('order').readLock().lock()
    const again = await client.getReadWriteLock('order').readLock().lock({ within: read })
    await renewed([read])
    await expectKeys(lab.server, {
      order: { hash: { mode: 'read', [peer.holder(7)]: '1', [read.holder]: '2' }, ttl: 20_000 },
      [readHold(peer.holder(7), 1)]: lasting(20_000),
      [readHold(read.holder, 1)]: lasting(2_400),
      [readHold(read.holder, 2)]: lasting(2_400),
    })
    assert(Number(await lab.server.admin.pttl(readHold(peer.holder(7), 1))) < 18_700, 'nobody renews it for the peer')
    await again.unlock()
    await read.unlock()
    await peer.readRelease('order', 7)
  })

  it('of a forced release is DEL with all read holds, and the message of its side; of the other side nothing', async () => {
    const client = await lab.connect()
    const peer = await twin()
    const { readLock, writeLock } = {
      readLock: client.getReadWriteLock('order').readLock(),
      writeLock: client.getReadWriteLock('order').writeLock(),
    }
    const messages = await recordMessages(lab)
    assert.equal(await readLock.forceUnlock(), false)
    assert.equal(await writeLock.forceUnlock(), false)
    await peer.readAcquire('order', 7, WATCHDOG_MS)
    await peer.readAcquire('order', 7, WATCHDOG_MS)
    const read = await readLock.lock()
    assert.equal(await writeLock.forceUnlock(), false)
    read.assertHeld()
    assert.equal(await readLock.forceUnlock(), true)
    await expectKeys(lab.server, {})
    await assert.rejects(read.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })

    const write = await writeLock.lock()
    const within = await readLock.lock({ within: write })
    assert.equal(await readLock.forceUnlock(), false)
    assert.equal(await writeLock.forceUnlock(), true)
    await expectKeys(lab.server, {})
    await assert.rejects(write.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
    await assert.rejects(within.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
    assert.deepEqual(await messages(), [
      [CHANNEL, '0'],
      [CHANNEL, '1'],
    ])
  })

  it('of those who wait is one channel for both sides', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const write = await client.getReadWriteLock('order').writeLock().lock()
    const waits = [
      other.getReadWriteLock('order').readLock().lock(),
      other.getReadWriteLock('order').readLock().lock(),
      other.getReadWriteLock('order').writeLock().lock(),
    ]
    await listening()
    assert.deepEqual(await lab.server.admin.pubsub('CHANNELS'), [CHANNEL])
    await expectKeys(lab.server, { order: { hash: { mode: 'write', [write.holder]: '1' }, ttl: WATCHDOG_MS } })
    await write.unlock()
    await Promise.all(waits.map((waiting) => waiting.then((hold) => hold.unlock())))
    await expectKeys(lab.server, {})
  })

  it('of an uncontended lock and unlock is two commands, on either side', async () => {
    const client = await lab.connect()
    const lock = client.getReadWriteLock('order')
    const inside = {
      read: ['del', 'exists', 'hdel', 'hexists', 'hget', 'hgetall', 'hset', 'pexpire', 'pttl', 'publish', 'set'],
      write: ['del', 'exists', 'hdel', 'hgetall', 'hset', 'pexpire', 'publish'],
    }
    for (const [side, commands] of Object.entries(inside)) {
      const own = side === 'read' ? lock.readLock() : lock.writeLock()
      await (await own.lock()).unlock() // Redis knows the scripts from here on
      const count = await countCommands(lab.server, async () => {
        for (let n = 0; n < 10; n++) await (await own.lock()).unlock()
      })
      assert.equal(count.scripts, 20)
      const unexpected = Object.keys(count.calls).filter((call) => call !== 'evalsha' && !commands.includes(call))
      assert.deepEqual(unexpected, [])
    }
  })

  describe('with a peer that does what Redisson does', () => {
    it('keeps its writer out while we read, lets its readers in, and wakes its writer', async () => {
      const client = await lab.connect()
      const peer = await twin()
      const read = await client.getReadWriteLock('order').readLock().lock()
      const left = await peer.writeAcquire('order', 7, WATCHDOG_MS)
      assert(left !== null && left > WATCHDOG_MS - 4_000 && left <= WATCHDOG_MS)
      assert.equal(await peer.readAcquire('order', 8, WATCHDOG_MS), null)
      await expectKeys(lab.server, {
        order: { hash: { mode: 'read', [read.holder]: '1', [peer.holder(8)]: '1' }, ttl: WATCHDOG_MS },
        [readHold(read.holder, 1)]: lasting(WATCHDOG_MS),
        [readHold(peer.holder(8), 1)]: lasting(WATCHDOG_MS),
      })
      assert.equal(await peer.readRelease('order', 8), 0)
      const waiting = peer.writeLock('order', 7, WATCHDOG_MS, 60_000)
      await listening()
      const releasedAt = performance.now()
      await read.unlock()
      assert.equal(await waiting, true)
      assert(performance.now() - releasedAt < 3_000, 'woken, not polling')
      await expectKeys(lab.server, {
        order: { hash: { mode: 'write', [`${peer.holder(7)}:write`]: '1' }, ttl: WATCHDOG_MS },
      })
      assert.equal(await peer.writeRelease('order', 7), 1)
    })

    it('keeps all its threads out while we write, and wakes its readers', async () => {
      const client = await lab.connect()
      const peer = await twin()
      const write = await client.getReadWriteLock('order').writeLock().lock()
      assert.notEqual(await peer.writeAcquire('order', 7, WATCHDOG_MS), null)
      const waits = [7, 8].map((threadId) => peer.readLock('order', threadId, WATCHDOG_MS, 60_000))
      await waitUntil(() => peer.sleeping === 2, { message: 'both sleep: a message 1 wakes those who do' })
      const releasedAt = performance.now()
      await write.unlock()
      assert.deepEqual(await Promise.all(waits), [true, true])
      assert(performance.now() - releasedAt < 3_000, 'woken, not polling')
      assert.equal(await peer.readRelease('order', 7), 0)
      assert.equal(await peer.readRelease('order', 8), 1)
    })

    it('is kept out while it writes, and its message 1 wakes all our readers', async () => {
      const [client, other] = [await lab.connect(), await lab.connect()]
      const peer = await twin()
      await peer.writeAcquire('order', 7, WATCHDOG_MS)
      const reader = client.getReadWriteLock('order').readLock()
      assert.equal(await reader.tryLock(), null)
      assert.equal(await client.getReadWriteLock('order').writeLock().tryLock(), null)
      const waits = [reader.lock(), reader.lock(), other.getReadWriteLock('order').readLock().lock()]
      await listening()
      await sleep(100)
      const releasedAt = performance.now()
      assert.equal(await peer.writeRelease('order', 7), 1)
      const holds = await Promise.all(waits)
      assert(performance.now() - releasedAt < 3_000, 'woken, not polling')
      assert.equal(await lab.server.admin.hlen('order'), 4)
      for (const hold of holds) await hold.unlock()
    })

    it('is kept from writing while it reads, and its message 0 wakes our writer', async () => {
      const client = await lab.connect()
      const peer = await twin()
      await peer.readAcquire('order', 7, WATCHDOG_MS)
      await peer.readAcquire('order', 7, WATCHDOG_MS)
      const reader = client.getReadWriteLock('order').readLock()
      assert.deepEqual(await reader.getHolders(), [{ holder: peer.holder(7), holdCount: 2 }])
      const waiting = client.getReadWriteLock('order').writeLock().lock()
      await listening()
      assert.equal(await peer.readRelease('order', 7), 0)
      assert.equal(await peer.readRelease('order', 7), 1)
      const releasedAt = performance.now()
      const write = await waiting
      assert(performance.now() - releasedAt < 3_000, 'woken, not polling')
      await expectKeys(lab.server, { order: { hash: { mode: 'write', [write.holder]: '1' }, ttl: WATCHDOG_MS } })
      await write.unlock()
    })

    it('leaves its reads alone at our release: the lock lasts as long as the longest of them', async () => {
      const client = await lab.connect()
      const peer = await twin()
      const messages = await recordMessages(lab)
      const read = await client.getReadWriteLock('order').readLock().lock()
      await peer.readAcquire('order', 7, 20_000)
      await peer.readAcquire('order', 7, 8_000)
      await peer.readAcquire('order', 8, 12_000)
      await read.unlock()
      await expectKeys(lab.server, {
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

    it('has its release shorten the lock to the longest of our reads, which our renewal makes good', async () => {
      const client = await lab.connect({ lockWatchdogTimeoutMs: 2_400 })
      const peer = await twin()
      await peer.readAcquire('order', 7, 60_000)
      const read = await client.getReadWriteLock('order').readLock().lock()
      const again = await client.getReadWriteLock('order').readLock().lock({ within: read })
      assert.equal(await peer.readRelease('order', 7), 0)
      await expectKeys(lab.server, {
        order: { hash: { mode: 'read', [read.holder]: '2' }, ttl: 2_400 },
        [readHold(read.holder, 1)]: lasting(2_400),
        [readHold(read.holder, 2)]: lasting(2_400),
      })
      await renewed([read])
      await again.unlock()
      await read.unlock()
      await expectKeys(lab.server, {})
    })

    it('does not wait for its readers that died: our release frees the lock and says so', async () => {
      const client = await lab.connect()
      const peer = await twin()
      const heard = await peer.listen('order', CHANNEL)
      const read = await client.getReadWriteLock('order').readLock().lock()
      await peer.readAcquire('order', 7, 50)
      await peer.readAcquire('order', 8, 50)
      await waitUntil(async () => (await lab.server.admin.exists(readHold(peer.holder(8), 1))) === 0)
      assert.equal((await client.getReadWriteLock('order').readLock().getHolders()).length, 1, 'we read alone')
      await read.unlock()
      await expectKeys(lab.server, {})
      assert.equal((await heard.next()).payload, '0')
      assert.equal(heard.messages.length, 1)
      await heard.stop()
    })

    it('joins its readers without shortening the lock', async () => {
      const client = await lab.connect()
      const peer = await twin()
      await peer.readAcquire('order', 7, 60_000)
      const read = await client.getReadWriteLock('order').readLock().lock({ leaseTimeMs: 5_000 })
      await expectKeys(lab.server, {
        order: { hash: { mode: 'read', [peer.holder(7)]: '1', [read.holder]: '1' }, ttl: 60_000 },
        [readHold(peer.holder(7), 1)]: lasting(60_000),
        [readHold(read.holder, 1)]: lasting(5_000),
      })
      await read.unlock()
      await peer.readRelease('order', 7)
    })

    it('lets its readers in after our downgrade, and goes on reading beside them', async () => {
      const client = await lab.connect()
      const peer = await twin()
      const write = await client.getReadWriteLock('order').writeLock().lock()
      const read = await client.getReadWriteLock('order').readLock().lock({ within: write })
      const waiting = peer.readLock('order', 7, 20_000, 60_000)
      await waitUntil(() => peer.sleeping === 1)
      await write.unlock()
      assert.equal(await waiting, true)
      await expectKeys(lab.server, {
        order: { hash: { mode: 'read', [read.holder]: '1', [peer.holder(7)]: '1' }, ttl: WATCHDOG_MS },
        [readHold(read.holder, 1)]: lasting(WATCHDOG_MS),
        [readHold(peer.holder(7), 1)]: lasting(20_000),
      })
      await read.unlock()
      assert.equal(await peer.readRelease('order', 7), 1)
    })

    it('joins a downgraded writer of it, and is woken when it has read to its end', async () => {
      const [client, other] = [await lab.connect(), await lab.connect()]
      const peer = await twin()
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
      await listening()
      assert.equal(await peer.readRelease('order', 7), 1)
      await (await writing).unlock()
    })
  })
})
