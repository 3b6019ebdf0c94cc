import { once } from 'node:events'
import { driverNamed } from '../drivers.js'
import { onCommand, report } from './child.js'

/**
 * A function whose process is frozen between two calls, and perhaps inside of one; arguments: the URL of Redis, and the name of
 * a driver. It is called by a command, `{ isLong: true }` if it shall work until its lock is lost.
 */
const [url = '', driver = ''] = process.argv.slice(2)
const { client } = await driverNamed(driver).open(url, {})
const lock = client.getLock('a')

onCommand<{ isLong: boolean }>(async ({ isLong }) => {
  const work = async ({ signal }: { signal: AbortSignal }): Promise<void> => {
    report({ at: 'inside' })
    if (!isLong) return
    await once(signal, 'abort')
    throw signal.reason
  }
  await lock.tryWithLock({ waitTimeMs: 10_000, leaseTimeMs: 1_000 }, work).then(
    ({ ran }) => report({ at: 'returned', ran }),
    ({ code }) => report({ at: 'returned', code }),
  )
})
report({ at: 'ready' })
