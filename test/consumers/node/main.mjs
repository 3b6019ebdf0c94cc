import * as holdfast from 'holdfast'
import { takeALock } from 'take-a-lock'

takeALock(holdfast).catch((error) => {
  console.error(error)
  process.exitCode = 1
})
