import * as holdfast from 'holdfast'
import { LockError, NotHeldError } from 'holdfast'
import { loadConfig } from 'holdfast/config'
import { takeALock } from 'take-a-lock'

test('jest takes a lock', async () => {
  await takeALock(holdfast)
})

test('jest loads a subpath', () => {
  expect(typeof loadConfig).toBe('function')
  expect(new NotHeldError('not held')).toBeInstanceOf(LockError)
})
