/**
 * A worker is paused past its lease, wakes up and writes its result, although another worker has written since.
 * No lock can stop that write. Redis rejects it, because a script has seen a higher fencing token.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { connect, fencedSet } from 'holdfast'
import { Redis } from 'ioredis'

const { REDIS_URL = 'redis://127.0.0.1:6379' } = process.env

// The data. It need not be in the Redis of the locks.
const redis = new Redis(REDIS_URL)

// In production these are two processes.
const workerA = await connect(REDIS_URL)
const workerB = await connect(REDIS_URL)

// A acquires the lock and starts. Then it is paused: a long garbage collection, a suspended machine.
const holdOfA = await workerA.getFencedLock('lock:example:report').lock({ leaseTimeMs: 500 })
console.log('A: has the lock, and is paused')
const pauseOfA = sleep(1_500)

// Its lease ends, and B acquires the lock.
await workerB.getFencedLock('lock:example:report').withLock(async (hold) => {
  console.log(`B: ${await write('the report of B', hold.fencingToken)}`)
})

// A wakes up, checks nothing, and continues.
await pauseOfA
console.log(`A: ${await write('the report of A', holdOfA.fencingToken)}`)
console.log(`stored: ${await redis.get('example:report')}`)

await workerA.close()
await workerB.close()
// Only an example deletes the highest token, when no stale holder is left.
await redis.del('example:report', 'example:report:token')
redis.disconnect()

async function write(value: string, fencingToken: bigint): Promise<string> {
  const set = fencedSet(fencingToken, { key: 'example:report', tokenKey: 'example:report:token', value })
  const written = await redis.call(...set) // with node-redis: redis.sendCommand(set)
  return written === 0 ? 'rejected: stale token' : 'written'
}

// Output:
// A: has the lock, and is paused
// B: written
// A: rejected: stale token
// stored: the report of B
