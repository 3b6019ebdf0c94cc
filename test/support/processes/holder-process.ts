import { connect } from '../../../src/index.js'
import { report } from './child.js'

/** A process that holds the lock `a`; arguments: the URL of Redis, and `hold`, `close` or what happens before the close on a signal. */
const [url = '', mode, drainMs] = process.argv.slice(2)
const client = await connect({ url, lockWatchdogTimeoutMs: 1_500 })
const hold = await client.getLock('a').lock()

if (mode === 'close') {
  await client.close()
  report({ at: 'closed' })
} else if (mode === 'finish') {
  client.on('warning', (warning) => report({ at: 'warned', message: warning.message }))
  const before = async () => {
    hold.assertHeld()
    await client.withLock('b', () => report({ at: 'took another' }))
    await hold.unlock()
    throw new Error('of before')
  }
  client.closeOnSignals({ before })
  report({ at: 'held' })
} else if (mode === 'beside') {
  client.on('warning', (warning) => report({ at: 'warned', code: (warning as { code?: string }).code }))
  client.closeOnSignals({ drainMs: 0 })
  if (drainMs === undefined) (await connect(url)).closeOnSignals()
  if (drainMs === 'own handler') process.on('SIGTERM', () => report({ at: 'own handler' }))
  report({ at: 'held' })
} else if (mode === 'hang') {
  client.closeOnSignals({ drainMs: Number(drainMs), before: () => new Promise(() => report({ at: 'before' })) })
  const rejected = ({ code, message }: Error & { code?: string }) => report({ at: 'rejected', code, message })
  void client.withLock('b', () => {}).catch(rejected)
  report({ at: 'held' })
} else {
  hold.signal.addEventListener('abort', () => report({ at: 'aborted' }))
  client.closeOnSignals({ drainMs: 100 })
  process.once('SIGUSR2', () => void client.close().then(() => report({ at: 'closed' })))
  report({ at: 'held', holder: hold.holder })
}
