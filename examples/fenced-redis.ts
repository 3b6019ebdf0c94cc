/**
 * A worker is paused past its lease, wakes up, and writes what it had worked out before, while another has written since.
 * No lock can stop that write. Redis refuses it: a script has seen a higher fencing token.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { connect, fencedSet } from 'holdfast'
import { Redis } from 'ioredis'

const { REDIS_URL = 'redis://127.0.0.1:6379' } = process.env

// Where the data is. It need not be the Redis of the locks.
const redis = new Redis(REDIS_URL)

// In production these are two processes.
const workerA = await connect(REDIS_URL)
const workerB = await connect(REDIS_URL)

// A takes the lock and begins. Then it stands still: a long garbage collection, a suspended machine.
const holdOfA = await workerA.getFencedLock('lock:example:report').lock({ leaseTimeMs: 500 })
console.log('A: has the lock, and is paused')
const pauseOfA = sleep(1_500)

// Its lease ends, and B has its turn.
await workerB.getFencedLock('lock:example:report').withLock(async (hold) => {
  console.log(`B: ${await write('the report of B', hold.fencingToken)}`)
})

// A wakes up, checks nothing, and goes on.
await pauseOfA
console.log(`A: ${await write('the report of A', holdOfA.fencingToken)}`)
console.log(`stored: ${await redis.get('example:report')}`)

await workerA.close()
await workerB.close()
// Only an example forgets the highest token; it ends with nobody around who is stale.
await redis.del('example:report', 'example:report:token')
redis.disconnect()

async function write(value: string, fencingToken: bigint): Promise<string> {
  const set = fencedSet(fencingToken, { key: 'example:report', tokenKey: 'example:report:token', value })
  const written = await redis.call(...set) // with node-redis: redis.sendCommand(set)
  return written === 0 ? 'refused, it is stale' : 'written'
}

// Output:
// A: has the lock, and is paused
// B: written
// A: refused, it is stale
// stored: the report of B
