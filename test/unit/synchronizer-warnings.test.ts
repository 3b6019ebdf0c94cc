/** What a client warns of when a semaphore or latch was changed, but others may not hear of it. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { Client } from '../../src/client.js'
import type { Permit } from '../../src/index.js'
import { systemRandom } from '../../src/util/random.js'
import { FakeClock } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'
import { FakeRedis, FakeReplyError } from '../support/fakes/fake-redis.js'

let clock: FakeClock
let port: FakePort
let client: Client
let warnings: (string | undefined)[]

beforeEach(() => {
  clock = new FakeClock()
  port = new FakePort(clock, new FakeRedis(clock, Date.now()))
  client = new Client(port, { commandTimeoutMs: 3_000 }, { clock, random: systemRandom })
  warnings = []
  client.on('warning', (warning) => warnings.push((warning as { code?: string }).code))
})

afterEach(async () => {
  await clock.until(client.close())
  assert.equal(clock.pending, 0, 'no timer is left')
})

describe('a message that Redis refuses to publish', () => {
  beforeEach(() => {
    const { keyspace } = port.redis
    const execute = keyspace.execute.bind(keyspace)
    keyspace.execute = (name, args) => {
      if (/publish/i.test(name)) throw new FakeReplyError('NOPERM No permissions to access a channel')
      return execute(name, args)
    }
  })

  it('a refused message is a warning of the release, which happened', async () => {
    const semaphore = client.getSemaphore('s')
    await semaphore.release(2)
    assert.equal(await semaphore.availablePermits(), 2)
    assert.deepEqual(warnings, ['PUBLISH_REFUSED'])
  })

  for (const [what, idsOf] of [
    ['a permit by its id', ({ permitIds }: Permit) => permitIds[0] ?? ''],
    ['permits by their ids', ({ permitIds }: Permit) => permitIds],
  ] as const) {
    it(`a refused message is a warning of the release of ${what}, which happened`, async () => {
      const semaphore = client.getPermitExpirableSemaphore('s')
      await clock.until(semaphore.trySetPermits(1))
      const permit = await clock.until(semaphore.acquire())
      assert.equal(await clock.until(semaphore.tryRelease(idsOf(permit))), true)
      assert.equal(await semaphore.availablePermits(), 1)
      assert.deepEqual(warnings, ['PUBLISH_REFUSED'])
    })
  }

  it('a refused message is a warning of the count down that opened the latch', async () => {
    const latch = client.getCountDownLatch('l')
    await latch.trySetCount(1)
    await latch.countDown()
    assert.equal(await latch.getCount(), 0)
    assert.deepEqual(warnings, ['PUBLISH_REFUSED'])
  })
})

describe('messages that Redis publishes', () => {
  it('messages that Redis publishes are no warnings, whether anybody listens or not', async () => {
    const semaphore = client.getSemaphore('s')
    const leased = client.getPermitExpirableSemaphore('p')
    const latch = client.getCountDownLatch('l')
    await semaphore.release()
    await leased.trySetPermits(1)
    const permit = await leased.acquire()
    await leased.release(permit.permitIds[0] ?? '')
    await latch.trySetCount(1)
    const waiting = latch.await()
    const acquiring = semaphore.acquire({ permits: 2 })
    await clock.advance(100)
    await latch.countDown()
    await semaphore.release()
    assert.equal(await clock.until(waiting), true)
    await clock.until(acquiring)
    assert.deepEqual(warnings, [])
  })
})

describe('permits of a function', () => {
  it('permits of a function that may not have been released are a warning: the function succeeded', async () => {
    const semaphore = client.getSemaphore('s')
    await semaphore.trySetPermits(1)
    const refused = { errorReply: 'OOM command not allowed' }
    port.fault = ({ name }) => (name === 'semaphore/release' ? refused : undefined)
    assert.equal(await clock.until(semaphore.withPermit(() => 'done')), 'done')
    assert.equal(warnings.length, 1)
  })
})

describe('permits with leases', () => {
  it('permits with leases held by another process are held until their lease ends', async () => {
    const semaphore = client.getPermitExpirableSemaphore('s')
    await semaphore.trySetPermits(2)
    const permit = await semaphore.acquire({ permits: 2 })
    assert.equal(await permit.isHeld(), true)
    await semaphore.release(permit.permitIds[0] ?? '')
    assert.equal(await permit.isHeld(), false, 'one of them is not')
  })

  it('permits with leases that do not exist are the reason in the error of a wait', async () => {
    const waiting = client.getPermitExpirableSemaphore('missing').acquire({ waitTimeMs: 100 })
    await assert.rejects(clock.until(waiting), { heldBy: /^it does not exist/ })
  })

  it('permits with leases are waited for by number: one that wants few is not held up', async () => {
    const semaphore = client.getPermitExpirableSemaphore('s')
    await semaphore.trySetPermits(2)
    const held = await semaphore.acquire({ permits: 2 })
    const many = semaphore.acquire({ permits: 3, waitTimeMs: 5_000 })
    const few = semaphore.acquire({ permits: 1 })
    await clock.advance(100)
    await held.unlock()
    const permit = await clock.until(few)
    await permit.unlock()
    await assert.rejects(clock.until(many), { code: 'LOCK_WAIT_TIMEOUT' })
  })
})

describe('a latch that is waited for', () => {
  it('a waiter of a latch relies on the message: it asks when it begins, once subscribed, and every 5 s', async () => {
    const latch = client.getCountDownLatch('a')
    await clock.until(latch.trySetCount(1))
    const waiting = latch.await()
    await clock.advance(4_000)
    assert(port.count('latch/inspect') <= 3, `${port.count('latch/inspect')} requests`)
    await clock.until(latch.countDown())
    await clock.until(waiting)
  })
})
