import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setUpFixture } from '../support/fixture.js'
import { recordMessages } from '../support/key-contents.js'
import { openTwin } from '../support/redisson-twin/twin.js'
import { listening } from '../support/subscribers.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

describe('a read-write lock', () => {
  const fixture = setUpFixture()

  it('tasks of one scope are kept apart: a task that does not write does not read during a write', async () => {
    const client = await fixture.connect()
    const lock = client.getReadWriteLock('a')
    await client.runInScope(async () => {
      let leave = (): void => {}
      const left = new Promise<void>((resolve) => {
        leave = resolve
      })
      let isWriting = false
      const writing = lock.writeLock().withLock(async () => {
        isWriting = true
        await left
        isWriting = false
      })
      await waitUntil(() => isWriting)
      assert.equal(await lock.readLock().tryLock(), null)
      const reading = lock.readLock().withLock(() => isWriting)
      leave()
      assert.equal(await reading, false)
      await writing
    })
  })

  it('a lost write that is re-entered is reported lost, although a read inside it waits', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const lock = client.getReadWriteLock('a')
    const ended = lock.writeLock().withLock(async (write) => {
      await fixture.server.admin.del('a')
      const stranger = await other.getReadWriteLock('a').writeLock().lock()
      const abort = new AbortController()
      const reading = lock.readLock().lock({ signal: abort.signal })
      await listening(fixture)
      const again = await settlesWithin(lock.writeLock().lock(), 4_000)
      assert(again.status === 'rejected' && again.reason.code === 'LOCK_LEASE_LOST')
      assert.equal(write.signal.aborted, true)
      abort.abort(new Error('enough'))
      await assert.rejects(reading, /enough|no longer held/)
      await stranger.unlock()
    })
    await assert.rejects(ended, { code: 'LOCK_LEASE_LOST' })
  })

  it('a read inside a write succeeds while other reads inside it are released', async () => {
    const lock = (await fixture.connect()).getReadWriteLock('a')
    await lock.writeLock().withLock(async (within) => {
      for (let round = 0; round < 20; round++) {
        const reads = [await lock.readLock().lock({ within }), await lock.readLock().lock({ within })]
        const released = reads.map((read) => read.unlock())
        await lock.readLock().withLock({ within }, (read) => read.assertHeld())
        await Promise.all(released)
      }
    })
    assert.deepEqual(await fixture.server.admin.keys('*'), [])
  })

  it('a waiting writer is woken when a release leaves only the short lease of a dead reader', async () => {
    const [living, dead, writing] = [await fixture.connect(), await fixture.connect(), await fixture.connect()]
    const read = await living.getReadWriteLock('a').readLock().lock()
    const leaseTimeMs = 2_000
    await dead.getReadWriteLock('a').readLock().lock({ leaseTimeMs })
    const endsAt = performance.now() + leaseTimeMs
    const came = writing.getReadWriteLock('a').writeLock().lock()
    await listening(fixture)
    await sleep(300) // it got the lease of the live reader, and pauses
    const messages = await recordMessages(fixture)
    await read.unlock()
    const write = await came
    const lateMs = performance.now() - endsAt
    assert(lateMs < 2_000, `${lateMs} ms after the lease of the dead reader`)
    assert.deepEqual(await messages(), [['redisson_rwlock:{a}', '0']])
    await write.unlock()
  })

  it('a Redisson writer woken for the short lease of a dead reader is refused and waits for its end', async () => {
    const [living, dead] = [await fixture.connect(), await fixture.connect()]
    const peer = await openTwin(fixture)
    const read = await living.getReadWriteLock('a').readLock().lock()
    const leaseTimeMs = 2_000
    await dead.getReadWriteLock('a').readLock().lock({ leaseTimeMs })
    const endsAt = performance.now() + leaseTimeMs
    const came = peer.writeLock('a', 7, 30_000, 20_000)
    await listening(fixture)
    await sleep(300)
    await read.unlock()
    assert.equal(await came, true)
    const lateMs = performance.now() - endsAt
    assert(lateMs > -50 && lateMs < 2_000, `${lateMs} ms after the lease of the dead reader`)
    assert.equal(await peer.writeRelease('a', 7), 1)
  })

  it('a reader that leaves wakes nobody while other readers have long leases', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const stays = await client.getReadWriteLock('a').readLock().lock({ leaseTimeMs: 20_000 })
    const leaves = await other.getReadWriteLock('a').readLock().lock()
    const messages = await recordMessages(fixture)
    await leaves.unlock()
    assert.deepEqual(await messages(), [])
    await stays.unlock()
  })

  it('writers of a client are woken whose readers are already subscribed', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const busy = await other.getReadWriteLock('a').writeLock().lock()
    const reading = client.getReadWriteLock('a').readLock().lock()
    await listening(fixture)
    const writing = client.getReadWriteLock('a').writeLock().lock({ waitTimeMs: 10_000 })
    await busy.unlock()
    const startedAt = performance.now()
    await Promise.all([reading, writing].map(async (wait) => await (await wait).unlock()))
    assert(performance.now() - startedAt < 3_000)
  })
})
