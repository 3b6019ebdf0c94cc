/** A lock goes from one caller of a client to the next: in which order things happen, to the turn. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Client } from '../../src/client.js'
import type { ClientOptions, Hold, LeaseLostError, Lock, LockOptions } from '../../src/index.js'
import type { Lease } from '../../src/locks/lease.js'
import { fakeClient } from '../support/fake-client.js'
import { FakeClock, turn } from '../support/fake-clock.js'
import { FakePort, FakeRedis } from '../support/fake-port.js'

const LEASE_MS = 3_000
const CHANNEL = 'redisson_lock__channel:{a}'

let clock: FakeClock
let redis: FakeRedis
let port: FakePort
let client: Client
let lock: Lock
/** Another process on the same Redis. */
let otherPort: FakePort
let other: Client
let lost: LeaseLostError[]
/** Those that a test makes beside the two. */
let more: Client[]

beforeEach(() => {
  clock = new FakeClock()
  redis = new FakeRedis(clock)
  port = new FakePort(clock, redis)
  otherPort = new FakePort(clock, redis)
  client = make(port)
  other = make(otherPort)
  lock = client.getLock('a')
  lost = []
  client.on('lost', ({ error }) => lost.push(error))
  more = []
})

afterEach(async () => {
  await clock.until(Promise.all([client, other, ...more].map((each) => each.close())))
  await clock.advance(10) // what stood back
  assert.equal(clock.pending, 0, 'no timer is left')
  assert.deepEqual([...port.channels, ...otherPort.channels], [], 'no subscription is left')
  assert.deepEqual(redis.keys, [], 'nothing is held')
})

function make(on: FakePort, options: ClientOptions = {}): Client {
  return fakeClient(clock, on, { lockWatchdogTimeoutMs: LEASE_MS, ...options })
}

/** One who holds the lock, and so many who wait for it, all of one client: the first of them has asked, and listens. */
async function heldAndWaitedFor(waiters: number, options: LockOptions = {}): Promise<[Hold, Promise<Hold>[]]> {
  const hold = await lock.lock()
  const waiting = Array.from({ length: waiters }, () => lock.lock(options))
  for (const waiter of waiting) waiter.catch(() => {})
  await turn()
  return [hold, waiting]
}

function passesOf(hold: Hold): number {
  return (hold.lease as Lease).handOffs
}

/** The commands that were sent so far, but for subscriptions; whether they name the turn queue does not matter here. */
function commands(): string[] {
  return port.sent.map(({ name }) => name.replace('-queued', '')).filter((name) => name.includes('/'))
}

async function commandsOf(action: () => unknown): Promise<string[]> {
  const before = commands().length
  await action()
  await turn()
  return commands().slice(before)
}

