/** One process takes a lock and passes it on with the job; another goes on with it and releases it. */
import { connect } from 'holdfast'

const { REDIS_URL = 'redis://127.0.0.1:6379' } = process.env

const web = await connect(REDIS_URL)
const worker = await connect(REDIS_URL)

const queue: { order: string; holder: string }[] = []

// The web process: nobody else may touch the order from now on. The lease must outlast the time in the queue.
const hold = await web.getLock('lock:example:order:1').lock({ leaseTimeMs: 60_000 })
queue.push({ order: '1', holder: hold.handOver() })
console.log(`web: handed over, still held here: ${await hold.isHeld()}, locked: ${await isLocked()}`)

// The worker process: takes over without the lock being free for a moment, and renews it from here on.
for (const { order, holder } of queue) {
  await using adopted = await worker.adopt(`lock:example:order:${order}`, holder)
  adopted.assertHeld()
  console.log(`worker: has it now, locked: ${await isLocked()}`)
}
console.log(`afterwards: locked: ${await isLocked()}`)

await web.close()
await worker.close()

async function isLocked(): Promise<boolean> {
  return await web.getLock('lock:example:order:1').isLocked()
}

// Output:
// web: handed over, still held here: false, locked: true
// worker: has it now, locked: true
// afterwards: locked: false
