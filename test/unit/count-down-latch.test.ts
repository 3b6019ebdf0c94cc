/** A latch on the fake clock: what its waiters cost together, and which of them a reply counts for. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Client, CountDownLatch } from '../../src/index.js'
import { latchChannel } from '../../src/wire/keys.js'
import { fakeClient } from '../support/fakes/fake-client.js'
import { FakeClock, turn } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'
import { FakeRedis } from '../support/fakes/fake-redis.js'

const CHANNEL = latchChannel('l')

let clock: FakeClock
let port: FakePort
let client: Client
let latch: CountDownLatch
/** Of another process. */
let other: CountDownLatch

beforeEach(async () => {
  clock = new FakeClock()
  port = new FakePort(clock, new FakeRedis(clock, Date.now())) // operations have times of this century
  client = fakeClient(clock, port)
  latch = client.getCountDownLatch('l')
  other = fakeClient(clock, new FakePort(clock, port.redis)).getCountDownLatch('l')
  await latch.trySetCount(2)
})

afterEach(async () => {
  await clock.until(client.close())
  assert.deepEqual(port.channels, [], 'no subscription is left')
})

async function settle(turns = 10): Promise<void> {
  for (let n = 0; n < turns; n++) await turn()
}

async function isSettled(pending: Promise<unknown>): Promise<boolean> {
  await settle()
  const none = Symbol('pending')
  return (await Promise.race([pending, none])) !== none
}

const asked = (): number => port.count('latch/inspect')

describe('the waiters of a latch', () => {
  it('the waiters of a latch ask and subscribe once for all, and pass when it opens', async () => {
    const waiting = Promise.all([latch.await(), client.getCountDownLatch('l').await(), latch.await()])
    await settle()
    assert.deepEqual([asked(), port.channels], [2, [CHANNEL]], 'before and after the subscription')
    await other.countDown()
    assert.deepEqual([await isSettled(waiting), await other.getCount()], [false, 1])
    await other.countDown()
    assert.deepEqual([await clock.until(waiting), asked()], [[true, true, true], 3])
    assert.equal(await latch.getCount(), 0)
  })

  it('the waiters of a latch pass when it is deleted', async () => {
    const waiting = latch.await()
    await settle()
    assert.deepEqual([await other.delete(), await other.delete()], [true, false])
    assert.equal(await clock.until(waiting), true)
  })

  it('the waiters of a latch that is open pass at once, and one that only looks asks once', async () => {
    assert.equal(await clock.until(latch.await({ waitTimeMs: 0 })), false)
    assert.deepEqual([asked(), port.channels], [1, []])
    await latch.countDown()
    await latch.countDown()
    assert.equal(await clock.until(latch.await({ waitTimeMs: 0 })), true)
    assert.equal(await clock.until(latch.await({ waitTimeMs: 100 })), true)
  })

  it('the waiters of a latch leave each by itself, and the last one ends the subscription', async () => {
    const abort = new AbortController()
    const startedAt = clock.now()
    const [short, long] = [latch.await({ waitTimeMs: 100 }), latch.await({ waitTimeMs: 300 })]
    const aborted = assert.rejects(latch.await({ signal: abort.signal }), (reason) => reason === 'enough')
    await clock.advance(50)
    abort.abort('enough')
    await aborted
    assert.equal(await clock.until(short), false)
    assert.deepEqual([clock.now() - startedAt, port.channels], [100, [CHANNEL]])
    assert.equal(await clock.until(long), false)
    assert.equal(clock.now() - startedAt, 300)
    await clock.advance(30_000)
    assert.deepEqual([port.channels, clock.pending], [[], 0])
    const before = asked()
    await clock.advance(60_000)
    assert.equal(asked(), before)
  })

  it('the waiters of a latch who come after the request pass only when the latch is open for them', async () => {
    await latch.countDown()
    await latch.countDown()
    port.once('latch/inspect', { replyMs: 100 })
    const early = latch.await()
    await settle()
    assert.equal(await other.trySetCount(1), true)
    const late = latch.await()
    await clock.advance(100)
    assert.deepEqual([await isSettled(early), await isSettled(late)], [true, false])
    await other.countDown()
    assert.equal(await clock.until(late), true)
    assert.equal(await clock.until(early), true)
  })

  it('the waiters of a latch ask anew after all others have left', async () => {
    for (let round = 0; round < 2; round++) {
      assert.equal(await clock.until(latch.await({ waitTimeMs: 100 })), false)
      assert.equal(asked(), 2 * (round + 1))
      await clock.advance(30_000)
    }
  })

  it('the waiters of a latch all get the error that ends their wait', async () => {
    port.fault = ({ name }) => (name === 'latch/inspect' ? { errorReply: 'NOPERM No permissions' } : undefined)
    const refused = [latch.await(), latch.await()].map((waiting) => assert.rejects(waiting, /NOPERM/))
    await clock.until(Promise.all(refused))
    await clock.advance(30_000)
    assert.deepEqual(port.channels, [])
    port.fault = () => undefined
    const waiting = assert.rejects(latch.await(), { code: 'LOCK_CLIENT_CLOSED' })
    await settle()
    await clock.until(client.close())
    await waiting
    await assert.rejects(latch.await(), { code: 'LOCK_CLIENT_CLOSED' })
  })

  it('the waiters of a latch go on waiting after an error that passes', async () => {
    port.once('latch/inspect', { errorReply: 'LOADING Redis is loading the dataset in memory' })
    const waiting = latch.await()
    await clock.advance(1_000)
    await other.delete()
    assert.equal(await clock.until(waiting), true)
  })
})

describe('the count of a latch', () => {
  it('the count of a latch is set only while it is open, and never falls below zero', async () => {
    assert.equal(await latch.trySetCount(5), false)
    for (const count of [1, 0, 0]) {
      await latch.countDown()
      assert.equal(await latch.getCount(), count)
    }
    assert.equal(await latch.trySetCount(1), true)
  })
})
