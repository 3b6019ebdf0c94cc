/** What acquiring, waiting and giving up promise, for every kind of lock. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Hold } from '../../src/index.js'
import { countCommands } from '../support/command-stats.js'
import type { AnyFixture } from '../support/fixture.js'
import type { Kind, KindFixture } from '../support/kinds.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

export function acquireContract(kind: Kind, fixture: AnyFixture, kindFixture: KindFixture): void {
  it('the lock is held after lock() and free after unlock()', async () => {
    const client = await fixture.connect()
    const lock = kindFixture.lock(client)
    const parts = kindFixture.parts(client)
    for (const part of parts) {
      assert.equal(await part.isLocked(), false)
      assert.equal(await part.remainingLeaseMs(), 0)
      assert.deepEqual(await part.getHolders(), [])
    }

    const startedAt = performance.now()
    /** At least, however late a busy machine reads it. */
    const leastMs = () => 29_000 - (performance.now() - startedAt)
    const hold = await lock.lock()
    hold.assertHeld()
    assert.equal(hold.lockName, lock.name)
    assert.equal(hold.count, 1)
    assert.equal(hold.signal.aborted, false)
    assert.equal(await hold.isHeld(), true)
    assert.equal(await kindFixture.isFree(), false)
    await kindFixture.expectCount(1)
    assert(hold.remainingMs() > leastMs() && hold.remainingMs() <= 30_000)
    const holders = hold.holder.split(', ')
    for (const [index, part] of parts.entries()) {
      assert.equal(await part.isLocked(), true)
      assert.deepEqual(await part.getHolders(), [{ holder: holders[index], holdCount: 1 }])
      const believedMs = hold.remainingMs()
      const leaseMs = await part.remainingLeaseMs()
      assert(leaseMs > leastMs() && leaseMs <= 30_000)
      // The hold was read before Redis, and its deadline is 302 ms before the end of the lease.
      assert(believedMs <= leaseMs + 302, `${believedMs} ms are believed, and ${leaseMs} ms are left`)
    }

    await hold.unlock()
    assert.equal(await hold.isHeld(), false)
    assert.equal(await kindFixture.isFree(), true)
    for (const part of parts) assert.equal(await part.isLocked(), false)
    assert.equal(hold.count, 0)
    assert.equal(hold.remainingMs(), 0)
    assert.equal(hold.signal.aborted, false, 'a clean release aborts nothing')
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_NOT_HELD' })
  })

  it('the lock is released once however often unlock() is called', async () => {
    const client = await fixture.connect()
    const first = await kindFixture.lock(client).lock()
    await Promise.all([first.unlock(), first.unlock()])
    await first.unlock()
    const second = await kindFixture.lock(client).lock()
    await first.unlock()
    assert.equal(await second.isHeld(), true)
    await second.unlock()
  })

  it('the end of an await using block releases the lock', async () => {
    const client = await fixture.connect()
    {
      await using hold = await kindFixture.lock(client).lock()
      assert.equal(await hold.isHeld(), true)
    }
    assert.equal(await kindFixture.isFree(), true)
  })

  it('tryLock() resolves to null while another owner holds the lock', async () => {
    const [one, two] = [await fixture.connect(), await fixture.connect()]
    const hold = await kindFixture.rival(one).lock()
    const before = await kindFixture.keys()
    assert.equal(await kindFixture.lock(two).tryLock(), null)
    assert.equal(await kindFixture.lock(one).tryLock(), null, 'also in the same client')
    const startedAt = performance.now()
    assert.equal(await kindFixture.lock(two).tryLock({ waitTimeMs: 200 }), null)
    const waitedMs = performance.now() - startedAt
    assert(waitedMs >= 199 && waitedMs < 2_000, `waited ${waitedMs} ms`)
    await kindFixture.onlyKeys(before)
    await hold.unlock()
    const taken = await kindFixture.lock(two).tryLock()
    assert(taken)
    assert.equal(await kindFixture.rival(one).tryLock(), null, 'and the other way round')
    await taken.unlock()
  })

  it('lock() and withLock() throw WaitTimeoutError when the wait time ends first', async () => {
    const [one, two] = [await fixture.connect(), await fixture.connect()]
    const hold = await kindFixture.rival(one).lock()
    const lock = kindFixture.lock(two)
    const refused = { code: 'LOCK_WAIT_TIMEOUT', lockName: lock.name, waitTimeMs: 50 }
    await assert.rejects(lock.lock({ waitTimeMs: 50 }), refused)
    await assert.rejects(
      lock.withLock({ waitTimeMs: 50 }, () => assert.fail('must not run')),
      refused,
    )
    assert.deepEqual(await lock.tryWithLock(() => assert.fail('must not run')), { ran: false })
    await hold.unlock()
    assert.deepEqual(await lock.tryWithLock(() => 42), { ran: true, value: 42 })
  })

  it('an invalid argument is refused before any command is sent', async () => {
    const client = await fixture.connect()
    const lock = kindFixture.lock(client)
    const count = await countCommands(fixture.server, async () => {
      for (const value of [0, 9, Number.NaN, 1.5, -1, 9e19, '1000', null]) {
        const leaseTimeMs = value as number
        await refuses('leaseTimeMs', () => lock.lock({ leaseTimeMs }))
        await refuses('leaseTimeMs', () => lock.tryWithLock({ leaseTimeMs }, () => assert.fail('must not run')))
      }
      for (const value of [Number.NaN, 1.5, -1, 9e19, '1000', null]) {
        const waitTimeMs = value as number
        await refuses('waitTimeMs', () => lock.lock({ waitTimeMs }))
        await refuses('waitTimeMs', () => lock.tryLock({ waitTimeMs }))
      }
      await refuses('maxHoldMs', () => lock.lock({ maxHoldMs: 0 }))
      await refuses('warnAfterMs', () => lock.lock({ warnAfterMs: 0 }))
      await refuses('label', () => lock.lock({ label: 7 as unknown as string }))
      await refuses('leaseTime', () => lock.lock({ leaseTime: 1_000 } as object))
      await refuses('signal', () => lock.lock({ signal: {} as AbortSignal }))
      await refuses('within', () => lock.lock({ within: {} as Hold }))
      await refuses('onAcquire', () => lock.withLock({ onAcquire: 'x' as never }, () => assert.fail('must not run')))
      await refuses('fn', () => lock.withLock({} as () => void))
      // A name is that of a lock, not of several.
      if (!kind.isJoint) assert.throws(() => kindFixture.lock(client, ''), { code: 'LOCK_CONFIG', path: 'lock name' })
    })
    assert.equal(count.total, 0)

    async function refuses(path: string, call: () => Promise<unknown>): Promise<void> {
      await assert.rejects(call, { code: 'LOCK_CONFIG', path, lockName: lock.name })
    }
  })
}

