import { Redis } from 'ioredis'
import { connect } from '../../../src/index.js'
import { block } from '../block.js'
import { sleep } from '../wait-until.js'
import { onCommand, report } from './child.js'

/**
 * A process whose tasks update a counter under the lock `a`, and now and then block their event loop for up to two leases, in
 * the section or outside of it; others come and go with locks of their own all along. Arguments: the URL of Redis, sections, a
 * lease, whether a thread renews.
 */
const [url = '', sections, lease, thread] = process.argv.slice(2)
const leaseMs = Number(lease)
const client = await connect({
  url,
  lockWatchdogTimeoutMs: leaseMs,
  watchdog: { thread: thread === 'true', maxBlockMs: 10 * leaseMs },
})
const redis = new Redis(url)
let lost = 0
let isDone = false
client.on('lost', () => lost++)

async function work(): Promise<void> {
  for (let section = 0; section < Number(sections); section++) {
    const hold = await client.getLock('a').lock()
    if ((await redis.incr('inside')) !== 1) await redis.incr('overlaps')
    const counter = Number(await redis.get('counter'))
    if (section % 2 === 0) block(2 * leaseMs * Math.random())
    await redis.set('counter', counter + 1)
    await redis.decr('inside')
    await hold.unlock().catch(() => {})
    await sleep(10)
  }
}

/** Takes the places of others in whatever is kept of each. */
async function comeAndGo(n: number): Promise<void> {
  while (!isDone) {
    const hold = await client.getLock(`own:${process.pid}:${n}`).lock()
    await sleep(leaseMs * Math.random() ** 4)
    if (Math.random() < 0.002) block(2 * leaseMs * Math.random())
    await hold.unlock().catch(() => {})
  }
}

const stop = onCommand(async () => {
  const others = Array.from({ length: 20 }, (_, n) => comeAndGo(n))
  await work()
  isDone = true
  await Promise.all(others)
  await client.close()
  redis.disconnect()
  report({ at: 'done', lost })
  stop()
})
report({ at: 'ready' })
