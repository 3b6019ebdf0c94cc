/** The read and write holds of a read-write lock: wake-ups, leases, losses. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setUpLab } from '../support/lab.js'
import { renewed } from '../support/renewed.js'
import { listening, WOKEN_MS } from '../support/subscribers.js'
import { keyNames, openTwin } from '../support/twin.js'
import { sleep } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000

/** Each test shows that a known defect of Redisson’s RedissonReadLock and RedissonWriteLock does not occur here. */
describe('the holds of a read-write lock', () => {
  const lab = setUpLab()

  const { readHold } = keyNames('a')

  it('a writer that keeps reading after its release wakes the readers', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const write = await client.getReadWriteLock('a').writeLock().lock()
    const read = await client.getReadWriteLock('a').readLock().lock({ within: write })
    const waits = [0, 1, 2].map(() => other.getReadWriteLock('a').readLock().lock())
    await listening(lab)
    await sleep(100)
    await write.unlock()
    const releasedAt = performance.now()
    const reads = await Promise.all(waits)
    assert(performance.now() - releasedAt < WOKEN_MS)
    for (const hold of [read, ...reads]) await hold.unlock()
  })

  it('a write nested in a write has the longer of the two leases, not the sum', async () => {
    const lock = (await lab.connect()).getReadWriteLock('a').writeLock()
    const outer = await lock.lock({ leaseTimeMs: 20_000 })
    for (let n = 0; n < 5; n++) await lock.lock({ within: outer, leaseTimeMs: 20_000 })
    const left = await lab.server.admin.pttl('a')
    assert(left > 16_000 && left <= 20_050, `${left} ms`)
    await lock.forceUnlock()
  })

  it('a forced release leaves no keys of read holds', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const lock = client.getReadWriteLock('a')
    const read = await lock.readLock().lock()
    await lock.readLock().lock({ within: read })
    await other.getReadWriteLock('a').readLock().lock()
    assert.equal(await lock.readLock().forceUnlock(), true)
    assert.deepEqual(await lab.server.admin.keys('*'), [])
    const write = await lock.writeLock().lock()
    await lock.readLock().lock({ within: write })
    assert.equal(await lock.writeLock().forceUnlock(), true)
    assert.deepEqual(await lab.server.admin.keys('*'), [])
  })

  it('a reader whose hold ended gets an error, although other readers keep the lock alive', async () => {
    const [client, peer] = [await lab.connect(), await openTwin(lab)]
    await peer.readAcquire('a', 7, WATCHDOG_MS)
    const [inspected, released] = [
      await client.getReadWriteLock('a').readLock().lock(),
      await client.getReadWriteLock('a').readLock().lock(),
    ]
    // as if their leases had ended: what a paused server leaves
    await lab.server.admin.del(readHold(inspected.holder, 1), readHold(released.holder, 1))
    assert.equal(await inspected.isHeld(), false)
    await assert.rejects(released.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert.deepEqual(await client.getReadWriteLock('a').readLock().getHolders(), [
      { holder: peer.holder(7), holdCount: 1 },
    ])
    assert.equal(await peer.readRelease('a', 7), 1)
  })

  it('a reader that requests the write lock gets a self-deadlock error at once, and null if it only tries', async () => {
    const lock = (await lab.connect()).getReadWriteLock('a')
    await lock.readLock().withLock(async (read) => {
      await assert.rejects(lock.writeLock().lock(), { code: 'LOCK_SELF_DEADLOCK' })
      assert.equal(await lock.writeLock().tryLock(), null)
      assert.equal(await lock.writeLock().tryLock({ waitTimeMs: 60_000 }), null)
      assert.deepEqual(await lock.writeLock().tryWithLock(() => assert.fail('must not run')), { ran: false })
      read.assertHeld()
    })
  })

  it('releasing a read or write lock that is gone is an error each time, and wakes nobody', async () => {
    const [client, peer] = [await lab.connect(), await openTwin(lab)]
    const heard = await peer.listen('a', 'redisson_rwlock:{a}')
    for (const lock of [client.getReadWriteLock('a').readLock(), client.getReadWriteLock('a').writeLock()]) {
      const hold = await lock.lock()
      await lab.server.admin.flushall()
      for (let n = 0; n < 2; n++) await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    }
    assert.deepEqual(await lab.server.admin.keys('*'), [])
    assert.deepEqual(heard.messages, [])
    await heard.stop()
  })

  it('nested read holds keep their own leases, whichever is released first', async () => {
    const lock = (await lab.connect()).getReadWriteLock('a').readLock()
    for (const [first, second] of [
      [60_000, 500],
      [500, 60_000],
    ] as const) {
      const outer = await lock.lock({ leaseTimeMs: first })
      const inner = await lock.lock({ within: outer, leaseTimeMs: second })
      const [long, short] = first > second ? [outer, inner] : [inner, outer]
      await short.unlock()
      await sleep(700)
      long.assertHeld()
      assert.equal(await long.isHeld(), true)
      assert((await lab.server.admin.pttl(readHold(long.holder, 1))) > 50_000)
      await long.unlock()
      assert.deepEqual(await lab.server.admin.keys('*'), [])
    }
  })

  it('the read lock is not locked while a writer holds it, nor the write lock while a reader does', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const [mine, theirs] = [client.getReadWriteLock('a'), other.getReadWriteLock('a')]
    const isLocked = async () => [await theirs.readLock().isLocked(), await theirs.writeLock().isLocked()]
    assert.deepEqual(await isLocked(), [false, false])
    const read = await mine.readLock().lock()
    assert.deepEqual(await isLocked(), [true, false])
    await read.unlock()
    const write = await mine.writeLock().lock()
    assert.deepEqual(await isLocked(), [false, true])
    const within = await mine.readLock().lock({ within: write })
    assert.deepEqual(await isLocked(), [true, true])
    await within.unlock()
    await write.unlock()
  })

  it('nested read holds of several locks are renewed in one script', async () => {
    const client = await lab.connect({ lockWatchdogTimeoutMs: 2_400 })
    const holds = []
    for (const name of ['a', 'b', 'c']) {
      const lock = client.getReadWriteLock(name).readLock()
      const outer = await lock.lock()
      holds.push(outer, await lock.lock({ within: outer }), await lock.lock({ within: outer }))
    }
    await renewed(holds)
    for (const hold of holds) assert.equal(await hold.isHeld(), true)
    assert.equal((await lab.server.admin.keys('*')).length, 12)
    for (const hold of holds) await hold.unlock()
  })
})
