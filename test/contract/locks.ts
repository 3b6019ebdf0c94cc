/** What every kind of lock promises. What does not apply to a kind is left out by one of its traits: test/support/kinds.ts. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Client, Hold, LeaseLostError, Lock, SelfDeadlockError } from '../../src/index.js'
import { spawnChild } from '../support/child.js'
import { countCommands } from '../support/command-stats.js'
import type { Driver } from '../support/drivers.js'
import { Bench, type Kind } from '../support/kinds.js'
import type { AnyLab, SetUp } from '../support/lab.js'
import { mostInside } from '../support/most-inside.js'
import { renewed } from '../support/renewed.js'
import { roundTrips } from '../support/round-trips.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

const CONTENDER = new URL('../support/contender-process.js', import.meta.url)
/** A busy machine is slow to start processes. */
const START_MS = 30_000
const VICTIM = new URL('../support/victim-process.js', import.meta.url)

/** For a `describe` of its own. */
export function contract(kind: Kind, setUp: SetUp): void {
  const lab = setUp({ keysThatStay: kind.keysThatStay })
  const bench = new Bench(kind, lab)

  taking(kind, lab, bench)
  waiting(kind, lab, bench)
  excluding(kind, lab, bench)
  nesting(kind, lab, bench)
  ending(kind, lab, bench)
  guarding(lab, bench)
  if (!kind.isShared) passingOn(kind, lab, bench)
  if (kind.isAdoptable) handingOver(kind, lab, bench)
  else refusingToHandOver(kind, lab, bench)
}

/** The same of several processes, through a driver. */
export function contractOfProcesses(kind: Kind, setUp: SetUp, driver: Driver): void {
  const lab = setUp({ keysThatStay: kind.keysThatStay })
  const bench = new Bench(kind, lab)

  if (!kind.isShared) {
    it('lets no sections of several processes overlap, and loses no update', async () => {
      const { admin, url } = lab.server
      const processes = [1, 2].map(() => spawnChild(CONTENDER, [url, '3', '20', kind.name, driver.name]))
      for (const child of processes) lab.onEnd(() => child.stop())
      await Promise.all(processes.map((child) => child.nextMessage(({ at }) => at === 'ready', START_MS)))
      for (const child of processes) child.send({ at: 'go' })
      for (const child of processes) {
        const { sections } = await child.nextMessage<{ at: string; sections: number }>(
          ({ at }) => at === 'done',
          30_000,
        )
        assert.equal(sections, 60)
      }
      assert.deepEqual(await admin.mget('counter', 'overlaps', 'inside'), ['120', null, '0'])
      for (const child of processes) await settlesWithin(child.exit, 10_000)
      await admin.del('counter', 'inside')
    })
  }

  it('is taken within its lease + 1 s when its holder crashed', async () => {
    const child = spawnChild(VICTIM, [lab.server.url, kind.name, driver.name])
    lab.onEnd(() => child.stop())
    await child.nextMessage(({ at }) => at === 'held', START_MS)
    const client = await lab.connect()
    const waiter = bench.rival(client).lock()
    await bench.somebodyWaits()
    await child.stop()
    const killedAt = performance.now()
    const leftMs = Math.max(...(await Promise.all(bench.parts(client).map((part) => part.remainingLeaseMs()))))
    const hold = await waiter
    const waitedMs = performance.now() - killedAt
    assert(waitedMs < leftMs + 1_000, `taken ${waitedMs} ms after the crash, with ${leftMs} ms of the lease left`)
    await hold.unlock()
  })
}

