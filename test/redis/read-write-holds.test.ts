/** The read and write holds of a read-write lock: wake-ups, leases, losses. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setUpFixture } from '../support/fixture.js'
import { keyNames, openTwin } from '../support/redisson-twin/twin.js'
import { renewed } from '../support/renewed.js'
import { listening, WOKEN_MS } from '../support/subscribers.js'
import { repliesForgotten } from '../support/synchronizers.js'
import { sleep } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000

/** Each test shows that a known defect of Redisson’s RedissonReadLock and RedissonWriteLock does not occur here. */
describe('the holds of a read-write lock', () => {
  const fixture = setUpFixture()

  const { readHold } = keyNames('a')

  it('a writer that keeps reading after its release wakes the readers', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const write = await client.getReadWriteLock('a').writeLock().lock()
    const read = await client.getReadWriteLock('a').readLock().lock({ within: write })
    const waits = [0, 1, 2].map(() => other.getReadWriteLock('a').readLock().lock())
    await listening(fixture)
    await sleep(100)
    await write.unlock()
    const releasedAt = performance.now()
    const reads = await Promise.all(waits)
    assert(performance.now() - releasedAt < WOKEN_MS)
    for (const hold of [read, ...reads]) await hold.unlock()
  })

  it('a write nested in a write has the longer of the two leases, not the sum', async () => {
    const lock = (await fixture.connect()).getReadWriteLock('a').writeLock()
    const outer = await lock.lock({ leaseTimeMs: 20_000 })
    for (let n = 0; n < 5; n++) await lock.lock({ within: outer, leaseTimeMs: 20_000 })
    const left = await fixture.server.admin.pttl('a')
    assert(left > 16_000 && left <= 20_050, `${left} ms`)
    await lock.forceUnlock()
  })

  it('a forced release leaves no keys of read holds', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const lock = client.getReadWriteLock('a')
    const read = await lock.readLock().lock()
    await lock.readLock().lock({ within: read })
    await other.getReadWriteLock('a').readLock().lock()
    assert.equal(await lock.readLock().forceUnlock(), true)
    await repliesForgotten(fixture)
    assert.deepEqual(await fixture.server.admin.keys('*'), [])
    const write = await lock.writeLock().lock()
    await lock.readLock().lock({ within: write })
    assert.equal(await lock.writeLock().forceUnlock(), true)
    await repliesForgotten(fixture)
    assert.deepEqual(await fixture.server.admin.keys('*'), [])
  })

  it('a reader whose hold ended gets an error, although other readers keep the lock alive', async () => {
    const [client, peer] = [await fixture.connect(), await openTwin(fixture)]
    await peer.readAcquire('a', 7, WATCHDOG_MS)
    const [inspected, released] = [
      await client.getReadWriteLock('a').readLock().lock(),
      await client.getReadWriteLock('a').readLock().lock(),
    ]
    // as if their leases had ended: what a paused server leaves
    await fixture.server.admin.del(readHold(inspected.holder, 1), readHold(released.holder, 1))
    assert.equal(await inspected.isHeld(), false)
    await assert.rejects(released.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert.deepEqual(await client.getReadWriteLock('a').readLock().getHolders(), [
      { holder: peer.holder(7), holdCount: 1 },
    ])
    assert.equal(await peer.readRelease('a', 7), 1)
  })

  /** Readers of a process that died: their fields are there, their holds have ended. Other readers keep the lock alive. */
  async function enterDead(count: number): Promise<void> {
    const fields = Array.from({ length: count }, (_, index) => [`dead:${index}`, 1]).flat()
    await fixture.server.admin.hset('a', 'mode', 'read', ...fields)
  }

  it('the last reader frees a lock that a thousand others died in', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const read = await client.getReadWriteLock('a').readLock().lock({ leaseTimeMs: 600_000 })
    await enterDead(1_000)
    const waiting = other.getReadWriteLock('a').writeLock().lock()
    await listening(fixture)
    await read.unlock()
    await (await waiting).unlock()
  })

  it('a writer waits for no reader that died, whatever lease the last one had', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const read = await client.getReadWriteLock('a').readLock().lock({ leaseTimeMs: 600_000 })
    await enterDead(1_000)
    const waiting = other.getReadWriteLock('a').writeLock().lock()
    await listening(fixture)
    // It died as well, and the lock lasts as long as its lease.
    await fixture.server.admin.del(readHold(read.holder, 1))
    await fixture.server.admin.publish('redisson_rwlock:{a}', '0')
    const write = await waiting
    assert.deepEqual(await fixture.server.admin.hgetall('a'), { mode: 'write', [write.holder]: '1' })
    await write.unlock()
    await read.unlock().catch(() => {})
  })

  it('a reader that leaves shortens the lock to the longest of few readers, and never below one of many', async () => {
    for (const [count, exact] of [
      [5, true],
      [1_000, false],
    ] as const) {
      const client = await fixture.connect()
      const lock = client.getReadWriteLock('a').readLock()
      const leaving = await lock.lock({ leaseTimeMs: 40_000 })
      const staying = await Promise.all(
        Array.from({ length: count }, (_, index) => lock.lock({ leaseTimeMs: index === count - 1 ? 39_000 : 30_000 })),
      )
      await leaving.unlock()
      const left = await fixture.server.admin.pttl('a')
      const longest = await fixture.server.admin.pttl(readHold(staying.at(-1)?.holder ?? '', 1))
      assert(left >= longest, `${left} ms are left of the lock, ${longest} ms of the longest hold`)
      if (exact) assert(left <= longest + 1_000)
      await Promise.all(staying.map((hold) => hold.unlock()))
      assert.deepEqual(await fixture.server.admin.keys('*'), [])
    }
  })

  it('all of a thousand readers are listed, counted and freed, none twice', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const lock = client.getReadWriteLock('a').readLock()
    const holds = await Promise.all(Array.from({ length: 1_000 }, () => lock.lock()))
    const holders = await other.getReadWriteLock('a').readLock().getHolders()
    const sorted = (all: readonly { readonly holder: string }[]) => all.map(({ holder }) => holder).sort()
    assert.deepEqual(sorted(holders), sorted(holds))
    assert.equal(await holds[777]?.isHeld(), true)
    const refused = other.getReadWriteLock('a').writeLock().lock({ waitTimeMs: 50 })
    await assert.rejects(refused, / and 999 more/)
    assert.equal(await other.getReadWriteLock('a').readLock().forceUnlock(), true)
    assert.deepEqual(await fixture.server.admin.keys('*rwlock*'), [])
    assert.equal(await fixture.server.admin.exists('a'), 0)
    for (const hold of holds) await hold.unlock().catch(() => {})
  })

  it('a reader with a thousand holds is renewed and released', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
    const lock = client.getReadWriteLock('a').readLock()
    const outer = await lock.lock()
    const holds = [outer]
    for (let n = 1; n < 1_000; n++) holds.push(await lock.lock({ within: outer }))
    await renewed([outer])
    assert.equal(await fixture.server.admin.hget('a', outer.holder), '1000')
    assert(Number(await fixture.server.admin.pttl(readHold(outer.holder, 1))) > 0)
    assert.equal(await lock.forceUnlock(), true)
    assert.deepEqual(await fixture.server.admin.keys('*rwlock*'), [])
    assert.equal(await fixture.server.admin.exists('a'), 0)
    for (const hold of holds) await hold.unlock().catch(() => {})
  })

  it('a reader that requests the write lock gets a self-deadlock error at once, and null if it only tries', async () => {
    const lock = (await fixture.connect()).getReadWriteLock('a')
    await lock.readLock().withLock(async (read) => {
      await assert.rejects(lock.writeLock().lock(), { code: 'LOCK_SELF_DEADLOCK' })
      assert.equal(await lock.writeLock().tryLock(), null)
      assert.equal(await lock.writeLock().tryLock({ waitTimeMs: 60_000 }), null)
      assert.deepEqual(await lock.writeLock().tryWithLock(() => assert.fail('must not run')), { ran: false })
      read.assertHeld()
    })
  })

  it('releasing a read or write lock that is gone is an error each time, and wakes nobody', async () => {
    const [client, peer] = [await fixture.connect(), await openTwin(fixture)]
    const heard = await peer.listen('a', 'redisson_rwlock:{a}')
    for (const lock of [client.getReadWriteLock('a').readLock(), client.getReadWriteLock('a').writeLock()]) {
      const hold = await lock.lock()
      await fixture.server.admin.flushall()
      for (let n = 0; n < 2; n++) await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    }
    assert.deepEqual(await fixture.server.admin.keys('*'), [])
    assert.deepEqual(heard.messages, [])
    await heard.stop()
  })

  it('nested read holds keep their own leases, whichever is released first', async () => {
    const lock = (await fixture.connect()).getReadWriteLock('a').readLock()
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
      assert((await fixture.server.admin.pttl(readHold(long.holder, 1))) > 50_000)
      await long.unlock()
      assert.deepEqual(await fixture.server.admin.keys('*'), [])
    }
  })

  it('the read lock is not locked while a writer holds it, nor the write lock while a reader does', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
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
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
    const holds = []
    for (const name of ['a', 'b', 'c']) {
      const lock = client.getReadWriteLock(name).readLock()
      const outer = await lock.lock()
      holds.push(outer, await lock.lock({ within: outer }), await lock.lock({ within: outer }))
    }
    await renewed(holds)
    for (const hold of holds) assert.equal(await hold.isHeld(), true)
    assert.equal((await fixture.server.admin.keys('*')).length, 12)
    for (const hold of holds) await hold.unlock()
  })
})
