/**
 * One test for each known defect of Redisson's locks that could be repeated here. Each is named after its id: the letter of
 * a section and a number.
 *
 * | letters | what of Redisson | tests |
 * |---|---|---|
 * | L, W | lock core, watchdog | here |
 * | F | RedissonFairLock | `defects-fair.test.ts` |
 * | RW, E | RedissonReadWriteLock, RedissonFencedLock | `defects-read-write.test.ts` |
 * | M, X, P | RedissonMultiLock and RedissonRedLock, RedissonFasterMultiLock, RedissonSpinLock | `defects-multi.test.ts` |
 * | S, C | RedissonSemaphore and RedissonPermitExpirableSemaphore, RedissonCountDownLatch | `defects-synchronizers.test.ts` |
 *
 * Without a test, and why:
 * - L8: queries that go to a replica. Replicas are not supported.
 * - L18: names with stray braces in a cluster. Clusters are not supported; elsewhere they are names as any other
 *   (`wire.test.ts`).
 * - L19: PUBLISH of one peer, SSUBSCRIBE of the other. Clusters only.
 * - W9: one watchdog time-out for all holds. It is so here, too.
 * - W11: renewals behind the proxy of a cluster. Clusters only.
 * - R1–R7, E7: the wait for replicas. There is none.
 * - F12: a wrong number in Redisson's documentation.
 * - RW5: readers without a gap keep writers out. It is so here, too, and said in the docs of the lock.
 * - RW10: keys of read holds are made inside the scripts. It is so here, too: both sides have to agree.
 */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Client, Hold, LeaseLostError } from '../../src/index.js'
import { countCommands, recordMonitor } from '../support/command-stats.js'
import { setUpLab } from '../support/lab.js'
import { renewed } from '../support/renewed.js'
import { startTwin, type Twin } from '../support/twin.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000
/** Less than any poll: who is served by then was woken. */
const WOKEN_MS = 3_000

