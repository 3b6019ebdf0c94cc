/** One process acquires a lock and transfers it with a job; another continues and releases it. */
import { connect } from 'holdfast'

const { REDIS_URL = 'redis://127.0.0.1:6379' } = process.env

const web = await connect(REDIS_URL)
const worker = await connect(REDIS_URL)

const queue: { order: string; holder: string }[] = []

// The web process: from now on nobody else may change the order. The lease must outlast the time in the queue.
const hold = await web.getLock('lock:example:order:1').lock({ leaseTimeMs: 60_000 })
queue.push({ order: '1', holder: hold.handOver() })
console.log(`web: handed it over, still held here: ${await hold.isHeld()}, locked: ${await isLocked()}`)

// The worker process: adopts the lock, which is never free in between, and renews it from here on.
for (const { order, holder } of queue) {
  await using adopted = await worker.adopt(`lock:example:order:${order}`, holder)
  adopted.assertHeld()
  console.log(`worker: adopted it, locked: ${await isLocked()}`)
}
console.log(`afterwards: locked: ${await isLocked()}`)

await web.close()
await worker.close()

async function isLocked(): Promise<boolean> {
  return await web.getLock('lock:example:order:1').isLocked()
}

// Output:
// web: handed it over, still held here: false, locked: true
// worker: adopted it, locked: true
// afterwards: locked: false
