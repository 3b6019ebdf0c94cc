/** The hold of a lock made of several: how long it lasts, and what its release makes of the losses of single ones. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type Client, getMultiLock, getRedLock, type Hold, LeaseLostError, type LockOptions } from '../../src/index.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { fakeClient } from '../support/fakes/fake-client.js'
import { turn } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'

let fixture: ClientFixture
let longHolds: { hold: Hold; heldMs: number }[]

beforeEach(() => {
  fixture = new ClientFixture({ lockWatchdogTimeoutMs: 30_000 })
  longHolds = []
  fixture.client.on('longHold', (report) => longHolds.push(report))
})

afterEach(() => fixture.close())

async function take(options: LockOptions = {}): Promise<Hold> {
  const lock = getMultiLock(fixture.client.getLock('a'), fixture.client.getFairLock('b'), fixture.client.getLock('c'))
  return await fixture.clock.until(lock.lock(options))
}

/** Somebody else deletes a key. */
function steal(name: string): void {
  fixture.redis.delete(name)
}

/** What of a hold was lost, each time that its loss was reported. */
function lossesOf({ lockName }: Hold): (string | undefined)[][] {
  const losses = fixture.lost.filter((lost) => lost.lockName === lockName)
  return losses.map(({ parts }) => parts.map((part) => part.lockName))
}

