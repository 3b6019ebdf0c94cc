import * as holdfast from 'holdfast'
import { LockError, NotHeldError } from 'holdfast'
import { loadConfig } from 'holdfast/config'
import { createTestRedis } from 'holdfast/testing'
import { takeALock } from 'take-a-lock'
import { expect, test, vi } from 'vitest'

test('vitest takes a lock', async () => {
  await takeALock(holdfast)
})

test('fake timers do not stop a lock, nor the end of its client', async () => {
  const client = await holdfast.connect(process.env['REDIS_URL'])
  const lock = client.getLock(`consumer:fake-timers:${process.pid}`)
  vi.useFakeTimers()
  try {
    const hold = await lock.lock()
    vi.advanceTimersByTime(120_000)
    hold.assertHeld()
    await hold.unlock()
    await client.close()
  } finally {
    vi.useRealTimers()
  }
})

test('a Redis in memory follows fake timers', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] })
  try {
    const redis = createTestRedis({ time: 'faked' })
    const hold = await redis.connect().getLock('order').lock({ leaseTimeMs: 10_000 })
    await vi.advanceTimersByTimeAsync(9_000)
    expect(await hold.isHeld()).toBe(true)
    await vi.advanceTimersByTimeAsync(1_001)
    expect(await hold.isHeld()).toBe(false)
    expect(hold.signal.reason).toBeInstanceOf(holdfast.LeaseLostError)
    await redis.close()
  } finally {
    vi.useRealTimers()
  }
})

for (const isBack of [true, false]) {
  test(`a Redis in memory closes under the fake timers of vitest, with a client that is ${isBack ? 'back' : 'away'}`, async () => {
    vi.useFakeTimers()
    try {
      const redis = createTestRedis({ time: 'faked' })
      const client = redis.connect()
      const hold = await client.getLock('order').lock()
      redis.faults(client).disconnect()
      await vi.advanceTimersByTimeAsync(30_000)
      expect(hold.signal.aborted).toBe(true)
      if (isBack) redis.faults(client).reconnect()
      await redis.close()
    } finally {
      vi.useRealTimers()
    }
  })
}

test('vitest loads a subpath', () => {
  expect(typeof loadConfig).toBe('function')
  expect(new NotHeldError('not held')).toBeInstanceOf(LockError)
})
