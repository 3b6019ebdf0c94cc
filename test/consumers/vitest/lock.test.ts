import * as holdfast from 'holdfast'
import { LockError, NotHeldError } from 'holdfast'
import { loadConfig } from 'holdfast/config'
import { createTestRedis } from 'holdfast/testing'
import { takeALock } from 'take-a-lock'
import { expect, test, vi } from 'vitest'

test('vitest takes a lock', async () => {
  await takeALock(holdfast)
})

test('fake timers do not stop a lock', async () => {
  const client = await holdfast.connect(process.env['REDIS_URL'])
  const lock = client.getLock(`consumer:fake-timers:${process.pid}`)
  vi.useFakeTimers({ toFake: ['setTimeout', 'setInterval', 'Date', 'performance'] })
  try {
    const hold = await lock.lock()
    vi.advanceTimersByTime(120_000)
    hold.assertHeld()
    await hold.unlock()
  } finally {
    vi.useRealTimers()
    await client.close()
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

test('vitest loads a subpath', () => {
  expect(typeof loadConfig).toBe('function')
  expect(new NotHeldError('not held')).toBeInstanceOf(LockError)
})