export function waitContract(kind: Kind, fixture: AnyFixture, kindFixture: KindFixture): void {
  it('a release wakes a waiter of another client at once', async () => {
    const [one, two] = [await fixture.connect(), await fixture.connect()]
    for (const [held, waitedFor] of [
      [kindFixture.rival(one), kindFixture.lock(two)],
      [kindFixture.lock(one), kindFixture.rival(two)],
    ] as const) {
      const hold = await held.lock()
      const waiter = waitedFor.lock()
      await kindFixture.somebodyWaits()
      await sleep(50)
      const releasedAt = performance.now()
      await hold.unlock()
      const next = await waiter
      const wokenMs = performance.now() - releasedAt
      // Without a message it would have been a poll of 5 s.
      assert(wokenMs < 1_000, `woken after ${wokenMs} ms`)
      await next.unlock()
    }
  })

  // Callers that share a lock do not queue behind each other.
  if (!kind.isShared) {
    it('waiters of one client are served in the order in which they came', async () => {
      const client = await fixture.connect()
      const lock = kindFixture.lock(client)
      const hold = await lock.lock()
      const order: number[] = []
      const waiters = Array.from({ length: 20 }, (_, index) => lock.withLock(() => order.push(index)))
      await hold.unlock()
      await Promise.all(waiters)
      assert.deepEqual(
        order,
        Array.from({ length: 20 }, (_, index) => index),
      )
    })
  }

  it('an abort ends a wait at once with the reason of the signal, and leaves nothing', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await kindFixture.rival(other).lock()
    const before = await kindFixture.keys()
    const controller = new AbortController()
    const waiters = Array.from({ length: 20 }, () => kindFixture.lock(client).lock({ signal: controller.signal }))
    await kindFixture.somebodyWaits()
    const reason = new Error('the request was aborted')
    controller.abort(reason)
    const outcomes = await settlesWithin(Promise.allSettled(waiters), 1_000)
    assert(outcomes.status === 'fulfilled')
    for (const outcome of outcomes.value) assert.deepEqual(outcome, { status: 'rejected', reason })
    await assert.rejects(kindFixture.lock(client, 'b').lock({ signal: controller.signal }), reason)
    await kindFixture.nobodyWaits()
    await kindFixture.onlyKeys(before)
    await hold.unlock()
    // A request that was under way may be overtaken by the release, and what it takes is released at once.
    if (fixture.isWaiting) await kindFixture.onlyKeys([])
    else assert.deepEqual(await kindFixture.keys(), [])
  })

  it('an abort that races with the grant leaves the lock either held by the caller or free', async () => {
    const client = await fixture.connect()
    const lock = kindFixture.lock(client)
    for (let round = 0; round < 100; round++) {
      const controller = new AbortController()
      const waiter = lock.tryLock({ signal: controller.signal, waitTimeMs: round % 2 ? 0 : 50 })
      if (round % 3 === 0) await new Promise((resolve) => setImmediate(resolve))
      else await Promise.resolve()
      if (round % 5 === 0) void Promise.resolve().then(() => controller.abort(new Error('too late')))
      else controller.abort(new Error('too late'))
      const hold: Hold | null | undefined = await waiter.catch(() => undefined)
      if (hold) {
        assert.equal(await hold.isHeld(), true)
        await hold.unlock()
      } else {
        await waitUntil(() => kindFixture.isFree(), { message: 'the late grant is released' })
      }
    }
  })

  it('a lease longer than a timer can run is granted and waited for without a hot loop', async () => {
    const client = await fixture.connect()
    const leaseTimeMs = 40 * 24 * 60 * 60 * 1000
    const lock = kindFixture.rival(client)
    const hold = await lock.lock({ leaseTimeMs, maxHoldMs: leaseTimeMs, warnAfterMs: leaseTimeMs })
    assert(hold.remainingMs() > 2 ** 31)
    const count = await countCommands(fixture.server, async () => {
      const waiter = kindFixture.lock(client).lock({ waitTimeMs: leaseTimeMs })
      await sleep(300)
      await hold.unlock()
      await (await waiter).unlock()
    })
    // A polled kind makes at least ten attempts a second, any other a few times in total.
    const most = kind.isPolled || fixture.isWaiting ? 30 : 6 * kindFixture.parts(client).length
    assert(count.scripts <= most, `${count.scripts} scripts`)
  })
}