describe('a lock that is let go', () => {
  it('goes to the first who waits in the same client, without a command, and keeps its holder in Redis', async () => {
    const [first, waiting] = await heldAndWaitedFor(3)
    const { holder } = first
    const order: number[] = []
    for (const [index, waiter] of waiting.entries()) void waiter.then(() => order.push(index))
    const sent = await commandsOf(async () => {
      await first.unlock()
      const second = await waiting[0]
      assert.equal(second?.holder, holder)
      assert.equal(second?.count, 1)
      assert.notEqual(second, first)
      await second?.unlock()
      await (await waiting[1])?.unlock()
    })
    assert.deepEqual(sent, [])
    assert.deepEqual(order, [0, 1, 2])
    assert.deepEqual(redis.holders('a'), [{ holder, count: 1 }])
    const last = (await waiting[2]) as Hold
    assert.equal(passesOf(last), 3)
    assert.deepEqual(await commandsOf(() => last.unlock()), ['lock/release'])
  })

  it('is released when nobody of the same client waits', async () => {
    const hold = await lock.lock()
    assert.deepEqual(await commandsOf(() => hold.unlock()), ['lock/release'])
  })

  it('is released when it has a lease of its own, or was given one', async () => {
    const own = await lock.lock({ leaseTimeMs: 1_000 })
    const next = lock.lock()
    await turn()
    assert.equal(redis.pttl('a'), 1_000)
    assert.deepEqual(await commandsOf(() => own.unlock()), ['lock/release', 'lock/acquire'])
    const hold = await next
    const after = lock.lock()
    await turn()
    await (hold.lease as Lease).lease(hold, 1_000)
    assert.deepEqual(await commandsOf(() => hold.unlock()), ['lock/release', 'lock/acquire'])
    await (await after).unlock()
  })

  it('is released when a re-entry asked for a longer lease than the next caller wants', async () => {
    const hold = await lock.lock()
    const inner = await lock.lock({ within: hold, leaseTimeMs: 60_000 })
    const next = lock.lock()
    await turn()
    await inner.unlock()
    assert.deepEqual(await commandsOf(() => hold.unlock()), ['lock/release', 'lock/acquire'])
    assert.equal(redis.pttl('a'), LEASE_MS)
    await (await next).unlock()
  })

  it('is released for who asks for a lease of its own, which is then exactly that', async () => {
    const [hold, waiting] = await heldAndWaitedFor(1, { leaseTimeMs: 1_000 })
    const behind = lock.lock()
    await turn()
    assert.deepEqual(await commandsOf(() => hold.unlock()), ['lock/release', 'lock/acquire'])
    const next = (await waiting[0]) as Hold
    assert.equal(redis.pttl('a'), 1_000)
    assert.notEqual(next.holder, hold.holder)
    await next.unlock()
    await (await behind).unlock()
  })

  it('is asked for at once by who never asked before, although the line knew of an earlier grant', async () => {
    const held = await clock.until(other.getLock('a').lock())
    const order: string[] = []
    const take = async (name: string, options: LockOptions = {}): Promise<void> => {
      const hold = await lock.lock(options)
      order.push(name)
      await pause(1)
      await hold.unlock()
    }
    const tasks = [take('one'), take('two'), take('leased', { leaseTimeMs: 1_000 }), take('four')]
    await turn()
    await held.unlock()
    const startedAt = clock.now()
    await clock.until(Promise.all(tasks))
    assert.deepEqual(order, ['one', 'two', 'leased', 'four'])
    assert(clock.now() - startedAt < 100, `it took ${clock.now() - startedAt} ms`)
  })

  it('is released by its last re-entry only, and passed on from there', async () => {
    const [hold, waiting] = await heldAndWaitedFor(2)
    const inner = await lock.lock({ within: hold })
    assert.deepEqual(await commandsOf(() => hold.unlock()), ['lock/release-one'])
    assert.deepEqual(await commandsOf(() => inner.unlock()), [])
    const next = (await waiting[0]) as Hold
    assert.deepEqual(redis.holders('a'), [{ holder: hold.holder, count: 1 }])
    const again = await lock.lock({ within: next })
    assert.deepEqual([next.count, again.count, hold.count, inner.count], [2, 2, 0, 0])
    assert.deepEqual(redis.holders('a'), [{ holder: hold.holder, count: 2 }])
    await again.unlock()
    await next.unlock()
    await (await waiting[1])?.unlock()
  })

  it('is released when it is to be renewed before anything else', async () => {
    const [hold, waiting] = await heldAndWaitedFor(1)
    port.fault = ({ name }) => (name === 'lock/renew' ? { lost: 'request' } : undefined)
    await clock.advance((LEASE_MS * 2) / 3)
    port.fault = () => undefined
    assert.deepEqual(await commandsOf(() => hold.unlock()), ['lock/release', 'lock/acquire'])
    await (await waiting[0])?.unlock()
  })

  it('is released when less than a third of its lease is left, although the run may go on', async () => {
    const onPort = new FakePort(clock, redis)
    const patient = make(onPort, { maxHandOffMs: 60_000 })
    more.push(patient)
    onPort.fault = ({ name }) => (name === 'lock/renew' ? { lost: 'request' } : undefined)
    const hold = await patient.getLock('a').lock()
    const waiter = patient.getLock('a').lock()
    await clock.advance((LEASE_MS * 2) / 3)
    onPort.fault = () => undefined
    await hold.unlock()
    const next = await waiter
    assert.notEqual(next.holder, hold.holder)
    assert(next.remainingMs() > (LEASE_MS * 2) / 3, `${next.remainingMs()} ms are left`)
    await next.unlock()
  })
})

