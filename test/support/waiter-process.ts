import { connect } from '../../src/index.js'

/** A process that waits for the lock `a`, takes it once, and ends. Argument: the URL of Redis. */
const [url = ''] = process.argv.slice(2)
const client = await connect(url)
await client.getLock('a').withLock(() => {})
await client.close()
