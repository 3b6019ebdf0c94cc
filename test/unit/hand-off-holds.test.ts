/** The holds before and after a hand-off, and waiters that give up in its turn of the event loop. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Hold } from '../../src/index.js'
import type { Lease } from '../../src/locks/lease.js'
import { ClientFixture, handOffsOf } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'

const LEASE_MS = 3_000

let fixture: ClientFixture

beforeEach(() => {
  fixture = new ClientFixture({ lockWatchdogTimeoutMs: LEASE_MS })
})

afterEach(() => fixture.close())

describe('a hold that was handed off', () => {
  it('a handed-off hold cannot affect the next hold: not release, renew, re-enter, lease or lose it', async () => {
    const [stale, waiting] = await fixture.heldAndWaitedFor(2)
    const staleSignal = stale.signal
    await Promise.all([stale.unlock(), stale.unlock()])
    const hold = (await waiting[0]) as Hold
    const sent = await fixture.commandsOf(async () => {
      await stale.unlock()
      await stale[Symbol.asyncDispose]()
      assert.throws(() => stale.assertHeld(), { code: 'LOCK_NOT_HELD' })
      assert.throws(() => stale.handOver(), { code: 'LOCK_NOT_HELD' })
      await assert.rejects(fixture.lock.lock({ within: stale }), { code: 'LOCK_NOT_HELD' })
      await assert.rejects((stale.lease as Lease).lease(stale, 60_000), { code: 'LOCK_NOT_HELD' })
      assert.equal(await stale.isHeld(), false)
      assert.deepEqual([stale.count, stale.remainingMs()], [0, 0])
    })
    assert.deepEqual(sent, [])
    hold.assertHeld()
    assert.equal(hold.count, 1)
    fixture.redis.flush()
    assert.equal(await hold.isHeld(), false)
    assert.deepEqual([hold.signal.aborted, staleSignal.aborted], [true, false])
    assert.throws(() => stale.assertHeld(), { code: 'LOCK_NOT_HELD' })
    await stale.unlock()
    assert.equal(fixture.lost.length, 1)
    await (await fixture.clock.until(waiting[1] as Promise<Hold>)).unlock()
  })

  it('a handed-off hold is not re-entered by code left running by its callback, which waits', async () => {
    const order: string[] = []
    let stray: Promise<void> | undefined
    const first = fixture.lock.withLock(async () => {
      stray = (async () => {
        await fixture.pause(5)
        const hold = await fixture.lock.lock()
        order.push('stray')
        assert.equal(hold.count, 1)
        await hold.unlock()
      })()
    })
    const second = fixture.lock.withLock(async (hold) => {
      order.push('second')
      await fixture.pause(20)
      assert.equal(hold.count, 1)
      order.push('second is done')
    })
    await fixture.clock.until(Promise.all([first, second]))
    await fixture.clock.until(stray as Promise<void>)
    assert.deepEqual(order, ['second', 'second is done', 'stray'])
  })

  it('a hold that was handed off is not re-entered by a call that waited behind its release', async () => {
    const [hold, waiting] = await fixture.heldAndWaitedFor(1)
    fixture.port.once('lock/reenter', { replyMs: 100 })
    const inner = fixture.lock.lock({ within: hold })
    const late = fixture.lock.lock({ within: hold }) // waits for the reply to the first
    const released = hold.unlock()
    const tooLate = fixture.lock.lock({ within: hold })
    await fixture.clock.advance(200)
    await released
    const holds = [await inner, await late, await tooLate]
    assert.deepEqual(
      holds.map(({ count }) => count),
      [3, 3, 3],
    )
    for (const each of holds) await each.unlock()
    await (await waiting[0])?.unlock()
  })

  it('a hold that was handed off is not re-entered through a later hold with the same holder', async () => {
    const [hold, waiting] = await fixture.heldAndWaitedFor(1)
    const inner = await fixture.lock.lock({ within: hold })
    fixture.port.once('lock/release-one', { replyMs: 10 })
    const steps = [inner.unlock(), hold.unlock()]
    const again = assert.rejects(fixture.lock.lock({ within: hold }), { code: 'LOCK_NOT_HELD' }) // its turn comes too late
    await fixture.clock.advance(30)
    await Promise.all([...steps, again])
    const next = (await waiting[0]) as Hold
    assert.equal(next.holder, hold.holder)
    assert.deepEqual(fixture.redis.holders('a'), [{ holder: hold.holder, count: 1 }])
    await next.unlock()
  })

  it('a handed-off hold is followed by one whose maxHoldMs and warnAfterMs count from then', async () => {
    const long: number[] = []
    fixture.client.on('longHold', ({ heldMs }) => long.push(heldMs))
    const hold = await fixture.lock.lock()
    const next = fixture.lock.lock({ maxHoldMs: 500, warnAfterMs: 200 })
    await fixture.clock.advance(10)
    await hold.unlock()
    const handedOff = await next
    assert.equal(handOffsOf(handedOff), 1)
    assert.equal(handedOff.remainingMs(), 500)
    await fixture.clock.advance(199)
    assert.deepEqual(long, [])
    await fixture.clock.advance(1)
    assert.deepEqual(long, [200])
    await fixture.clock.advance(299)
    handedOff.assertHeld()
    await fixture.clock.advance(1)
    assert.throws(() => handedOff.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'maxHold' })
    await assert.rejects(handedOff.unlock(), { code: 'LOCK_LEASE_LOST' })
    assert.doesNotThrow(() => hold.unlock())
  })

  it('a hold that was handed off does not give its maxHoldMs and warnAfterMs to the next hold', async () => {
    fixture.client.on('longHold', () => assert.fail('it was not a long hold'))
    const hold = await fixture.lock.lock({ maxHoldMs: 500, warnAfterMs: 400 })
    const next = fixture.lock.lock()
    await turn()
    await hold.unlock()
    const handedOff = await next
    await fixture.clock.advance(10_000)
    handedOff.assertHeld()
    await handedOff.unlock()
  })

  it('a handed-off hold leaves the next one the deadline of the lease in Redis, not a new one', async () => {
    const [hold, waiting] = await fixture.heldAndWaitedFor(1)
    await fixture.clock.advance(10)
    const leftMs = hold.remainingMs()
    await hold.unlock()
    const next = (await waiting[0]) as Hold
    assert.equal(next.remainingMs(), leftMs)
    await next.unlock()
  })

  it('a hold that was handed off is followed by a hold that can be handed over to another client', async () => {
    const [stale, waiting] = await fixture.heldAndWaitedFor(2)
    await stale.unlock()
    const hold = (await waiting[0]) as Hold
    const adopted = await fixture.other.adopt('a', hold.handOver())
    await stale.unlock()
    assert.equal(await adopted.isHeld(), true)
    await adopted.unlock()
    const last = await fixture.clock.until(waiting[1] as Promise<Hold>, 100)
    assert.notEqual(last.holder, hold.holder)
    await last.unlock()
  })

  it('a hold that was handed off may have been adopted from another client', async () => {
    const holder = (await fixture.other.getLock('a').lock()).handOver()
    const adopted = await fixture.client.adopt('a', holder)
    const next = fixture.lock.lock()
    await turn()
    assert.deepEqual(await fixture.commandsOf(() => adopted.unlock()), [])
    await (await next).unlock()
  })
})

describe('a waiter that gives up in the turn of the hand-off', () => {
  it('a waiter that gives up in the hand-off gets the lock if the release came first', async () => {
    const controller = new AbortController()
    const [hold, waiting] = await fixture.heldAndWaitedFor(1, { signal: controller.signal })
    const behind = fixture.lock.lock()
    const released = hold.unlock()
    controller.abort('too late')
    const next = (await waiting[0]) as Hold
    next.assertHeld()
    await released
    await next.unlock()
    await (await behind).unlock()
  })

  it('a waiter that gives up in the hand-off leaves the lock to the next one if the abort came first', async () => {
    const controller = new AbortController()
    const [hold, waiting] = await fixture.heldAndWaitedFor(1, { signal: controller.signal })
    const behind = fixture.lock.lock()
    controller.abort('enough')
    const released = hold.unlock()
    await assert.rejects(waiting[0] as Promise<Hold>, (reason) => reason === 'enough')
    await released
    await (await fixture.clock.until(behind, 100)).unlock()
  })

  it('a waiter whose wait time ended in the turn before leaves the lock to the next waiter', async () => {
    const hold = await fixture.lock.lock()
    const waiter = fixture.lock.tryLock({ waitTimeMs: 40 })
    const behind = fixture.lock.lock()
    await fixture.clock.advance(39)
    fixture.clock.after(1, () => void hold.unlock())
    await fixture.clock.advance(1)
    assert.equal(await waiter, null)
    await (await fixture.clock.until(behind, 100)).unlock()
  })

  it('a waiter gets the lock if it is released 1 ms before the end of its wait time', async () => {
    const hold = await fixture.lock.lock()
    const waiter = fixture.lock.tryLock({ waitTimeMs: 40 })
    await fixture.clock.advance(39)
    await hold.unlock()
    fixture.clock.block(10)
    const outcome = await waiter
    outcome?.assertHeld()
    assert.equal(outcome?.count, 1)
    await outcome?.unlock()
  })

  it('a waiter that pauses after an error gets the lock 1 ms before the end of its wait time', async () => {
    const hold = await fixture.lock.lock()
    fixture.port.once('lock/acquire', { errorReply: 'BUSY Redis is busy running a script' })
    const waiter = fixture.lock.tryLock({ waitTimeMs: 10 })
    await fixture.clock.advance(9)
    const lease = hold.lease as Lease
    const handOffTo = lease.handOffTo.bind(lease)
    lease.handOffTo = (terms) => {
      const next = handOffTo(terms)
      fixture.clock.block(10) // the deadline passes before the waiter runs
      return next
    }
    await hold.unlock()
    const outcome = await waiter
    outcome?.assertHeld()
    assert.equal(outcome?.holder, hold.holder)
    await outcome?.unlock()
  })

  it('a waiter gets no hand-off after its wait time, even if its timer is late', async () => {
    const hold = await fixture.lock.lock()
    const waiter = fixture.lock.tryLock({ waitTimeMs: 40 })
    const behind = fixture.lock.lock()
    await turn()
    fixture.clock.block(41)
    assert.deepEqual(await fixture.commandsOf(() => hold.unlock()), ['lock/release', 'lock/acquire'])
    await (await waiter)?.unlock()
    await (await fixture.clock.until(behind, 100)).unlock()
  })

  it('a waiter that gives up never loses the lock, in 200 orders of release and aborts', async () => {
    for (let round = 0; round < 200; round++) {
      const hold = await fixture.clock.until(fixture.lock.lock())
      const controllers = Array.from({ length: 3 }, () => new AbortController())
      const waiters = controllers.map(async ({ signal }) => await fixture.lock.lock({ signal }).catch(() => undefined))
      const last = fixture.lock.lock()
      if (round % 2) await turn()
      for (let step = 0; step < round % 7; step++) await Promise.resolve()
      const actions = [
        () => void hold.unlock(),
        ...controllers.map((controller, index) => () => (round >> index) & 1 && controller.abort()),
      ]
      for (let shift = 0; shift < round % 4; shift++) actions.push(actions.shift() as () => void)
      for (const action of actions) {
        action()
        if (round % 3 === 0) await Promise.resolve()
      }
      for (const waiter of waiters) void fixture.clock.until(waiter, 100).then((each) => each?.unlock())
      const end = await fixture.clock.until(last, 200)
      await end.unlock()
    }
  })
})

describe('a write lock', () => {
  it('a write lock is not handed off while its owner still reads', async () => {
    const lock = fixture.client.getReadWriteLock('rw')
    const write = await lock.writeLock().lock()
    const read = await lock.readLock().lock({ within: write })
    const next = lock.writeLock().lock()
    await turn()
    await write.unlock()
    assert.deepEqual(await lock.writeLock().getHolders(), [])
    read.assertHeld()
    await read.unlock()
    const hold = await fixture.clock.until(next, 1_000)
    assert.notEqual(hold.holder, write.holder)
    await hold.unlock()
  })

  it('a write lock is not handed off while a reader waits to join it', async () => {
    const lock = fixture.client.getReadWriteLock('rw')
    const write = await lock.writeLock().lock()
    const next = lock.writeLock().lock()
    await turn()
    const abort = new AbortController()
    fixture.port.once('read-lock/acquire', { replyMs: 5 })
    const aborted = assert.rejects(lock.readLock().lock({ within: write, signal: abort.signal }), /enough/)
    const reading = lock.readLock().lock({ within: write }) // tries again when the other one has given up
    await turn()
    abort.abort(new Error('enough'))
    await aborted
    await fixture.clock.advance(5)
    await write.unlock()
    const hold = await fixture.clock.until(next)
    assert.notEqual(hold.holder, write.holder)
    await hold.unlock()
    await (await fixture.clock.until(reading)).unlock()
  })
})
