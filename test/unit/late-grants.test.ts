/** What a client makes of a grant that arrives when nobody waits for it, or when it is no longer true. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Client } from '../../src/client.js'
import { fakeClient } from '../support/fakes/fake-client.js'
import { FakeClock, turn } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'
import { FakeRedis } from '../support/fakes/fake-redis.js'

let clock: FakeClock
let redis: FakeRedis
let port: FakePort
let client: Client

beforeEach(() => {
  clock = new FakeClock()
  redis = new FakeRedis(clock)
  port = new FakePort(clock, redis)
  client = fakeClient(clock, port, { lockWatchdogTimeoutMs: 3_000 })
})

afterEach(async () => {
  await clock.until(client.close())
  assert.deepEqual(redis.keys, [], 'nothing is held')
})

describe('a grant that arrives after its caller gave up', () => {
  it('a grant whose caller gave up is released without a renewal before, however late it is', async () => {
    const controller = new AbortController()
    port.once('lock/acquire', { replyMs: 1_000 })
    const taking = client.getLock('a').tryLock({ signal: controller.signal })
    await turn()
    controller.abort()
    await assert.rejects(taking, { name: 'AbortError' })
    assert.deepEqual(redis.keys, ['a'])
    await clock.advance(1_100)
    assert.deepEqual(redis.keys, [])
    assert.equal(port.count('lock/renew'), 0)
  })

  it('a grant whose caller gave up while it waited is released without a renewal before, however late it is', async () => {
    const other = fakeClient(clock, new FakePort(clock, redis))
    const held = await other.getLock('a').lock()
    const controller = new AbortController()
    const taking = client.getLock('a').lock({ signal: controller.signal })
    await turn()
    port.fault = ({ name }) => (name.startsWith('lock/acquire') ? { replyMs: 1_000 } : undefined)
    await held.unlock()
    await turn()
    controller.abort()
    await assert.rejects(taking, { name: 'AbortError' })
    assert.deepEqual(redis.keys, ['a'])
    await clock.advance(1_100)
    assert.deepEqual(redis.keys, [])
    assert.equal(port.count('lock/renew'), 0)
    await clock.until(other.close())
  })

  it('a late grant is renewed if its caller still waits, as what is left may end too soon', async () => {
    port.once('lock/acquire', { replyMs: 1_000 })
    const hold = await clock.until(client.getLock('a').lock())
    await clock.advance(10)
    assert.equal(port.count('lock/renew'), 1)
    await hold.unlock()
  })
})

describe('an adoption whose reply takes long', () => {
  it('an adoption with a slow reply is renewed at once, as what is left may end too soon', async () => {
    const holder = (await client.getLock('a').lock()).handOver()
    port.once('lock/adopt', { replyMs: 1_000 })
    const hold = await clock.until(client.adopt('a', holder))
    await clock.advance(10)
    assert.equal(port.count('lock/renew'), 1)
    await hold.unlock()
  })
})

describe('a grant that arrives after the reply to a forceUnlock that was sent after it', () => {
  it('a grant after a later forceUnlock() is a refusal', async () => {
    port.once('lock/acquire', { replyMs: 500 })
    const taking = client.getLock('a').tryLock()
    await turn()
    assert.equal(await clock.until(client.getLock('a').forceUnlock()), true)
    assert.equal(await clock.until(taking), null)
  })

  it('a grant after a later forceUnlock() lets a waiting caller make another attempt', async () => {
    port.once('lock/acquire', { replyMs: 500 })
    const taking = client.getLock('a').lock()
    await turn()
    assert.equal(await clock.until(client.getLock('a').forceUnlock()), true)
    const hold = await clock.until(taking)
    assert(redis.isHeldBy('a', hold.holder))
    await hold.unlock()
  })
})
