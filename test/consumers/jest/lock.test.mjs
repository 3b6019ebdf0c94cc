import * as holdfast from 'holdfast'
import { takeALock } from 'take-a-lock'

test('jest takes a lock', async () => {
  await takeALock(holdfast)
})
