const holdfast = require('holdfast')
const { Redis } = require('ioredis')
const { takeALock } = require('take-a-lock')

test('takes a lock', async () => {
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
