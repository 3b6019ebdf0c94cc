/** Hand-offs: a lease goes from one caller of a client to the next. The order of events, to the turn of the event loop. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Client } from '../../src/client.js'
import type { Hold, LockOptions } from '../../src/index.js'
import type { Lease } from '../../src/locks/lease.js'
import { CHANNEL, ClientFixture, handOffsOf } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'

const LEASE_MS = 3_000

let fixture: ClientFixture

beforeEach(() => {
  fixture = new ClientFixture({ lockWatchdogTimeoutMs: LEASE_MS })
})

afterEach(() => fixture.close())

describe('a release', () => {
  it("a release hands the lock off to the client's first waiter, without a command or new holder", async () => {
    const [first, waiting] = await fixture.heldAndWaitedFor(3)
    const { holder } = first
    const order: number[] = []
    for (const [index, waiter] of waiting.entries()) void waiter.then(() => order.push(index))
    const sent = await fixture.commandsOf(async () => {
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
    assert.deepEqual(fixture.redis.holders('a'), [{ holder, count: 1 }])
    const last = (await waiting[2]) as Hold
    assert.equal(handOffsOf(last), 3)
    assert.deepEqual(await fixture.commandsOf(() => last.unlock()), ['lock/release'])
  })

  it('a release frees the lock in Redis if no caller of the same client waits', async () => {
    const hold = await fixture.lock.lock()
    assert.deepEqual(await fixture.commandsOf(() => hold.unlock()), ['lock/release'])
  })

  it('a release frees the lock in Redis if the hold has, or was given, a lease time of its own', async () => {
    const own = await fixture.lock.lock({ leaseTimeMs: 1_000 })
    const next = fixture.lock.lock()
    await turn()
    assert.equal(fixture.redis.pttl('a'), 1_000)
    assert.deepEqual(await fixture.commandsOf(() => own.unlock()), ['lock/release', 'lock/acquire'])
    const hold = await next
    const after = fixture.lock.lock()
    await turn()
    await (hold.lease as Lease).lease(hold.members[0] as Hold, 1_000)
    assert.deepEqual(await fixture.commandsOf(() => hold.unlock()), ['lock/release', 'lock/acquire'])
    await (await after).unlock()
  })

  it('a release frees the lock in Redis if a re-entry wanted a longer lease than the next caller', async () => {
    const hold = await fixture.lock.lock()
    const inner = await fixture.lock.lock({ within: hold, leaseTimeMs: 60_000 })
    const next = fixture.lock.lock()
    await turn()
    await inner.unlock()
    assert.deepEqual(await fixture.commandsOf(() => hold.unlock()), ['lock/release', 'lock/acquire'])
    assert.equal(fixture.redis.pttl('a'), LEASE_MS)
    await (await next).unlock()
  })

  it('a release frees the lock for a waiter with its own lease time, which gets exactly that lease', async () => {
    const [hold, waiting] = await fixture.heldAndWaitedFor(1, { leaseTimeMs: 1_000 })
    const behind = fixture.lock.lock()
    await turn()
    assert.deepEqual(await fixture.commandsOf(() => hold.unlock()), ['lock/release', 'lock/acquire'])
    const next = (await waiting[0]) as Hold
    assert.equal(fixture.redis.pttl('a'), 1_000)
    assert.notEqual(next.holder, hold.holder)
    await next.unlock()
    await (await behind).unlock()
  })

  it('a release frees the lock for a waiter with atLeastMs, whose period begins with its own grant', async () => {
    const hold = await fixture.lock.lock()
    const run = fixture.lock.withLock({ atLeastMs: 10_000 }, () => fixture.redis.pttl('a'))
    await fixture.clock.advance(10)
    await hold.unlock()
    assert.equal(await fixture.clock.until(run), 10_000)
    await fixture.clock.advance(10_001)
  })

  it('a release makes a new head of the wait queue ask at once, despite an earlier known grant', async () => {
    const held = await fixture.clock.until(fixture.other.getLock('a').lock())
    const order: string[] = []
    const take = async (name: string, options: LockOptions = {}): Promise<void> => {
      const hold = await fixture.lock.lock(options)
      order.push(name)
      await fixture.pause(1)
      await hold.unlock()
    }
    const tasks = [take('one'), take('two'), take('leased', { leaseTimeMs: 1_000 }), take('four')]
    await turn()
    await held.unlock()
    const startedAt = fixture.clock.now()
    await fixture.clock.until(Promise.all(tasks))
    assert.deepEqual(order, ['one', 'two', 'leased', 'four'])
    assert(fixture.clock.now() - startedAt < 100, `it took ${fixture.clock.now() - startedAt} ms`)
  })

  it('a release hands the lock off when the last re-entry ends, not before', async () => {
    const [hold, waiting] = await fixture.heldAndWaitedFor(2)
    const inner = await fixture.lock.lock({ within: hold })
    assert.deepEqual(await fixture.commandsOf(() => hold.unlock()), ['lock/release-one'])
    assert.deepEqual(await fixture.commandsOf(() => inner.unlock()), [])
    const next = (await waiting[0]) as Hold
    assert.deepEqual(fixture.redis.holders('a'), [{ holder: hold.holder, count: 1 }])
    const again = await fixture.lock.lock({ within: next })
    assert.deepEqual([next.count, again.count, hold.count, inner.count], [2, 2, 0, 0])
    assert.deepEqual(fixture.redis.holders('a'), [{ holder: hold.holder, count: 2 }])
    await again.unlock()
    await next.unlock()
    await (await waiting[1])?.unlock()
  })

  it('a release frees the lock in Redis if its last renewal failed', async () => {
    const [hold, waiting] = await fixture.heldAndWaitedFor(1)
    fixture.port.fault = ({ name }) => (name === 'lock/renew' ? { lost: 'request' } : undefined)
    await fixture.clock.advance((LEASE_MS * 2) / 3)
    fixture.port.fault = () => undefined
    assert.deepEqual(await fixture.commandsOf(() => hold.unlock()), ['lock/release', 'lock/acquire'])
    await (await waiting[0])?.unlock()
  })

  it('a release frees the lock in Redis with less than a third of its lease left', async () => {
    const { port: onPort, client: patient } = fixture.connect({ maxHandOffMs: 60_000 })
    onPort.fault = ({ name }) => (name === 'lock/renew' ? { lost: 'request' } : undefined)
    const hold = await patient.getLock('a').lock()
    const waiter = patient.getLock('a').lock()
    await fixture.clock.advance((LEASE_MS * 2) / 3)
    onPort.fault = () => undefined
    await hold.unlock()
    const next = await waiter
    assert.notEqual(next.holder, hold.holder)
    assert(next.remainingMs() > (LEASE_MS * 2) / 3, `${next.remainingMs()} ms are left`)
    await next.unlock()
  })
})

describe('a run of hand-offs', () => {
  /** Tasks that take the lock again and again. Resolves to the hand-offs before each hold. */
  async function loop(of: Client, tasks: number, rounds: number, workMs: number): Promise<number[]> {
    const runs: number[] = []
    await fixture.clock.until(
      Promise.all(
        Array.from({ length: tasks }, async () => {
          for (let round = 0; round < rounds; round++) {
            await of.getLock('a').withLock(async (hold) => {
              runs.push(handOffsOf(hold))
              if (workMs > 0) await fixture.pause(workMs)
            })
          }
        }),
      ),
    )
    return runs
  }

  it('a run of hand-offs ends with a release in Redis after maxHandOffs: 3', async () => {
    const of = fixture.connect({ maxHandOffs: 3 })
    const runs = await loop(of.client, 4, 25, 1)
    assert.equal(runs.length, 100)
    assert.equal(Math.max(...runs), 3)
    const releases = of.port.sent.filter(({ name }) => name === 'lock/release-queued').length
    assert(releases >= 25 && releases <= 40, `${releases} releases`)
  })

  it('a run of hand-offs never begins with maxHandOffs: 0', async () => {
    const of = fixture.connect({ maxHandOffs: 0 })
    const runs = await loop(of.client, 4, 10, 1)
    assert.equal(Math.max(...runs), 0)
    assert.equal(of.port.count('lock/release-queued'), 40)
  })

  it('a run of hand-offs never begins with maxHandOffMs: 0', async () => {
    const of = fixture.connect({ maxHandOffMs: 0 })
    await loop(of.client, 4, 10, 1)
    assert.equal(of.port.count('lock/release-queued'), 40)
  })

  it('a run of hand-offs ends after maxHandOffMs, counted from the grant by Redis', async () => {
    const of = fixture.connect({ maxHandOffMs: 20, maxHandOffs: 1_000_000 })
    const runs = await loop(of.client, 4, 100, 1)
    assert.equal(Math.max(...runs), 19)
    assert(of.port.count('lock/release-queued') >= 400 / 21, `${of.port.count('lock/release-queued')} releases`)
  })

  it('a run of hand-offs lets other clients in before the next run, which then begins at once', async () => {
    const workMs = 1
    let isOver = false
    const served: number[] = []
    const elsewhere = (async () => {
      while (!isOver) {
        const startedAt = fixture.clock.now()
        await fixture.other.getLock('a').withLock(async () => {
          served.push(fixture.clock.now() - startedAt)
          await fixture.pause(workMs)
        })
      }
    })()
    fixture.port.fault = () => ({ requestMs: 1, replyMs: 1 })
    fixture.otherPort.fault = () => ({ requestMs: 1, replyMs: 1 })
    await loop(fixture.client, 10, 100, workMs)
    isOver = true
    await fixture.clock.until(elsewhere)
    assert(Math.max(...served) <= 70, `it waited up to ${Math.max(...served)} ms`)
    assert(served.length >= 1_000 / 70, `served ${served.length} times`)
  })

  it('a run of hand-offs is followed by the next within ms if other clients do not take the lock', async () => {
    // A client that is subscribed but never requests the lock.
    await fixture.otherPort.subscribe(CHANNEL, () => {})
    const startedAt = fixture.clock.now()
    await loop(fixture.client, 3, 100, 1)
    assert(fixture.clock.now() - startedAt < 300 + 16 * 12, `it took ${fixture.clock.now() - startedAt} ms`)
    await fixture.otherPort.unsubscribe(CHANNEL)
  })

  it('a run of hand-offs is followed by the next run at once if no other client waits', async () => {
    const of = fixture.connect({ maxHandOffs: 1 })
    const startedAt = fixture.clock.now()
    await loop(of.client, 3, 20, 1)
    assert(fixture.clock.now() - startedAt < 2 * 60, `it took ${fixture.clock.now() - startedAt} ms`)
  })

  it('a run of hand-offs gives others 10 ms if they listen, and none after a loss', async () => {
    const { client: of } = fixture.connect({ maxHandOffs: 0 })
    await fixture.otherPort.subscribe(CHANNEL, () => {})
    const hold = await of.getLock('a').lock()
    const waiting = [of.getLock('a').lock(), of.getLock('a').lock()] as const
    await turn()
    const releasedAt = fixture.clock.now()
    await hold.unlock()
    const second = await fixture.clock.until(waiting[0])
    assert.equal(fixture.clock.now(), releasedAt + 10)
    await fixture.clock.advance(100)
    fixture.redis.flush()
    const startedAt = fixture.clock.now()
    await assert.rejects(second.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    const third = await fixture.clock.until(waiting[1])
    assert.equal(fixture.clock.now(), startedAt)
    await third.unlock()
    await fixture.otherPort.unsubscribe(CHANNEL)
  })

  it('a run of hand-offs is renewed like one hold, and sends no other command', async () => {
    const of = fixture.connect({ maxHandOffMs: 60_000, maxHandOffs: 1_000_000 })
    let least = Number.POSITIVE_INFINITY
    const watch = (async () => {
      await fixture.pause(10)
      while (fixture.redis.keys.length > 0) {
        least = Math.min(least, fixture.redis.pttl('a'))
        await fixture.pause(10)
      }
    })()
    await loop(of.client, 5, 1_000, 2)
    await fixture.clock.until(watch)
    assert(least > LEASE_MS / 2, `${least} ms were left`)
    const names = of.port.sent.map(({ name }) => name)
    const others = names.filter((name) => name !== 'lock/renew' && name.includes('/'))
    assert(others.length <= 8, others.join())
    assert.equal(names.filter((name) => name === 'lock/renew').length, 10)
  })
})