describe('known defects of the lock core', () => {
  const lab = setUpLab()

  async function twin(): Promise<Twin> {
    const opened = await startTwin(lab.server.url)
    lab.onEnd(() => opened.close())
    return opened
  }

  async function listening(count = 1, channels = 'redisson_*'): Promise<void> {
    await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS', channels)).length === count)
  }

  async function expectLease(leaseMs: number, name = 'a'): Promise<void> {
    const left = await lab.server.admin.pttl(name)
    assert(left > leaseMs - 4_000 && left <= leaseMs + 50, `PTTL is ${left}, not about ${leaseMs}`)
  }

  it('L1: a lease that ran out without a release is not the lease of the next hold of the same lock object', async () => {
    const lock = (await lab.connect()).getLock('a')
    const first = await lock.lock({ leaseTimeMs: 300 })
    await waitUntil(() => first.signal.aborted)
    const hold = await lock.lock()
    await expectLease(WATCHDOG_MS)
    await hold.unlock()
  })

  it('L2: the release of an inner hold leaves the lease of the outer one', async () => {
    const lock = (await lab.connect()).getLock('a')
    const outer = await lock.lock({ leaseTimeMs: 60_000 })
    await (await lock.lock({ within: outer, leaseTimeMs: 500 })).unlock()
    await expectLease(60_000)
    await sleep(700)
    outer.assertHeld()
    await outer.unlock()
  })

  it('L3: a waiter on the same lock object does not take over the lease of who held it before', async () => {
    const lock = (await lab.connect()).getLock('a')
    for (let round = 0; round < 10; round++) {
      const hold = await lock.lock({ leaseTimeMs: 2_000 })
      const waiting = lock.lock()
      await listening(1, 'holdfast_inbox:*')
      await hold.unlock()
      const next = await waiting
      await expectLease(WATCHDOG_MS)
      await next.unlock()
      await listening(0, '*')
    }
  })

  it('L4: a lease that would round to nothing is refused, and nothing is sent', async () => {
    const lock = (await lab.connect()).getLock('a')
    const count = await countCommands(lab.server, async () => {
      for (const leaseTimeMs of [0, 0.5, 1, -1])
        await assert.rejects(lock.lock({ leaseTimeMs }), { code: 'LOCK_CONFIG' })
    })
    assert.equal(count.total, 0)
  })

  it('L5: a time-out while waiting is no "no": what it took is held, or given back', async () => {
    const peer = await twin()
    const { client, proxy } = await lab.connectThroughProxy({ commandTimeoutMs: 400 })
    await client.getLock('a').withLock(() => {})
    await peer.acquire('a', 7, WATCHDOG_MS)

    const waiting = client.getLock('a').tryLock({ waitTimeMs: 10_000 })
    await listening()
    proxy.dropNextReply((request) => request.startsWith('EVALSHA') && request.includes(`${client.id}:2`))
    await peer.release('a', 7)
    await proxy.dropped
    const hold = await waiting
    assert.deepEqual(await lab.server.admin.hgetall('a'), { [`${client.id}:2`]: '1' })
    await hold?.unlock()
    assert.equal(await lab.server.admin.exists('a'), 0)

    await peer.acquire('a', 7, WATCHDOG_MS)
    const unknown = client.getLock('a').tryLock({ waitTimeMs: 2_500 })
    await listening()
    proxy.mute()
    await peer.release('a', 7)
    const outcome = await settlesWithin(unknown, 8_000)
    assert.equal(outcome.status === 'rejected' && outcome.reason.code, 'LOCK_OUTCOME_UNKNOWN')
    proxy.pass()
    await waitUntil(async () => (await lab.server.admin.exists('a')) === 0, { timeoutMs: 15_000 })
  })

  const reentered: Readonly<Record<string, (client: Client) => Pick<ReturnType<Client['getLock']>, 'lock'>>> = {
    plain: (client) => client.getLock('a'),
    fair: (client) => client.getFairLock('a'),
    'non-reentrant': (client) => client.getNonReentrantLock('a'),
    fenced: (client) => client.getFencedLock('a'),
    spin: (client) => client.getSpinLock('a'),
    write: (client) => client.getReadWriteLock('a').writeLock(),
    read: (client) => client.getReadWriteLock('a').readLock(),
  }
  for (const [kind, lockOf] of Object.entries(reentered)) {
    it(`L6: an acquire that is sent again after its reply was lost counts once: ${kind}`, async () => {
      lab.onEnd(() => lab.server.admin.del('redisson_lock_token:{a}'))
      const { client, proxy } = await lab.connectThroughProxy()
      await (await lockOf(client).lock()).unlock()
      const tokens = await lab.server.admin.get('redisson_lock_token:{a}')
      proxy.dropNextReply((request) => request.startsWith('EVALSHA'))
      const hold = await lockOf(client).lock()
      await proxy.dropped
      assert.equal(await lab.server.admin.hget('a', hold.holder), '1')
      if (tokens !== null)
        assert.equal(await lab.server.admin.get('redisson_lock_token:{a}'), String(Number(tokens) + 1))
      await hold.unlock()
      assert.equal(await lab.server.admin.exists('a'), 0)
    })
  }

  it('L7: a re-entry with a short lease ends by itself; the outer hold neither ends with it nor loses its lease', async () => {
    const lock = (await lab.connect()).getLock('a')
    const outer = await lock.lock()
    const inner = await lock.lock({ within: outer, leaseTimeMs: 300 })
    await expectLease(WATCHDOG_MS)
    await waitUntil(() => inner.signal.aborted)
    await assert.rejects(inner.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    outer.assertHeld()
    assert.equal(await outer.isHeld(), true)
    await outer.unlock()
  })

  it('L9: an abort ends a wait at once, with its reason', async () => {
    const peer = await twin()
    await peer.acquire('a', 7, WATCHDOG_MS)
    const abort = new AbortController()
    const waiting = (await lab.connect()).getLock('a').lock({ signal: abort.signal })
    await listening()
    abort.abort(new Error('enough'))
    await assert.rejects(waiting, /enough/)
    await listening(0, '*')
    await peer.release('a', 7)
  })

  it('L10: a release that fails leaves no hold that nobody renews or frees: it is repeated', async () => {
    const { client, proxy } = await lab.connectThroughProxy({ commandTimeoutMs: 400 })
    const hold = await client.getLock('a').lock()
    proxy.freeze()
    const outcome = await settlesWithin(hold.unlock(), 5_000)
    assert.equal(outcome.status === 'rejected' && outcome.reason.code, 'LOCK_OUTCOME_UNKNOWN')
    assert.equal(await lab.server.admin.exists('a'), 1)
    proxy.pass()
    await waitUntil(async () => (await lab.server.admin.exists('a')) === 0, { timeoutMs: 10_000 })
  })

  it('L11: a release costs one attempt in each process that waits, however many tasks wait there', async () => {
    const [client, other, peer] = [await lab.connect(), await lab.connect(), await twin()]
    await peer.acquire('a', 7, WATCHDOG_MS)
    const abort = new AbortController()
    const waits = [client, other].flatMap((each) =>
      Array.from({ length: 50 }, () => each.getLock('a').lock({ signal: abort.signal })),
    )
    const settled = Promise.allSettled(waits)
    await listening()
    await sleep(200)
    const attempts = await countCommands(lab.server, async () => {
      await peer.release('a', 7)
      await Promise.race(waits)
      await sleep(200)
    })
    assert.equal(attempts.calls['evalsha'], 2)
    abort.abort()
    for (const outcome of await settled) if (outcome.status === 'fulfilled') await outcome.value.unlock()
  })

  it('L12: a lock and a read-write lock of one name in one process each hear their own channel', async () => {
    const [client, peer] = [await lab.connect(), await twin()]
    await peer.writeAcquire('a', 7, WATCHDOG_MS)
    const abort = new AbortController()
    const plain = client.getLock('a').lock({ signal: abort.signal })
    await listening(1)
    const reading = client.getReadWriteLock('a').readLock().lock()
    await listening(2)
    assert.deepEqual((await lab.server.admin.pubsub('CHANNELS', 'redisson_*')).sort(), [
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

  it('L13: one message is one attempt', async () => {
    const [client, peer] = [await lab.connect(), await twin()]
    await peer.acquire('a', 7, WATCHDOG_MS)
    const waits = Array.from({ length: 10 }, () => client.getLock('a').lock())
    await listening()
    await sleep(200)
    for (let n = 0; n < 3; n++) {
      const attempts = await countCommands(lab.server, async () => {
        await lab.server.admin.publish('redisson_lock__channel:{a}', '0')
        await sleep(200)
      })
      assert.equal(attempts.calls['evalsha'], 1)
    }
    await peer.release('a', 7)
    for (const waiting of waits) await (await waiting).unlock()
  })

  it('L14: a message that comes between an attempt and the sleep is not lost, whenever that is', async () => {
    const [client, peer] = [await lab.connect(), await twin()]
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

  it('L15: a release needs no latch, so there is none that could end too early', async () => {
    const client = await lab.connect()
    const record = await recordMonitor(lab.server)
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

  it('L16: who waits asks again after its subscription was cut, as it may have missed the message', async () => {
    const [client, peer] = [await lab.connect(), await twin()]
    await peer.acquire('a', 7, WATCHDOG_MS)
    const waiting = client.getLock('a').lock()
    await listening()
    await lab.server.admin.multi().call('CLIENT', 'KILL', 'TYPE', 'pubsub').del('a').exec() // nobody hears of the DEL
    const freeAt = performance.now()
    const hold = await waiting
    assert(performance.now() - freeAt < WOKEN_MS)
    await hold.unlock()
  })

  it('L17: a process can wait for 300 locks at once, by one connection', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const names = Array.from({ length: 300 }, (_, n) => `lock:${n}`)
    const holds = await Promise.all(names.map((name) => other.getLock(name).lock()))
    const waits = names.map((name) => client.getLock(name).lock())
    await waitUntil(async () => (await lab.server.admin.keys('holdfast_waiters:*')).length === 300)
    const clients = String(await lab.server.admin.client('LIST', 'TYPE', 'PUBSUB'))
    assert.equal(clients.trim().split('\n').length, 1)
    await Promise.all(holds.map((hold) => hold.unlock()))
    for (const hold of await Promise.all(waits)) await hold.unlock()
  })
})

describe('known defects of the watchdog', () => {
  const lab = setUpLab()

  it('W1: a read inside a write that ends does not end the renewal of the write', async () => {
    const client = await lab.connect({ lockWatchdogTimeoutMs: 2_400 })
    const lock = client.getReadWriteLock('a')
    const write = await lock.writeLock().lock()
    await (await lock.readLock().lock({ within: write })).unlock()
    await renewed([write])
    assert.equal(await write.isHeld(), true)
    await write.unlock()
  })

  it('W2: renewals that fail stop no others', async () => {
    const { admin } = lab.server
    await admin.acl('SETUSER', 'app', 'reset', 'on', '>hunter2', '+@all', '~*', '&*')
    lab.onEnd(() => admin.acl('DELUSER', 'app'))
    const url = lab.server.url.replace('redis://', 'redis://app:hunter2@')
    const client = await lab.connect({ lockWatchdogTimeoutMs: 1_800 }, url)
    const reads = await Promise.all(['a', 'b'].map((name) => client.getReadWriteLock(name).readLock().lock()))
    const holds = await Promise.all(['c', 'd'].map((name) => client.getLock(name).lock()))
    await admin.acl('SETUSER', 'app', '-set') // what renews a read hold
    await waitUntil(() => reads.every((read) => read.signal.aborted))
    await renewed(holds)
    for (const hold of holds) await hold.unlock()
    await waitUntil(async () => (await admin.dbsize()) === 0)
  })

  it('W3: after the loss of one owner the next one of the same name and process is renewed', async () => {
    const client = await lab.connect({ lockWatchdogTimeoutMs: 2_400 })
    const lock = client.getLock('a')
    const lost = await lock.lock()
    for (let n = 0; n < 3; n++) await lock.lock({ within: lost })
    await lab.server.admin.del('a')
    const hold = await lock.lock()
    await renewed([hold])
    assert.equal(lost.signal.aborted, true)
    assert.equal(await hold.isHeld(), true)
    await hold.unlock()
  })

  it('W4: rounds of lock and unlock leave no timers that renew beside each other', async () => {
    const client = await lab.connect({ lockWatchdogTimeoutMs: 1_500 })
    const lock = client.getLock('a')
    for (let round = 0; round < 400; round++) await (await lock.lock()).unlock()
    const hold = await lock.lock()
    const count = await countCommands(lab.server, () => renewed([hold], 3))
    assert(count.scripts <= 4, `${count.scripts} scripts for 3 renewals`)
    await hold.unlock()
  })

  it('W5: a reader that comes while the last one leaves is renewed', async () => {
    const client = await lab.connect({ lockWatchdogTimeoutMs: 2_400 })
    const lock = client.getReadWriteLock('a').readLock()
    let read: Hold = await lock.lock()
    for (let round = 0; round < 50; round++) {
      const [, next] = await Promise.all([read.unlock(), lock.lock()])
      read = next
    }
    await renewed([read])
    assert.equal(await read.isHeld(), true)
    await read.unlock()
  })

  it('W6: multi-locks of other values of one group are renewed each', async () => {
    const client = await lab.connect({ lockWatchdogTimeoutMs: 2_400 })
    const holds = await Promise.all(
      [['a'], ['b', 'c'], ['d']].map((values) => client.getFasterMultiLock('group', values).lock()),
    )
    await renewed(holds)
    for (const hold of holds) assert.equal(await hold.isHeld(), true)
    for (const hold of holds) await hold.unlock()
  })

  it('W7: a lost hold is told: by its signal, an event, and its next call', async () => {
    const client = await lab.connect({ lockWatchdogTimeoutMs: 2_400 })
    const losses: LeaseLostError[] = []
    client.on('lost', ({ error }) => losses.push(error))
    const locks = [client.getLock('a'), client.getFairLock('b'), client.getReadWriteLock('c').readLock()]
    const holds = await Promise.all(locks.map((lock) => lock.lock()))
    await lab.server.admin.flushall()
    await waitUntil(() => holds.every((hold) => hold.signal.aborted))
    assert.deepEqual(
      losses.map(({ reason }) => reason),
      ['gone', 'gone', 'gone'],
    )
    for (const hold of holds) {
      assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST' })
      await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    }
  })

  it('W8: slow renewals do not stretch the period', async () => {
    const { client, proxy } = await lab.connectThroughProxy({ lockWatchdogTimeoutMs: 1_200 })
    const hold = await client.getLock('a').lock()
    proxy.delay(400)
    await sleep(500)
    const count = await countCommands(lab.server, () => sleep(4_000))
    assert(count.scripts >= 7, `${count.scripts} renewals in 10 periods; each as long as a period leaves 5`)
    hold.assertHeld()
    proxy.pass()
    await hold.unlock()
  })

  it('W10: the release of an inner hold ends no renewal that the outer one needs, and starts none that it has not', async () => {
    const client = await lab.connect({ lockWatchdogTimeoutMs: 1_800 })
    const kept = await client.getLock('a').lock()
    await (await client.getLock('a').lock({ within: kept, leaseTimeMs: 100 })).unlock()
    const leased = await client.getLock('b').lock({ leaseTimeMs: 3_000 })
    await (await client.getLock('b').lock({ within: leased })).unlock()
    await renewed([kept])
    leased.assertHeld()
    assert((await lab.server.admin.pttl('b')) > 0)
    await waitUntil(() => leased.signal.aborted)
    assert.equal(await kept.isHeld(), true)
    await kept.unlock()
  })
})
