/** Locks on several values of one group: which of them are the same, exclude each other, or have nothing to do with each other. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Hold, Lock } from '../../src/index.js'
import { fieldDigest } from '../../src/wire/highway-hash.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'

let fixture: ClientFixture

beforeEach(() => {
  fixture = new ClientFixture({ lockWatchdogTimeoutMs: 30_000 })
})

afterEach(() => fixture.close())

const on = (...values: string[]): Lock => fixture.client.getFasterMultiLock('g', values)

describe('a lock inside a lock on values of a group', () => {
  it('a lock on the same values inside a lock on values of a group, in any order, re-enters', async () => {
    await on('a', 'b').withLock(async (outer) => {
      const commands = await fixture.commandsOf(async () => {
        await on('b', 'a', 'b').withLock((inner) => assert.deepEqual([inner.holder, inner.count], [outer.holder, 2]))
      })
      assert.deepEqual(commands, ['faster-multi-lock/set-count', 'faster-multi-lock/set-count'])
      assert.deepEqual(await on('a').getHolders(), [{ holder: outer.holder, holdCount: 1 }])
    })
  })

  it('a lock on other values of the group inside a lock on its values is independent', async () => {
    await on('a', 'b').withLock(async (outer) => {
      await on('c').withLock(async (inner) => {
        assert.notEqual(inner.holder, outer.holder)
        const holders = await on('c', 'b', 'd').getHolders()
        assert.deepEqual(
          new Map(holders.map(({ holder, holdCount }) => [holder, holdCount])),
          new Map([inner, outer].map(({ holder }) => [holder, 1])),
        )
        assert.equal(await outer.isHeld(), true)
      })
    })
  })

  it('a lock on some of the same values inside the lock, or of another kind, is a deadlock', async () => {
    await on('a', 'b').withLock(async () => {
      for (const lock of [on('b', 'c'), on('c', 'a'), on('a'), on('a', 'b', 'c'), fixture.client.getLock('g')]) {
        await assert.rejects(lock.lock(), { code: 'LOCK_SELF_DEADLOCK' })
      }
    })
    await fixture.client.getLock('g').withLock(async () => {
      await assert.rejects(on('a').lock(), { code: 'LOCK_SELF_DEADLOCK' })
    })
  })
})

describe('locks on values of one group', () => {
  it('locks on values of a group that are granted show that only those on the same values are lost', async () => {
    const holds: Hold[] = []
    for (const lock of [on('a'), on('b', 'c'), on('d')]) holds.push(await lock.lock())
    assert.equal(fixture.lost.length, 0)
    fixture.redis.delete('g')
    const later = await on('c', 'd').lock()
    assert.deepEqual(
      holds.map(({ signal }) => signal.aborted),
      [false, true, true],
    )
    later.assertHeld()
    for (const hold of holds) await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    await later.unlock()
  })

  it('locks on values of a group that lost some values are lost, and the rest is free', async () => {
    const hold = await on('a', 'b').lock()
    const others = fixture.other.getFasterMultiLock('g', ['a'])
    assert.equal(await hold.isHeld(), true)
    await others.forceUnlock()
    assert.equal(await hold.isHeld(), false)
    await fixture.clock.advance(10)
    assert.deepEqual(fixture.redis.keys, [])
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
  })

  it('locks on values of a group are renewed as a whole, and lost with the first of their values', async () => {
    const hold = await on('a', 'b').lock()
    await fixture.clock.advance(60_000)
    hold.assertHeld()
    await fixture.other.getFasterMultiLock('g', ['b']).forceUnlock()
    await fixture.clock.advance(10_000)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    await fixture.clock.advance(10)
    assert.deepEqual(fixture.redis.keys, [])
  })

  // Redisson grants what disappears with the group to whoever asks in the last millisecond of it.
  it('locks on values of a group end 10 s before their group does, for waiters come when they end', async () => {
    for (const leaseTimeMs of [10, 60_000]) {
      await on('a', 'b').lock({ leaseTimeMs })
      assert.equal(fixture.redis.pttl('g'), leaseTimeMs + 10_000)
      await fixture.clock.advance(leaseTimeMs)
      assert.equal(await on('a').isLocked(), false)
      assert.equal(fixture.redis.pttl('g'), 10_000)
    }
    const renewed = await on('c').lock()
    await fixture.clock.advance(10_000)
    assert.equal(fixture.redis.pttl('g'), 40_000)
    await renewed.unlock()
    await fixture.clock.advance(40_001)
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('a group of values that Redisson locked ends 10 s after its locks as soon as somebody waits', async () => {
    const digest = fieldDigest('a')
    const endsAt = String(fixture.clock.now() + 1_000)
    fixture.redis.execute(['HSET', 'g', digest, 'java:1', `${digest}:java:1:expire_time`, endsAt])
    fixture.redis.execute(['PEXPIRE', 'g', '1000'])
    assert.equal(await on('b', 'a').tryLock(), null)
    assert.equal(fixture.redis.pttl('g'), 11_000)
    fixture.redis.delete('g')
  })

  it('locks on values of a group are waited for in a queue for each set of values', async () => {
    const other = await fixture.other.getFasterMultiLock('g', ['a']).lock()
    const waiting = on('a').lock()
    await fixture.clock.advance(10)
    const startedAt = fixture.clock.now()
    await (await fixture.clock.until(on('c').lock())).unlock()
    assert.equal(fixture.clock.now(), startedAt)
    await other.unlock()
    await (await fixture.clock.until(waiting)).unlock()
  })

  it('locks on values of a group say who has one of their values', async () => {
    const hold = await on('a', 'b').lock({ label: 'refund' })
    const other = await fixture.other.getFasterMultiLock('g', ['c']).lock()
    await assert.rejects(fixture.clock.until(on('b', 'd').lock({ waitTimeMs: 10 })), { heldBy: /^held by this client/ })
    await assert.rejects(fixture.clock.until(on('c', 'd').lock({ waitTimeMs: 10 })), { heldBy: /^held by (?!this)/ })
    await hold.unlock()
    await other.unlock()
  })

  it('forceUnlock() of values that several owners hold frees all of them', async () => {
    const holds = [await on('a').lock(), await on('b').lock()]
    assert.equal(await on('a', 'b').forceUnlock(), true)
    for (const hold of holds) assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('a lock on values takes at most 500 of them', () => {
    const values = Array.from({ length: 501 }, (_, index) => String(index))
    assert.throws(() => on(...values), { code: 'LOCK_CONFIG', message: /at most 500 values/ })
    on(...values.slice(1))
  })
})
