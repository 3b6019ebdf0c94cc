import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setUpLab } from '../support/lab.js'
import { settlesWithin, waitUntil } from '../support/wait-until.js'

describe('a read-write lock', () => {
  const lab = setUpLab()

  it('keeps tasks of one scope apart: who does not write does not read beside the writer', async () => {
    const client = await lab.connect()
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

  it('tells who takes a lost write again that it is lost, though a read inside it waits', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const lock = client.getReadWriteLock('a')
    const ended = lock.writeLock().withLock(async (write) => {
      await lab.server.admin.del('a')
      const stranger = await other.getReadWriteLock('a').writeLock().lock()
      const abort = new AbortController()
      const reading = lock.readLock().lock({ signal: abort.signal })
      await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === 1)
      const again = await settlesWithin(lock.writeLock().lock(), 4_000)
      assert(again.status === 'rejected' && again.reason.code === 'LOCK_LEASE_LOST')
      assert.equal(write.signal.aborted, true)
      abort.abort(new Error('enough'))
      await assert.rejects(reading, /enough|no longer held/)
      await stranger.unlock()
    })
    await assert.rejects(ended, { code: 'LOCK_LEASE_LOST' })
  })

  it('wakes writers of a client whose readers listen already', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const busy = await other.getReadWriteLock('a').writeLock().lock()
    const reading = client.getReadWriteLock('a').readLock().lock()
    await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === 1)
    const writing = client.getReadWriteLock('a').writeLock().lock({ waitTimeMs: 10_000 })
    await busy.unlock()
    const startedAt = performance.now()
    await Promise.all([reading, writing].map(async (wait) => await (await wait).unlock()))
    assert(performance.now() - startedAt < 3_000)
  })
})