function taking(kind: Kind, lab: AnyLab, bench: Bench): void {
  it('is held after lock(), and free after unlock()', async () => {
    const client = await lab.connect()
    const lock = bench.lock(client)
    const parts = bench.parts(client)
    for (const part of parts) {
      assert.equal(await part.isLocked(), false)
      assert.equal(await part.remainingLeaseMs(), 0)
      assert.deepEqual(await part.getHolders(), [])
    }

    const hold = await lock.lock()
    hold.assertHeld()
    assert.equal(hold.lockName, lock.name)
    assert.equal(hold.count, 1)
    assert.equal(hold.signal.aborted, false)
    assert.equal(await hold.isHeld(), true)
    assert.equal(await bench.isFree(), false)
    await bench.expectCount(1)
    assert(hold.remainingMs() > 25_000 && hold.remainingMs() <= 30_000)
    const holders = hold.holder.split(', ')
    for (const [index, part] of parts.entries()) {
      assert.equal(await part.isLocked(), true)
      assert.deepEqual(await part.getHolders(), [{ holder: holders[index], holdCount: 1 }])
      const believedMs = hold.remainingMs()
      const leaseMs = await part.remainingLeaseMs()
      assert(leaseMs > 25_000 && leaseMs <= 30_000)
      // One asks later than one believes, and what is believed ends 302 ms before the lease.
      assert(believedMs <= leaseMs + 302, `${believedMs} ms are believed, and ${leaseMs} ms are left`)
    }

    await hold.unlock()
    assert.equal(await hold.isHeld(), false)
    assert.equal(await bench.isFree(), true)
    for (const part of parts) assert.equal(await part.isLocked(), false)
    assert.equal(hold.count, 0)
    assert.equal(hold.remainingMs(), 0)
    assert.equal(hold.signal.aborted, false, 'a clean release aborts nothing')
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_NOT_HELD' })
  })

  it('is released once however often the hold is', async () => {
    const client = await lab.connect()
    const first = await bench.lock(client).lock()
    await Promise.all([first.unlock(), first.unlock()])
    await first.unlock()
    const second = await bench.lock(client).lock()
    await first.unlock()
    assert.equal(await second.isHeld(), true)
    await second.unlock()
  })

  it('is released at the end of an await using block', async () => {
    const client = await lab.connect()
    {
      await using hold = await bench.lock(client).lock()
      assert.equal(await hold.isHeld(), true)
    }
    assert.equal(await bench.isFree(), true)
  })

  it('answers null to tryLock() while somebody else holds it', async () => {
    const [one, two] = [await lab.connect(), await lab.connect()]
    const hold = await bench.rival(one).lock()
    const before = await bench.keys()
    assert.equal(await bench.lock(two).tryLock(), null)
    assert.equal(await bench.lock(one).tryLock(), null, 'also in the same client')
    const startedAt = performance.now()
    assert.equal(await bench.lock(two).tryLock({ waitTimeMs: 200 }), null)
    const waitedMs = performance.now() - startedAt
    assert(waitedMs >= 199 && waitedMs < 2_000, `waited ${waitedMs} ms`)
    await bench.onlyKeys(before)
    await hold.unlock()
    const taken = await bench.lock(two).tryLock()
    assert(taken)
    assert.equal(await bench.rival(one).tryLock(), null, 'and the other way round')
    await taken.unlock()
  })

  it('throws WaitTimeoutError from lock() and withLock() when the wait time ends first', async () => {
    const [one, two] = [await lab.connect(), await lab.connect()]
    const hold = await bench.rival(one).lock()
    const lock = bench.lock(two)
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

  it('refuses an argument that cannot work before any command is sent', async () => {
    const client = await lab.connect()
    const lock = bench.lock(client)
    const count = await countCommands(lab.server, async () => {
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
      if (!kind.isJoint) assert.throws(() => bench.lock(client, ''), { code: 'LOCK_CONFIG', path: 'lock name' })
    })
    assert.equal(count.total, 0)

    async function refuses(path: string, call: () => Promise<unknown>): Promise<void> {
      await assert.rejects(call, { code: 'LOCK_CONFIG', path, lockName: lock.name })
    }
  })
}

function waiting(kind: Kind, lab: AnyLab, bench: Bench): void {
  it('wakes a waiter of another client at once when it is released', async () => {
    const [one, two] = [await lab.connect(), await lab.connect()]
    for (const [held, waitedFor] of [
      [bench.rival(one), bench.lock(two)],
      [bench.lock(one), bench.rival(two)],
    ] as const) {
      const hold = await held.lock()
      const waiter = waitedFor.lock()
      await bench.somebodyWaits()
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

  // Those who share it do not queue behind each other.
  if (!kind.isShared) {
    it('serves waiters of one client in the order in which they came', async () => {
      const client = await lab.connect()
      const lock = bench.lock(client)
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

  it('ends a wait at once with the reason of the signal, and leaves nothing', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const hold = await bench.rival(other).lock()
    const before = await bench.keys()
    const controller = new AbortController()
    const waiters = Array.from({ length: 20 }, () => bench.lock(client).lock({ signal: controller.signal }))
    await bench.somebodyWaits()
    const reason = new Error('the request was aborted')
    controller.abort(reason)
    const outcomes = await settlesWithin(Promise.allSettled(waiters), 1_000)
    assert(outcomes.status === 'fulfilled')
    for (const outcome of outcomes.value) assert.deepEqual(outcome, { status: 'rejected', reason })
    await assert.rejects(bench.lock(client, 'b').lock({ signal: controller.signal }), reason)
    await bench.nobodyWaits()
    await bench.onlyKeys(before)
    await hold.unlock()
    assert.deepEqual(await bench.keys(), [])
  })

  it('is either held by the caller or free when an abort races with the grant', async () => {
    const client = await lab.connect()
    const lock = bench.lock(client)
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
        await waitUntil(() => bench.isFree(), { message: 'the late grant is given back' })
      }
    }
  })

  it('takes a lease longer than a timer can run, and waits for one, without a hot loop', async () => {
    const client = await lab.connect()
    const leaseTimeMs = 40 * 24 * 60 * 60 * 1000
    const lock = bench.rival(client)
    const hold = await lock.lock({ leaseTimeMs, maxHoldMs: leaseTimeMs, warnAfterMs: leaseTimeMs })
    assert(hold.remainingMs() > 2 ** 31)
    const count = await countCommands(lab.server, async () => {
      const waiter = bench.lock(client).lock({ waitTimeMs: leaseTimeMs })
      await sleep(300)
      await hold.unlock()
      await (await waiter).unlock()
    })
    // Who polls asks some ten times a second at least, who is told a few times in all.
    const most = kind.isPolled ? 30 : 6 * bench.parts(client).length
    assert(count.scripts <= most, `${count.scripts} scripts`)
  })
}

function excluding(kind: Kind, lab: AnyLab, bench: Bench): void {
  if (kind.isShared) {
    it('lets many in at once, and its rival when the last of them has left', async () => {
      const [one, two] = [await lab.connect(), await lab.connect()]
      const lock = bench.lock(one)
      let inside = 0
      const together = (): Promise<unknown> => waitUntil(() => inside === 4, { message: 'all four are inside' })
      const bodies = [lock, lock, bench.lock(one), bench.lock(two)].map((each) =>
        each.withLock(async () => {
          inside++
          await together()
        }),
      )
      await Promise.all(bodies)

      const holds = [await lock.lock(), await lock.lock(), await bench.lock(two).lock()]
      const [part] = bench.parts(two)
      const holders = (await part?.getHolders())?.toSorted((a, b) => (a.holder < b.holder ? -1 : 1))
      assert.deepEqual(
        holders,
        holds.map(({ holder }) => ({ holder, holdCount: 1 })).toSorted((a, b) => (a.holder < b.holder ? -1 : 1)),
      )
      const rival = bench.rival(two).lock()
      for (const hold of holds) {
        assert.equal(await bench.rival(one).tryLock(), null)
        await hold.unlock()
      }
      await (await rival).unlock()
    })

    it('is a SelfDeadlockError of its rival inside its own hold', async () => {
      const client = await lab.connect()
      await bench.lock(client).withLock(async (hold) => {
        await assert.rejects(bench.rival(client).lock(), { code: 'LOCK_SELF_DEADLOCK', lockName: 'a' })
        assert.equal(await hold.isHeld(), true)
      })
    })
    return
  }

  it('lets siblings of one Promise.all exclude each other, on one lock object and on two', async () => {
    const client = await lab.connect()
    const lock = bench.lock(client)
    assert.equal(await mostInside([lock, lock, lock]), 1)
    assert.equal(await mostInside([bench.lock(client), bench.lock(client), bench.lock(client)]), 1)
  })

  it('keeps a read-modify-write of two clients and many tasks exact', async () => {
    const { admin } = lab.server
    const clients = [await lab.connect(), await lab.connect()] as const
    await admin.set('stock', 100)
    const sell = async (index: number): Promise<void> => {
      await bench.lock(clients[index % 2] as Client).withLock(async () => {
        const stock = Number(await admin.get('stock'))
        await null
        await admin.set('stock', stock - 1)
      })
    }
    await Promise.all(Array.from({ length: 100 }, (_, index) => sell(index)))
    assert.equal(await admin.get('stock'), '0')
    await admin.del('stock')
  })

  it('excludes other scopes', async () => {
    const client = await lab.connect()
    const lock = bench.lock(client)
    let inside = 0
    await Promise.all(
      Array.from({ length: 5 }, () =>
        client.runInScope(async () => {
          const hold = await lock.lock()
          assert.equal(++inside, 1)
          await sleep(2)
          inside--
          await hold.unlock()
        }),
      ),
    )
  })
}

function nesting(kind: Kind, lab: AnyLab, bench: Bench): void {
  it('outside any scope or hold the calls of the current owner throw, and say what to do', async () => {
    const client = await lab.connect()
    const hold = await bench.lock(client).lock()
    for (const part of bench.parts(client)) {
      for (const call of [() => part.unlock(), () => part.isHeldByCurrentOwner(), () => part.getHoldCount()]) {
        await assert.rejects(call, { code: 'LOCK_NOT_HELD', message: /runInScope/ })
      }
    }
    await hold.unlock()
  })

  if (!kind.isReentrant) {
    it('is a SelfDeadlockError at once inside its own hold, however it is asked for', async () => {
      const client = await lab.connect()
      const lock = bench.lock(client)
      await lock.withLock(async (hold) => await expectDeadlock(client, hold))
      assert.equal(await bench.isFree(), true)
      await client.runInScope(async () => {
        const hold = await lock.lock()
        await expectDeadlock(client, hold)
        await hold.unlock()
      })
      assert.equal(await bench.isFree(), true)
    })

    async function expectDeadlock(client: Client, hold: Hold): Promise<void> {
      const lock = bench.lock(client)
      const count = await countCommands(lab.server, async () => {
        for (const call of [
          () => lock.lock(),
          () => lock.tryLock(),
          () => lock.withLock(() => assert.fail('must not run')),
          () => lock.tryWithLock({ waitTimeMs: 1_000 }, () => assert.fail('must not run')),
          () => lock.lock({ within: hold }),
        ]) {
          await assert.rejects(call, (error: SelfDeadlockError) => {
            assert.deepEqual([error.code, error.lockName], ['LOCK_SELF_DEADLOCK', 'a'])
            assert.match(error.holdStack ?? '', /contract\/locks\./, 'where it was taken')
            assert.match(error.stack ?? '', /contract\/locks\./, 'where it was asked for')
            return true
          })
        }
      })
      assert.equal(count.total, 0)
      assert.equal(await hold.isHeld(), true)
    }

    it('is held by the call chain of a scope, so that Java code ports line by line', async () => {
      const client = await lab.connect()
      await client.runInScope(async () => {
        const lock = bench.parts(client)[0] as Lock
        assert.equal(await lock.isHeldByCurrentOwner(), false)
        await lock.lock()
        assert.equal(await lock.isHeldByCurrentOwner(), true)
        assert.equal(await lock.getHoldCount(), 1)
        await lock.unlock()
        assert.equal(await lock.isHeldByCurrentOwner(), false)
        await assert.rejects(lock.unlock(), { code: 'LOCK_NOT_HELD' })
      })
    })
    return
  }

  it('re-enters along the call chain of withLock, through any lock object of the name', async () => {
    const client = await lab.connect()
    await bench.lock(client).withLock(async (outer) => {
      await sleep(1)
      await bench.lock(client).withLock(async (inner) => {
        assert.equal(inner.holder, outer.holder)
        await bench.expectCount(2)
        for (const part of bench.parts(client)) assert.equal(await part.getHoldCount(), 2)
      })
      await bench.expectCount(1)
      for (const part of bench.parts(client)) assert.equal(await part.getHoldCount(), 1)
      outer.assertHeld()
      assert.equal(await outer.isHeld(), true)
    })
    assert.equal(await bench.isFree(), true)
  })

  it('re-enters while others wait in line for the outer hold', async () => {
    const client = await lab.connect()
    let othersWait: () => void = () => {}
    const theyWait = new Promise<void>((resolve) => {
      othersWait = resolve // perhaps before the body begins: of several locks the first is taken before
    })
    const body = bench.lock(client).withLock(async (outer) => {
      await theyWait
      const inner = await bench.lock(client).tryLock({ waitTimeMs: 2_000 })
      assert.equal(inner?.holder, outer.holder)
      await inner?.unlock()
    })
    await waitUntil(async () => !(await bench.isFree()))
    const waiters = [bench.rival(client).withLock(() => {}), bench.rival(client).withLock(() => {})]
    await bench.somebodyWaits()
    othersWait()
    await Promise.all([body, ...waiters])
  })

  it('goes on with the outer hold when an inner one ends first, and with the inner when the outer does', async () => {
    const client = await lab.connect()
    await client.runInScope(async () => {
      for (const [first, last] of [
        [0, 1],
        [1, 0],
      ] as const) {
        const holds = [await bench.lock(client).lock(), await bench.lock(client).lock()]
        await holds[first]?.unlock()
        assert.equal(await holds[last]?.isHeld(), true)
        await bench.expectCount(1)
        await holds[last]?.unlock()
        assert.equal(await bench.isFree(), true)
      }
    })
  })

  it('makes the call chain of a scope one owner, so that Java code ports line by line', async () => {
    const client = await lab.connect()
    const lock = bench.lock(client)
    const parts = bench.parts(client)
    await client.runInScope(async () => {
      for (const part of parts) {
        assert.equal(await part.isHeldByCurrentOwner(), false)
        assert.equal(await part.getHoldCount(), 0)
      }
      const hold = await lock.lock()
      const again = await lock.lock()
      assert.equal(again.holder, hold.holder)
      for (const part of parts) assert.equal(await part.getHoldCount(), 2)
      await release(again)
      for (const part of parts) {
        assert.equal(await part.isHeldByCurrentOwner(), true)
        assert.equal(await part.getHoldCount(), 1)
      }
      await release(hold)
      assert.equal(await bench.isFree(), true)
      for (const part of parts) {
        assert.equal(await part.isHeldByCurrentOwner(), false)
        await assert.rejects(part.unlock(), { code: 'LOCK_NOT_HELD' })
      }
    })

    async function release(hold: Hold): Promise<void> {
      if (kind.isJoint) await hold.unlock()
      else await parts[0]?.unlock()
    }
  })

  if (kind.isJoint) {
    it('refuses `within`, as it has no hold of its own to re-enter', async () => {
      const client = await lab.connect()
      const hold = await bench.lock(client).lock()
      await assert.rejects(bench.lock(client).lock({ within: hold }), { code: 'LOCK_CONFIG', path: 'within' })
      await hold.unlock()
    })
    return
  }

  it('re-enters by `within` where the call chain does not help, and refuses a hold that does not fit', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const hold = await bench.lock(client).lock()
    const again = await bench.lock(client).lock({ within: hold })
    assert.deepEqual([again.holder, again.count, hold.count], [hold.holder, 2, 2])
    await bench.expectCount(2)
    await again.unlock()
    const misfit = { code: 'LOCK_CONFIG', path: 'within' }
    await assert.rejects(bench.lock(client, 'b').lock({ within: hold }), misfit)
    await assert.rejects(bench.lock(other).lock({ within: hold }), misfit)
    await hold.unlock()
    await assert.rejects(bench.lock(client).lock({ within: hold }), { code: 'LOCK_NOT_HELD' })
  })

  it('gives an inner hold the lease it asked for: its end is no end of the outer hold', async () => {
    const client = await lab.connect()
    await bench.lock(client).withLock(async (outer) => {
      const inner = await bench.lock(client).lock({ leaseTimeMs: 150 })
      await waitUntil(() => inner.signal.aborted)
      outer.assertHeld()
      assert.equal(outer.count, 1)
      assert.equal(await outer.isHeld(), true)
      await assert.rejects(inner.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
      assert.equal(await outer.isHeld(), true)
    })
    assert.equal(await bench.isFree(), true)
  })
}

function ending(kind: Kind, lab: AnyLab, bench: Bench): void {
  it('loses a hold with a lease of its own exactly when that ends', async () => {
    const client = await lab.connect({ lockWatchdogTimeoutMs: 300 })
    const startedAt = performance.now()
    const hold = await bench.lock(client).lock({ leaseTimeMs: 1_000 })
    await new Promise((resolve) => hold.signal.addEventListener('abort', resolve))
    const heldMs = performance.now() - startedAt
    // Before the command was sent, plus the lease, minus 1 % and 2 ms.
    assert(heldMs > 980 && heldMs < 2_500, `aborted after ${heldMs} ms`)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    assert.equal((hold.signal.reason as { code: string }).code, 'LOCK_LEASE_LOST')
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
  })

  it('is free for others as soon as a lease of its own has ended, although nobody released it', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const hold = await bench.lock(client).lock({ leaseTimeMs: 400 })
    const next = await bench.rival(other).lock({ waitTimeMs: 2_400 }) // less than the 5 s of a look-up
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    await next.unlock()
  })

  it('is renewed as long as it is held', async () => {
    const [client, other] = [await lab.connect({ lockWatchdogTimeoutMs: 2_000 }), await lab.connect()]
    const lost: LeaseLostError[] = []
    client.on('lost', ({ error }) => lost.push(error))
    const hold = await bench.lock(client).lock()
    assert.equal(await bench.rival(other).tryLock({ waitTimeMs: 2_200 }), null)
    hold.assertHeld()
    assert.equal(await hold.isHeld(), true)
    for (const part of bench.parts(client)) assert((await part.remainingLeaseMs()) <= 2_000)
    await hold.unlock()
    assert.deepEqual(lost, [])
  })

  it('tells its holder that forceUnlock() freed it, and wakes the waiters', async () => {
    const [owner, other] = [await lab.connect({ lockWatchdogTimeoutMs: 2_400 }), await lab.connect()]
    for (const [who, reason] of [
      [other, 'gone'],
      [owner, 'forced'],
    ] as const) {
      const hold = await bench.lock(owner).lock()
      const waiter = bench.rival(other).lock()
      await bench.somebodyWaits()
      for (const part of bench.parts(who)) assert.equal(await part.forceUnlock(), true)
      const next = await settlesWithin(waiter, 2_000)
      assert(next.status === 'fulfilled')
      await waitUntil(() => hold.signal.aborted)
      assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason })
      assert.equal(await hold.isHeld(), false)
      await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
      assert.equal(await next.value.isHeld(), true)
      await next.value.unlock()
      for (const part of bench.parts(who)) assert.equal(await part.forceUnlock(), false, 'it was free')
    }
  })

  it('is not condemned by a forceUnlock() that was sent before it was taken', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const parts = bench.parts(client)
    await bench.lock(client).withLock(() => {})
    await Promise.all(parts.map((part) => part.forceUnlock())) // Redis knows the scripts from here on
    for (let round = 0; round < 10; round++) {
      await bench.lock(other).lock()
      const forced = parts.map((part) => part.forceUnlock())
      const hold = await bench.lock(client).tryLock()
      assert.deepEqual(
        await Promise.all(forced),
        parts.map(() => true),
      )
      assert.equal(hold?.signal.aborted, false)
      assert.equal(await hold?.isHeld(), true)
      await hold?.unlock()
    }
  })

  it('is known as lost by whoever asks Redis, when Redis no longer knows the holder', async () => {
    const client = await lab.connect()
    const lost: string[] = []
    client.on('lost', ({ hold, error }) => lost.push(`${hold.lockName} ${error.reason}`))
    const hold = await bench.lock(client).lock()
    await bench.deleteKeys()
    hold.assertHeld()
    assert.equal(await hold.isHeld(), false)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert(lost.includes(`${hold.lockName} gone`))
  })

  it('never releases what somebody else took after the loss', async () => {
    const [one, two] = [await lab.connect(), await lab.connect()]
    const hold = await bench.lock(one).lock()
    await bench.deleteKeys()
    const other = await bench.lock(two).lock()
    const before = await Promise.all(bench.parts(two).map((part) => part.getHolders()))
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    assert.equal(hold.signal.aborted, true)
    assert.deepEqual(await Promise.all(bench.parts(two).map((part) => part.getHolders())), before)
    assert.equal(await other.isHeld(), true)
    await other.unlock()
  })

  it('is released by close(), which sends its waiters away and leaves nothing of them', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const foreign = await bench.rival(other, 'b').lock()
    const before = await bench.keys()
    const hold = await bench.lock(client).lock()
    const waiters = [1, 2, 3].map(() => settlesWithin(bench.lock(client, 'b').lock(), 5_000))
    await bench.somebodyWaits()
    await client.close()
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'closed' })
    for (const outcome of await Promise.all(waiters)) {
      assert(outcome.status === 'rejected')
      assert.equal(outcome.reason.code, 'LOCK_CLIENT_CLOSED')
    }
    assert.equal(await bench.isFree(), true)
    assert.deepEqual((await bench.keys()).sort(), before.sort(), 'no place in a queue is left')
    await assert.rejects(bench.lock(client).lock(), { code: 'LOCK_CLIENT_CLOSED' })
    await assert.rejects(bench.lock(client).tryLock(), { code: 'LOCK_CLIENT_CLOSED' })
    await foreign.unlock()
    assert.deepEqual(await bench.keys(), [])
  })

  it('recovers when Redis forgets the scripts at any time', async () => {
    const { admin } = lab.server
    const client = await lab.connect({ lockWatchdogTimeoutMs: 1_500 })
    await client.runInScope(async () => {
      for (let round = 0; round < 3; round++) {
        await admin.script('FLUSH')
        const hold = await bench.lock(client).lock()
        if (kind.isReentrant) {
          await admin.script('FLUSH')
          const again = await bench.lock(client).lock()
          await admin.script('FLUSH')
          await again.unlock()
        }
        await admin.script('FLUSH')
        await renewed([hold], 1)
        assert.equal(await hold.isHeld(), true)
        await admin.script('FLUSH')
        await hold.unlock()
      }
    })
  })
}