describe('a run', () => {
  /** Tasks that take the lock again and again; answers how often it was released. */
  async function loop(of: Client, tasks: number, rounds: number, workMs: number): Promise<number[]> {
    const runs: number[] = []
    await clock.until(
      Promise.all(
        Array.from({ length: tasks }, async () => {
          for (let round = 0; round < rounds; round++) {
            await of.getLock('a').withLock(async (hold) => {
              runs.push(passesOf(hold))
              if (workMs > 0) await pause(workMs)
            })
          }
        }),
      ),
    )
    return runs
  }

  it('of three hand-offs ends with the fourth release, which is open', async () => {
    const [port] = moreOf({ maxHandOffs: 3 })
    const runs = await loop(more[0] as Client, 4, 25, 1)
    assert.equal(runs.length, 100)
    assert.equal(Math.max(...runs), 3)
    const releases = port.sent.filter(({ name }) => name === 'lock/release-queued').length
    assert(releases >= 25 && releases <= 40, `${releases} releases`)
  })

  it('of none never begins', async () => {
    const [port] = moreOf({ maxHandOffs: 0 })
    const runs = await loop(more[0] as Client, 4, 10, 1)
    assert.equal(Math.max(...runs), 0)
    assert.equal(port.count('lock/release-queued'), 40)
  })

  it('of no time never begins', async () => {
    const [port] = moreOf({ maxHandOffMs: 0 })
    await loop(more[0] as Client, 4, 10, 1)
    assert.equal(port.count('lock/release-queued'), 40)
  })

  it('ends when its time is over, counted from the grant of Redis', async () => {
    const [port] = moreOf({ maxHandOffMs: 20, maxHandOffs: 1_000_000 })
    const runs = await loop(more[0] as Client, 4, 100, 1)
    assert.equal(Math.max(...runs), 19)
    assert(port.count('lock/release-queued') >= 400 / 21, `${port.count('lock/release-queued')} releases`)
  })

  it('lets others in before it goes on, and then goes on at once', async () => {
    const workMs = 1
    let isOver = false
    const served: number[] = []
    const elsewhere = (async () => {
      while (!isOver) {
        const askedAt = clock.now()
        await other.getLock('a').withLock(async () => {
          served.push(clock.now() - askedAt)
          await pause(workMs)
        })
      }
    })()
    port.fault = () => ({ requestMs: 1, replyMs: 1 })
    otherPort.fault = () => ({ requestMs: 1, replyMs: 1 })
    await loop(client, 10, 100, workMs)
    isOver = true
    await clock.until(elsewhere)
    assert(Math.max(...served) <= 70, `it waited up to ${Math.max(...served)} ms`)
    assert(served.length >= 1_000 / 70, `served ${served.length} times`)
  })

  it('goes on within a moment when those who were let in first do not come', async () => {
    // Somebody listens, but never asks.
    await otherPort.subscribe(CHANNEL, () => {})
    const startedAt = clock.now()
    await loop(client, 3, 100, 1)
    assert(clock.now() - startedAt < 300 + 16 * 12, `it took ${clock.now() - startedAt} ms`)
    await otherPort.unsubscribe(CHANNEL)
  })

  it('is renewed as one hold would be, and costs no other command', async () => {
    const [port] = moreOf({ maxHandOffMs: 60_000, maxHandOffs: 1_000_000 })
    let least = Number.POSITIVE_INFINITY
    const watch = (async () => {
      await pause(10)
      while (redis.keys.length > 0) {
        least = Math.min(least, redis.pttl('a'))
        await pause(10)
      }
    })()
    await loop(more[0] as Client, 5, 1_000, 2)
    await clock.until(watch)
    assert(least > LEASE_MS / 2, `${least} ms were left`)
    const names = port.sent.map(({ name }) => name)
    const others = names.filter((name) => name !== 'lock/renew' && name.includes('/'))
    assert(others.length <= 8, others.join())
    assert.equal(names.filter((name) => name === 'lock/renew').length, 10)
  })

  function moreOf(options: ClientOptions): [FakePort] {
    const port = new FakePort(clock, redis)
    more.push(make(port, options))
    return [port]
  }
})

