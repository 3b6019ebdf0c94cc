/** Locks on several values of one group: which of them are the same, exclude each other, or have nothing to do with each other. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Hold, Lock } from '../../src/index.js'
import { fieldDigest } from '../../src/wire/highway-hash.js'
import { ClientBench } from '../support/fakes/client-bench.js'

let bench: ClientBench

beforeEach(() => {
  bench = new ClientBench({ lockWatchdogTimeoutMs: 30_000 })
})

afterEach(() => bench.close())

const on = (...values: string[]): Lock => bench.client.getFasterMultiLock('g', values)

describe('inside a lock on values of a group, a lock', () => {
  it('on the same values, in any order, re-enters', async () => {
    await on('a', 'b').withLock(async (outer) => {
      const commands = await bench.commandsOf(async () => {
        await on('b', 'a', 'b').withLock((inner) => assert.deepEqual([inner.holder, inner.count], [outer.holder, 2]))
      })
      assert.deepEqual(commands, ['faster-multi-lock/set-count', 'faster-multi-lock/set-count'])
      assert.deepEqual(await on('a').getHolders(), [{ holder: outer.holder, holdCount: 1 }])
    })
  })

  it('on other values of the group is independent', async () => {
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

  it('on some of them, or of another kind with the name of the group, is a deadlock', async () => {
    await on('a', 'b').withLock(async () => {
      for (const lock of [on('b', 'c'), on('c', 'a'), on('a'), on('a', 'b', 'c'), bench.client.getLock('g')]) {
        await assert.rejects(lock.lock(), { code: 'LOCK_SELF_DEADLOCK' })
      }
    })
    await bench.client.getLock('g').withLock(async () => {
      await assert.rejects(on('a').lock(), { code: 'LOCK_SELF_DEADLOCK' })
    })
  })
})

describe('locks on values of one group', () => {
  it('that are granted show that only those on the same values are lost', async () => {
    const holds: Hold[] = []
    for (const lock of [on('a'), on('b', 'c'), on('d')]) holds.push(await lock.lock())
    assert.equal(bench.lost.length, 0)
    bench.redis.delete('g')
    const later = await on('c', 'd').lock()
    assert.deepEqual(
      holds.map(({ signal }) => signal.aborted),
      [false, true, true],
    )
    later.assertHeld()
    for (const hold of holds) await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    await later.unlock()
  })

  it('that lost some of their values are lost, and what is left of them is free', async () => {
    const hold = await on('a', 'b').lock()
    const others = bench.other.getFasterMultiLock('g', ['a'])
    assert.equal(await hold.isHeld(), true)
    await others.forceUnlock()
    assert.equal(await hold.isHeld(), false)
    await bench.clock.advance(10)
    assert.deepEqual(bench.redis.keys, [])
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
  })

  it('are renewed as a whole, and lost with the first of their values', async () => {
    const hold = await on('a', 'b').lock()
    await bench.clock.advance(60_000)
    hold.assertHeld()
    await bench.other.getFasterMultiLock('g', ['b']).forceUnlock()
    await bench.clock.advance(10_000)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    await bench.clock.advance(10)
    assert.deepEqual(bench.redis.keys, [])
  })

  // Redisson grants what disappears with the group to whoever asks in the last millisecond of it.
  it('end 10 s before their group does, for waiters come when they end', async () => {
    for (const leaseTimeMs of [10, 60_000]) {
      await on('a', 'b').lock({ leaseTimeMs })
      assert.equal(bench.redis.pttl('g'), leaseTimeMs + 10_000)
      await bench.clock.advance(leaseTimeMs)
      assert.equal(await on('a').isLocked(), false)
      assert.equal(bench.redis.pttl('g'), 10_000)
    }
    const renewed = await on('c').lock()
    await bench.clock.advance(10_000)
    assert.equal(bench.redis.pttl('g'), 40_000)
    await renewed.unlock()
    await bench.clock.advance(40_001)
    assert.deepEqual(bench.redis.keys, [])
  })

  it('of Redisson do so as soon as somebody waits for them', async () => {
    const digest = fieldDigest('a')
    const endsAt = String(bench.clock.now() + 1_000)
    bench.redis.execute(['HSET', 'g', digest, 'java:1', `${digest}:java:1:expire_time`, endsAt])
    bench.redis.execute(['PEXPIRE', 'g', '1000'])
    assert.equal(await on('b', 'a').tryLock(), null)
    assert.equal(bench.redis.pttl('g'), 11_000)
    bench.redis.delete('g')
  })

  it('are waited for in a queue for each set of values', async () => {
    const other = await bench.other.getFasterMultiLock('g', ['a']).lock()
    const waiting = on('a').lock()
    await bench.clock.advance(10)
    const startedAt = bench.clock.now()
    await (await bench.clock.until(on('c').lock())).unlock()
    assert.equal(bench.clock.now(), startedAt)
    await other.unlock()
    await (await bench.clock.until(waiting)).unlock()
  })

  it('say who has one of their values', async () => {
    const hold = await on('a', 'b').lock({ label: 'refund' })
    const other = await bench.other.getFasterMultiLock('g', ['c']).lock()
    await assert.rejects(bench.clock.until(on('b', 'd').lock({ waitTimeMs: 10 })), { heldBy: /^held by this client/ })
    await assert.rejects(bench.clock.until(on('c', 'd').lock({ waitTimeMs: 10 })), { heldBy: /^held by (?!this)/ })
    await hold.unlock()
    await other.unlock()
  })
})
