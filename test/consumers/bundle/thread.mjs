// A bundle brings the file of the thread along.
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import * as holdfast from 'holdfast'
import { holdThroughABlock } from 'take-a-lock'

holdThroughABlock(holdfast, pathToFileURL(join(__dirname, 'watchdog-thread.cjs'))).catch((error) => {
  console.error(error)
  process.exitCode = 1
})