describe('a hold that was passed on', () => {
  it('can do nothing to the next: not release, renew, re-enter, lease or lose it', async () => {
    const [stale, waiting] = await heldAndWaitedFor(2)
    const staleSignal = stale.signal
    await Promise.all([stale.unlock(), stale.unlock()])
    const hold = (await waiting[0]) as Hold
    const sent = await commandsOf(async () => {
      await stale.unlock()
      await stale[Symbol.asyncDispose]()
      assert.throws(() => stale.assertHeld(), { code: 'LOCK_NOT_HELD' })
      assert.throws(() => stale.handOver(), { code: 'LOCK_NOT_HELD' })
      await assert.rejects(lock.lock({ within: stale }), { code: 'LOCK_NOT_HELD' })
      await assert.rejects((stale.lease as Lease).lease(stale, 60_000), { code: 'LOCK_NOT_HELD' })
      assert.equal(await stale.isHeld(), false)
      assert.deepEqual([stale.count, stale.remainingMs()], [0, 0])
    })
    assert.deepEqual(sent, [])
    hold.assertHeld()
    assert.equal(hold.count, 1)
    redis.flush()
    assert.equal(await hold.isHeld(), false)
    assert.deepEqual([hold.signal.aborted, staleSignal.aborted], [true, false])
    assert.throws(() => stale.assertHeld(), { code: 'LOCK_NOT_HELD' })
    await stale.unlock()
    assert.equal(lost.length, 1)
    await (await clock.until(waiting[1] as Promise<Hold>)).unlock()
  })

  it('is no hold to re-enter for what was left running in its body: that waits as anybody', async () => {
    const order: string[] = []
    let stray: Promise<void> | undefined
    const first = lock.withLock(async () => {
      stray = (async () => {
        await pause(5)
        const hold = await lock.lock()
        order.push('stray')
        assert.equal(hold.count, 1)
        await hold.unlock()
      })()
    })
    const second = lock.withLock(async (hold) => {
      order.push('second')
      await pause(20)
      assert.equal(hold.count, 1)
      order.push('second is done')
    })
    await clock.until(Promise.all([first, second]))
    await clock.until(stray as Promise<void>)
    assert.deepEqual(order, ['second', 'second is done', 'stray'])
  })

  it('is re-entered by nobody whose re-entry stood behind its release', async () => {
    const [hold, waiting] = await heldAndWaitedFor(1)
    port.once('lock/reenter', { replyMs: 100 })
    const inner = lock.lock({ within: hold })
    const late = lock.lock({ within: hold }) // waits for the answer of the first
    const released = hold.unlock()
    const tooLate = lock.lock({ within: hold })
    await clock.advance(200)
    await released
    const holds = [await inner, await late, await tooLate]
    assert.deepEqual(
      holds.map(({ count }) => count),
      [3, 3, 3],
    )
    for (const each of holds) await each.unlock()
    await (await waiting[0])?.unlock()
  })

  it('is not re-entered through another that has the same holder by now', async () => {
    const [hold, waiting] = await heldAndWaitedFor(1)
    const inner = await lock.lock({ within: hold })
    port.once('lock/release-one', { replyMs: 10 })
    const steps = [inner.unlock(), hold.unlock()]
    const again = assert.rejects(lock.lock({ within: hold }), { code: 'LOCK_NOT_HELD' }) // its turn comes too late
    await clock.advance(30)
    await Promise.all([...steps, again])
    const next = (await waiting[0]) as Hold
    assert.equal(next.holder, hold.holder)
    assert.deepEqual(redis.holders('a'), [{ holder: hold.holder, count: 1 }])
    await next.unlock()
  })

  it('counts maxHoldMs and warnAfterMs of the next from the hand-off', async () => {
    const long: number[] = []
    client.on('longHold', ({ heldMs }) => long.push(heldMs))
    const hold = await lock.lock()
    const next = lock.lock({ maxHoldMs: 500, warnAfterMs: 200 })
    await clock.advance(10)
    await hold.unlock()
    const passed = await next
    assert.equal(passesOf(passed), 1)
    assert.equal(passed.remainingMs(), 500)
    await clock.advance(199)
    assert.deepEqual(long, [])
    await clock.advance(1)
    assert.deepEqual(long, [200])
    await clock.advance(299)
    passed.assertHeld()
    await clock.advance(1)
    assert.throws(() => passed.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'maxHold' })
    await assert.rejects(passed.unlock(), { code: 'LOCK_LEASE_LOST' })
    assert.doesNotThrow(() => hold.unlock())
  })

  it('leaves its own maxHoldMs and warnAfterMs behind', async () => {
    client.on('longHold', () => assert.fail('it did not last'))
    const hold = await lock.lock({ maxHoldMs: 500, warnAfterMs: 400 })
    const next = lock.lock()
    await turn()
    await hold.unlock()
    const passed = await next
    await clock.advance(10_000)
    passed.assertHeld()
    await passed.unlock()
  })

  it('has the deadline of the lease that Redis gave, not a new one', async () => {
    const [hold, waiting] = await heldAndWaitedFor(1)
    await clock.advance(10)
    const leftMs = hold.remainingMs()
    await hold.unlock()
    const next = (await waiting[0]) as Hold
    assert.equal(next.remainingMs(), leftMs)
    await next.unlock()
  })

  it('can be handed over to another client', async () => {
    const [stale, waiting] = await heldAndWaitedFor(2)
    await stale.unlock()
    const hold = (await waiting[0]) as Hold
    const adopted = await other.adopt('a', hold.handOver())
    await stale.unlock()
    assert.equal(await adopted.isHeld(), true)
    await adopted.unlock()
    const last = await clock.until(waiting[1] as Promise<Hold>, 100)
    assert.notEqual(last.holder, hold.holder)
    await last.unlock()
  })

  it('may come from an adopted one', async () => {
    const holder = (await other.getLock('a').lock()).handOver()
    const adopted = await client.adopt('a', holder)
    const next = lock.lock()
    await turn()
    assert.deepEqual(await commandsOf(() => adopted.unlock()), [])
    await (await next).unlock()
  })
})

