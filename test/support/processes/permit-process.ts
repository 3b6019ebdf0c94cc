import { connect } from '../../../src/index.js'
import { report } from './child.js'

/** A process that holds permits of the semaphore `a`, until it is killed. Arguments: the URL of Redis, how many permits. */
const [url = '', permits = '1'] = process.argv.slice(2)
const client = await connect({ url, lockWatchdogTimeoutMs: 1_500, inspection: false })
const permit = await client.getPermitExpirableSemaphore('a').acquire({ permits: Number(permits) })
report({ at: 'held', permitIds: permit.permitIds })
