/** Permits without holders: whatever is lost on the way, they are conserved. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Client } from '../../src/client.js'
import type { Semaphore } from '../../src/synchronizers/semaphore.js'
import { systemRandom } from '../../src/util/random.js'
import { fakeClient } from '../support/fakes/fake-client.js'
import { FakeClock, turn } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'
import { FakeRedis } from '../support/fakes/fake-redis.js'

const TIMEOUT_MS = 3_000

describe('permits of a semaphore', () => {
  let clock: FakeClock
  let port: FakePort
  let client: ReturnType<typeof fakeClient>
  let semaphore: Semaphore
  let other: Semaphore

  beforeEach(async () => {
    clock = new FakeClock()
    port = new FakePort(clock, new FakeRedis(clock, Date.now())) // operations have times of this century
    client = fakeClient(clock, port, { commandTimeoutMs: TIMEOUT_MS })
    semaphore = client.getSemaphore('s')
    other = fakeClient(clock, new FakePort(clock, port.redis)).getSemaphore('s')
    await semaphore.trySetPermits(3)
  })

  afterEach(async () => {
    await clock.advance(120_000)
    assert.equal(await other.availablePermits(), 3, 'all permits are there')
    await clock.until(client.close())
  })

  it('permits are given back if the reply to acquire() was lost', async () => {
    port.once('semaphore/acquire', { lost: 'reply' })
    await assert.rejects(clock.until(semaphore.tryAcquire({ permits: 2 })), { code: 'LOCK_OUTCOME_UNKNOWN' })
    await clock.advance(1_000)
    assert.equal(await other.availablePermits(), 3)
  })

  it('permits are given back once if copies of acquire() and of what returns them arrive late', async () => {
    port.once('semaphore/acquire', { requestMs: TIMEOUT_MS + 5_000 })
    port.once('semaphore/cancel', { resentMs: 50 })
    await assert.rejects(clock.until(semaphore.tryAcquire({ permits: 2 })), { code: 'LOCK_OUTCOME_UNKNOWN' })
    await clock.advance(20_000)
    assert.equal(await other.availablePermits(), 3)
  })

  it('permits are granted once if the reply was lost and acquire() waits', async () => {
    port.once('semaphore/acquire', { lost: 'reply' })
    await clock.until(semaphore.acquire({ permits: 2 }))
    await turn()
    assert.equal(await other.availablePermits(), 1)
    await semaphore.release(2)
  })

  it('permits are granted once if the reply was lost and the event loop blocked too long to ask again', async () => {
    port.once('semaphore/acquire', { lost: 'reply' })
    const acquiring = semaphore.acquire({ permits: 2 })
    await turn()
    clock.block(120_000)
    await clock.until(acquiring)
    await clock.advance(1_000)
    assert.equal(await other.availablePermits(), 1)
    await semaphore.release(2)
  })

  it('permits that were released without a reply leave no reply behind in Redis in the end', async () => {
    await semaphore.acquire()
    port.fault = ({ name }) => (name === 'semaphore/release' ? { lost: 'reply' } : undefined)
    await assert.rejects(clock.until(semaphore.release()), { code: 'LOCK_OUTCOME_UNKNOWN' })
    port.fault = () => undefined
    await clock.advance(60_000)
    assert.equal(await other.availablePermits(), 3)
    const before = port.count('idempotency/forget')
    await clock.advance(1_300_000)
    await client.getSemaphore('s').addPermits(1) // its own stored reply is deleted with those that are old
    await clock.advance(1_000)
    const forgotten = port.sent.filter(({ name }) => name === 'idempotency/forget').slice(before)
    assert.deepEqual(
      forgotten.map(({ args }) => args.length),
      [2],
    )
    await client.getSemaphore('s').reducePermits(1)
  })

  it('permits that were given back leave no reply behind in Redis in the end', async () => {
    port.once('semaphore/acquire', { lost: 'reply' })
    await assert.rejects(clock.until(semaphore.tryAcquire()), { code: 'LOCK_OUTCOME_UNKNOWN' })
    await clock.advance(1_000)
    const before = port.count('idempotency/forget')
    await clock.advance(1_300_000)
    await semaphore.addPermits(1) // its own stored reply is deleted with those that are old
    await clock.advance(1_000)
    const forgotten = port.sent.filter(({ name }) => name === 'idempotency/forget').slice(before)
    assert.deepEqual(
      forgotten.map(({ args }) => args.length),
      [2],
    )
    await semaphore.reducePermits(1)
  })

  it('permits whose release did not arrive are free once Redis can be reached again within a minute', async () => {
    await semaphore.acquire()
    port.fault = ({ name }) => (name === 'semaphore/release' ? { lost: 'request' } : undefined)
    await assert.rejects(clock.until(semaphore.release()), { code: 'LOCK_OUTCOME_UNKNOWN' })
    await clock.advance(30_000)
    assert.equal(await other.availablePermits(), 2)
    port.fault = () => undefined
    await clock.advance(20_000)
    assert.equal(await other.availablePermits(), 3)
  })

  it('permits need not be given back if Redis refused the command', async () => {
    port.once('semaphore/acquire', { errorReply: 'WRONGTYPE Operation against a key holding the wrong kind of value' })
    await assert.rejects(clock.until(semaphore.tryAcquire()), { code: 'LOCK_WRONG_TYPE' })
    assert.equal(port.count('semaphore/cancel'), 0)
  })

  it('permits that Redis refuses to change are certain to be as they were', async () => {
    port.once('semaphore/add-permits', { errorReply: 'NOPERM No permissions to access a key' })
    await assert.rejects(clock.until(semaphore.addPermits(1)), /NOPERM/)
    port.once('semaphore/add-permits', { errorReply: 'UNBLOCKED' })
    port.once('semaphore/add-permits', { errorReply: 'NOPERM No permissions to access a key' })
    await assert.rejects(clock.until(semaphore.addPermits(1)), { code: 'LOCK_OUTCOME_UNKNOWN' })
    await clock.advance(1_000)
    await semaphore.reducePermits(1)
  })

  it('permits that are not there are asked for again every 5 s, as a message may be lost', async () => {
    const waiting = semaphore.acquire({ permits: 4, waitTimeMs: 50_000 })
    await assert.rejects(clock.until(waiting), { code: 'LOCK_WAIT_TIMEOUT' })
    const attempts = port.count('semaphore/acquire')
    assert(attempts >= 10 && attempts <= 14, `${attempts} attempts`)
  })

  it('permits are granted once if the Redis client sends the command again after a reconnect', async () => {
    port.once('semaphore/acquire', { resentMs: 100 })
    assert.equal(await clock.until(semaphore.tryAcquire()), true)
    assert.equal(await other.availablePermits(), 2)
    port.once('semaphore/release', { resentMs: 100 })
    await clock.until(semaphore.release())
  })

  it('permits are given back if the caller left before the grant arrived', async () => {
    const abort = new AbortController()
    port.once('semaphore/acquire', { requestMs: 100, replyMs: 100 })
    const taking = semaphore.acquire({ signal: abort.signal })
    await turn()
    abort.abort('enough')
    await assert.rejects(taking, (reason) => reason === 'enough')
    await clock.advance(1_000)
    assert.equal(await other.availablePermits(), 3)
  })

  it('permits are given back if the client is closed before the grant arrived', async () => {
    const ending = fakeClient(clock, port)
    port.once('semaphore/acquire', { requestMs: 100, replyMs: 100 })
    const taking = ending.getSemaphore('s').acquire()
    await turn()
    const closing = ending.close()
    await assert.rejects(clock.until(taking), { code: 'LOCK_CLIENT_CLOSED' })
    await clock.until(closing)
    await assert.rejects(ending.getSemaphore('s').release(), { code: 'LOCK_CLIENT_CLOSED' })
    await assert.rejects(ending.getSemaphore('s').availablePermits(), { code: 'LOCK_CLIENT_CLOSED' })
  })

  it("permits that are missing are the reason in the error, and a lock's error says otherwise", async () => {
    const waiting = semaphore.acquire({ permits: 4, waitTimeMs: 100 })
    await assert.rejects(clock.until(waiting), { code: 'LOCK_WAIT_TIMEOUT', message: /^Semaphore "s" .* permits/ })
    const leased = client.getPermitExpirableSemaphore('leased').acquire({ waitTimeMs: 100 })
    await assert.rejects(clock.until(leased), { code: 'LOCK_WAIT_TIMEOUT', message: /^Semaphore "leased" .* permits/ })
  })

  it('permits that a call waits for too long are reported with what is missing and its label', async () => {
    const waits: unknown[] = []
    client.on('longWait', ({ lockName, label, heldBy }) => waits.push([lockName, label, heldBy]))
    const missing = client.getSemaphore('missing')
    const waiting = missing.acquire({ waitTimeMs: 1_000, warnAfterMs: 100, label: 'refund' })
    await assert.rejects(clock.until(waiting), { code: 'LOCK_WAIT_TIMEOUT' })
    const latch = client.getCountDownLatch('l')
    await latch.trySetCount(1)
    assert.equal(await clock.until(latch.await({ waitTimeMs: 1_000, warnAfterMs: 100, label: 'start' })), false)
    assert.match(String(waits[0]), /^missing,refund,it does not exist/)
    assert.deepEqual(waits.slice(1), [['l', 'start', undefined]])
  })

  it('permits are waited for as long as the client waits by default', async () => {
    const port = new FakePort(clock, new FakeRedis(clock, Date.now()))
    const hasty = fakeClient(clock, port, { waitTimeMs: 1_000 })
    const startedAt = clock.now()
    await assert.rejects(clock.until(hasty.getSemaphore('s').acquire()), {
      message: /within 1000 ms|1[ ,_]?000 ms|1 s/,
    })
    assert(clock.now() - startedAt <= 1_100, `${clock.now() - startedAt} ms`)
    await clock.until(hasty.close())
  })

  it('zero permits are held like others: the client that closes ends the function', async () => {
    const ending = fakeClient(clock, port)
    const running = ending.getSemaphore('s').withPermit({ permits: 0 }, (signal) => once(signal, 'abort'))
    await turn()
    const closing = ending.close()
    await assert.rejects(clock.until(running), { code: 'LOCK_CLIENT_CLOSED' })
    await clock.until(closing)
  })

  it('permits run a function once there are enough, and are released after it, whatever it does', async () => {
    assert.equal(await semaphore.withPermit({ permits: 3 }, () => semaphore.availablePermits()), 0)
    await assert.rejects(
      semaphore.withPermit(() => Promise.reject(new Error('failed'))),
      /failed/,
    )
    assert.equal(await other.availablePermits(), 3)
    assert.deepEqual(await semaphore.tryWithPermit({ permits: 4 }, () => 1), { ran: false })
    assert.deepEqual(await semaphore.tryWithPermit({ permits: 0 }, () => 1), { ran: true, value: 1 })
  })

  it('permits are counted, drained, added and removed, and gone with the semaphore', async () => {
    assert.equal(await semaphore.trySetPermits(9), false)
    await semaphore.addPermits(2)
    await semaphore.reducePermits(1)
    assert.equal(await semaphore.drainPermits(), 4)
    assert.equal(await semaphore.drainPermits(), 0)
    assert.equal(await semaphore.releaseIfExists(1), true)
    assert.equal(await semaphore.releaseIfExists(0), false)
    assert.equal(await semaphore.delete(), true)
    assert.equal(await semaphore.delete(), false)
    assert.equal(await semaphore.releaseIfExists(1), false)
    assert.equal(await semaphore.availablePermits(), 0)
    assert.equal(await semaphore.trySetPermits(3), true)
  })
})

describe('permits with leases', () => {
  it('permits with leases are not held from the moment at which the leases end, however many end at once', async () => {
    const clock = new FakeClock()
    const port = new FakePort(clock, new FakeRedis(clock, Date.now()))
    const semaphore = new Client(port, {}, { clock, random: systemRandom }).getPermitExpirableSemaphore('s')
    await semaphore.trySetPermits(300)
    const { permitIds = [] } = await semaphore.acquire({ permits: 300, leaseTimeMs: 10_000 })
    const last = [...permitIds].sort().at(-1) ?? ''
    await clock.advance(9_999)
    assert.equal(await semaphore.getLeaseTime(last), 1)
    await clock.advance(1)
    await assert.rejects(semaphore.getLeaseTime(last), { code: 'LOCK_NOT_HELD' })
  })

  it('permits with leases are set once, as all permits are', async () => {
    const clock = new FakeClock()
    const client = fakeClient(clock, new FakePort(clock, new FakeRedis(clock, Date.now())))
    for (const semaphore of [client.getPermitExpirableSemaphore('leased'), client.getSemaphore('plain')]) {
      assert.deepEqual([await semaphore.trySetPermits(3), await semaphore.trySetPermits(4)], [true, false])
      assert.equal(await semaphore.availablePermits(), 3)
      await semaphore.addPermits(2)
      await semaphore.addPermits(0)
      assert.equal(await semaphore.availablePermits(), 5)
      assert.deepEqual([await semaphore.delete(), await semaphore.delete()], [true, false])
    }
    await clock.until(client.close())
  })

  it('permits with leases are released by different ids of one semaphore, at most so many at once', async () => {
    const clock = new FakeClock()
    const client = fakeClient(clock, new FakePort(clock))
    const semaphore = client.getPermitExpirableSemaphore('s')
    const id = (n: number): string => n.toString(16).padStart(32, '0')
    const many = Array.from({ length: 1_001 }, (_, n) => id(n))
    for (const ids of [[], many, [id(0xa), id(0xa).toUpperCase()]]) {
      await assert.rejects(semaphore.release(ids), { code: 'LOCK_CONFIG', path: 'permitIds', lockName: 's' })
    }
    await assert.rejects(semaphore.release([id(1), 1 as never]), { path: 'permitIds[1]', lockName: 's' })
    await clock.until(client.close())
  })

  it('permits with leases that are released by their ids are reported released, however many copies arrive', async () => {
    const clock = new FakeClock()
    const port = new FakePort(clock, new FakeRedis(clock, Date.now()))
    const client = new Client(port, {}, { clock, random: systemRandom })
    const semaphore = client.getPermitExpirableSemaphore('s')
    await clock.until(semaphore.trySetPermits(3))
    const failsWith = 'Connection is closed.'
    for (const fault of [{ resentMs: 100 }, { failsWith }, { failsWith, lost: 'request' }] as const) {
      const permit = await clock.until(semaphore.acquire({ permits: 3 }))
      port.once('permit/release-all', fault)
      await clock.until(semaphore.release(permit.permitIds))
      assert.equal(await clock.until(semaphore.availablePermits()), 3)
      await assert.rejects(clock.until(permit.unlock()), { code: 'LOCK_LEASE_LOST' })
    }
    await clock.until(client.close())
  })

  it('permits with leases are all free soon after one is released by its id: the other holds are lost', async () => {
    const clock = new FakeClock()
    const port = new FakePort(clock, new FakeRedis(clock, Date.now()))
    const client = new Client(port, {}, { clock, random: systemRandom })
    const semaphore = client.getPermitExpirableSemaphore('s')
    await semaphore.trySetPermits(3)
    const permit = await clock.until(semaphore.acquire({ permits: 3 }))
    assert.equal(await semaphore.tryRelease(permit.permitIds[1] ?? ''), true)
    await clock.advance(10_500) // until the next renewal, well before the lease ends
    assert.equal(permit.signal.aborted, true)
    assert.equal(await semaphore.availablePermits(), 3)
    await clock.until(client.close())
  })
})
