/** The hand-off from one caller of a client to the next, for every exclusive kind of lock. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Client, Hold, Lock } from '../../src/index.js'
import { countCommands } from '../support/command-stats.js'
import type { AnyFixture } from '../support/fixture.js'
import type { Kind, KindFixture } from '../support/kinds.js'
import { roundTrips } from '../support/round-trips.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

export function handOffContract(kind: Kind, fixture: AnyFixture, kindFixture: KindFixture): void {
  const LONG_RUN = { maxHandOffMs: 60_000, maxHandOffs: 1_000_000 }
  const NOT_HELD = { code: 'LOCK_NOT_HELD' }

  /** One hold, and a waiter behind it that Redis has refused. */
  async function heldAndWaitedFor(client: Client): Promise<[Hold, Promise<Hold>]> {
    const hold = await kindFixture.lock(client).lock()
    const waiter = kindFixture.lock(client).lock()
    await kindFixture.somebodyWaits()
    // It attempts once more when it is subscribed, in a cluster on another connection.
    await waitUntil(async () => (await countCommands(fixture.server, () => sleep(30))).scripts === 0)
    return [hold, waiter]
  }

  it('many tasks of one client keep exclusion, order and exact counts across hand-offs', async () => {
    const client = await fixture.connect(LONG_RUN)
    const requested: number[] = []
    const served: number[] = []
    let inside = 0
    let sections = 0
    const section = async (id: number): Promise<void> => {
      await kindFixture.lock(client).withLock(async (hold) => {
        served.push(id)
        assert.equal(++inside, 1)
        assert.equal(hold.count, 1)
        if (++sections % 20 === 0) await kindFixture.expectCount(1)
        if (kind.isReentrant && sections % 10 === 0) {
          await kindFixture.lock(client).withLock(async (inner) => {
            assert.deepEqual([inner.holder, inner.count], [hold.holder, kind.isJoint ? 1 : 2])
            await kindFixture.expectCount(2)
          })
        }
        await null
        hold.assertHeld()
        inside--
      })
    }
    // Joint locks are first requested in one command by independent callers: all of them have to be refused.
    const first = await kindFixture.lock(client).lock()
    const tasks = Array.from({ length: 20 }, async (_, task) => {
      for (let round = 0; round < 5; round++) {
        const id = task + 20 * round
        requested.push(id)
        await section(id)
      }
    })
    if (kind.isJoint) await roundTrips(first)
    await first.unlock()
    await Promise.all(tasks)
    assert.equal(served.length, 100)
    assert.deepEqual(served, requested)
    assert.equal(await kindFixture.isFree(), true)
  })

  it(`the lock moves from one caller of a client to the next ${kind.isHandedOff ? 'without a command' : 'by Redis'}`, async () => {
    const client = await fixture.connect(LONG_RUN)
    const [first, waiter] = await heldAndWaitedFor(client)
    const last = kindFixture.lock(client).lock()
    const holds: Hold[] = [first]
    const count = await countCommands(fixture.server, async () => {
      await first.unlock()
      holds.push(await waiter)
      await holds[1]?.unlock()
      holds.push(await last)
    })
    const owners = new Set(holds.map(({ holder }) => holder))
    if (kind.isHandedOff) assert.deepEqual([count.scripts, owners.size], [0, 1])
    else assert(count.scripts > 0 && owners.size === 3)
    await holds[2]?.unlock()
  })

  it('a previous holder has no power over the next hold of the same client', async () => {
    const client = await fixture.connect(LONG_RUN)
    const [stale, waiter] = await heldAndWaitedFor(client)
    const { signal } = stale
    await Promise.all([stale.unlock(), stale.unlock()])
    const hold = await waiter
    await stale.unlock()
    assert.throws(() => stale.assertHeld(), NOT_HELD)
    if (!kind.isJoint) {
      await assert.rejects(kindFixture.lock(client).lock({ within: stale }), NOT_HELD)
      if (kind.isAdoptable) assert.throws(() => stale.handOver(), NOT_HELD)
    }
    assert.equal(await stale.isHeld(), false)
    assert.deepEqual([stale.count, stale.remainingMs()], [0, 0])
    hold.assertHeld()
    assert.equal(await hold.isHeld(), true)
    await kindFixture.expectCount(1)
    await kindFixture.deleteKeys()
    assert.equal(await hold.isHeld(), false)
    assert.deepEqual([hold.signal.aborted, signal.aborted], [true, false])
    await stale.unlock()
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
  })

  it('a leftover task of an earlier callback has to wait like any other caller', async () => {
    const client = await fixture.connect(LONG_RUN)
    const order: string[] = []
    let isNextWaiting = false
    let hasNextBegun = false
    let stray: Promise<void> | undefined
    const first = kindFixture.lock(client).withLock(async () => {
      stray = (async () => {
        await waitUntil(() => hasNextBegun)
        await kindFixture.lock(client).withLock((hold) => {
          order.push('stray')
          assert.equal(hold.count, 1)
        })
      })()
      await waitUntil(() => isNextWaiting)
    })
    await waitUntil(() => stray !== undefined)
    const next = kindFixture.lock(client).withLock(async (hold) => {
      hasNextBegun = true
      await sleep(30)
      assert.equal(hold.count, 1)
      await kindFixture.expectCount(1)
      order.push('next')
    })
    await kindFixture.somebodyWaits()
    isNextWaiting = true
    await Promise.all([first, next])
    await stray
    assert.deepEqual(order, ['next', 'stray'])
  })

  it('a waiter that leaves in the turn of the release gets the lock or leaves it to the next one', async () => {
    const client = await fixture.connect(LONG_RUN)
    const lock = kindFixture.lock(client)
    for (let round = 0; round < 16; round++) {
      const hold = await lock.lock()
      const controller = new AbortController()
      const waiter = lock.lock(round % 4 < 3 ? { signal: controller.signal } : { waitTimeMs: 10 })
      const outcome = waiter.catch(() => undefined)
      const behind = settlesWithin(lock.lock(), 4_000)
      await sleep(round < 8 ? 10 : 1)
      const acts = [() => hold.unlock(), () => controller.abort(new Error('enough'))]
      if (round % 2) acts.reverse()
      const done = acts.map((act) => act())
      const given = await outcome
      given?.assertHeld()
      await given?.unlock()
      await Promise.all(done)
      const last = await behind
      assert(last.status === 'fulfilled')
      assert.equal(await last.value.isHeld(), true)
      await last.value.unlock()
    }
    await waitUntil(() => kindFixture.isFree())
  })

  it('close() during hand-offs rejects waiters, and lets the holder finish within the drain', async () => {
    const client = await fixture.connect(LONG_RUN)
    let sections = 0
    let cutShort = 0
    const tasks = Array.from({ length: 10 }, async () => {
      for (;;) {
        await kindFixture.lock(client).withLock(async (hold) => {
          sections++
          await sleep(2)
          if (hold.signal.aborted) cutShort++
        })
      }
    })
    const outcomes = Promise.allSettled(tasks)
    await waitUntil(() => sections >= 12)
    await client.close({ drainMs: 10_000 })
    for (const outcome of await outcomes) {
      assert(outcome.status === 'rejected')
      assert.equal(outcome.reason.code, 'LOCK_CLIENT_CLOSED')
    }
    assert.equal(cutShort, 0)
    assert.deepEqual(await kindFixture.keys(), [])
  })

  it('a lock forced by another client is lost by the current holder, and Redis grants it to the next', async () => {
    const client = await fixture.connect({ ...LONG_RUN, lockWatchdogTimeoutMs: 3_000 })
    const other = await fixture.connect()
    const lost: Hold[] = []
    client.on('lost', ({ hold }) => lost.push(...hold.members))
    const [stale, waiter] = await heldAndWaitedFor(client)
    const last = settlesWithin(kindFixture.lock(client).lock(), 10_000)
    await stale.unlock()
    const hold = await waiter
    if (kind.isHandedOff) assert.equal(hold.holder, stale.holder)
    for (const part of kindFixture.parts(other)) assert.equal(await part.forceUnlock(), true)
    const next = await last
    assert(next.status === 'fulfilled')
    assert.notEqual(next.value.holder, hold.holder)
    await waitUntil(() => hold.signal.aborted)
    assert.equal(stale.signal.aborted, false)
    assert(lost.length > 0 && lost.every((each) => hold.members.includes(each)))
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    assert.equal(await next.value.isHeld(), true)
    await next.value.unlock()
  })

  it('a caller with a fixed lease, and the next one, acquire from Redis with exactly their own lease', async () => {
    const client = await fixture.connect(LONG_RUN)
    const renewed = await kindFixture.lock(client).lock()
    const waiters = [
      kindFixture.lock(client).lock({ leaseTimeMs: 20_000 }),
      kindFixture.lock(client).lock({ leaseTimeMs: 50_000 }),
      kindFixture.lock(client).lock(),
    ]
    await kindFixture.somebodyWaits()
    await renewed.unlock()
    let previous = renewed
    for (const [index, leaseMs] of [20_000, 50_000, 30_000].entries()) {
      const hold = (await waiters[index]) as Hold
      assert.notEqual(hold.holder, previous.holder)
      for (const part of kindFixture.parts(client)) {
        const leftMs = await part.remainingLeaseMs()
        assert(leftMs <= leaseMs && leftMs > leaseMs - 9_000, `${leftMs} ms of ${leaseMs}`)
      }
      await hold.unlock()
      previous = hold
    }
  })

  it('maxHoldMs and warnAfterMs of the next holder count from the hand-off', async () => {
    const client = await fixture.connect(LONG_RUN)
    const long: { hold: Hold; heldMs: number }[] = []
    client.on('longHold', (details) => long.push(details))
    const first = await kindFixture.lock(client).lock({ maxHoldMs: 20_000, warnAfterMs: 20_000 })
    const waiter = kindFixture.lock(client).lock({ maxHoldMs: 1_000, warnAfterMs: 300 })
    await kindFixture.somebodyWaits()
    await sleep(400)
    await first.unlock()
    const hold = await waiter
    const leftMs = hold.remainingMs()
    assert(leftMs > 500 && leftMs <= 1_000, `${leftMs} ms are left`)
    await waitUntil(() => long.length > 0)
    assert((long[0]?.heldMs ?? 0) >= 300)
    await waitUntil(() => hold.signal.aborted)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'maxHold' })
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    assert.equal(first.signal.aborted, false)
    await waitUntil(() => kindFixture.isFree())
  })

  if (!kind.isAdoptable) return
  it('the current holder can transfer the lock to another client after a hand-off', async () => {
    const [client, other] = [await fixture.connect(LONG_RUN), await fixture.connect()]
    const [stale, waiter] = await heldAndWaitedFor(client)
    await stale.unlock()
    const last = kindFixture.lock(client).lock()
    const adopted = await (kindFixture.parts(other)[0] as Lock).adopt((await waiter).handOver())
    await stale.unlock()
    assert.equal(await adopted.isHeld(), true)
    await adopted.unlock()
    await (await last).unlock()
  })
}