describe('a hold on several locks', () => {
  it('a hold on several locks is renewed as long as it is held, and frees all of them', async () => {
    const hold = await take()
    await fixture.clock.advance(300_000)
    hold.assertHeld()
    assert.equal(hold.count, 1)
    assert.equal(await hold.isHeld(), true)
    assert.deepEqual(fixture.redis.keys.sort(), ['a', 'b', 'c'])
    assert(hold.remainingMs() > 19_000 && hold.remainingMs() < 30_000)
    await hold.unlock()
    assert.deepEqual([hold.remainingMs(), hold.count, await hold.isHeld()], [0, 0, false])
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_NOT_HELD' })
    assert.equal(hold.signal.aborted, false)
    await hold.unlock()
    assert.deepEqual(fixture.lost, [])
  })

  it('a hold on several locks has the holders and the owner of its members', async () => {
    const hold = await take()
    assert.deepEqual(
      hold.holder.split(', ').map((holder) => holder.slice(0, -1)),
      Array(3).fill(`${fixture.client.id}:`),
    )
    assert.equal(String(hold.ownerId), hold.holder.split(', ')[0]?.split(':')[1])
    await hold.unlock()
  })

  it('a hold on several locks is lost with any of its locks, at once, with what was lost', async () => {
    const hold = await take()
    steal('b')
    await fixture.clock.advance(10_000)
    assert.deepEqual(lossesOf(hold), [['b']], 'before anybody looks')
    assert.equal(hold.signal.aborted, true)
    assert.throws(
      () => hold.assertHeld(),
      (error) => error instanceof LeaseLostError && error.reason === 'gone' && error.parts[0]?.lockName === 'b',
    )
    assert.throws(() => hold.assertHeld(), {
      message: /^Lock "multi-lock of [^:]*" is no longer held by .*: it lost "b"/,
    })
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    assert.deepEqual(fixture.redis.keys, [], 'the others are free')
  })

  it('a hold on several locks is lost once, however many of its locks are', async () => {
    const hold = await take()
    for (const name of ['a', 'b', 'c']) steal(name)
    await fixture.clock.advance(10_000)
    assert.equal(lossesOf(hold).length, 1)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
  })

  it('a hold on several locks whose release finds some of them gone was lost', async () => {
    for (const names of [['c'], ['a', 'b'], ['a', 'b', 'c']]) {
      const hold = await take()
      for (const name of names) steal(name)
      await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
      assert.deepEqual(
        lossesOf(hold).map(([, ...others]) => others.length),
        [names.length - 1],
      )
      assert.deepEqual(fixture.redis.keys, [])
      fixture.lost.length = 0
    }
  })

  it("a hold on several locks rejects with a member's release error, and frees the others", async () => {
    const hold = await take()
    fixture.port.once('fair-lock/release', { errorReply: 'NOPERM no permissions' })
    await assert.rejects(fixture.clock.until(hold.unlock()), /NOPERM/)
    assert.deepEqual(
      fixture.redis.keys.filter((name) => name === 'a' || name === 'c'),
      [],
    )
    assert.deepEqual(fixture.lost, [])
    await fixture.clock.advance(60_000)
  })

  it('a hold on several locks is not held if Redis does not know one, and unknown without a reply', async () => {
    const hold = await take()
    fixture.port.once('lock/inspect', { lost: 'reply' })
    await assert.rejects(fixture.clock.until(hold.isHeld()), { code: 'LOCK_OUTCOME_UNKNOWN' })
    hold.assertHeld()
    steal('a')
    assert.equal(await hold.isHeld(), false)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    const mixed = await fixture.clock.until(
      getMultiLock(fixture.client.getLock('a'), fixture.other.getLock('b')).lock(),
    )
    fixture.otherPort.once('lock/inspect', { lost: 'reply' })
    await assert.rejects(fixture.clock.until(mixed.isHeld()), { code: 'LOCK_OUTCOME_UNKNOWN' }, 'the other is held')
    await mixed.unlock()
  })

  it('a hold on several locks ends when they are released one by one, as ported Java code may do', async () => {
    await fixture.client.runInScope(async () => {
      const hold = await take()
      await fixture.client.getLock('a').unlock()
      assert.equal(hold.signal.aborted, true)
      await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone', parts: [] })
      assert.deepEqual(fixture.redis.keys, [])
    })
  })

  it('a hold on several locks ends when one of them is force-unlocked', async () => {
    const a = fixture.client.getLock('a')
    const hold = await take()
    assert.equal(await a.forceUnlock(), true)
    assert.throws(() => hold.assertHeld(), { reason: 'forced' })
    await assert.rejects(hold.unlock(), { reason: 'forced' })
  })

  it('a hold on several locks ends at maxHoldMs after the last grant; then its leases run out', async () => {
    const hold = await take({ maxHoldMs: 45_000 })
    assert(hold.remainingMs() <= 30_000)
    await fixture.clock.advance(40_000)
    assert.equal(hold.remainingMs(), 5_000)
    await fixture.clock.advance(4_999)
    hold.assertHeld()
    await fixture.clock.advance(1)
    assert.deepEqual(
      fixture.lost.map(({ lockName, reason }) => [lockName, reason]),
      [[hold.lockName, 'maxHold']],
      'before anybody looks',
    )
    assert.equal(hold.signal.aborted, true)
    assert.throws(() => hold.assertHeld(), { reason: 'maxHold', parts: [] })
    await fixture.clock.advance(30_000)
    assert.deepEqual(fixture.redis.keys, [])
    await assert.rejects(hold.unlock(), { reason: 'maxHold' })
    assert.equal(fixture.lost.length, 1)
  })

  it('a hold on several locks ends at maxHoldMs although the event loop was blocked', async () => {
    const hold = await take({ maxHoldMs: 10_000 })
    fixture.clock.block(10_000)
    assert.equal(hold.remainingMs(), 0)
    assert.throws(() => hold.assertHeld(), { reason: 'maxHold' })
    await assert.rejects(hold.unlock(), { reason: 'maxHold' })
    await turn()
    assert.deepEqual(fixture.redis.keys, [], 'unlock() frees them all the same')
  })

  it('a hold that maxHoldMs has ended does not free by its late unlock what its scope took next', async () => {
    const members = [fixture.client.getLock('a'), fixture.client.getFairLock('b'), fixture.client.getLock('c')]
    for (const lock of [getMultiLock(...members), getRedLock(...members)]) {
      await fixture.client.runInScope(async () => {
        const over = await fixture.clock.until(lock.lock({ maxHoldMs: 10_000 }))
        const nested = await fixture.clock.until(lock.lock())
        await fixture.clock.advance(10_000)
        assert.equal(over.signal.aborted, true)
        await nested.unlock()
        const next = await fixture.clock.until(lock.lock())
        await assert.rejects(over.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'maxHold' })
        await fixture.clock.advance(1)
        assert.equal(await next.isHeld(), true)
        await next.unlock()
      })
    }
  })

  it('a hold on several locks is reported once after warnAfterMs, and not after its release', async () => {
    const hold = await take({ warnAfterMs: 5_000 })
    await fixture.clock.advance(4_999)
    assert.deepEqual(longHolds, [])
    await fixture.clock.advance(1)
    assert.deepEqual(longHolds, [{ hold, heldMs: 5_000 }])
    await fixture.clock.advance(60_000)
    assert.equal(longHolds.length, 1)
    await hold.unlock()
    const brief = await take({ warnAfterMs: 5_000, maxHoldMs: 6_000 })
    await brief.unlock()
    await fixture.clock.advance(60_000)
    assert.equal(longHolds.length, 1)
    assert.deepEqual(fixture.lost, [])
  })

  it('a hold on several locks keeps no process alive for its limits', async () => {
    const plain = await take()
    const { keepingAlive } = fixture.clock
    await plain.unlock()
    const limited = await take({ maxHoldMs: 6_000, warnAfterMs: 5_000 })
    assert.equal(fixture.clock.keepingAlive, keepingAlive)
    await limited.unlock()
  })

  it('a hold on several locks with its own lease is extended whole, and cannot be handed over', async () => {
    const hold = await take({ leaseTimeMs: 10_000 })
    await fixture.clock.advance(5_000)
    await hold.extend(20_000)
    assert(hold.remainingMs() > 19_000)
    assert.throws(() => hold.handOver(), { code: 'LOCK_CONFIG', path: 'handOver', lockName: hold.lockName })
    fixture.port.fault = ({ name }) => (name === 'lock/renew' ? { errorReply: 'NOPERM no permissions' } : undefined)
    await assert.rejects(hold.extend(60_000), /NOPERM/)
    fixture.port.fault = () => undefined
    assert(hold.remainingMs() <= 20_000)
    await hold.unlock()
  })

  it('a hold with its own lease has all of it when the last lock is taken, however long that takes', async () => {
    const other = await fixture.other.getFairLock('b').lock()
    const taking = take({ leaseTimeMs: 10_000 })
    await fixture.clock.advance(25_000)
    await other.unlock()
    await turn()
    const hold = await taking
    assert(hold.remainingMs() > 9_000)
    assert.deepEqual(
      ['a', 'b', 'c'].map((name) => fixture.redis.keys.includes(name)),
      [true, true, true],
    )
    await fixture.clock.advance(10_000)
    assert.throws(() => hold.assertHeld(), { reason: 'expired' })
    await assert.rejects(hold.unlock(), { reason: 'expired' })
  })
})

