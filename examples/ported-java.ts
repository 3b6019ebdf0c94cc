/**
 * Java code with Redisson, ported line by line. The owner in Java is a thread; here it is a call of `runInScope`.
 *
 *     void transfer(String from, String to) {
 *       lock.lock();
 *       try { audit(); move(from, to); } finally { lock.unlock(); }
 *     }
 *     void audit() {
 *       lock.lock();  // the same thread: re-enters
 *       try { … } finally { lock.unlock(); }
 *     }
 */
import { connect } from 'holdfast'

const { REDIS_URL = 'redis://127.0.0.1:6379' } = process.env

const client = await connect(REDIS_URL)
const lock = client.getLock('lock:example:accounts')
let inside = 0

// Two simultaneous requests, like two threads: one waits for the other.
await Promise.all([client.runInScope(() => transfer()), client.runInScope(() => transfer())])
await client.close()

async function transfer(): Promise<void> {
  await lock.lock()
  try {
    inside += 1
    await audit()
    console.log(`transfers inside: ${inside}, hold count: ${await lock.getHoldCount()}`)
  } finally {
    inside -= 1
    await lock.unlock()
  }
}

async function audit(): Promise<void> {
  await lock.lock()
  try {
    console.log(`audit, hold count: ${await lock.getHoldCount()}`)
  } finally {
    await lock.unlock()
  }
}

// Output:
// audit, hold count: 2
// transfers inside: 1, hold count: 1
// audit, hold count: 2
// transfers inside: 1, hold count: 1
