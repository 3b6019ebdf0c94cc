const holdfast = require('holdfast')
const { createTestRedis } = require('holdfast/testing')
const { Redis } = require('ioredis')
const { takeALock } = require('take-a-lock')

test('jest takes a lock', async () => {
  await takeALock(holdfast)
})

test('fake timers do not stop a lock', async () => {
  const redis = new Redis(process.env.REDIS_URL)
  await redis.ping()
  const client = await holdfast.connect({ client: redis })
  const lock = client.getLock(`consumer:fake-timers:${process.pid}`)
  jest.useFakeTimers()
  try {
    const hold = await lock.lock()
    jest.advanceTimersByTime(120_000)
    hold.assertHeld()
    await hold.unlock()
  } finally {
    jest.useRealTimers()
    await client.close()
    redis.disconnect()
  }
})

test('a Redis in memory follows fake timers', async () => {
  jest.useFakeTimers()
  try {
    const redis = createTestRedis({ time: 'faked' })
    const client = redis.connect()
    const hold = await client.getLock('order').lock({ leaseTimeMs: 10_000 })
    expect(hold.lockName).toBe('order')
    await jest.advanceTimersByTimeAsync(9_000)
    expect(await hold.isHeld()).toBe(true)
    await jest.advanceTimersByTimeAsync(1_001)
    expect(await hold.isHeld()).toBe(false)
    expect(hold.signal.reason).toBeInstanceOf(holdfast.LeaseLostError)
    await redis.close()
  } finally {
    jest.useRealTimers()
  }
})
