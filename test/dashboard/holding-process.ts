import { connect } from '../../src/index.js'
import { report } from '../support/processes/child.js'

/** A process that holds a lock until it ends; arguments: the URL of Redis, and the lock's name. */
const [url = '', name = ''] = process.argv.slice(2)
const client = await connect({ url, inspection: { name: 'orders', host: 'orders-1' } })
await client.getLock(name).lock({ label: 'refund', leaseTimeMs: 600_000 })
report({ at: 'held' })
