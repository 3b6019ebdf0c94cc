/** holdfast/testing, as users see it. */
import assert from 'node:assert/strict'
import { AsyncLocalStorage } from 'node:async_hooks'
import { describe, it, mock } from 'node:test'
import type { Hold } from '../../src/index.js'
import { createTestRedis } from '../../src/testing/index.js'

describe('createTestRedis()', () => {
  it('a test Redis connects clients that exclude each other, in real time', async () => {
    const redis = createTestRedis()
    const [shop, rival] = [redis.connect(), redis.connect()]
    const hold = await shop.getLock('order').lock()
    assert.equal(await rival.getLock('order').tryLock(), null)
    const waiting = rival.getLock('order').lock()
    await hold.unlock()
    await (await waiting).unlock()
    assert.deepEqual(redis.keys(), [])
    await redis.close()
  })

  it('a test Redis rejects options that cannot work', () => {
    assert.throws(() => createTestRedis({ time: 'slow' as never }), { code: 'LOCK_CONFIG', path: 'time' })
    assert.throws(() => createTestRedis({ seed: 0.5 }), { code: 'LOCK_CONFIG', path: 'seed' })
    assert.throws(() => createTestRedis().time, { code: 'LOCK_CONFIG', path: 'time' })
    assert.throws(() => createTestRedis().connect({ watchdog: { thread: true } } as object), { code: 'LOCK_CONFIG' })
    assert.throws(() => createTestRedis().sent(createTestRedis().connect()), { code: 'LOCK_CONFIG', path: 'client' })
  })

  it('a test Redis lets virtual time pass only by advance() and until(), and renews what is held', async () => {
    const redis = createTestRedis({ time: 'virtual' })
    const client = redis.connect()
    const hold = await client.getLock('order').lock()
    await redis.time.advance(3_600_000)
    hold.assertHeld()
    assert.equal(redis.sent(client).filter(({ name }) => name === 'lock/renew').length, 360)
    assert.deepEqual(redis.keys(), [{ key: 'order', type: 'hash', expiresInMs: 30_000 }])
    await hold.unlock()
    await redis.close()
  })

  it('a test Redis goes just as far as a promise needs, and fails when nothing can settle it', async () => {
    const redis = createTestRedis({ time: 'virtual' })
    const client = redis.connect()
    await redis.connect().getLock('order').lock({ leaseTimeMs: 5_000 })
    const startedAt = redis.time.now()
    const hold = await redis.time.until(client.getLock('order').lock())
    assert(redis.time.now() - startedAt >= 5_000 && redis.time.now() - startedAt < 6_000)
    await assert.rejects(redis.time.until(new Promise(() => {})), /still pending/)
    await hold.unlock()
    await redis.close()
  })

  it('a test Redis ends a hold whose renewals are lost while the client is disconnected', async () => {
    const redis = createTestRedis({ time: 'virtual' })
    const [shop, rival] = [redis.connect({ lockWatchdogTimeoutMs: 3_000 }), redis.connect()]
    const hold = await shop.getLock('order').lock()
    const waiting = rival.getLock('order').lock()
    redis.faults(shop).disconnect()
    await redis.time.advance(3_001)
    assert.equal(hold.signal.aborted, true)
    const next = await redis.time.until(waiting)
    redis.faults(shop).reconnect()
    await next.unlock()
    await (await redis.time.until(shop.getLock('order').lock())).unlock()
    await redis.close()
  })

  it('a test Redis lets the next operation of a name fail', async () => {
    const redis = createTestRedis({ time: 'virtual' })
    const client = redis.connect()
    redis.faults(client).next('lock/acquire', { lost: 'reply' })
    await assert.rejects(redis.time.until(client.getLock('order').tryLock()), { code: 'LOCK_OUTCOME_UNKNOWN' })
    redis.faults(client).each(({ name }) => (name === 'lock/acquire' ? { errorReply: 'OOM' } : undefined))
    await assert.rejects(redis.time.until(client.getLock('order').tryLock()), /OOM/)
    redis.faults(client).each(() => undefined)
    await redis.close()
  })

  it('a test Redis loses holds while the event loop is blocked, and when their keys disappear', async () => {
    const redis = createTestRedis({ time: 'virtual' })
    const client = redis.connect()
    const blocked = await client.getLock('blocked').lock()
    await redis.time.blockEventLoop(31_000)
    assert.throws(() => blocked.assertHeld(), { code: 'LOCK_LEASE_LOST' })
    const evicted = await client.getLock('evicted').lock()
    assert.equal(redis.forceExpire('evicted'), true)
    await redis.time.advance(10_000)
    assert.equal(evicted.signal.aborted, true)
    await redis.close()
  })

  it('a test Redis gets the texts of forgotten scripts again, and is empty after a loss of data', async () => {
    const redis = createTestRedis({ time: 'virtual' })
    const client = redis.connect()
    await client.getSemaphore('s').trySetPermits(2)
    redis.forgetScripts()
    redis.loseData()
    assert.equal(await redis.time.until(client.getSemaphore('s').availablePermits()), 0)
    await redis.close()
  })

  it('a test Redis runs the same way twice with the same seed', async () => {
    const life = async (seed: number): Promise<unknown> => {
      const redis = createTestRedis({ time: 'virtual', seed })
      const clients = [redis.connect(), redis.connect(), redis.connect()]
      await redis.time.until(
        Promise.all(clients.map((client) => client.getLock('order').withLock({ leaseTimeMs: 50 }, () => {}))),
      )
      await redis.close()
      return clients.map((client) => redis.sent(client))
    }
    assert.deepEqual(await life(7), await life(7))
    assert.notDeepEqual(await life(7), await life(8))
  })

  it('a test Redis keeps the async context of whoever set a timer', async () => {
    const redis = createTestRedis({ time: 'virtual' })
    const storage = new AsyncLocalStorage<string>()
    const client = redis.connect()
    const hold = await client.getLock('order').lock({ leaseTimeMs: 1_000 })
    const seen: unknown[] = []
    storage.run('listener', () => hold.signal.addEventListener('abort', () => seen.push(storage.getStore())))
    const waiting = storage.run('waiter', async () => {
      const next = await redis.connect().getLock('order').lock()
      seen.push(storage.getStore())
      await next.unlock()
    })
    await storage.run('test', () => redis.time.until(waiting))
    assert.equal(seen.at(-1), 'waiter')
    await redis.close()
  })

  it('a test Redis names what is left when it is closed', async () => {
    const redis = createTestRedis({ time: 'virtual' })
    const hold = await redis.connect().getLock('order').lock({ leaseTimeMs: 5_000 })
    hold.handOver() // and nobody adopts it
    await assert.rejects(redis.close(), /the key "order", for \d+ ms/)
  })

  it('a test Redis follows fake timers', async () => {
    mock.timers.enable({ apis: ['setTimeout', 'Date'] })
    try {
      const redis = createTestRedis({ time: 'faked' })
      const client = redis.connect()
      const hold = await client.getLock('order').lock({ leaseTimeMs: 10_000 })
      mock.timers.tick(10_001)
      assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST' })
      assert.deepEqual(redis.keys(), [])
      await redis.close()
    } finally {
      mock.timers.reset()
    }
  })

  for (const isBack of [true, false]) {
    it(`a test Redis closes under fake timers that nobody advances, with a client that is ${isBack ? 'back' : 'away'}`, async () => {
      mock.timers.enable({ apis: ['setTimeout', 'Date'] })
      try {
        const redis = createTestRedis({ time: 'faked' })
        const client = redis.connect()
        const hold = await client.getLock('order').lock()
        let next: Hold | undefined
        redis.faults(client).disconnect()
        void redis
          .connect()
          .getLock('order')
          .lock()
          .then((granted) => {
            next = granted
          })
        while (!next) {
          mock.timers.tick(1_000)
          await new Promise((resolve) => setImmediate(resolve))
        }
        assert.equal(hold.signal.aborted, true)
        if (isBack) redis.faults(client).reconnect()
        await redis.close()
      } finally {
        mock.timers.reset()
      }
    })
  }
})
