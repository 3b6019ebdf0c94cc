// The Worker: each kind of lock once, what it refuses, and its part in the storm.
import { Redis } from '@upstash/redis/cloudflare'
import { connect, getRedLock } from 'holdfast'
import { http } from 'holdfast/http'
import { enterAndLeave } from './sections.mjs'

const IN_ORDER = { order: 'fifo' }

/** Of which one client at most has each. */
const LOCKS = {
  lock: (client) => client.getLock('lock:plain'),
  'lock in order': (client) => client.getLock('lock:queue', IN_ORDER),
  'fair lock': (client) => client.getFairLock('lock:fair'),
  'non-reentrant lock': (client) => client.getNonReentrantLock('lock:once'),
  'non-reentrant fair lock': (client) => client.getNonReentrantFairLock('lock:fair-once'),
  'fenced lock': (client) => client.getFencedLock('lock:fenced'),
  'spin lock': (client) => client.getSpinLock('lock:spin'),
  'string lock': (client) => client.getStringLock('lock:string'),
  'write lock': (client) => client.getReadWriteLock('lock:rw').writeLock(),
  'write lock in order': (client) => client.getReadWriteLock('lock:rw-queue', IN_ORDER).writeLock(),
  'values of a group': (client) => client.getFasterMultiLock('lock:seats', ['A1', 'A2']),
  'red lock': (client) => getRedLock(...['a', 'b', 'c'].map((name) => client.getLock(`lock:red:${name}`))),
}

/** What a copy takes for nobody ends with its lease. */
const TERMS = { commandTimeoutMs: 1_000, lockWatchdogTimeoutMs: 2_000 }

export default {
  async fetch(request, { front, faulty, token }) {
    const { pathname } = new URL(request.url)
    if (pathname === '/refusals') return Response.json(await refusals())
    const redis = new Redis({ url: front, token })
    if (pathname === '/kinds') return Response.json(await kinds(redis))
    const client = pathname === '/storm' ? await connect({ client: http({ url: faulty, token }), ...TERMS }) : undefined
    const count = await enterAndLeave(client?.getLock('lock:storm'), (entry) => redis.rpush('log', entry))
    await client?.close()
    return Response.json(count)
  },
}

async function refusals() {
  const url = 'redis://127.0.0.1'
  const wrong = [url, { url }, { config: {} }, { client: { sendCommand() {}, evalsha() {} } }, undefined]
  return await Promise.all(wrong.map((target) => connect(target).catch(({ code, message }) => `${code} ${message}`)))
}

async function kinds(redis) {
  const [client, other] = [await connect({ client: redis }), await connect({ client: redis })]
  const done = []
  for (const [name, lockOf] of Object.entries(LOCKS)) {
    const isAlone = await lockOf(client).withLock(async (hold) => {
      hold.assertHeld()
      return (await lockOf(other).tryLock()) === null
    })
    done.push(isAlone && name)
  }
  const readers = [client, other].map((one) => one.getReadWriteLock('lock:rw').readLock())
  done.push(await readers[0].withLock(() => readers[1].withLock(() => 'read locks')))
  done.push(await client.withLock(['lock:a', 'lock:b'], () => 'multi-lock'))
  for (const options of [undefined, IN_ORDER]) {
    for (const kind of ['Semaphore', 'PermitExpirableSemaphore']) {
      const permits = client[`get${kind}`](`lock:${kind}:${options?.order}`, options)
      await permits.trySetPermits(1)
      done.push(await permits.withPermit(() => kind))
    }
  }
  const latch = client.getCountDownLatch('lock:latch')
  await latch.trySetCount(1)
  const opened = other.getCountDownLatch('lock:latch').await()
  await latch.countDown()
  await opened
  done.push(await client.locks.request('lock:web', ({ mode }) => mode))
  done.push(await new Promise((resolve) => client.elect('lock:leader', { onElected: () => resolve('leader') })))
  await Promise.all([client.close(), other.close()])
  return done
}