function guarding(lab: AnyLab, bench: Bench): void {
  it('tells the body its hold, its value to the caller, and calls onAcquire and onRelease', async () => {
    const client = await lab.connect()
    const calls: string[] = []
    const value = await bench.lock(client).withLock(
      {
        label: 'charge',
        onAcquire: (hold) => calls.push(`acquire ${hold.label}`),
        onRelease: async () => calls.push(`release ${await bench.isFree()}`),
      },
      (hold) => {
        hold.assertHeld()
        calls.push('body')
        return 'done'
      },
    )
    assert.equal(value, 'done')
    assert.deepEqual(calls, ['acquire charge', 'body', 'release true'])
  })

  it('is released when the body fails, and the error of the body is what the caller gets', async () => {
    const client = await lab.connect()
    const lock = bench.lock(client)
    const failure = new Error('the card was declined')
    await assert.rejects(
      lock.withLock(() => {
        throw failure
      }),
      failure,
    )
    assert.equal(await bench.isFree(), true)
    await assert.rejects(
      lock.withLock(async () => {
        await bench.deleteKeys()
        throw failure
      }),
      failure,
      'also when the lock was lost meanwhile',
    )
    const warned = new Promise<Error>((resolve) => client.once('warning', resolve))
    const onRelease = (): never => {
      throw new Error('onRelease failed, too')
    }
    await assert.rejects(
      lock.withLock({ onRelease }, () => {
        throw failure
      }),
      failure,
      'also when onRelease fails',
    )
    assert.equal((await warned).message, 'onRelease failed, too')
  })

  it('tells the caller of withLock when the lock was lost while the body ran', async () => {
    const client = await lab.connect()
    const lock = bench.lock(client)
    const lost: string[] = []
    client.on('lost', ({ hold, error }) => lost.push(`${hold.lockName} ${error.reason}`))
    await assert.rejects(
      lock.withLock(async (hold) => {
        await bench.deleteKeys()
        hold.assertHeld()
      }),
      { code: 'LOCK_LEASE_LOST', reason: 'gone', lockName: lock.name },
    )
    assert.equal(lost.filter((loss) => loss === `${lock.name} gone`).length, 1, 'told once')
  })
}

