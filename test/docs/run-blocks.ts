/** Runs compiled code blocks one after the other: the paths are the arguments, Redis is at REDIS_URL. */
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { Redis } from 'ioredis'
import { report } from '../support/processes/child.js'
import '../support/servers/loopback.js' // some blocks are servers
import { sleep } from '../support/wait-until.js'

const LIMIT_MS = 30_000

const { REDIS_URL = '' } = process.env
const redis = new Redis(REDIS_URL)
// A block that starts a worker or a server is over when that runs, and loses its locks when the next block flushes Redis.
process.on('unhandledRejection', (error) => {
  if ((error as { code?: unknown } | null)?.code !== 'LOCK_LEASE_LOST') throw error
})

const paths = process.argv.slice(2)
const { stock } = await import(pathToFileURL(join(dirname(paths[0] ?? ''), 'prelude.js')).href)
await stock // none of the time of the first block that borrows it
report({ path: 'prelude' })

for (const path of paths) {
  await redis.flushall()
  const failure = await Promise.race([
    import(pathToFileURL(path).href).then(
      () => undefined,
      (error: unknown) => (error instanceof Error ? (error.stack ?? error.message) : String(error)),
    ),
    sleep(LIMIT_MS).then(() => `has not ended after ${LIMIT_MS} ms`),
  ])
  report({ path, failure: failure ?? null })
}
// Blocks leave their clients open, as closing is not their subject.
process.exit()