describe('who waits and goes away in the turn of the hand-off', () => {
  it('has the lock if it was let go first', async () => {
    const controller = new AbortController()
    const [hold, waiting] = await heldAndWaitedFor(1, { signal: controller.signal })
    const behind = lock.lock()
    const released = hold.unlock()
    controller.abort('too late')
    const next = (await waiting[0]) as Hold
    next.assertHeld()
    await released
    await next.unlock()
    await (await behind).unlock()
  })

  it('leaves it to the one behind if the abort came first', async () => {
    const controller = new AbortController()
    const [hold, waiting] = await heldAndWaitedFor(1, { signal: controller.signal })
    const behind = lock.lock()
    controller.abort('enough')
    const released = hold.unlock()
    await assert.rejects(waiting[0] as Promise<Hold>, (reason) => reason === 'enough')
    await released
    await (await clock.until(behind, 100)).unlock()
  })

  it('leaves it to the one behind if its wait time ended in the turn before', async () => {
    const hold = await lock.lock()
    const waiter = lock.tryLock({ waitTimeMs: 40 })
    const behind = lock.lock()
    await clock.advance(39)
    clock.after(1, () => void hold.unlock())
    await clock.advance(1)
    assert.equal(await waiter, null)
    await (await clock.until(behind, 100)).unlock()
  })

  it('has the lock if it is let go a moment before its wait time ends', async () => {
    const hold = await lock.lock()
    const waiter = lock.tryLock({ waitTimeMs: 40 })
    await clock.advance(39)
    await hold.unlock()
    clock.block(10)
    const outcome = await waiter
    outcome?.assertHeld()
    assert.equal(outcome?.count, 1)
    await outcome?.unlock()
  })

  it('has the lock if it is let go a moment before its wait time ends, while it pauses after an error', async () => {
    const hold = await lock.lock()
    port.once('lock/acquire', { errorReply: 'BUSY Redis is busy running a script' })
    const waiter = lock.tryLock({ waitTimeMs: 10 })
    await clock.advance(9)
    const lease = hold.lease as Lease
    const handOffTo = lease.handOffTo.bind(lease)
    lease.handOffTo = (terms) => {
      const next = handOffTo(terms)
      clock.block(10) // the deadline passes before the waiter runs
      return next
    }
    await hold.unlock()
    const outcome = await waiter
    outcome?.assertHeld()
    assert.equal(outcome?.holder, hold.holder)
    await outcome?.unlock()
  })

  it('is not given it when its wait time was over, and its timer late: Redis is asked', async () => {
    const hold = await lock.lock()
    const waiter = lock.tryLock({ waitTimeMs: 40 })
    const behind = lock.lock()
    await turn()
    clock.block(41)
    assert.deepEqual(await commandsOf(() => hold.unlock()), ['lock/release', 'lock/acquire'])
    await (await waiter)?.unlock()
    await (await clock.until(behind, 100)).unlock()
  })

  it('never loses it, whoever goes away when', async () => {
    for (let round = 0; round < 200; round++) {
      const hold = await clock.until(lock.lock())
      const controllers = Array.from({ length: 3 }, () => new AbortController())
      const waiters = controllers.map(async ({ signal }) => await lock.lock({ signal }).catch(() => undefined))
      const last = lock.lock()
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
      for (const waiter of waiters) void clock.until(waiter, 100).then((each) => each?.unlock())
      const end = await clock.until(last, 200)
      await end.unlock()
    }
  })
})

