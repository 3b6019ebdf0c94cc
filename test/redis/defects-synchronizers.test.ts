/**
 * One test for each known defect of Redisson's semaphores and latches. The table and the rules are in `defects.test.ts`.
 *
 * Without a test, and why:
 * - S5: a semaphore whose permits have no leases does not know who has them, so those of a crashed process are gone. It is so
 *   here, too, and said in its docs; `PermitExpirableSemaphore` is for that (`permit-expirable-semaphore.test.ts`).
 * - C7: no owner and no lease. It is so here, too, and said in the docs of the latch.
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, it } from 'node:test'
import type { Client } from '../../src/index.js'
import { semaphoreAcquire } from '../../src/lua/generated.js'
import { generationKey } from '../../src/wire/keys.js'
import { countCommands } from '../support/command-stats.js'
import { recordMessages } from '../support/key-contents.js'
import { drivers, type Lab, setUpLab } from '../support/lab.js'
import { listening, repliesForgotten, requestOf, STORED_REPLIES, WOKEN_MS } from '../support/synchronizers.js'
import { type SynchronizerTwin, startSynchronizerTwin } from '../support/twin-synchronizers.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

/** The longest sleep of who waits, and some time to ask. */
const POLL_MS = 8_000

async function twin(lab: Lab): Promise<SynchronizerTwin> {
  const opened = await startSynchronizerTwin(lab.server.url)
  lab.onEnd(() => opened.close())
  return opened
}

