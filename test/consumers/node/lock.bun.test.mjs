import { test } from 'bun:test'
import * as holdfast from 'holdfast'
import { takeALock } from 'take-a-lock'

test('bun takes a lock', async () => {
  await takeALock(holdfast)
})
