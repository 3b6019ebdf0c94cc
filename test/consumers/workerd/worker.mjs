// The Worker: each kind of lock once, what it refuses, and its part in the storm.
import { Redis } from '@upstash/redis/cloudflare'
import { connect } from 'holdfast'
import { http } from 'holdfast/http'
import { enterAndLeave } from './sections.mjs'

const LOCKS = ['Lock', 'FairLock', 'NonReentrantLock', 'FencedLock', 'SpinLock', 'StringLock']

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
  for (const name of LOCKS) {
    const [lock, same] = [client, other].map((one) => one[`get${name}`](`lock:${name}`))
    const isAlone = await lock.withLock(async (hold) => {
      hold.assertHeld()
      return (await same.tryLock()) === null
    })
    done.push(isAlone && name)
  }
  const rw = client.getReadWriteLock('lock:rw')
  done.push(await rw.writeLock().withLock(() => 'write'), await rw.readLock().withLock(() => 'read'))
  done.push(await client.withLock(['lock:a', 'lock:b'], () => 'multi-lock'))
  for (const name of ['Semaphore', 'PermitExpirableSemaphore']) {
    const permits = client[`get${name}`](`lock:${name}`)
    await permits.trySetPermits(1)
    done.push(await permits.withPermit(() => name))
  }
  const latch = client.getCountDownLatch('lock:latch')
  await latch.trySetCount(1)
  const opened = other.getCountDownLatch('lock:latch').await()
  await latch.countDown()
  await opened
  done.push(await client.locks.request('lock:web', ({ mode }) => mode))
  await Promise.all([client.close(), other.close()])
  return done
}
