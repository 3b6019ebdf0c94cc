import { connect } from '../../../src/index.js'

/** A process whose clients wait for the lock `a`, take it once each, and end. Arguments: the URL of Redis; how many. */
const [url = '', count = '1'] = process.argv.slice(2)
for (let n = 0; n < Number(count); n++) void waitOnce()

async function waitOnce(): Promise<void> {
  const client = await connect(url)
  await client.getLock('a').withLock(() => {})
  await client.close()
}
