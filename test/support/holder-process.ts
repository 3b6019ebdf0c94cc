import { connect } from '../../src/index.js'
import { report } from './child.js'

/** A process that holds the lock `a`; arguments: the URL of Redis, and `hold` or `close`. */
const [url = '', mode] = process.argv.slice(2)
const client = await connect({ url, lockWatchdogTimeoutMs: 1_500 })
const hold = await client.getLock('a').lock()

if (mode === 'close') {
  await client.close()
  report({ at: 'closed' })
} else {
  hold.signal.addEventListener('abort', () => report({ at: 'aborted' }))
  client.closeOnSignals({ drainMs: 100 })
  process.once('SIGUSR2', () => void client.close().then(() => report({ at: 'closed' })))
  report({ at: 'held', holder: hold.holder })
}
