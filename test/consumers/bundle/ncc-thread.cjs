// As thread.mjs; ncc makes a folder of the thread.
const { join } = require('node:path')
const { pathToFileURL } = require('node:url')
const holdfast = require('holdfast')
const { holdThroughABlock } = require('take-a-lock')

holdThroughABlock(holdfast, pathToFileURL(join(__dirname, 'thread', 'index.js'))).catch((error) => {
  console.error(error)
  process.exitCode = 1
})
