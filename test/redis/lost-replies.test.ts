/** Commands whose reply is lost or late, of locks. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Client } from '../../src/index.js'
import { setUpFixture } from '../support/fixture.js'
import { openTwin } from '../support/redisson-twin/twin.js'
import { listening, REDISSON_CHANNELS } from '../support/subscribers.js'
import { settlesWithin, waitUntil } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000

/** Each test shows that a known defect of Redisson’s RedissonLock and RedissonBaseLock does not occur here. */
describe('a command of a lock whose reply is lost', () => {
  const fixture = setUpFixture()

  it('a command timeout during a wait is no refusal: what was granted is held or released', async () => {
    const peer = await openTwin(fixture)
    const { client, proxy } = await fixture.connectThroughProxy({ commandTimeoutMs: 400 })
    await client.getLock('a').withLock(() => {})
    await peer.acquire('a', 7, WATCHDOG_MS)

    const waiting = client.getLock('a').tryLock({ waitTimeMs: 10_000 })
    await listening(fixture, 1, REDISSON_CHANNELS)
    proxy.dropNextReply((request) => request.startsWith('EVALSHA') && request.includes(`${client.id}:2`))
    await peer.release('a', 7)
    await proxy.dropped
    const hold = await waiting
    assert.deepEqual(await fixture.server.admin.hgetall('a'), { [`${client.id}:2`]: '1' })
    await hold?.unlock()
    assert.equal(await fixture.server.admin.exists('a'), 0)

    await peer.acquire('a', 7, WATCHDOG_MS)
    const unknown = client.getLock('a').tryLock({ waitTimeMs: 2_500 })
    await listening(fixture, 1, REDISSON_CHANNELS)
    proxy.mute()
    await peer.release('a', 7)
    const outcome = await settlesWithin(unknown, 8_000)
    assert.equal(outcome.status === 'rejected' && outcome.reason.code, 'LOCK_OUTCOME_UNKNOWN')
    proxy.pass()
    await waitUntil(async () => (await fixture.server.admin.exists('a')) === 0, { timeoutMs: 15_000 })
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
    it(`an acquire repeated after a lost reply counts once: ${kind}`, async () => {
      fixture.onEnd(() => fixture.server.admin.del('redisson_lock_token:{a}'))
      const { client, proxy } = await fixture.connectThroughProxy()
      await (await lockOf(client).lock()).unlock()
      const tokens = await fixture.server.admin.get('redisson_lock_token:{a}')
      proxy.dropNextReply((request) => request.startsWith('EVALSHA'))
      const hold = await lockOf(client).lock()
      await proxy.dropped
      assert.equal(await fixture.server.admin.hget('a', hold.holder), '1')
      if (tokens !== null)
        assert.equal(await fixture.server.admin.get('redisson_lock_token:{a}'), String(Number(tokens) + 1))
      await hold.unlock()
      assert.equal(await fixture.server.admin.exists('a'), 0)
    })
  }

  it('a release that fails is repeated, so that no hold is left behind', async () => {
    const { client, proxy } = await fixture.connectThroughProxy({ commandTimeoutMs: 400 })
    const hold = await client.getLock('a').lock()
    proxy.freeze()
    const outcome = await settlesWithin(hold.unlock(), 5_000)
    assert.equal(outcome.status === 'rejected' && outcome.reason.code, 'LOCK_OUTCOME_UNKNOWN')
    assert.equal(await fixture.server.admin.exists('a'), 1)
    proxy.pass()
    await waitUntil(async () => (await fixture.server.admin.exists('a')) === 0, { timeoutMs: 10_000 })
  })
})
