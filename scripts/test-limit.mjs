// Loaded into the process of each test file: Node itself would wait for ever for one that leaves a timer or socket open.
import { isMainThread } from 'node:worker_threads'

export const FILE_LIMIT_MS = Number(process.env.TEST_FILE_LIMIT_MS ?? 300_000)

if (isMainThread && process.env.NODE_TEST_CONTEXT) {
  const giveUp = () => {
    const open = process.getActiveResourcesInfo().join(', ')
    console.error(`${process.argv[1]} has not ended after ${Math.round(process.uptime())} s. Still open: ${open}`)
    process.exit(1)
  }
  setTimeout(giveUp, FILE_LIMIT_MS - 5_000).unref() // before the runner's own limit, which does not say what is open
}
