import * as holdfast from 'holdfast'
import { holdThroughABlock } from 'take-a-lock'

holdThroughABlock(holdfast).catch((error) => {
  console.error(error)
  process.exitCode = 1
})
