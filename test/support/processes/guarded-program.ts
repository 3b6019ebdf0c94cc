import { connect } from '../../../src/index.js'
import { block } from '../block.js'

/** A program that outlives a block of its event loop. Arguments: the URL of Redis, and where the thread is, or nothing. */
export async function main([url = '', thread]: readonly string[]): Promise<void> {
  const startedAt = performance.now()
  const client = await connect({ url, lockWatchdogTimeoutMs: 2_400, watchdog: { thread: thread ?? true } })
  const connectMs = performance.now() - startedAt
  const hold = await client.getLock('a').lock()
  block(3_600)
  hold.assertHeld()
  await hold.unlock()
  await client.close()
  console.log(JSON.stringify({ at: 'done', connectMs }))
}

if (process.argv[1]?.includes('guarded-program')) {
  main(process.argv.slice(2)).catch((error: unknown) => {
    console.log(JSON.stringify({ at: 'failed', message: String(error) }))
  })
}
