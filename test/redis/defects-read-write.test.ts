/**
 * One test for each known defect of RedissonReadWriteLock and RedissonFencedLock; `defects.test.ts` says which ones have
 * none.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { getMultiLock, type Lock } from '../../src/index.js'
import { setUpLab } from '../support/lab.js'
import { renewed } from '../support/renewed.js'
import { startTwin, type Twin } from '../support/twin.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000
/** Less than any poll: who is served by then was woken. */
const WOKEN_MS = 3_000

describe('known defects of the read-write lock', () => {
  const lab = setUpLab()

  async function twin(): Promise<Twin> {
    const opened = await startTwin(lab.server.url)
    lab.onEnd(() => opened.close())
    return opened
  }

  async function listening(count = 1): Promise<void> {
    await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === count)
  }

  function readHold(holder: string, index: number): string {
    return `{a}:${holder}:rwlock_timeout:${index}`
  }

  it('RW1: a writer that goes on reading wakes the readers', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const write = await client.getReadWriteLock('a').writeLock().lock()
    const read = await client.getReadWriteLock('a').readLock().lock({ within: write })
    const waits = [0, 1, 2].map(() => other.getReadWriteLock('a').readLock().lock())
    await listening()
    await sleep(100)
    await write.unlock()
    const releasedAt = performance.now()
    const reads = await Promise.all(waits)
    assert(performance.now() - releasedAt < WOKEN_MS)
    for (const hold of [read, ...reads]) await hold.unlock()
  })

  it('RW2: a write inside a write has the longer lease of the two, not the sum', async () => {
    const lock = (await lab.connect()).getReadWriteLock('a').writeLock()
    const outer = await lock.lock({ leaseTimeMs: 20_000 })
    for (let n = 0; n < 5; n++) await lock.lock({ within: outer, leaseTimeMs: 20_000 })
    const left = await lab.server.admin.pttl('a')
    assert(left > 16_000 && left <= 20_050, `${left} ms`)
    await lock.forceUnlock()
  })

  it('RW3: a forced release leaves no key of a read hold', async () => {
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

  it('RW4: a reader whose hold ended is told so, though others keep the lock alive', async () => {
    const [client, peer] = [await lab.connect(), await twin()]
    await peer.readAcquire('a', 7, WATCHDOG_MS)
    const [asked, released] = [
      await client.getReadWriteLock('a').readLock().lock(),
      await client.getReadWriteLock('a').readLock().lock(),
    ]
    // as if their leases had ended: what a paused server leaves
    await lab.server.admin.del(readHold(asked.holder, 1), readHold(released.holder, 1))
    assert.equal(await asked.isHeld(), false)
    await assert.rejects(released.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert.deepEqual(await client.getReadWriteLock('a').readLock().getHolders(), [
      { holder: peer.holder(7), holdCount: 1 },
    ])
    assert.equal(await peer.readRelease('a', 7), 1)
  })

  it('RW6: a reader that asks to write is told at once that it would wait for itself', async () => {
    const lock = (await lab.connect()).getReadWriteLock('a')
    await lock.readLock().withLock(async (read) => {
      await assert.rejects(lock.writeLock().lock(), { code: 'LOCK_SELF_DEADLOCK' })
      await assert.rejects(lock.writeLock().tryLock(), { code: 'LOCK_SELF_DEADLOCK' })
      read.assertHeld()
    })
  })

  it('RW7: the release of a lock that is gone is an error, also the second time, and wakes nobody', async () => {
    const [client, peer] = [await lab.connect(), await twin()]
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

  it('RW8: of read holds with different leases the one that goes on has its own, whichever is released', async () => {
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

  it('RW9: a read lock is not locked while somebody writes, nor a write lock while somebody reads', async () => {
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

  it('RW11: readers with several holds, of several locks, are renewed in one script', async () => {
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

describe('known defects of the fenced lock', () => {
  const lab = setUpLab()
  const TOKENS = 'redisson_lock_token:{a}'

  function forgetTokens(): void {
    lab.onEnd(() => lab.server.admin.del(TOKENS))
  }

  it('E1: tryLock() without a wait answers at once', async () => {
    forgetTokens()
    const [client, other] = [await lab.connect(), await lab.connect()]
    const hold = await client.getFencedLock('a').lock()
    const startedAt = performance.now()
    assert.equal(await other.getFencedLock('a').tryLock(), null)
    assert(performance.now() - startedAt < WOKEN_MS)
    await hold.unlock()
  })

  it('E2: lock() with a lease has that lease, and is not renewed', async () => {
    forgetTokens()
    const lock = (await lab.connect({ lockWatchdogTimeoutMs: 300 })).getFencedLock('a')
    const hold = await lock.lock({ leaseTimeMs: 1_000 })
    const left = await lab.server.admin.pttl('a')
    assert(left > 0 && left <= 1_050, `${left} ms`)
    await waitUntil(() => hold.signal.aborted)
    await waitUntil(async () => (await lab.server.admin.exists('a')) === 0)
  })

  it('E3: a lock without expiry is taken, not granted with the token -1', async () => {
    const lock = (await lab.connect()).getFencedLock('a')
    await lab.server.admin.hset('a', 'somebody:1', '1')
    assert.equal(await lock.tryLock(), null)
    assert.equal(await lock.tryLock({ waitTimeMs: 200 }), null)
    assert.deepEqual(await lab.server.admin.keys('*'), ['a'])
    await lab.server.admin.del('a')
  })

  it('E4: the counter of tokens never expires: not by a lease, not in a multi-lock, not by a forced release', async () => {
    forgetTokens()
    const client = await lab.connect()
    const fenced = client.getFencedLock('a')
    await (await fenced.lock({ leaseTimeMs: 1_000 })).unlock()
    const multi = await getMultiLock(fenced as unknown as Lock, client.getLock('b')).lock({ leaseTimeMs: 1_000 })
    assert.equal(await lab.server.admin.pttl(TOKENS), -1)
    await multi.unlock()
    await fenced.lock()
    await fenced.forceUnlock()
    assert.equal(await lab.server.admin.pttl(TOKENS), -1)
    const hold = await fenced.lock()
    assert.equal(hold.fencingToken, 4n)
    await hold.unlock()
  })

  it('E5: a re-entry has the token of the outer hold', async () => {
    forgetTokens()
    const lock = (await lab.connect()).getFencedLock('a')
    await lock.withLock(async (outer) => {
      await lock.withLock(async (inner) => assert.equal(inner.fencingToken, outer.fencingToken))
      assert.equal(await lock.getToken(), outer.fencingToken)
    })
  })

  it('E6: tokens do not go back when Redis lost data: a client goes on above what it has seen, and warns', async () => {
    forgetTokens()
    const client = await lab.connect()
    const warnings: string[] = []
    client.on('warning', (warning) => warnings.push(String((warning as { code?: string }).code)))
    const lock = client.getFencedLock('a')
    for (let n = 0; n < 3; n++) await (await lock.lock()).unlock()
    await lab.server.admin.set(TOKENS, '1') // what a replica may have that missed two of them
    const hold = await lock.lock()
    assert.equal(hold.fencingToken, 4n)
    assert.deepEqual(warnings, ['FENCING_TOKENS_WENT_BACK'])
    await hold.unlock()
  })

  it('E8: a hold keeps its own token, whoever draws the next one', async () => {
    forgetTokens()
    const [client, other] = [await lab.connect(), await lab.connect()]
    const lost = await client.getFencedLock('a').lock()
    await other.getFencedLock('a').forceUnlock()
    const hold = await other.getFencedLock('a').lock()
    assert.deepEqual([lost.fencingToken, hold.fencingToken], [1n, 2n])
    assert.equal(await client.getFencedLock('a').getToken(), 2n)
    await hold.unlock()
  })
})
