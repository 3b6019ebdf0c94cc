/** What `forceUnlock()` ends and what it leaves alone, and what a client does that may not use the turn queue. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Hold, Lock } from '../../src/index.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'

let fixture: ClientFixture

beforeEach(() => {
  fixture = new ClientFixture({ commandTimeoutMs: 3_000 })
})

afterEach(() => fixture.close())

describe('forceUnlock()', () => {
  it('forceUnlock() frees the lock in Redis by name of its holder, also if this client holds it', async () => {
    const hold = await fixture.lock.lock()
    assert.deepEqual(await fixture.commandsOf(() => fixture.lock.forceUnlock()), ['lock/inspect', 'lock/release'])
    assert.equal(hold.signal.aborted, true)
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('forceUnlock() ends what this client holds, and not what it takes right after', async () => {
    const hold = await fixture.lock.lock()
    const [wasHeld, next] = await Promise.all([fixture.lock.forceUnlock(), fixture.lock.lock()])
    assert.equal(wasHeld, true)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
    fixture.assertSafe(next)
    await next.unlock()
  })

  it('forceUnlock() of a lock that somebody else has by now ends what this client still believed to hold', async () => {
    const hold = await fixture.lock.lock()
    fixture.redis.execute(['DEL', 'a'])
    await fixture.other.getLock('a').lock()
    assert.equal(await fixture.lock.forceUnlock(), true)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
  })

  it('forceUnlock() frees nothing if the holder releases the lock before it can', async () => {
    const held = await fixture.other.getLock('a').lock()
    fixture.port.once('lock/inspect', { replyMs: 100 })
    const forcing = fixture.lock.forceUnlock()
    await turn()
    await held.unlock()
    assert.equal(await fixture.clock.until(forcing), false)
  })

  it('forceUnlock() of the turn in which withLock() takes the lock ends the hold of its function', async () => {
    const running = fixture.lock.withLock({ atLeastMs: 1_000 }, async ({ signal }) => {
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
    })
    assert.equal(await fixture.lock.forceUnlock(), true)
    await assert.rejects(running, { code: 'LOCK_LEASE_LOST', reason: 'forced' })
  })

  it('forceUnlock() leaves holds of other locks alone, and attempts to take them', async () => {
    const { client, clock, port } = fixture
    await fixture.other.getLock('a').lock()
    const held = await client.getLock('b').lock()
    port.once('lock/acquire', { replyMs: 500 })
    const taking = client.getLock('c').tryLock()
    await turn()
    assert.equal(await clock.until(fixture.lock.forceUnlock()), true)
    const taken = (await clock.until(taking)) as Hold
    for (const hold of [held, taken]) {
      fixture.assertSafe(hold)
      await hold.unlock()
    }
  })

  it('forceUnlock() leaves holds of other values of a group alone', async () => {
    const [one, two] = ['1', '2'].map((value) => fixture.client.getFasterMultiLock('group', [value])) as [Lock, Lock]
    const [forced, other] = [await one.lock(), await two.lock()]
    assert.equal(await one.forceUnlock(), true)
    assert.equal(forced.signal.aborted, true)
    assert.equal(await other.isHeld(), true)
    await other.unlock()
  })

  it('forceUnlock() is the reason of a loss that shows while it is in flight', async () => {
    const hold = await fixture.lock.lock()
    fixture.port.once('lock/release-queued', { replyMs: 500 })
    const forcing = fixture.lock.forceUnlock()
    await fixture.clock.advance(100)
    assert.equal(await hold.isHeld(), false)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
    assert.equal(await fixture.clock.until(forcing), true)
  })

  it('forceUnlock() that fails leaves a hold valid, and handed off to the next caller', async () => {
    const [hold, waiting] = await fixture.heldAndWaitedFor(1)
    fixture.port.once('lock/release-queued', { errorReply: "ERR unknown command 'evalsha'" })
    await assert.rejects(fixture.lock.forceUnlock(), /unknown command/)
    fixture.assertSafe(hold)
    assert.deepEqual(await fixture.commandsOf(() => hold.unlock()), [])
    await (await waiting[0])?.unlock()
  })
})

describe('forceUnlock() of a write lock', () => {
  it('forceUnlock() of a write lock frees what its writer reads inside as well', async () => {
    const { clock, client, other } = fixture
    await assert.rejects(
      other
        .getReadWriteLock('a')
        .writeLock()
        .withLock(async () => {
          await other.getReadWriteLock('a').readLock().lock()
          assert.equal(await clock.until(client.getReadWriteLock('a').writeLock().forceUnlock()), true)
          assert.deepEqual(fixture.redis.keys, [])
        }),
      { code: 'LOCK_LEASE_LOST' },
    )
    const next = await clock.until(client.getReadWriteLock('a').writeLock().lock())
    await next.unlock()
  })

  it('forceUnlock() of a write lock that nobody holds leaves the readers alone', async () => {
    const reader = await fixture.clock.until(fixture.other.getReadWriteLock('a').readLock().lock())
    assert.equal(await fixture.clock.until(fixture.client.getReadWriteLock('a').writeLock().forceUnlock()), false)
    assert.equal(await fixture.clock.until(reader.isHeld()), true)
    await fixture.clock.until(reader.unlock())
  })
})

describe('forceUnlock() of a lock that cannot be what it should', () => {
  for (const [title, fields] of [
    ['a hash of data', ['colour', 'blue']],
    ['a plain lock with two holders', ['one:1', '1', 'two:2', '1']],
  ] as const) {
    it(`forceUnlock() refuses ${title}, and leaves it as it is`, async () => {
      fixture.redis.execute(['HSET', 'a', ...fields])
      await assert.rejects(fixture.lock.forceUnlock(), { code: 'LOCK_WRONG_TYPE' })
      assert.equal(fixture.redis.execute(['HLEN', 'a']), fields.length / 2)
      fixture.redis.delete('a')
    })
  }
})

describe('the turn queue', () => {
  it('the turn queue is no longer used once an ACL forbids it, and a warning says why', async () => {
    fixture.port.fault = ({ name }) => (name.endsWith('-queued') ? { errorReply: 'NOPERM No permissions' } : undefined)
    const cycle = async (): Promise<void> => await (await fixture.lock.lock()).unlock()
    await cycle()
    assert.equal(fixture.port.count('lock/release-queued'), 1)
    assert.equal(fixture.port.count('lock/release'), 1)
    const [warning] = fixture.warnings as [Error & { code: string }]
    assert.equal(warning.code, 'TURN_QUEUE_REFUSED')
    assert.equal((warning.cause as Error).message, 'NOPERM No permissions')
    await cycle()
    assert.equal(fixture.port.count('lock/release-queued'), 1)
    await fixture.lock.lock()
    assert.equal(await fixture.lock.forceUnlock(), true)
    assert.equal(fixture.port.count('lock/release-queued'), 1)
    assert.equal(fixture.warnings.length, 1)
  })

  it('a release that an ACL refuses with the turn queue did not run, so a lock that is gone was lost before', async () => {
    fixture.port.fault = ({ name }) => (name.endsWith('-queued') ? { errorReply: 'NOPERM No permissions' } : undefined)
    const hold = await fixture.lock.lock()
    fixture.redis.flush()
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert.equal(fixture.port.count('lock/release'), 1)
  })

  it('the turn queue is not blamed for other errors', async () => {
    fixture.client.on('warning', () => assert.fail('nothing is refused'))
    const hold = await fixture.lock.lock()
    fixture.port.once('lock/release-queued', { errorReply: 'ERR unknown command' })
    await assert.rejects(fixture.lock.forceUnlock(), { message: 'ERR unknown command' })
    assert.equal(fixture.port.count('lock/release'), 0)
    await hold.unlock()
  })
})
