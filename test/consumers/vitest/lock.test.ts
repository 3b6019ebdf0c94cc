import * as holdfast from 'holdfast'
import { LockError, NotHeldError } from 'holdfast'
import { loadConfig } from 'holdfast/config'
import { takeALock } from 'take-a-lock'
import { expect, test, vi } from 'vitest'

test('takes a lock', async () => {
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

test('loads a subpath', () => {
  expect(typeof loadConfig).toBe('function')
  expect(new NotHeldError('not held')).toBeInstanceOf(LockError)
})
