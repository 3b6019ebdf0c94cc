/** How waiters of a lock are woken, and what they cost. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { countCommands, recordMonitor } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { openTwin } from '../support/redisson-twin/twin.js'
import { listening, REDISSON_CHANNELS, WOKEN_MS } from '../support/subscribers.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000

/** Each test shows that a known defect of Redisson’s RedissonLock and LockPubSub does not occur here. */
describe('the waiters of a lock', () => {
  const fixture = setUpFixture()

  it('an abort ends a wait at once with its reason', async () => {
    const peer = await openTwin(fixture)
    await peer.acquire('a', 7, WATCHDOG_MS)
    const abort = new AbortController()
    const waiting = (await fixture.connect()).getLock('a').lock({ signal: abort.signal })
    await listening(fixture, 1, REDISSON_CHANNELS)
    abort.abort(new Error('enough'))
    await assert.rejects(waiting, /enough/)
    await listening(fixture, 0)
    await peer.release('a', 7)
  })

  it('a release costs one attempt in each waiting process, however many tasks wait there', async () => {
    const [client, other, peer] = [await fixture.connect(), await fixture.connect(), await openTwin(fixture)]
    await peer.acquire('a', 7, WATCHDOG_MS)
    const abort = new AbortController()
    const waits = [client, other].flatMap((each) =>
      Array.from({ length: 50 }, () => each.getLock('a').lock({ signal: abort.signal })),
    )
    const settled = Promise.allSettled(waits)
    await listening(fixture, 1, REDISSON_CHANNELS)
    await sleep(200)
    const attempts = await countCommands(fixture.server, async () => {
      await peer.release('a', 7)
      await Promise.race(waits)
      await sleep(200)
    })
    assert.equal(attempts.calls['evalsha'], 2)
    abort.abort()
    for (const outcome of await settled) if (outcome.status === 'fulfilled') await outcome.value.unlock()
  })

  it('a lock and a read-write lock of one name in one process each receive the messages of their own channel', async () => {
    const [client, peer] = [await fixture.connect(), await openTwin(fixture)]
    await peer.writeAcquire('a', 7, WATCHDOG_MS)
    const abort = new AbortController()
    const plain = client.getLock('a').lock({ signal: abort.signal })
    await listening(fixture, 1, REDISSON_CHANNELS)
    const reading = client.getReadWriteLock('a').readLock().lock()
    await listening(fixture, 2, REDISSON_CHANNELS)
    assert.deepEqual((await fixture.server.admin.pubsub('CHANNELS', 'redisson_*')).sort(), [
      'redisson_lock__channel:{a}',
      'redisson_rwlock:{a}',
    ])
    const releasedAt = performance.now()
    await peer.writeRelease('a', 7)
    const read = await reading
    assert(performance.now() - releasedAt < WOKEN_MS)
    abort.abort(new Error('enough'))
    await assert.rejects(plain, /enough/)
    await read.unlock()
  })

  it('one message causes one attempt', async () => {
    const [client, peer] = [await fixture.connect(), await openTwin(fixture)]
    await peer.acquire('a', 7, WATCHDOG_MS)
    const waits = Array.from({ length: 10 }, () => client.getLock('a').lock())
    await listening(fixture, 1, REDISSON_CHANNELS)
    await sleep(200)
    for (let n = 0; n < 3; n++) {
      const attempts = await countCommands(fixture.server, async () => {
        await fixture.server.admin.publish('redisson_lock__channel:{a}', '0')
        await sleep(200)
      })
      assert.equal(attempts.calls['evalsha'], 1)
    }
    await peer.release('a', 7)
    for (const waiting of waits) await (await waiting).unlock()
  })

  it('a message between an attempt and the pause of a waiter is never lost', async () => {
    const [client, peer] = [await fixture.connect(), await openTwin(fixture)]
    const rounds = 60
    for (let round = 0; round < rounds; round++) {
      await peer.writeAcquire('a', 7, WATCHDOG_MS)
      const waits = Array.from({ length: 3 }, () => client.getReadWriteLock('a').readLock().lock())
      const until = performance.now() + (round / rounds) * 6
      while (performance.now() < until) await new Promise((resolve) => setImmediate(resolve))
      await peer.writeRelease('a', 7)
      const releasedAt = performance.now()
      for (const read of await Promise.all(waits)) await read.unlock()
      assert(performance.now() - releasedAt < WOKEN_MS, `round ${round}`)
    }
  })

  it('a release uses no latch key that could expire too early', async () => {
    const client = await fixture.connect()
    const record = await recordMonitor(fixture.server)
    for (const lock of [client.getLock('a'), client.getFairLock('a'), client.getSpinLock('a')]) {
      const hold = await lock.lock()
      await (await lock.lock({ within: hold })).unlock()
      await hold.unlock()
    }
    const lines = await record.stop()
    assert.deepEqual(
      lines.filter(({ args }) => args.some((arg) => arg.includes('latch'))),
      [],
    )
  })

  it('a waiter makes another attempt after its subscription was cut, because it may have missed the message', async () => {
    const [client, peer] = [await fixture.connect(), await openTwin(fixture)]
    await peer.acquire('a', 7, WATCHDOG_MS)
    const waiting = client.getLock('a').lock()
    await listening(fixture, 1, REDISSON_CHANNELS)
    await fixture.server.admin.multi().call('CLIENT', 'KILL', 'TYPE', 'pubsub').del('a').exec() // nobody receives a message
    const freeAt = performance.now()
    const hold = await waiting
    assert(performance.now() - freeAt < WOKEN_MS)
    await hold.unlock()
  })

  it('a process can wait for 300 locks at once over one connection', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const names = Array.from({ length: 300 }, (_, n) => `lock:${n}`)
    const holds = await Promise.all(names.map((name) => other.getLock(name).lock()))
    const waits = names.map((name) => client.getLock(name).lock())
    await waitUntil(async () => (await fixture.server.admin.keys('holdfast_turn_queue:*')).length === 300)
    const clients = String(await fixture.server.admin.client('LIST', 'TYPE', 'PUBSUB'))
    assert.equal(clients.trim().split('\n').length, 1)
    await Promise.all(holds.map((hold) => hold.unlock()))
    for (const hold of await Promise.all(waits)) await hold.unlock()
  })
})