for (const driver of drivers) {
  describe(`known defects of counters, through ${driver.name} with its default settings`, () => {
    const lab = setUpLab(driver, [], { keysThatStay: STORED_REPLIES })

    /** Redis knows the scripts from here on, so that the faults find the requests. */
    async function warmUp(client: Client): Promise<void> {
      const semaphore = client.getSemaphore('a')
      await semaphore.trySetPermits(5)
      await semaphore.withPermit(() => {})
      await semaphore.addPermits(1)
      await semaphore.drainPermits()
      await semaphore.delete()
      const permits = client.getPermitExpirableSemaphore('p')
      await permits.setPermits(5)
      await permits.withPermit(() => {})
      const latch = client.getCountDownLatch('l')
      await latch.trySetCount(1)
      await latch.countDown()
    }

    it('L6: a request that is sent again after its reply or itself was lost counts once', async () => {
      lab.onEnd(() => lab.server.admin.del('a', 'p', 'l'))
      const { client, proxy } = await lab.connectThroughProxy()
      await warmUp(client)
      const { admin } = lab.server
      const [semaphore, permits] = [client.getSemaphore('a'), client.getPermitExpirableSemaphore('p')]
      const latch = client.getCountDownLatch('l')
      const ways = [proxy.dropNextReply.bind(proxy), proxy.dropNextRequest.bind(proxy)]
      const steps: readonly [
        script: string,
        operation: () => Promise<unknown>,
        key: string,
        before: number,
        after: number,
      ][] = [
        ['semaphore/acquire', () => semaphore.acquire({ permits: 2 }), 'a', 5, 3],
        ['semaphore/release', () => semaphore.release(2), 'a', 3, 5],
        ['semaphore/release', () => semaphore.releaseIfExists(2), 'a', 3, 5],
        ['semaphore/add-permits', () => semaphore.addPermits(2), 'a', 3, 5],
        ['semaphore/add-permits', () => semaphore.reducePermits(2), 'a', 3, 1],
        ['permit/set-permits', () => permits.setPermits(7), 'p', 5, 7],
        ['latch/count-down', () => latch.countDown(), 'l', 3, 2],
      ]
      for (const [script, operation, key, before, after] of steps) {
        for (const drop of ways) {
          await admin.set(key, before)
          drop(requestOf(script))
          await operation()
          await proxy.dropped
          assert.equal(await admin.get(key), String(after), script)
        }
      }
    })

    it('L6: what is answered is what the first copy of a request did', async () => {
      lab.onEnd(() => lab.server.admin.del('a', 'p', 'l'))
      const { client, proxy } = await lab.connectThroughProxy()
      await warmUp(client)
      const { admin } = lab.server
      const [semaphore, latch] = [client.getSemaphore('a'), client.getCountDownLatch('l')]
      await admin.del('a', 'l')

      proxy.dropNextReply(requestOf('semaphore/set-permits'))
      assert.equal(await semaphore.trySetPermits(3), true)
      await proxy.dropped
      assert.equal(await admin.get('a'), '3')

      proxy.dropNextReply(requestOf('semaphore/drain-permits'))
      assert.equal(await semaphore.drainPermits(), 3)
      await proxy.dropped
      assert.equal(await admin.get('a'), '0')

      proxy.dropNextReply(requestOf('latch/set-count'))
      assert.equal(await latch.trySetCount(1), true)
      await proxy.dropped
      assert.equal(await admin.get('l'), '1')

      // It opens at the first copy, and a new count that was set meanwhile is left alone.
      proxy.dropNextReply(requestOf('latch/count-down'))
      const counted = latch.countDown()
      await proxy.dropped
      await admin.set('l', 1)
      await counted
      assert.equal(await admin.get('l'), '1')
    })

    it('L6: a copy of an acquire that arrives when its caller is gone takes nothing', async () => {
      lab.onEnd(() => lab.server.admin.del('a', 'p'))
      const { client, proxy } = await lab.connectThroughProxy()
      await warmUp(client)
      const { admin } = lab.server
      const semaphore = client.getSemaphore('a')
      await repliesForgotten(lab)
      const abort = new AbortController()
      proxy.dropNextReply(requestOf('semaphore/acquire'))
      const waiting = settlesWithin(semaphore.acquire({ signal: abort.signal }), 10_000)
      await proxy.dropped
      await listening(lab)
      abort.abort()
      assert.equal((await waiting).status, 'rejected')
      const replies = `holdfast_idempotency:{a}:${client.id}`
      const [operation] = await waitUntil(async () => {
        const [field] = Object.entries(await admin.hgetall(replies))
        return field
      })
      await semaphore.availablePermits() // behind an attempt that was in flight at the abort, on the same connection
      await admin.set('a', 1)
      const copy = semaphoreAcquire('a', replies, generationKey('a'), 1, operation, Date.now())
      assert.equal(await admin.eval(copy.script.text, copy.keys.length, ...copy.keys, ...copy.args), 0)
      assert.equal(await admin.get('a'), '1')
    })

    it('L6: a permit with a lease is taken once and given back once', async () => {
      lab.onEnd(() => lab.server.admin.del('a', 'p'))
      const { client, proxy } = await lab.connectThroughProxy()
      await warmUp(client)
      const permits = client.getPermitExpirableSemaphore('p')
      const numbers = async () => [await permits.availablePermits(), await permits.acquiredPermits()]
      for (const drop of [proxy.dropNextReply.bind(proxy), proxy.dropNextRequest.bind(proxy)]) {
        drop(requestOf('permit/acquire'))
        const permit = await permits.acquire({ permits: 2 })
        await proxy.dropped
        permit.assertHeld()
        assert.deepEqual(await numbers(), [3, 2])
        drop(requestOf('permit/release'))
        await permit.unlock()
        await proxy.dropped
        assert.deepEqual(await numbers(), [5, 0])
      }
    })

    it('C5: counting down with a lost reply is neither lost nor doubled, also for those who wait', async () => {
      const { client, proxy } = await lab.connectThroughProxy()
      const other = (await lab.connect()).getCountDownLatch('l')
      await warmUp(client)
      await client.getPermitExpirableSemaphore('p').delete()
      await other.trySetCount(2)
      const waiting = other.await()
      proxy.dropNextReply(requestOf('latch/count-down'))
      await client.getCountDownLatch('l').countDown()
      assert.equal(await other.getCount(), 1)
      proxy.dropNextRequest(requestOf('latch/count-down'))
      await client.getCountDownLatch('l').countDown()
      assert.equal(await waiting, true)
    })
  })
}

