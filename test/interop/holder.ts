import { connect } from '../../src/index.js'
import { report } from '../support/child.js'
import { WATCHDOG_MS } from './bench.js'
import { KINDS } from './kinds.js'

/** A process that holds a lock until it is killed. Arguments: the kind, the name, the URLs of two Redis servers. */
const [kindName = '', name = '', first = '', second = ''] = process.argv.slice(2)
const kind = KINDS.find((one) => one.name === kindName)
if (!kind) throw new Error(`no such kind: ${kindName}`)
const options = { lockWatchdogTimeoutMs: WATCHDOG_MS }
const clients = [await connect({ url: first, ...options }), await connect({ url: second, ...options })] as const
const hold = await kind.nodeLock(clients, name).lock()
report({ at: 'held', holder: hold.holder })