describe('a client that is closed during a run', () => {
  it('sends its waiters away, and releases what is held at the end of the drain', async () => {
    const [hold, waiting] = await heldAndWaitedFor(3)
    await hold.unlock()
    const passed = (await waiting[0]) as Hold
    const closed = client.close({ drainMs: 500 })
    for (const waiter of waiting.slice(1)) await assert.rejects(waiter, { code: 'LOCK_CLIENT_CLOSED' })
    passed.assertHeld()
    await passed.unlock()
    await clock.until(closed)
    assert.deepEqual(redis.keys, [])
    assert.deepEqual(lost, [])
  })

  it('in the turn of a hand-off: who was given the lock has it until the drain ends', async () => {
    const [hold, waiting] = await heldAndWaitedFor(2)
    const released = hold.unlock()
    const closed = client.close({ drainMs: 500 })
    const passed = (await waiting[0]) as Hold
    passed.assertHeld()
    await assert.rejects(waiting[1] as Promise<Hold>, { code: 'LOCK_CLIENT_CLOSED' })
    await released
    await clock.until(closed)
    assert.equal((passed.signal.reason as LeaseLostError).reason, 'closed')
    assert.equal(hold.signal.aborted, false)
    assert.deepEqual(redis.keys, [])
  })

  it('while others go first leaves no timer', async () => {
    await clock.until(client.close())
    const [port] = [new FakePort(clock, redis)]
    const closing = make(port, { maxHandOffs: 0 })
    await otherPort.subscribe(CHANNEL, () => {})
    const hold = await closing.getLock('a').lock()
    const waiter = closing.getLock('a').lock()
    await turn()
    await hold.unlock()
    const closed = closing.close()
    await assert.rejects(waiter, { code: 'LOCK_CLIENT_CLOSED' })
    await clock.until(closed)
    await otherPort.unsubscribe(CHANNEL)
  })
})

