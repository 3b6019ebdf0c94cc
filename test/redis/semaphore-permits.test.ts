/** The permits of semaphores: messages, ends, leases, clocks. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { describe, it } from 'node:test'
import { setUpFixture } from '../support/fixture.js'
import { recordMessages } from '../support/key-contents.js'
import { openSynchronizerTwin } from '../support/redisson-twin/twin-synchronizers.js'
import { listening, WOKEN_MS } from '../support/subscribers.js'
import { repliesForgotten } from '../support/synchronizers.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

/** The longest pause of a waiter, and some time for its attempt. */
const POLL_MS = 8_000

/** Each test shows that a known defect of Redisson’s RedissonSemaphore and RedissonPermitExpirableSemaphore does not occur here. */
describe('the permits of semaphores', () => {
  const fixture = setUpFixture()

  it('permits added without a message, or while the message is lost, are found', async () => {
    fixture.onEnd(() => fixture.server.admin.del('a', 'p', '{p}:timeout'))
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    await fixture.server.admin.mset('a', 0, 'p', 0)
    const waiting = [client.getSemaphore('a').acquire(), other.getPermitExpirableSemaphore('p').acquire()] as const
    await listening(fixture, 2)
    await sleep(200)
    await fixture.server.admin.mset('a', 1, 'p', 1) // no message
    const outcome = await settlesWithin(Promise.all(waiting), POLL_MS)
    assert(outcome.status === 'fulfilled')
    await outcome.value[1].unlock()

    const again = settlesWithin(client.getSemaphore('a').acquire(), WOKEN_MS)
    await listening(fixture)
    await fixture.server.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await fixture.server.admin.incr('a')
    assert.equal((await again).status, 'fulfilled', 'it makes an attempt when it is subscribed again')
  })

  it('no message announces permits that are not available, and bad messages of a peer do no harm', async () => {
    fixture.onEnd(() => fixture.server.admin.del('a'))
    const semaphore = (await fixture.connect()).getSemaphore('a')
    const peer = await openSynchronizerTwin(fixture)
    await semaphore.trySetPermits(0)
    const theirs = peer.acquire('a')
    const ours = semaphore.acquire()
    await listening(fixture)
    await waitUntil(() => peer.sleeping === 1)
    const messages = await recordMessages(fixture)
    await semaphore.reducePermits(2)
    await semaphore.addPermits(1)
    await semaphore.release()
    assert.deepEqual(await messages(), [])
    assert.equal(peer.sleeping, 1)
    await semaphore.addPermits(2)
    await Promise.all([theirs, ours])
    const waiting = semaphore.acquire()
    await listening(fixture)
    for (const forged of ['-1', '0', '99999999999999999999', 'none', '']) {
      await fixture.server.admin.publish('redisson_sc:{a}', forged)
    }
    await semaphore.release()
    await waiting
  })

  it('one message serves as many waiters as there are permits', async () => {
    fixture.onEnd(() => fixture.server.admin.del('a', 'p', '{p}:timeout'))
    const [client, peer] = [await fixture.connect(), await openSynchronizerTwin(fixture)]
    const [semaphore, permits] = [client.getSemaphore('a'), client.getPermitExpirableSemaphore('p')]
    await semaphore.trySetPermits(0)
    await permits.trySetPermits(0)
    const waiting = Array.from({ length: 20 }, () => [semaphore.acquire(), permits.acquire()] as const)
    await listening(fixture, 2)
    await repliesForgotten(fixture)
    const releasedAt = performance.now()
    await peer.release('a', 20)
    await peer.release('p', 20)
    await Promise.all(waiting.flat())
    assert(performance.now() - releasedAt < WOKEN_MS, 'woken, not polling')
    await Promise.all(waiting.map(async ([, permit]) => await (await permit).unlock()))
  })

  it('the TTL of a semaphore is not changed by operations on its permits', async () => {
    const semaphore = (await fixture.connect()).getSemaphore('a')
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
      const left = await fixture.server.admin.pttl('a')
      assert(left > 50_000 && left <= 60_000, `${left} ms`)
    }
    await semaphore.delete()
    assert.equal(await semaphore.releaseIfExists(), false)
    assert.equal(await fixture.server.admin.exists('a'), 0)
  })

  it('tryAcquire() resolves to null when all permits are taken', async () => {
    fixture.onEnd(() => fixture.server.admin.del('a', '{a}:timeout'))
    const semaphore = (await fixture.connect()).getPermitExpirableSemaphore('a')
    await semaphore.trySetPermits(1)
    const permit = await semaphore.acquire({ leaseTimeMs: 60_000 })
    assert.equal(await semaphore.tryAcquire(), null)
    await permit.unlock()
  })

  it('a permit whose lease ended returns once, and its late release is an error', async () => {
    fixture.onEnd(() => fixture.server.admin.del('a', '{a}:timeout'))
    const semaphore = (await fixture.connect()).getPermitExpirableSemaphore('a')
    const { admin } = fixture.server
    await semaphore.trySetPermits(1)
    const permit = await semaphore.acquire({ leaseTimeMs: 100 })
    await waitUntil(() => permit.signal.aborted)
    await sleep(20)
    const [id = ''] = permit.permitIds
    assert.equal(await admin.zcard('{a}:timeout'), 1, 'not noticed yet')
    assert.equal(await semaphore.tryRelease(id), false)
    assert.deepEqual([await admin.get('a'), await admin.zcard('{a}:timeout')], ['1', 0])
    await assert.rejects(semaphore.release(id), { code: 'LOCK_NOT_HELD' })
    await assert.rejects(permit.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    assert.equal(await semaphore.availablePermits(), 1)
  })

  it('several permits are not released if the lease of one has ended, noticed or not', async () => {
    fixture.onEnd(() => fixture.server.admin.del('a', '{a}:timeout'))
    const semaphore = (await fixture.connect()).getPermitExpirableSemaphore('a')
    const { admin } = fixture.server
    await semaphore.trySetPermits(3)
    const [ended, held] = [await semaphore.acquire({ leaseTimeMs: 100 }), await semaphore.acquire({ permits: 2 })]
    await waitUntil(() => ended.signal.aborted)
    await sleep(20)
    const ids = [...held.permitIds, ...ended.permitIds]
    assert.equal(await admin.zcard('{a}:timeout'), 3, 'not noticed yet')
    assert.equal(await semaphore.tryRelease(ids), false)
    assert.deepEqual([await semaphore.availablePermits(), await semaphore.acquiredPermits()], [1, 2])
    assert.equal(await semaphore.tryRelease(ids), false)
    assert.equal(await held.isHeld(), true)
    await held.unlock()
    await assert.rejects(ended.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    assert.equal(await semaphore.availablePermits(), 3)
  })

  it('thousands of leases that end at once are processed', async () => {
    fixture.onEnd(() => fixture.server.admin.del('a', '{a}:timeout'))
    const semaphore = (await fixture.connect()).getPermitExpirableSemaphore('a')
    const { admin } = fixture.server
    for (const inspect of [
      () => semaphore.availablePermits(),
      async () => await (await semaphore.acquire({ permits: 7, waitTimeMs: 5_000 })).unlock(),
      () => semaphore.setPermits(30_000),
      () => semaphore.tryRelease('0'.repeat(32)),
    ]) {
      await admin.del('{a}:timeout') // some of those before may not have been given back yet
      await admin.set('a', 0)
      for (let n = 0; n < 6; n++) {
        const members = Array.from({ length: 5_000 }, () => [Date.now() - 1_000, randomBytes(16)])
        await admin.zadd('{a}:timeout', ...(members.flat() as (number | Buffer)[]))
      }
      await inspect()
      assert.deepEqual([await semaphore.availablePermits(), await semaphore.acquiredPermits()], [30_000, 0])
    }
  })

  it('a process with a wrong clock takes no permits from others, and loses none', async () => {
    fixture.onEnd(() => fixture.server.admin.del('a', '{a}:timeout'))
    const [client, other] = [await fixture.connect(), await fixture.connect()]
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

  it('every message of a semaphore is the number of available permits', async () => {
    fixture.onEnd(() => fixture.server.admin.del('a', '{a}:timeout'))
    const semaphore = (await fixture.connect()).getPermitExpirableSemaphore('a')
    await semaphore.trySetPermits(3)
    const permit = await semaphore.acquire({ permits: 3 })
    const messages = await recordMessages(fixture)
    await semaphore.addPermits(2)
    await semaphore.setPermits(4)
    await semaphore.setPermits(9)
    await permit.unlock()
    const numbers = (await messages()).map(([, message]) => message)
    assert.deepEqual(numbers, ['2', '6', '9'])
  })

  it('zero permits cannot be requested, and of several permits the remaining ones are released', async () => {
    fixture.onEnd(() => fixture.server.admin.del('a', '{a}:timeout'))
    const semaphore = (await fixture.connect()).getPermitExpirableSemaphore('a')
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

  it('the rest of an acquire is released as soon as the holder notices that one of its permits is gone', async () => {
    fixture.onEnd(() => fixture.server.admin.del('a', '{a}:timeout'))
    const semaphore = (await fixture.connect({ lockWatchdogTimeoutMs: 6_000 })).getPermitExpirableSemaphore('a')
    await semaphore.trySetPermits(3)
    const permit = await semaphore.acquire({ permits: 3 })
    await semaphore.updateLeaseTime(permit.permitIds[1] ?? '', 10)
    await waitUntil(() => permit.signal.aborted)
    // The leases of the others would last 4 s from the renewal that noticed it.
    await waitUntil(async () => (await semaphore.acquiredPermits()) === 0, { timeoutMs: 3_000 })
    assert.equal(await semaphore.availablePermits(), 3)
  })

  it('a waiter for few permits is not delayed by a waiter of the same client for many', async () => {
    fixture.onEnd(() => fixture.server.admin.del('a', 'p', '{p}:timeout'))
    const client = await fixture.connect()
    const [semaphore, permits] = [client.getSemaphore('a'), client.getPermitExpirableSemaphore('p')]
    await semaphore.trySetPermits(0)
    await permits.trySetPermits(0)
    const many = [semaphore.acquire({ permits: 3 }), permits.acquire({ permits: 3 })] as const
    await listening(fixture, 2)
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
