// Loaded into the process of each test file.
import { appendFileSync } from 'node:fs'
import { isMainThread } from 'node:worker_threads'
import './node-redis-classes.mjs'

export const FILE_LIMIT_MS = Number(process.env.TEST_FILE_LIMIT_MS ?? 300_000)

if (isMainThread && process.env.NODE_TEST_CONTEXT) {
  const file = process.argv[1]
  endInTime(file)
  if (file.endsWith('.test.js') && process.env.TEST_FILES_RECORD) recordRun(file, process.env.TEST_FILES_RECORD)
}

/** By the machine's monotonic clock, which all its processes share. */
export function machineTimeMs() {
  return Number(process.hrtime.bigint() / 1_000_000n)
}

/** Node itself would wait forever for a file that leaves a timer or socket open. */
function endInTime(file) {
  const stop = () => {
    const open = process.getActiveResourcesInfo().join(', ')
    console.error(`${file} has not ended after ${Math.round(process.uptime())} s. Still open: ${open}`)
    process.exit(1)
  }
  setTimeout(stop, FILE_LIMIT_MS - 5_000).unref() // before the runner's own limit, which does not say what is open
}

/** For stalls.mjs. */
function recordRun(file, record) {
  const began = machineTimeMs()
  process.on('exit', (code) => {
    appendFileSync(record, `${JSON.stringify({ file, began, ended: machineTimeMs(), ok: code === 0 })}\n`)
  })
}
