/** The holds before and after a hand-off, and waiters that give up in its turn of the event loop. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Hold } from '../../src/index.js'
import type { Lease } from '../../src/locks/lease.js'
import { ClientBench, handOffsOf } from '../support/fakes/client-bench.js'
import { turn } from '../support/fakes/fake-clock.js'

const LEASE_MS = 3_000

let bench: ClientBench

beforeEach(() => {
  bench = new ClientBench({ lockWatchdogTimeoutMs: LEASE_MS })
})

afterEach(() => bench.close())

describe('a hold that was handed off', () => {
  it('cannot affect the next hold: not release, renew, re-enter, lease or lose it', async () => {
    const [stale, waiting] = await bench.heldAndWaitedFor(2)
    const staleSignal = stale.signal
    await Promise.all([stale.unlock(), stale.unlock()])
    const hold = (await waiting[0]) as Hold
    const sent = await bench.commandsOf(async () => {
      await stale.unlock()
      await stale[Symbol.asyncDispose]()
      assert.throws(() => stale.assertHeld(), { code: 'LOCK_NOT_HELD' })
      assert.throws(() => stale.handOver(), { code: 'LOCK_NOT_HELD' })
      await assert.rejects(bench.lock.lock({ within: stale }), { code: 'LOCK_NOT_HELD' })
      await assert.rejects((stale.lease as Lease).lease(stale, 60_000), { code: 'LOCK_NOT_HELD' })
      assert.equal(await stale.isHeld(), false)
      assert.deepEqual([stale.count, stale.remainingMs()], [0, 0])
    })
    assert.deepEqual(sent, [])
    hold.assertHeld()
    assert.equal(hold.count, 1)
    bench.redis.flush()
    assert.equal(await hold.isHeld(), false)
    assert.deepEqual([hold.signal.aborted, staleSignal.aborted], [true, false])
    assert.throws(() => stale.assertHeld(), { code: 'LOCK_NOT_HELD' })
    await stale.unlock()
    assert.equal(bench.lost.length, 1)
    await (await bench.clock.until(waiting[1] as Promise<Hold>)).unlock()
  })

  it('is not re-entered by code left running by its callback, which waits like any other caller', async () => {
    const order: string[] = []
    let stray: Promise<void> | undefined
    const first = bench.lock.withLock(async () => {
      stray = (async () => {
        await bench.pause(5)
        const hold = await bench.lock.lock()
        order.push('stray')
        assert.equal(hold.count, 1)
        await hold.unlock()
      })()
    })
    const second = bench.lock.withLock(async (hold) => {
      order.push('second')
      await bench.pause(20)
      assert.equal(hold.count, 1)
      order.push('second is done')
    })
    await bench.clock.until(Promise.all([first, second]))
    await bench.clock.until(stray as Promise<void>)
    assert.deepEqual(order, ['second', 'second is done', 'stray'])
  })

  it('is not re-entered by a call that waited behind its release', async () => {
    const [hold, waiting] = await bench.heldAndWaitedFor(1)
    bench.port.once('lock/reenter', { replyMs: 100 })
    const inner = bench.lock.lock({ within: hold })
    const late = bench.lock.lock({ within: hold }) // waits for the reply to the first
    const released = hold.unlock()
    const tooLate = bench.lock.lock({ within: hold })
    await bench.clock.advance(200)
    await released
    const holds = [await inner, await late, await tooLate]
    assert.deepEqual(
      holds.map(({ count }) => count),
      [3, 3, 3],
    )
    for (const each of holds) await each.unlock()
    await (await waiting[0])?.unlock()
  })

  it('is not re-entered through a later hold with the same holder', async () => {
    const [hold, waiting] = await bench.heldAndWaitedFor(1)
    const inner = await bench.lock.lock({ within: hold })
    bench.port.once('lock/release-one', { replyMs: 10 })
    const steps = [inner.unlock(), hold.unlock()]
    const again = assert.rejects(bench.lock.lock({ within: hold }), { code: 'LOCK_NOT_HELD' }) // its turn comes too late
    await bench.clock.advance(30)
    await Promise.all([...steps, again])
    const next = (await waiting[0]) as Hold
    assert.equal(next.holder, hold.holder)
    assert.deepEqual(bench.redis.holders('a'), [{ holder: hold.holder, count: 1 }])
    await next.unlock()
  })

  it('is followed by a hold whose maxHoldMs and warnAfterMs count from the hand-off', async () => {
    const long: number[] = []
    bench.client.on('longHold', ({ heldMs }) => long.push(heldMs))
    const hold = await bench.lock.lock()
    const next = bench.lock.lock({ maxHoldMs: 500, warnAfterMs: 200 })
    await bench.clock.advance(10)
    await hold.unlock()
    const handedOff = await next
    assert.equal(handOffsOf(handedOff), 1)
    assert.equal(handedOff.remainingMs(), 500)
    await bench.clock.advance(199)
    assert.deepEqual(long, [])
    await bench.clock.advance(1)
    assert.deepEqual(long, [200])
    await bench.clock.advance(299)
    handedOff.assertHeld()
    await bench.clock.advance(1)
    assert.throws(() => handedOff.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'maxHold' })
    await assert.rejects(handedOff.unlock(), { code: 'LOCK_LEASE_LOST' })
    assert.doesNotThrow(() => hold.unlock())
  })

  it('does not give its maxHoldMs and warnAfterMs to the next hold', async () => {
    bench.client.on('longHold', () => assert.fail('it was not a long hold'))
    const hold = await bench.lock.lock({ maxHoldMs: 500, warnAfterMs: 400 })
    const next = bench.lock.lock()
    await turn()
    await hold.unlock()
    const handedOff = await next
    await bench.clock.advance(10_000)
    handedOff.assertHeld()
    await handedOff.unlock()
  })

  it('leaves the next hold the deadline of the lease in Redis, not a new one', async () => {
    const [hold, waiting] = await bench.heldAndWaitedFor(1)
    await bench.clock.advance(10)
    const leftMs = hold.remainingMs()
    await hold.unlock()
    const next = (await waiting[0]) as Hold
    assert.equal(next.remainingMs(), leftMs)
    await next.unlock()
  })

  it('is followed by a hold that can be handed over to another client', async () => {
    const [stale, waiting] = await bench.heldAndWaitedFor(2)
    await stale.unlock()
    const hold = (await waiting[0]) as Hold
    const adopted = await bench.other.adopt('a', hold.handOver())
    await stale.unlock()
    assert.equal(await adopted.isHeld(), true)
    await adopted.unlock()
    const last = await bench.clock.until(waiting[1] as Promise<Hold>, 100)
    assert.notEqual(last.holder, hold.holder)
    await last.unlock()
  })

  it('may have been adopted from another client', async () => {
    const holder = (await bench.other.getLock('a').lock()).handOver()
    const adopted = await bench.client.adopt('a', holder)
    const next = bench.lock.lock()
    await turn()
    assert.deepEqual(await bench.commandsOf(() => adopted.unlock()), [])
    await (await next).unlock()
  })
})

describe('a waiter that gives up in the turn of the hand-off', () => {
  it('gets the lock if the release came first', async () => {
    const controller = new AbortController()
    const [hold, waiting] = await bench.heldAndWaitedFor(1, { signal: controller.signal })
    const behind = bench.lock.lock()
    const released = hold.unlock()
    controller.abort('too late')
    const next = (await waiting[0]) as Hold
    next.assertHeld()
    await released
    await next.unlock()
    await (await behind).unlock()
  })

  it('leaves the lock to the next waiter if the abort came first', async () => {
    const controller = new AbortController()
    const [hold, waiting] = await bench.heldAndWaitedFor(1, { signal: controller.signal })
    const behind = bench.lock.lock()
    controller.abort('enough')
    const released = hold.unlock()
    await assert.rejects(waiting[0] as Promise<Hold>, (reason) => reason === 'enough')
    await released
    await (await bench.clock.until(behind, 100)).unlock()
  })

  it('leaves the lock to the next waiter if its wait time ended in the turn before', async () => {
    const hold = await bench.lock.lock()
    const waiter = bench.lock.tryLock({ waitTimeMs: 40 })
    const behind = bench.lock.lock()
    await bench.clock.advance(39)
    bench.clock.after(1, () => void hold.unlock())
    await bench.clock.advance(1)
    assert.equal(await waiter, null)
    await (await bench.clock.until(behind, 100)).unlock()
  })

  it('gets the lock if it is released 1 ms before the end of its wait time', async () => {
    const hold = await bench.lock.lock()
    const waiter = bench.lock.tryLock({ waitTimeMs: 40 })
    await bench.clock.advance(39)
    await hold.unlock()
    bench.clock.block(10)
    const outcome = await waiter
    outcome?.assertHeld()
    assert.equal(outcome?.count, 1)
    await outcome?.unlock()
  })

  it('gets the lock if it is released 1 ms before the end of its wait time, while it pauses after an error', async () => {
    const hold = await bench.lock.lock()
    bench.port.once('lock/acquire', { errorReply: 'BUSY Redis is busy running a script' })
    const waiter = bench.lock.tryLock({ waitTimeMs: 10 })
    await bench.clock.advance(9)
    const lease = hold.lease as Lease
    const handOffTo = lease.handOffTo.bind(lease)
    lease.handOffTo = (terms) => {
      const next = handOffTo(terms)
      bench.clock.block(10) // the deadline passes before the waiter runs
      return next
    }
    await hold.unlock()
    const outcome = await waiter
    outcome?.assertHeld()
    assert.equal(outcome?.holder, hold.holder)
    await outcome?.unlock()
  })

  it('gets no hand-off after its wait time, even if its timer is late', async () => {
    const hold = await bench.lock.lock()
    const waiter = bench.lock.tryLock({ waitTimeMs: 40 })
    const behind = bench.lock.lock()
    await turn()
    bench.clock.block(41)
    assert.deepEqual(await bench.commandsOf(() => hold.unlock()), ['lock/release', 'lock/acquire'])
    await (await waiter)?.unlock()
    await (await bench.clock.until(behind, 100)).unlock()
  })

  it('never loses the lock, in 200 orders of release and aborts', async () => {
    for (let round = 0; round < 200; round++) {
      const hold = await bench.clock.until(bench.lock.lock())
      const controllers = Array.from({ length: 3 }, () => new AbortController())
      const waiters = controllers.map(async ({ signal }) => await bench.lock.lock({ signal }).catch(() => undefined))
      const last = bench.lock.lock()
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
      for (const waiter of waiters) void bench.clock.until(waiter, 100).then((each) => each?.unlock())
      const end = await bench.clock.until(last, 200)
      await end.unlock()
    }
  })
})

describe('a write lock', () => {
  it('is not handed off while its owner still reads', async () => {
    const lock = bench.client.getReadWriteLock('rw')
    const write = await lock.writeLock().lock()
    const read = await lock.readLock().lock({ within: write })
    const next = lock.writeLock().lock()
    await turn()
    await write.unlock()
    assert.deepEqual(await lock.writeLock().getHolders(), [])
    read.assertHeld()
    await read.unlock()
    const hold = await bench.clock.until(next, 1_000)
    assert.notEqual(hold.holder, write.holder)
    await hold.unlock()
  })

  it('is not handed off while a reader waits to join it', async () => {
    const lock = bench.client.getReadWriteLock('rw')
    const write = await lock.writeLock().lock()
    const next = lock.writeLock().lock()
    await turn()
    const abort = new AbortController()
    bench.port.once('read-lock/acquire', { replyMs: 5 })
    const aborted = assert.rejects(lock.readLock().lock({ within: write, signal: abort.signal }), /enough/)
    const reading = lock.readLock().lock({ within: write }) // tries again when the other one has given up
    await turn()
    abort.abort(new Error('enough'))
    await aborted
    await bench.clock.advance(5)
    await write.unlock()
    const hold = await bench.clock.until(next)
    assert.notEqual(hold.holder, write.holder)
    await hold.unlock()
    await (await bench.clock.until(reading)).unlock()
  })
})
