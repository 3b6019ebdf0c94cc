/** Child process: takes one lock and, when it is sent a command, another one inside. Ends when both are released. */
import { connect } from 'holdfast'
import { onCommand, report } from './processes/child.js'

const [url = '', outer = '', inner = ''] = process.argv.slice(2)
const client = await connect({ url, inspection: { name: `taker-${outer}` } })
// A client makes itself known when it first waits.
await client.getLock('busy').tryLock({ waitTimeMs: 100 })
const isTold = new Promise<void>((resolve) => {
  const stop = onCommand(() => {
    stop()
    resolve()
  })
})
try {
  await client.withLock(outer, { label: `${outer}, then ${inner}` }, async (hold) => {
    report({ took: outer, holder: hold.holder })
    await isTold
    await client.withLock(inner, { signal: hold.signal }, async () => report({ took: inner }))
  })
} catch (error) {
  report({ failed: String(error) })
}
await client.close()
