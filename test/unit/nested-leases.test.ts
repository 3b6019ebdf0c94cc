/** Holds of one owner with different leases: none counts on more than Redis keeps, and what Redis keeps can be released. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type BaseLock, type Client, getRedLock, type Hold, type Lock } from '../../src/index.js'
import type { HoldTerms } from '../../src/locks/hold.js'
import { HoldDeadlines, leasedUntil, timesRequested } from '../../src/locks/lease-deadline.js'
import type { ThreadClient } from '../../src/watchdog/thread-client.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'
import { kinds } from '../support/kinds.js'

const WATCHDOG_MS = 30_000
const OUTER_MS = 5_000
/** By how much a hold ends before its lease in Redis: see `leasedUntil`. */
const marginMs = (leaseMs: number): number => leaseMs / 100 + 3
const REENTRIES = /reenter|set-count|extend/

interface Case {
  readonly name: string
  readonly isReentrant: boolean
  lock(client: Client): BaseLock
  parts(client: Client): readonly Lock[]
}

const redParts = (client: Client): readonly Lock[] => ['x', 'y', 'z'].map((name) => client.getLock(name))
const CASES: readonly Case[] = [
  ...kinds.map(({ name, isReentrant, lock, parts }) => ({
    name,
    isReentrant,
    lock: (client: Client) => lock(client, 'a'),
    parts: (client: Client) => parts(client, 'a'),
  })),
  { name: 'red lock', isReentrant: true, lock: (client) => getRedLock(...redParts(client)), parts: redParts },
]

let fixture: ClientFixture

beforeEach(() => {
  fixture = new ClientFixture({ commandTimeoutMs: 3_000 })
})

afterEach(() => fixture.close())

const inScope = <T>(fn: () => Promise<T>): Promise<T> => fixture.client.runInScope(fn)

/** The shortest lease that Redis keeps for a part, ms. */
async function leftInRedis({ parts }: Case): Promise<number> {
  return Math.min(...(await Promise.all(parts(fixture.other).map((part) => part.remainingLeaseMs()))))
}

async function isFree({ parts }: Case): Promise<boolean> {
  return (await Promise.all(parts(fixture.other).map((part) => part.isLocked()))).every((isLocked) => !isLocked)
}

/** Fails unless a hold counts on what Redis keeps, except for the margin. */
async function assertAgrees(hold: Hold, of: Case): Promise<void> {
  const leftMs = await leftInRedis(of)
  const seen = `${hold.remainingMs()} ms, and ${leftMs} in Redis`
  assert(hold.remainingMs() <= leftMs && hold.remainingMs() >= leftMs - marginMs(WATCHDOG_MS), seen)
}

