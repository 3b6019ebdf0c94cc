/**
 * Nothing piles up, whatever happens to a lock: the heap stays flat over cycles of every kind. For longer runs:
 * LEAK_CYCLES=1000000 npm test -- test/leaks
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Client } from '../../src/client.js'
import { LeaseLostError } from '../../src/errors.js'
import { MemoryPort } from '../../src/testing/memory-port.js'
import { MemoryRedis } from '../../src/testing/memory-redis.js'
import { SystemClock } from '../../src/util/clock.js'
import { kinds } from '../support/kinds.js'
import { sleep } from '../support/wait-until.js'

/** Of all subjects together. */
const CYCLES = Number(process.env['LEAK_CYCLES'] ?? 7_500)
/** At least: until the code is compiled and caches are full. In longer runs what Redis keeps for a minute counts, too. */
const WARM_UP = 1_000
/** How far two measurements of a heap that does not grow are apart. */
const TOLERATED_BYTES = 600_000
const NAMES = 20

type Cycle = (client: Client, name: string, n: number) => Promise<void>

const SUBJECTS: Readonly<Record<string, Cycle>> = {
  ...Object.fromEntries(kinds.map((kind) => [kind.name, cycleOf(kind)])),
  semaphore: async (client, name, n) => {
    const semaphore = client.getSemaphore(name)
    await semaphore.trySetPermits(1)
    await semaphore.acquire()
    if (n % 10 === 0) assert.equal(await semaphore.tryAcquire(), false)
    const waiting = n % 20 === 0 ? semaphore.withPermit(() => {}) : undefined
    await semaphore.release()
    await waiting
  },
  'permit-expirable semaphore': async (client, name, n) => {
    const semaphore = client.getPermitExpirableSemaphore(name)
    await semaphore.trySetPermits(1)
    const permit = await semaphore.acquire()
    if (n % 10 === 0) assert.equal(await semaphore.tryAcquire(), null)
    const waiting = n % 20 === 0 ? semaphore.withPermit(() => {}) : undefined
    await permit.unlock()
    await waiting
  },
  'count-down latch': async (client, name) => {
    const latch = client.getCountDownLatch(name)
    await latch.trySetCount(1)
    const waiting = latch.await()
    await latch.countDown()
    await waiting
  },
}

/** Every way in which a lock is taken and given back, or not taken. */
function cycleOf({ lock: lockNamed, rival: rivalOf, parts }: (typeof kinds)[number]): Cycle {
  return async (client, name, n) => {
    const [lock, rival] = [lockNamed(client, name), rivalOf(client, name)]
    const hold = await lock.lock()
    if (n % 3 === 0) assert.equal(hold.signal.aborted, false)
    if (n % 5 === 0) assert.equal(await rival.tryLock(), null)
    if (n % 50 === 0) assert.equal(await rival.tryLock({ waitTimeMs: 2 }), null)
    if (n % 50 === 10) await assert.rejects(rival.lock({ signal: AbortSignal.timeout(2) }))
    const waiting = n % 50 === 20 ? rival.withLock(() => {}) : undefined
    await hold.unlock()
    await waiting
    if (n % 50 === 30) {
      const forced = await lock.lock()
      for (const part of parts(client, name)) await part.forceUnlock()
      await forced.unlock().catch(isLost)
    }
    if (n % 200 === 40) {
      await lock.lock({ leaseTimeMs: 20 }).catch(isLost)
      await sleep(25)
    }
  }
}

function isLost(error: unknown): void {
  assert(error instanceof LeaseLostError)
}

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

async function heapUsed(): Promise<number> {
  for (let i = 0; i < 3; i++) {
    collectGarbage()
    await new Promise((resolve) => setImmediate(resolve)) // registries and weak references
  }
  return process.memoryUsage().heapUsed
}

describe('the heap stays flat', () => {
  const subjects = Object.entries(SUBJECTS)
  const cycles = Math.ceil(CYCLES / subjects.length)
  const warmUp = Math.max(WARM_UP, cycles)
  for (const [title, cycle] of subjects) {
    it(`the heap stays flat over ${cycles} cycles of a ${title}`, async (t) => {
      const clock = new SystemClock()
      const redis = new MemoryRedis(clock, Date.now() - clock.now())
      const port = new MemoryPort(clock, redis)
      const client = new Client(port)
      const run = async (from: number, to: number): Promise<number> => {
        for (let n = from; n < to; n++) {
          await cycle(client, `lock:${n % NAMES}`, n)
          if (n % 100 > 0) continue
          port.sent.length = 0 // its record for tests is meant to grow
          await new Promise((resolve) => setImmediate(resolve)) // what is finalized is finalized between turns
        }
        port.sent.length = 0
        return await heapUsed()
      }
      const before = await run(0, warmUp)
      const grownBy = (await run(warmUp, warmUp + cycles)) - before
      t.diagnostic(`${grownBy} bytes`)
      await client.close()
      assert(grownBy < TOLERATED_BYTES, `the heap grew by ${grownBy} bytes in ${cycles} cycles`)
    })
  }
})