describe('a lock that is lost during a run', () => {
  it('by forceUnlock() of this client is told to who has it then, and the next gets it from Redis', async () => {
    const [stale, waiting] = await heldAndWaitedFor(2)
    await stale.unlock()
    const hold = (await waiting[0]) as Hold
    const forced = lock.forceUnlock()
    await forced
    assert.equal((hold.signal.reason as LeaseLostError).reason, 'forced')
    assert.equal(stale.signal.aborted, false)
    const next = await clock.until(waiting[1] as Promise<Hold>, 100)
    assert.notEqual(next.holder, hold.holder)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
    assert.equal(await next.isHeld(), true)
    await next.unlock()
    assert.equal(lost.length, 1)
  })

  it('is not passed on while this client is about to force it', async () => {
    const [hold, waiting] = await heldAndWaitedFor(1)
    port.once('lock/force-release-queued', { requestMs: 10, replyMs: 10 })
    const forced = lock.forceUnlock()
    await turn()
    assert.deepEqual(await commandsOf(() => hold.unlock()), ['lock/release', 'lock/acquire'])
    const next = (await waiting[0]) as Hold
    await clock.until(forced)
    await next.unlock().catch(() => {})
  })

  it('by forceUnlock() of another is told to who has it at the next renewal, and the next gets it from Redis', async () => {
    const [stale, waiting] = await heldAndWaitedFor(2)
    await stale.unlock()
    const hold = (await waiting[0]) as Hold
    await other.getLock('a').forceUnlock()
    await turn()
    const next = await clock.until(waiting[1] as Promise<Hold>, 100)
    assert.notEqual(next.holder, hold.holder)
    await clock.advance(LEASE_MS / 3)
    assert.equal((hold.signal.reason as LeaseLostError).reason, 'gone')
    next.assertHeld()
    await next.unlock()
  })

  it('by a DEL is told to who has it at the next renewal, and the next gets it within a poll', async () => {
    const [stale, waiting] = await heldAndWaitedFor(2)
    await stale.unlock()
    const hold = (await waiting[0]) as Hold
    redis.flush()
    const startedAt = clock.now()
    await clock.advance(LEASE_MS / 3)
    assert.equal((hold.signal.reason as LeaseLostError).reason, 'gone')
    const next = await clock.until(waiting[1] as Promise<Hold>)
    assert(clock.now() - startedAt <= 5_100, `after ${clock.now() - startedAt} ms`)
    await next.unlock()
  })

  it('after an earlier turn of this line, by a DEL: the next gets it within a poll all the same', async () => {
    const held = await other.getLock('a').lock()
    const waiting = Array.from({ length: 4 }, () => lock.lock())
    await turn()
    await held.unlock()
    await (await waiting[0])?.unlock() // granted by Redis while the line listened
    const hold = (await waiting[1]) as Hold
    assert.equal(passesOf(hold), 1)
    redis.flush()
    const startedAt = clock.now()
    const next = await clock.until(waiting[2] as Promise<Hold>)
    assert(clock.now() - startedAt <= 5_100, `after ${clock.now() - startedAt} ms`)
    await next.unlock()
    await (await clock.until(waiting[3] as Promise<Hold>)).unlock()
  })

  it('while Redis is silent ends by its deadline, and later ones are served when Redis is back', async () => {
    const [stale, waiting] = await heldAndWaitedFor(3)
    await clock.advance(10)
    await stale.unlock()
    const hold = (await waiting[0]) as Hold
    assert.equal(passesOf(hold), 1)
    const leftMs = hold.remainingMs()
    port.fault = () => ({ lost: 'request' })
    await clock.advance(leftMs - 1)
    hold.assertHeld()
    await clock.advance(1)
    assert.equal((hold.signal.reason as LeaseLostError).reason, 'expired')
    assert.deepEqual([stale.signal.aborted, lost.length], [false, 1])
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    port.fault = () => undefined
    const next = await clock.until(waiting[1] as Promise<Hold>, 10_000)
    assert.notEqual(next.holder, hold.holder)
    await next.unlock()
    await (await clock.until(waiting[2] as Promise<Hold>, 100)).unlock()
  })

  it('and granted to another caller of this client is not passed on by the one who lost it', async () => {
    const [hold, waiting] = await heldAndWaitedFor(2)
    redis.flush()
    redis.publish(CHANNEL, '0')
    const next = (await clock.until(waiting[0] as Promise<Hold>, 100)) as Hold
    assert.notEqual(next.holder, hold.holder)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    let isServed = false
    void waiting[1]?.then(() => {
      isServed = true
    })
    await clock.advance(100)
    assert.equal(isServed, false, 'two of one client would hold it')
    await next.unlock()
    await (await clock.until(waiting[1] as Promise<Hold>, 100)).unlock()
  })

  it('by maxHoldMs during its release was released in time, whenever the clock is read', async () => {
    const now = clock.now.bind(clock)
    let looks = 0
    for (let late = 2; late <= 10; late++) {
      const hold = await lock.lock({ maxHoldMs: 150 })
      const waiting = lock.lock()
      await turn()
      looks = 0
      clock.now = () => now() + (++looks >= late ? 200 : 0)
      const released = hold.unlock()
      clock.now = now
      await released
      await (await waiting).unlock()
    }
    assert.equal(lost.length, 0)
  })

  it('in a pause of the process is told in the first turn, and not passed on', async () => {
    const [hold, waiting] = await heldAndWaitedFor(1)
    clock.block(LEASE_MS)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    const next = await clock.until(waiting[0] as Promise<Hold>, 1_000)
    assert.notEqual(next.holder, hold.holder)
    await next.unlock()
  })
})

async function pause(ms: number): Promise<void> {
  await new Promise<void>((resolve) => void clock.after(ms, resolve))
}