for (const of of CASES.filter(({ isReentrant }) => isReentrant)) {
  describe(`the outer hold of a ${of.name}, once a nested one with a longer lease has been released`, () => {
    for (const [title, leaseTimeMs] of [
      ['that of the watchdog', undefined],
      ['one of its own', 8_000],
    ] as const) {
      it(`an outer hold lasts as long as Redis keeps the lock: ${title} (${of.name})`, () =>
        inScope(async () => {
          const outer = await of.lock(fixture.client).lock({ leaseTimeMs: OUTER_MS })
          await fixture.clock.advance(1_000)
          const inner = await of.lock(fixture.client).lock({ leaseTimeMs })
          await fixture.clock.advance(1_000)
          await inner.unlock()
          await assertAgrees(outer, of)
          await fixture.clock.advance(OUTER_MS)
          outer.assertHeld()
          assert.equal(await outer.isHeld(), true)
          await assertAgrees(outer, of)
          await outer.unlock()
          assert.equal(await isFree(of), true)
          assert.deepEqual(fixture.lost, [])
        }))
    }

    it(`an outer hold renewed before a nested one ends is released by lock.unlock(): ${of.name}`, () =>
      inScope(async () => {
        const parts = of.parts(fixture.client)
        for (const part of parts) await part.lock({ leaseTimeMs: OUTER_MS })
        for (const part of parts) await part.lock()
        await fixture.clock.advance(WATCHDOG_MS)
        for (const part of parts) await part.unlock()
        await fixture.clock.advance(OUTER_MS + 1_000)
        for (const part of parts) assert.equal(await part.isHeldByCurrentOwner(), true)
        for (const part of parts) await part.unlock()
        assert.equal(await isFree(of), true)
        assert.deepEqual(fixture.lost, [])
      }))

    it(`an outer hold ends with the lease that is left, which nothing renews: ${of.name}`, () =>
      inScope(async () => {
        const outer = await of.lock(fixture.client).lock({ leaseTimeMs: OUTER_MS })
        await (await of.lock(fixture.client).lock()).unlock()
        await fixture.clock.advance(WATCHDOG_MS - marginMs(WATCHDOG_MS))
        outer.assertHeld()
        await fixture.clock.advance(marginMs(WATCHDOG_MS))
        await assert.rejects(outer.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
        assert.equal(await isFree(of), true)
        await turn()
      }))
  })

  it(`the inner hold of a ${of.name} lasts as long as Redis keeps the lock for an outer one that was released first`, () =>
    inScope(async () => {
      const outer = await of.lock(fixture.client).lock()
      const inner = await of.lock(fixture.client).lock({ leaseTimeMs: OUTER_MS })
      await outer.unlock()
      await assertAgrees(inner, of)
      await fixture.clock.advance(OUTER_MS + 1_000)
      await inner.unlock()
      assert.equal(await isFree(of), true)
      assert.deepEqual(fixture.lost, [])
    }))

  it(`lock.unlock() of a ${of.name} frees what a re-entry without a reply has left in Redis, although the hold expired`, () =>
    inScope(async () => {
      const parts = of.parts(fixture.client)
      for (const part of parts) await part.lock({ leaseTimeMs: WATCHDOG_MS - 10_000 })
      for (const part of parts) {
        fixture.port.fault = ({ name }) => (REENTRIES.test(name) ? { lost: 'reply' } : undefined)
        await assert.rejects(fixture.clock.until(part.lock({ waitTimeMs: 100 })))
        fixture.port.fault = () => undefined
      }
      await fixture.clock.advance(WATCHDOG_MS - 10_000)
      assert((await leftInRedis(of)) > 0)
      for (const part of parts) {
        await assert.rejects(part.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
        await turn()
        assert.equal(await part.isLocked(), false)
        await assert.rejects(part.unlock(), { code: 'LOCK_NOT_HELD' })
      }
      // A release is repeated until the lease has ended: a copy of the re-entry may arrive after it.
      await fixture.clock.advance(WATCHDOG_MS)
    }))
}

for (const { name, parts } of CASES) {
  it(`lock.unlock() of a ${name} that maxHoldMs has ended frees it`, () =>
    inScope(async () => {
      for (const part of parts(fixture.client)) {
        await part.lock({ maxHoldMs: 1_000 })
        await fixture.clock.advance(1_000)
        assert.equal(await part.isLocked(), true)
        await assert.rejects(part.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'maxHold' })
        await turn()
        assert.equal(await part.isLocked(), false)
      }
      await fixture.clock.advance(WATCHDOG_MS)
    }))
}

describe('lock.unlock() in a scope', () => {
  it('lock.unlock() in a scope releases the holds in the order of the calls, despite a lost one', () =>
    inScope(async () => {
      const outer = await fixture.lock.lock()
      const inner = await fixture.lock.lock({ leaseTimeMs: 1_000 })
      await fixture.clock.advance(1_000)
      assert.equal(inner.signal.aborted, true)
      await assert.rejects(fixture.lock.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
      fixture.assertSafe(outer)
      await fixture.lock.unlock()
      assert.deepEqual(fixture.redis.keys, [])
      await assert.rejects(fixture.lock.unlock(), { code: 'LOCK_NOT_HELD' })
    }))

  it('lock.unlock() in a scope does not find a hold that its own unlock() has found lost', () =>
    inScope(async () => {
      const hold = await fixture.lock.lock()
      fixture.redis.delete('a')
      await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
      await assert.rejects(fixture.lock.unlock(), { code: 'LOCK_NOT_HELD' })
    }))

  it('twice at the same time releases both holds, although a command is in flight', () =>
    inScope(async () => {
      const outer = await fixture.lock.lock({ leaseTimeMs: OUTER_MS })
      await fixture.lock.lock()
      fixture.port.fault = () => ({ requestMs: 5, replyMs: 5 })
      const extending = outer.extend(OUTER_MS)
      await fixture.clock.until(Promise.all([fixture.lock.unlock(), fixture.lock.unlock(), extending]))
      assert.deepEqual(fixture.redis.keys, [])
    }))
})

describe('a write around a read of the same owner', () => {
  const lock = () => fixture.client.getReadWriteLock('a')
  const leftMs = () => fixture.other.getReadWriteLock('a').writeLock().remainingLeaseMs()

  it('a write around a read lasts as long as Redis keeps it for the read, while and after it lasts', () =>
    inScope(async () => {
      const write = await lock().writeLock().lock({ leaseTimeMs: OUTER_MS })
      const read = await lock().readLock().lock()
      await fixture.clock.advance(WATCHDOG_MS)
      write.assertHeld()
      await read.unlock()
      assert(write.remainingMs() <= (await leftMs()))
      await fixture.clock.advance(OUTER_MS + 1_000)
      assert.equal(await write.isHeld(), true)
      await write.unlock()
      assert.equal(await lock().writeLock().isLocked(), false)
      assert.deepEqual(fixture.lost, [])
    }))

  it('an expired write around a read is freed although the read had no reply and asked for longer', () =>
    inScope(async () => {
      await lock().writeLock().lock({ leaseTimeMs: OUTER_MS })
      fixture.port.fault = ({ name }) => (name === 'read-lock/acquire' ? { lost: 'reply' } : undefined)
      await assert.rejects(fixture.clock.until(lock().readLock().tryLock()))
      fixture.port.fault = ({ name }) => (name === 'write-lock/release' ? { lost: 'request' } : undefined)
      await fixture.clock.advance(OUTER_MS)
      await assert.rejects(lock().writeLock().unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
      await fixture.clock.advance(OUTER_MS)
      fixture.port.fault = () => undefined
      await fixture.clock.advance(OUTER_MS)
      assert.equal(await lock().writeLock().isLocked(), false)
      await fixture.clock.advance(WATCHDOG_MS)
    }))
})

describe('what an outer hold has of a nested one', () => {
  it('an outer hold has from a nested one a renewal under way when that was released', async () => {
    const outer = await fixture.lock.lock({ leaseTimeMs: OUTER_MS })
    const inner = await fixture.lock.lock({ within: outer })
    fixture.port.once('lock/renew', { replyMs: 100 })
    await fixture.clock.advance(WATCHDOG_MS / 3 + 50)
    await inner.unlock()
    await fixture.clock.advance(100)
    assert(outer.remainingMs() <= fixture.redis.pttl('a'))
    assert(outer.remainingMs() > fixture.redis.pttl('a') - marginMs(WATCHDOG_MS))
    await outer.unlock()
  })

  it('an outer hold has from a nested one what the watchdog thread renewed during a blocked loop', async () => {
    const outer = await fixture.lock.lock({ leaseTimeMs: OUTER_MS })
    const inner = await fixture.lock.lock({ within: outer })
    const { watchdog } = fixture.lock.context
    const renewedAt = fixture.clock.now() + WATCHDOG_MS - 1_000
    const thread: Partial<ThreadClient> = {
      catchUp: (lease) => lease.renewed(renewedAt),
      watch: () => {},
      unwatch: () => false,
      heartbeat: () => {},
    }
    fixture.clock.block(WATCHDOG_MS - 1_000)
    fixture.redis.execute(['PEXPIRE', 'a', String(WATCHDOG_MS)])
    watchdog.threadClient = thread as ThreadClient
    await inner.unlock()
    watchdog.threadClient = undefined
    await fixture.clock.advance(WATCHDOG_MS - marginMs(WATCHDOG_MS))
    fixture.assertSafe(outer)
    await outer.unlock()
  })

  it('an outer hold has from a nested one no more than Redis keeps if that had no reply', async () => {
    const outer = await fixture.lock.lock({ leaseTimeMs: OUTER_MS })
    fixture.port.fault = ({ name }) => (name === 'lock/reenter' ? { lost: 'request' } : undefined)
    await assert.rejects(fixture.clock.until(fixture.lock.lock({ within: outer, waitTimeMs: 100 })))
    fixture.port.fault = () => undefined
    assert(outer.remainingMs() <= fixture.redis.pttl('a'))
    await outer.unlock()
  })

  it('an outer hold ends with its own maxHoldMs, and outlives that of the nested one', async () => {
    const outer = await fixture.lock.lock({ leaseTimeMs: OUTER_MS })
    const inner = await fixture.lock.lock({ within: outer, maxHoldMs: 1_000 })
    await fixture.clock.advance(OUTER_MS + 1_000)
    await assert.rejects(inner.unlock(), { reason: 'maxHold' })
    fixture.assertSafe(outer)
    await outer.unlock()

    const limited = await fixture.lock.lock({ leaseTimeMs: OUTER_MS, maxHoldMs: 2_000 })
    await (await fixture.lock.lock({ within: limited })).unlock()
    await fixture.clock.advance(2_000)
    await assert.rejects(limited.unlock(), { reason: 'maxHold' })
    await turn()
    assert.deepEqual(fixture.redis.keys, [])
    await fixture.clock.advance(WATCHDOG_MS)
  })
})

it('a renewal of reads that all have leases of their own prolongs neither them nor the write around them', () => {
  const write = new HoldDeadlines<string>(undefined)
  const reads = new HoldDeadlines<string>(write)
  for (const [holds, leaseTimeMs] of [
    [write, 2_000],
    [reads, 1_000],
  ] as const) {
    holds.set('one', timesRequested(0, { leaseTimeMs } as HoldTerms, WATCHDOG_MS))
    holds.renew(10, WATCHDOG_MS)
    assert.deepEqual([holds.get('one')?.leasedUntil, holds.renewableUntil], [leasedUntil(0, leaseTimeMs), 0])
  }
  assert.equal(write.get('one')?.leasedUntil, leasedUntil(0, 2_000))
})