describe('a hold on a majority of three servers', () => {
  let ports: FakePort[]
  let clients: Client[]
  let hold: Hold

  beforeEach(async () => {
    ports = Array.from({ length: 3 }, () => new FakePort(fixture.clock))
    clients = ports.map((port) => fakeClient(fixture.clock, port))
    const red = getRedLock(...clients.map((client) => client.getLock('a')))
    hold = await fixture.clock.until(red.lock({ leaseTimeMs: 10_000 }))
  })

  afterEach(async () => {
    await fixture.clock.until(Promise.all(clients.map((client) => client.close())))
    assert.deepEqual(
      ports.flatMap(({ redis }) => redis.keys),
      [],
    )
  })

  it('a hold on a majority is held if most say so, and unknown if it depends on a silent server', async () => {
    ports[0]?.once('lock/inspect', { lost: 'reply' })
    assert.equal(await fixture.clock.until(hold.isHeld()), true)
    ports[0]?.once('lock/inspect', { lost: 'reply' })
    ports[1]?.redis.delete('a')
    await assert.rejects(fixture.clock.until(hold.isHeld()), { code: 'LOCK_OUTCOME_UNKNOWN' })
    hold.assertHeld()
    await hold.unlock()
  })

  it('a hold on a majority is released although one of them lost it, and another one fails', async () => {
    ports[0]?.redis.delete('a')
    ports[1]?.once('lock/release-queued', { errorReply: 'ERR out of order' })
    await fixture.clock.until(hold.unlock())
    await fixture.clock.advance(10_000)
  })

  it('a hold on a majority was lost if its release finds that most of them lost it', async () => {
    const lost: LeaseLostError[] = []
    clients[0]?.on('lost', ({ error }) => lost.push(error))
    for (const port of ports.slice(1)) port.redis.delete('a')
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert.deepEqual(
      lost.map(({ parts }) => parts.length),
      [2],
    )
  })

  it('a hold on a majority lasts as long as most of its leases, whichever these are', async () => {
    const leftMs = hold.remainingMs()
    for (const [index, port] of ports.entries()) {
      if (index !== 1) port.once('lock/renew', { errorReply: 'ERR out of order' })
    }
    await assert.rejects(fixture.clock.until(hold.extend(60_000)), /out of order/)
    assert.equal(hold.remainingMs(), leftMs)
    await hold.unlock()
  })
})
