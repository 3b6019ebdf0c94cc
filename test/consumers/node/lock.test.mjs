import { mock, test } from 'node:test'
import * as holdfast from 'holdfast'
import { takeALock } from 'take-a-lock'

test('node takes a lock', async () => {
  await takeALock(holdfast)
})

test('node takes a lock under fake timers', async () => {
  mock.timers.enable({ apis: ['setInterval', 'Date'] })
  await takeALock(holdfast)
  mock.timers.reset()
})