/** From one caller of a client to the next, for a run that no test outlasts. */
function passingOn(kind: Kind, lab: AnyLab, bench: Bench): void {
  const LONG_RUN = { maxHandOffMs: 60_000, maxHandOffs: 1_000_000 }
  const NOT_HELD = { code: 'LOCK_NOT_HELD' }

  /** One hold, and a waiter behind it that Redis has refused. */
  async function heldAndWaitedFor(client: Client): Promise<[Hold, Promise<Hold>]> {
    const hold = await bench.lock(client).lock()
    const waiter = bench.lock(client).lock()
    await bench.somebodyWaits()
    await roundTrips(hold)
    return [hold, waiter]
  }

  it('stays exclusive, in order and exactly counted when many tasks of one client pass it on', async () => {
    const client = await lab.connect(LONG_RUN)
    const asked: number[] = []
    const served: number[] = []
    let inside = 0
    let sections = 0
    const section = async (id: number): Promise<void> => {
      await bench.lock(client).withLock(async (hold) => {
        served.push(id)
        assert.equal(++inside, 1)
        assert.equal(hold.count, 1)
        if (++sections % 20 === 0) await bench.expectCount(1)
        if (kind.isReentrant && sections % 10 === 0) {
          await bench.lock(client).withLock(async (inner) => {
            assert.deepEqual([inner.holder, inner.count], [hold.holder, kind.isJoint ? 1 : 2])
            await bench.expectCount(2)
          })
        }
        await null
        hold.assertHeld()
        inside--
      })
    }
    // Several locks are first asked for in one command, by callers that know nothing of one another: all shall be refused it.
    const first = await bench.lock(client).lock()
    const tasks = Array.from({ length: 20 }, async (_, task) => {
      for (let round = 0; round < 5; round++) {
        const id = task + 20 * round
        asked.push(id)
        await section(id)
      }
    })
    if (kind.isJoint) await roundTrips(first)
    await first.unlock()
    await Promise.all(tasks)
    assert.equal(served.length, 100)
    assert.deepEqual(served, asked)
    assert.equal(await bench.isFree(), true)
  })

  it(`goes from one caller of a client to the next ${kind.isPassedOn ? 'without a command' : 'by Redis'}`, async () => {
    const client = await lab.connect(LONG_RUN)
    const [first, waiter] = await heldAndWaitedFor(client)
    const last = bench.lock(client).lock()
    const holds: Hold[] = [first]
    const count = await countCommands(lab.server, async () => {
      await first.unlock()
      holds.push(await waiter)
      await holds[1]?.unlock()
      holds.push(await last)
    })
    const owners = new Set(holds.map(({ holder }) => holder))
    if (kind.isPassedOn) assert.deepEqual([count.scripts, owners.size], [0, 1])
    else assert(count.scripts > 0 && owners.size === 3)
    await holds[2]?.unlock()
  })

  it('gives whoever had it before no power over the next of the same client', async () => {
    const client = await lab.connect(LONG_RUN)
    const [stale, waiter] = await heldAndWaitedFor(client)
    const { signal } = stale
    await Promise.all([stale.unlock(), stale.unlock()])
    const hold = await waiter
    await stale.unlock()
    assert.throws(() => stale.assertHeld(), NOT_HELD)
    if (!kind.isJoint) {
      await assert.rejects(bench.lock(client).lock({ within: stale }), NOT_HELD)
      if (kind.isAdoptable) assert.throws(() => stale.handOver(), NOT_HELD)
    }
    assert.equal(await stale.isHeld(), false)
    assert.deepEqual([stale.count, stale.remainingMs()], [0, 0])
    hold.assertHeld()
    assert.equal(await hold.isHeld(), true)
    await bench.expectCount(1)
    await bench.deleteKeys()
    assert.equal(await hold.isHeld(), false)
    assert.deepEqual([hold.signal.aborted, signal.aborted], [true, false])
    await stale.unlock()
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
  })

  it('lets what was left running in an earlier body wait as anybody does', async () => {
    const client = await lab.connect(LONG_RUN)
    const order: string[] = []
    let isNextWaiting = false
    let hasNextBegun = false
    let stray: Promise<void> | undefined
    const first = bench.lock(client).withLock(async () => {
      stray = (async () => {
        await waitUntil(() => hasNextBegun)
        await bench.lock(client).withLock((hold) => {
          order.push('stray')
          assert.equal(hold.count, 1)
        })
      })()
      await waitUntil(() => isNextWaiting)
    })
    await waitUntil(() => stray !== undefined)
    const next = bench.lock(client).withLock(async (hold) => {
      hasNextBegun = true
      await sleep(30)
      assert.equal(hold.count, 1)
      await bench.expectCount(1)
      order.push('next')
    })
    await bench.somebodyWaits()
    isNextWaiting = true
    await Promise.all([first, next])
    await stray
    assert.deepEqual(order, ['next', 'stray'])
  })

  it('is with a waiter that goes away in the turn of the release, or with the one behind it', async () => {
    const client = await lab.connect(LONG_RUN)
    const lock = bench.lock(client)
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
    await waitUntil(() => bench.isFree())
  })

  it('ends with close(): those who wait are sent away, who has it keeps it for the drain', async () => {
    const client = await lab.connect(LONG_RUN)
    let sections = 0
    let cutShort = 0
    const tasks = Array.from({ length: 10 }, async () => {
      for (;;) {
        await bench.lock(client).withLock(async (hold) => {
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
    assert.deepEqual(await bench.keys(), [])
  })

  it('is lost by the one who has it then, and given to the next by Redis, when another client frees it', async () => {
    const client = await lab.connect({ ...LONG_RUN, lockWatchdogTimeoutMs: 3_000 })
    const other = await lab.connect()
    const lost: Hold[] = []
    client.on('lost', ({ hold }) => lost.push(...hold.members))
    const [stale, waiter] = await heldAndWaitedFor(client)
    const last = settlesWithin(bench.lock(client).lock(), 10_000)
    await stale.unlock()
    const hold = await waiter
    if (kind.isPassedOn) assert.equal(hold.holder, stale.holder)
    for (const part of bench.parts(other)) assert.equal(await part.forceUnlock(), true)
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

  it('is asked of Redis anew by or after whoever wants a lease of its own, and has exactly that lease', async () => {
    const client = await lab.connect(LONG_RUN)
    const renewed = await bench.lock(client).lock()
    const waiters = [
      bench.lock(client).lock({ leaseTimeMs: 20_000 }),
      bench.lock(client).lock({ leaseTimeMs: 50_000 }),
      bench.lock(client).lock(),
    ]
    await bench.somebodyWaits()
    await renewed.unlock()
    let previous = renewed
    for (const [index, leaseMs] of [20_000, 50_000, 30_000].entries()) {
      const hold = (await waiters[index]) as Hold
      assert.notEqual(hold.holder, previous.holder)
      for (const part of bench.parts(client)) {
        const leftMs = await part.remainingLeaseMs()
        assert(leftMs <= leaseMs && leftMs > leaseMs - 9_000, `${leftMs} ms of ${leaseMs}`)
      }
      await hold.unlock()
      previous = hold
    }
  })

  it('counts maxHoldMs and warnAfterMs of the next one from when it has it', async () => {
    const client = await lab.connect(LONG_RUN)
    const long: { hold: Hold; heldMs: number }[] = []
    client.on('longHold', (details) => long.push(details))
    const first = await bench.lock(client).lock({ maxHoldMs: 20_000, warnAfterMs: 20_000 })
    const waiter = bench.lock(client).lock({ maxHoldMs: 1_000, warnAfterMs: 300 })
    await bench.somebodyWaits()
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
    await waitUntil(() => bench.isFree())
  })

  if (!kind.isAdoptable) return
  it('can be handed over to another client by whoever has it then', async () => {
    const [client, other] = [await lab.connect(LONG_RUN), await lab.connect()]
    const [stale, waiter] = await heldAndWaitedFor(client)
    await stale.unlock()
    const last = bench.lock(client).lock()
    const adopted = await (bench.parts(other)[0] as Lock).adopt((await waiter).handOver())
    await stale.unlock()
    assert.equal(await adopted.isHeld(), true)
    await adopted.unlock()
    await (await last).unlock()
  })
}

function handingOver(kind: Kind, lab: AnyLab, bench: Bench): void {
  const part = (client: Client): Lock => bench.parts(client)[0] as Lock

  it('goes on in another client that adopts a hold that was handed over', async () => {
    const [one, two] = [await lab.connect(), await lab.connect()]
    const hold = await part(one).lock()
    if (kind.isReentrant) await part(one).lock({ within: hold })
    const holder = hold.handOver()
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_NOT_HELD' })
    assert.throws(() => hold.handOver(), { code: 'LOCK_NOT_HELD' })
    const adopted = await part(two).adopt(holder)
    assert.deepEqual([adopted.holder, adopted.count], [`${two.id}:${adopted.ownerId}`, 1])
    assert.deepEqual(await part(one).getHolders(), [{ holder: adopted.holder, holdCount: 1 }])
    await assert.rejects(part(two).adopt(holder), { code: 'LOCK_NOT_HELD' }, 'only one can adopt it')
    assert.equal(await part(one).tryLock(), null)
    await one.close()
    assert.equal(await adopted.isHeld(), true, 'who handed it over has no more say in it')
    await adopted.unlock()
    assert.equal(await bench.isFree(), true)
    await assert.rejects(part(two).adopt(holder), { code: 'LOCK_NOT_HELD' })
    await assert.rejects(part(two).adopt('nonsense'), { code: 'LOCK_CONFIG', path: 'holder' })
    assert.deepEqual(await bench.keys(), [])
  })

  it('wakes those who wait for it, when the one who adopted it releases it', async () => {
    const [one, two] = [await lab.connect(), await lab.connect()]
    const holder = (await part(one).lock()).handOver()
    const waiter = part(one).lock()
    await bench.somebodyWaits()
    await (await part(two).adopt(holder)).unlock()
    const next = await settlesWithin(waiter, 2_000)
    assert(next.status === 'fulfilled')
    await next.value.unlock()
  })

  it('tells a holder that did not let go that its hold was adopted', async () => {
    const [one, two] = [await lab.connect({ lockWatchdogTimeoutMs: 2_400 }), await lab.connect()]
    const hold = await part(one).lock()
    const adopted = await part(two).adopt(hold.holder)
    await waitUntil(() => hold.signal.aborted)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert.equal(await adopted.isHeld(), true)
    await adopted.unlock()
  })
}

function refusingToHandOver(kind: Kind, lab: AnyLab, bench: Bench): void {
  it('cannot be handed over, says so, and stays held', async () => {
    const client = await lab.connect()
    const hold = await bench.lock(client).lock()
    assert.throws(() => hold.handOver(), { code: 'LOCK_CONFIG', path: 'handOver' })
    hold.assertHeld()
    if (!kind.isJoint) {
      const [part] = bench.parts(client)
      await assert.rejects(async () => await part?.adopt(hold.holder), { code: 'LOCK_CONFIG', path: 'adopt' })
    }
    assert.equal(await hold.isHeld(), true)
    await hold.unlock()
    assert.equal(await bench.isFree(), true)
  })
}
