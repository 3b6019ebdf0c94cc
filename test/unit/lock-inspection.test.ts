/** What Redis says about a lock: its holders, what is left of the lease, and what else may have its name. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type InspectionOptions, inspect } from '../../src/locks/inspection.js'
import type { Inspection, LockKind } from '../../src/locks/kinds/lock-kind.js'
import { timeRead } from '../../src/lua/generated.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'

const WRONG_TYPE = 'WRONGTYPE Operation against a key holding the wrong kind of value'

let fixture: ClientFixture

beforeEach(() => {
  fixture = new ClientFixture({})
})

afterEach(() => fixture.close())

describe('what is left of a lease', () => {
  it('what is left of a lease is 0 of a free lock, and Infinity if its expiry was removed', async () => {
    assert.equal(await fixture.lock.remainingLeaseMs(), 0)
    fixture.redis.set('a', 'somebody:1', 1, 1)
    assert.equal(await fixture.lock.remainingLeaseMs(), 1)
    fixture.redis.delete('a')
    fixture.redis.execute(['HSET', 'a', 'somebody:1', '1'])
    assert.equal(await fixture.lock.remainingLeaseMs(), Number.POSITIVE_INFINITY)
    fixture.redis.delete('a')
  })
})

describe('a question that Redis cannot answer now', () => {
  it('a question is repeated while keys are being moved in a cluster, for commandTimeoutMs', async () => {
    const { clock, lock, port } = fixture
    const moving = { errorReply: 'TRYAGAIN Multiple keys request during rehashing of slot' }
    port.once('lock/inspect', moving)
    port.once('lock/inspect', { errorReply: 'CLUSTERDOWN The cluster is down' })
    assert.equal(await clock.until(lock.isLocked()), false)
    port.fault = () => moving
    const startedAt = clock.now()
    await assert.rejects(clock.until(lock.isLocked()), /^Error: TRYAGAIN/)
    const tookMs = clock.now() - startedAt
    assert(tookMs > 1_500 && tookMs <= 3_000, `${tookMs} ms`)
    port.fault = () => ({ errorReply: 'LOADING' })
    const before = port.count()
    await assert.rejects(clock.until(lock.isLocked()), /LOADING/)
    assert.equal(port.count(), before + 1)
    port.fault = () => undefined
  })
})

describe('isHeld()', () => {
  it('isHeld() is about the holder of the hold: false while another owner has the lock', async () => {
    const hold = await fixture.lock.lock()
    fixture.redis.delete('a')
    const other = await fixture.other.getLock('a').lock()
    assert.equal(await hold.isHeld(), false)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    await other.unlock()
  })
})

describe('each side of a read-write lock', () => {
  it('each side of a read-write lock has its own holders and lease', async () => {
    const lock = fixture.client.getReadWriteLock('rw')
    const [reads, writes] = [lock.readLock(), lock.writeLock()]
    const writer = await writes.lock()
    assert.deepEqual(await writes.getHolders(), [{ holder: writer.holder, holdCount: 1 }])
    assert.equal(await writes.isLocked(), true)
    assert.deepEqual([await reads.isLocked(), await reads.remainingLeaseMs()], [false, 0])
    const reader = await reads.lock({ within: writer })
    assert.deepEqual(await reads.getHolders(), [{ holder: reader.holder, holdCount: 1 }])
    assert.deepEqual(await writes.getHolders(), [{ holder: writer.holder, holdCount: 1 }])
    await writer.unlock()
    assert.deepEqual([await writes.isLocked(), await writes.remainingLeaseMs()], [false, 0])
    assert.equal(await reads.remainingLeaseMs(), 30_000)
    await reader.unlock()
  })
})

describe('a name that something else has', () => {
  it('a name of something else is an error that tells what is there', async () => {
    for (const [found, command] of [
      ['string', ['SET', 'a', 'x']],
      ['list', ['RPUSH', 'a', 'x']],
      ['zset', ['ZADD', 'a', '1', 'x']],
    ] as const) {
      fixture.redis.execute(command)
      await assert.rejects(fixture.lock.lock(), { code: 'LOCK_WRONG_TYPE', lockName: 'a', found })
      fixture.redis.delete('a')
    }
  })

  it('a name of something else is an error without the thing if it is gone, or Redis does not tell', async () => {
    fixture.port.once('lock/acquire', { errorReply: WRONG_TYPE })
    await assert.rejects(fixture.lock.lock(), { code: 'LOCK_WRONG_TYPE', found: undefined, message: /something else/ })
    fixture.port.once('lock/acquire', { errorReply: WRONG_TYPE })
    fixture.port.once('TYPE', { lost: 'reply' })
    await assert.rejects(fixture.clock.until(fixture.lock.lock()), { code: 'LOCK_WRONG_TYPE', found: undefined })
  })
})

describe('an inspection in several parts', () => {
  const holder = (name: string) => ({ holder: `${name}:1`, holdCount: 1 })

  /** @returns whom it finds, and how many parts it read */
  async function inspected(options: InspectionOptions, ...parts: Partial<Inspection>[]) {
    const left = [...parts]
    const kind = {
      inspect: () => timeRead('a'),
      parseInspection: () => ({ holders: [], remainingLeaseMs: 1, ...left.shift() }),
    } as unknown as LockKind
    const { holders, blockers } = await inspect(fixture.lock.context, kind, fixture.lock, options)
    return [[...holders, ...(blockers?.holders ?? [])].map((one) => one.holder), parts.length - left.length]
  }

  it('an inspection ends with the first part that has a holder, or somebody who keeps the holder out', async () => {
    const blockers = { kind: 'write lock', holders: [holder('w')] } as unknown as Required<Inspection>['blockers']
    const [empty, last] = [{ next: '1' }, { holders: [holder('b')] }]
    assert.deepEqual(await inspected({}, empty, { holders: [holder('a')], next: '2' }, last), [['a:1'], 2])
    assert.deepEqual(await inspected({}, empty, { blockers, next: '2' }, last), [['w:1'], 2])
    assert.deepEqual(await inspected({}, empty, empty, last), [['b:1'], 3])
    const all = { listsAll: true }
    assert.deepEqual(await inspected(all, { blockers, next: '1' }, last), [['b:1'], 2])
    assert.deepEqual(await inspected(all, { holders: [holder('a')], next: '1' }, last), [['a:1', 'b:1'], 2])
  })
})