describe('known defects of semaphores', () => {
  const lab = setUpLab()

  it('S1: permits that come without a message, or while it is lost, are found', async () => {
    lab.onEnd(() => lab.server.admin.del('a', 'p', '{p}:timeout'))
    const [client, other] = [await lab.connect(), await lab.connect()]
    await lab.server.admin.mset('a', 0, 'p', 0)
    const waiting = [client.getSemaphore('a').acquire(), other.getPermitExpirableSemaphore('p').acquire()] as const
    await listening(lab, 2)
    await sleep(200)
    await lab.server.admin.mset('a', 1, 'p', 1) // nobody is told
    const outcome = await settlesWithin(Promise.all(waiting), POLL_MS)
    assert(outcome.status === 'fulfilled')
    await outcome.value[1].unlock()

    const again = settlesWithin(client.getSemaphore('a').acquire(), WOKEN_MS)
    await listening(lab)
    await lab.server.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await lab.server.admin.incr('a')
    assert.equal((await again).status, 'fulfilled', 'it asks when it listens again')
  })

  it('S2: nobody is told of permits that are not there, and what a peer says of them does no harm', async () => {
    lab.onEnd(() => lab.server.admin.del('a'))
    const semaphore = (await lab.connect()).getSemaphore('a')
    const peer = await twin(lab)
    await semaphore.trySetPermits(0)
    const theirs = peer.acquire('a')
    const ours = semaphore.acquire()
    await listening(lab)
    await waitUntil(() => peer.sleeping === 1)
    const messages = await recordMessages(lab)
    await semaphore.reducePermits(2)
    await semaphore.addPermits(1)
    await semaphore.release()
    assert.deepEqual(await messages(), [])
    assert.equal(peer.sleeping, 1)
    await semaphore.addPermits(2)
    await Promise.all([theirs, ours])
    const waiting = semaphore.acquire()
    await listening(lab)
    for (const forged of ['-1', '0', '99999999999999999999', 'none', '']) {
      await lab.server.admin.publish('redisson_sc:{a}', forged)
    }
    await semaphore.release()
    await waiting
  })

  it('S3: as many as there are permits are served by one message', async () => {
    lab.onEnd(() => lab.server.admin.del('a', 'p', '{p}:timeout'))
    const [client, peer] = [await lab.connect(), await twin(lab)]
    const [semaphore, permits] = [client.getSemaphore('a'), client.getPermitExpirableSemaphore('p')]
    await semaphore.trySetPermits(0)
    await permits.trySetPermits(0)
    const waiting = Array.from({ length: 20 }, () => [semaphore.acquire(), permits.acquire()] as const)
    await listening(lab, 2)
    await repliesForgotten(lab)
    const releasedAt = performance.now()
    await peer.release('a', 20)
    await peer.release('p', 20)
    await Promise.all(waiting.flat())
    assert(performance.now() - releasedAt < WOKEN_MS, 'woken, not polling')
    await Promise.all(waiting.map(async ([, permit]) => await (await permit).unlock()))
  })

  it('S4: the end of a semaphore that was created with one stays where it is, whatever happens to its permits', async () => {
    const semaphore = (await lab.connect()).getSemaphore('a')
    await semaphore.trySetPermits(5, { timeToLiveMs: 60_000 })
    await semaphore.acquire()
    for (const change of [
      () => semaphore.drainPermits(),
      () => semaphore.addPermits(3),
      () => semaphore.reducePermits(1),
      () => semaphore.release(),
      () => semaphore.releaseIfExists(),
    ]) {
      await change()
      const left = await lab.server.admin.pttl('a')
      assert(left > 50_000 && left <= 60_000, `${left} ms`)
    }
    await semaphore.delete()
    assert.equal(await semaphore.releaseIfExists(), false)
    assert.equal(await lab.server.admin.exists('a'), 0)
  })

  it('S6: asking once for a permit when all are out is no error', async () => {
    lab.onEnd(() => lab.server.admin.del('a', '{a}:timeout'))
    const semaphore = (await lab.connect()).getPermitExpirableSemaphore('a')
    await semaphore.trySetPermits(1)
    const permit = await semaphore.acquire({ leaseTimeMs: 60_000 })
    assert.equal(await semaphore.tryAcquire(), null)
    await permit.unlock()
  })

  it('S7: a permit whose lease has ended comes back once, and its release says that it was late', async () => {
    lab.onEnd(() => lab.server.admin.del('a', '{a}:timeout'))
    const semaphore = (await lab.connect()).getPermitExpirableSemaphore('a')
    const { admin } = lab.server
    await semaphore.trySetPermits(1)
    const permit = await semaphore.acquire({ leaseTimeMs: 100 })
    await waitUntil(() => permit.signal.aborted)
    await sleep(20)
    const [id = ''] = permit.permitIds
    assert.equal(await admin.zcard('{a}:timeout'), 1, 'nobody has noticed yet')
    assert.equal(await semaphore.tryRelease(id), false)
    assert.deepEqual([await admin.get('a'), await admin.zcard('{a}:timeout')], ['1', 0])
    await assert.rejects(semaphore.release(id), { code: 'LOCK_NOT_HELD' })
    await assert.rejects(permit.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    assert.equal(await semaphore.availablePermits(), 1)
  })

  it('S8: very many leases that ended at once are no problem', async () => {
    lab.onEnd(() => lab.server.admin.del('a', '{a}:timeout'))
    const semaphore = (await lab.connect()).getPermitExpirableSemaphore('a')
    const { admin } = lab.server
    for (const ask of [
      () => semaphore.availablePermits(),
      async () => await (await semaphore.acquire({ permits: 7, waitTimeMs: 5_000 })).unlock(),
      () => semaphore.setPermits(30_000),
      () => semaphore.tryRelease('0'.repeat(32)),
    ]) {
      await admin.set('a', 0)
      for (let n = 0; n < 6; n++) {
        const members = Array.from({ length: 5_000 }, () => [Date.now() - 1_000, randomBytes(16)])
        await admin.zadd('{a}:timeout', ...(members.flat() as (number | Buffer)[]))
      }
      await ask()
      assert.deepEqual([await semaphore.availablePermits(), await semaphore.acquiredPermits()], [30_000, 0])
    }
  })

  it('S9: a process whose clock is wrong takes nothing from others, and loses nothing', async () => {
    lab.onEnd(() => lab.server.admin.del('a', '{a}:timeout'))
    const [client, other] = [await lab.connect(), await lab.connect()]
    const semaphore = client.getPermitExpirableSemaphore('a')
    await semaphore.trySetPermits(2)
    const permit = await semaphore.acquire()
    const real = Date.now
    try {
      for (const errorMs of [3_600_000, -3_600_000]) {
        Date.now = () => real() + errorMs
        const theirs = await other.getPermitExpirableSemaphore('a').acquire()
        assert.equal(await other.getPermitExpirableSemaphore('a').tryAcquire(), null)
        const left = await semaphore.getLeaseTime(theirs.permitIds[0] ?? '')
        assert(left > 26_000 && left <= 30_000, `${left} ms`)
        assert.equal(await permit.isHeld(), true)
        await theirs.unlock()
      }
    } finally {
      Date.now = real
    }
    await permit.unlock()
  })

  it('S10: every message is how many permits there are', async () => {
    lab.onEnd(() => lab.server.admin.del('a', '{a}:timeout'))
    const semaphore = (await lab.connect()).getPermitExpirableSemaphore('a')
    await semaphore.trySetPermits(3)
    const permit = await semaphore.acquire({ permits: 3 })
    const messages = await recordMessages(lab)
    await semaphore.addPermits(2)
    await semaphore.setPermits(4)
    await semaphore.setPermits(9)
    await permit.unlock()
    const told = (await messages()).map(([, message]) => message)
    assert.deepEqual(told, ['2', '6', '9'])
  })

  it('S11: no permits with leases cannot be asked for; of several, those that are left come back', async () => {
    lab.onEnd(() => lab.server.admin.del('a', '{a}:timeout'))
    const semaphore = (await lab.connect()).getPermitExpirableSemaphore('a')
    await semaphore.trySetPermits(3)
    for (const call of [() => semaphore.acquire({ permits: 0 }), () => semaphore.tryAcquire({ permits: 0 })]) {
      await assert.rejects(call, { code: 'LOCK_CONFIG', path: 'permits' })
    }
    const permit = await semaphore.acquire({ permits: 3 })
    await semaphore.updateLeaseTime(permit.permitIds[1] ?? '', 10)
    await sleep(30)
    await assert.rejects(permit.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert.deepEqual([await semaphore.availablePermits(), await semaphore.acquiredPermits()], [3, 0])
  })

  it('S12: who wants few is not kept back by somebody of the same client who wants many', async () => {
    lab.onEnd(() => lab.server.admin.del('a', 'p', '{p}:timeout'))
    const client = await lab.connect()
    const [semaphore, permits] = [client.getSemaphore('a'), client.getPermitExpirableSemaphore('p')]
    await semaphore.trySetPermits(0)
    await permits.trySetPermits(0)
    const many = [semaphore.acquire({ permits: 3 }), permits.acquire({ permits: 3 })] as const
    await listening(lab, 2)
    const few = [semaphore.acquire(), permits.acquire()] as const
    await sleep(50)
    const releasedAt = performance.now()
    await semaphore.release()
    await permits.addPermits(1)
    await few[0]
    await (await few[1]).unlock()
    assert(performance.now() - releasedAt < WOKEN_MS, 'woken, not polling')
    await semaphore.release(3)
    await permits.addPermits(2)
    await many[0]
    await (await many[1]).unlock()
  })
})

describe('known defects of latches', () => {
  const lab = setUpLab()

  it('C1: names with a tag are names as any other', async () => {
    for (const name of ['{shop}:order', 'a{t}b', '{}', 'a}b', 'a{b']) {
      const [latch, other] = [await lab.connect(), await lab.connect()].map((client) => client.getCountDownLatch(name))
      await latch?.trySetCount(1)
      const waiting = latch?.await()
      await listening(lab)
      const openedAt = performance.now()
      await other?.countDown()
      assert.equal(await waiting, true)
      assert(performance.now() - openedAt < WOKEN_MS, 'woken, not polling')
      await listening(lab, 0)
    }
  })

  it('C2: a latch that opens without a message, or while it is lost, is found open', async () => {
    const latch = (await lab.connect()).getCountDownLatch('a')
    await latch.trySetCount(1)
    const polled = settlesWithin(latch.await(), POLL_MS)
    await listening(lab)
    await sleep(200)
    await lab.server.admin.del('a') // nobody is told
    assert.deepEqual(await polled, { status: 'fulfilled', value: true })
    await listening(lab, 0)

    await latch.trySetCount(1)
    const waiting = settlesWithin(latch.await(), WOKEN_MS)
    await listening(lab)
    await lab.server.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await lab.server.admin.del('a')
    assert.deepEqual(await waiting, { status: 'fulfilled', value: true }, 'it asks when it listens again')
  })

  it('C3: those who wait for a latch that is deleted go on, those of a peer, too', async () => {
    const [latch, other] = [await lab.connect(), await lab.connect()].map((client) => client.getCountDownLatch('a'))
    const peer = await twin(lab)
    assert(latch && other)
    await latch.trySetCount(9)
    const waiting = [latch.await(), other.await(), peer.await('a')]
    const channel = 'redisson_countdownlatch__channel__{a}'
    await waitUntil(async () => (await lab.server.admin.pubsub('NUMSUB', channel))[1] === 3)
    await waitUntil(() => peer.sleeping === 1)
    const deletedAt = performance.now()
    await latch.delete()
    await Promise.all(waiting)
    assert(performance.now() - deletedAt < WOKEN_MS, 'woken, not polling')
  })

  it('C4: a message that comes between the count and the sleep is not lost, whenever that is', async () => {
    const [client, peer] = [await lab.connect(), await twin(lab)]
    const latch = client.getCountDownLatch('a')
    const rounds = 60
    for (let round = 0; round < rounds; round++) {
      await peer.trySetCount('a', 1)
      const waits = Array.from({ length: 3 }, () => latch.await())
      const until = performance.now() + (round / rounds) * 6
      while (performance.now() < until) await new Promise((resolve) => setImmediate(resolve))
      await peer.countDown('a')
      const openedAt = performance.now()
      assert.deepEqual(await Promise.all(waits), [true, true, true])
      assert(performance.now() - openedAt < WOKEN_MS, `round ${round}`)
    }
  })

  it('C6: a message that it is open, when it is not, costs one look', async () => {
    const latch = (await lab.connect()).getCountDownLatch('a')
    await latch.trySetCount(1)
    const waits = Array.from({ length: 50 }, () => latch.await())
    await listening(lab)
    await repliesForgotten(lab)
    await sleep(100)
    for (let n = 0; n < 3; n++) {
      const looks = await countCommands(lab.server, async () => {
        await lab.server.admin.publish('redisson_countdownlatch__channel__{a}', '0')
        await sleep(200)
      })
      assert.equal(looks.scripts, 1)
    }
    await latch.countDown()
    await Promise.all(waits)
  })

  it('C8: an open latch is open, however short the wait; and the wait ends in time if Redis lets nobody listen', async () => {
    const { client, proxy } = await lab.connectThroughProxy()
    const latch = client.getCountDownLatch('a')
    for (const waitTimeMs of [0, 200]) assert.equal(await latch.await({ waitTimeMs }), true)
    await latch.trySetCount(1)
    proxy.delay(20_000, (request) => request.startsWith('SUBSCRIBE'))
    const outcome = await settlesWithin(latch.await({ waitTimeMs: 300 }), WOKEN_MS)
    assert.deepEqual(outcome, { status: 'fulfilled', value: false })
    const waiting = settlesWithin(latch.await(), WOKEN_MS)
    await sleep(50)
    await latch.delete()
    assert.deepEqual(await waiting, { status: 'fulfilled', value: true }, 'it asks while it is not heard')
    proxy.pass()
  })
})
