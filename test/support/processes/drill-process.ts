import { connect } from '../../../src/index.js'
import { onCommand, report } from './child.js'

/** A service that holds a lock until it is killed, and blocks its event loop when told to. Arguments: URL, name, lock, label. */
const [url = '', name = '', lock = '', label = ''] = process.argv.slice(2)
const client = await connect({ url, inspection: { name }, lockWatchdogTimeoutMs: 600_000 })
const hold = await client.getLock(lock).lock({ label })
report({ at: 'held', holder: hold.holder })
onCommand<{ blockMs: number }>(({ blockMs }) => {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, blockMs)
})
