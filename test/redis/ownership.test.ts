import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { Readable } from 'node:stream'
import { describe, it } from 'node:test'
import type { Client, Hold } from '../../src/index.js'
import { setUpLab } from '../support/lab.js'
import { mostInside } from '../support/most-inside.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

describe('ownership', () => {
  const lab = setUpLab()

  async function expectReentry(client: Client, hold: Hold, name = 'a'): Promise<void> {
    const again = await client.getLock(name).tryLock()
    assert(again, 'the call chain is inside the hold')
    assert.equal(again.holder, hold.holder)
    await again.unlock()
  }

  async function expectRefusal(client: Client, name = 'a'): Promise<void> {
    assert.equal(await client.getLock(name).tryLock(), null, 'a new owner is refused')
  }

  it('lets siblings of one Promise.all exclude each other, on one lock object and on two', async () => {
    const client = await lab.connect()
    const lock = client.getLock('a')
    assert.equal(await mostInside([lock, lock, lock]), 1)
    assert.equal(await mostInside([client.getLock('a'), client.getLock('a'), client.getLock('a')]), 1)
  })

  it('lets siblings that were started inside an async function of a hold on another lock exclude each other', async () => {
    const client = await lab.connect()
    await client.getLock('outer').withLock(async () => {
      await null
      assert.equal(await mostInside([client.getLock('a'), client.getLock('a')]), 1)
    })
  })

  it('makes each explicit lock() a new owner', async () => {
    const client = await lab.connect()
    const first = await client.getLock('a').lock()
    await expectRefusal(client)
    await first.unlock()
    const second = await client.getLock('a').lock()
    assert.notEqual(second.ownerId, first.ownerId)
    await second.unlock()
  })

  it('re-enters along the call chain of withLock, through any lock object of the name', async () => {
    const client = await lab.connect()
    await client.getLock('a').withLock(async (outer) => {
      await sleep(1)
      await client.getLock('a').withLock(async (inner) => {
        assert.equal(inner.holder, outer.holder)
        assert.deepEqual([outer.count, inner.count], [2, 2])
        assert.equal(await client.getLock('a').getHoldCount(), 2)
        const explicit = await client.getLock('a').lock({ leaseTimeMs: 1_000 })
        assert.equal(explicit.count, 3)
        await explicit.unlock()
      })
      assert.equal(outer.count, 1)
      assert.equal(await client.getLock('a').getHoldCount(), 1)
    })
    assert.equal(await client.getLock('a').isLocked(), false)
  })

  it('lets unlock() inside withLock() release what was taken last, not the hold around it', async () => {
    const client = await lab.connect()
    const lock = client.getLock('a')
    await lock.withLock(async (outer) => {
      const inner = await lock.lock()
      await lock.unlock()
      assert.throws(() => inner.assertHeld(), { code: 'LOCK_NOT_HELD' })
      outer.assertHeld()
      assert.equal(await lock.getHoldCount(), 1)
    })
    assert.equal(await lock.isLocked(), false)
  })

  it('re-enters while others wait in line for the outer hold', async () => {
    const client = await lab.connect()
    const lock = client.getLock('a')
    let othersWait: () => void = () => {}
    const body = lock.withLock(async (hold) => {
      await new Promise<void>((resolve) => {
        othersWait = resolve
      })
      await expectReentry(client, hold)
    })
    await waitUntil(() => lock.isLocked())
    const waiting = [lock.withLock(() => {}), lock.withLock(() => {})]
    await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === 1)
    othersWait()
    await Promise.all([body, ...waiting])
  })

  it('goes on with the outer hold when an inner one ends first, and with the inner when the outer does', async () => {
    const client = await lab.connect()
    const outer = await client.getLock('a').lock()
    const inner = await client.getLock('a').lock({ within: outer })
    await outer.unlock()
    assert.equal(await inner.isHeld(), true)
    await expectRefusal(client)
    await inner.unlock()
    assert.equal(await client.getLock('a').isLocked(), false)
  })

  it('gives an inner hold the lease it asked for: its end is no end of the outer hold', async () => {
    const client = await lab.connect()
    await client.getLock('a').withLock(async (outer) => {
      const inner = await client.getLock('a').lock({ leaseTimeMs: 150 })
      await waitUntil(() => inner.signal.aborted)
      outer.assertHeld()
      assert.equal(outer.count, 1)
      assert.equal(await outer.isHeld(), true)
      await assert.rejects(inner.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
      assert.equal(await outer.isHeld(), true)
    })
  })

  it('re-enters nothing in a frame whose hold has ended', async () => {
    const client = await lab.connect()
    let later: Promise<void> | undefined
    let released: () => void = () => {}
    const afterRelease = new Promise<void>((resolve) => {
      released = resolve
    })
    await client.getLock('a').withLock(async (hold) => {
      later = (async () => {
        await afterRelease
        assert.throws(() => hold.assertHeld(), { code: 'LOCK_NOT_HELD' })
        const fresh = await client.getLock('a').lock()
        assert.notEqual(fresh.ownerId, hold.ownerId)
        await expectRefusal(client)
        await fresh.unlock()
      })()
    })
    released()
    await later
  })

  it('re-enters by `within` where the call chain does not help, and refuses a hold that does not fit', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const hold = await client.getLock('a').lock()
    const again = await client.getLock('a').lock({ within: hold })
    assert.deepEqual([again.holder, again.count], [hold.holder, 2])
    await again.unlock()
    const misfit = { code: 'LOCK_CONFIG', path: 'within' }
    await assert.rejects(client.getLock('b').lock({ within: hold }), misfit)
    await assert.rejects(other.getLock('a').lock({ within: hold }), misfit)
    await assert.rejects(client.getLock('a').lock({ within: {} as Hold }), misfit)
    await hold.unlock()
    await assert.rejects(client.getLock('a').lock({ within: hold }), { code: 'LOCK_NOT_HELD' })
  })

  it('never re-enters a hold of another client in the same process', async () => {
    const [one, two] = [await lab.connect(), await lab.connect()]
    await one.getLock('a').withLock(async () => await expectRefusal(two))
  })

  it('follows timers, event emitters, microtasks and streams that are started inside a hold', async () => {
    const client = await lab.connect()
    const emitter = new EventEmitter()
    await client.getLock('a').withLock(async (hold) => {
      await new Promise<void>((resolve, reject) => {
        setTimeout(() => void expectReentry(client, hold).then(resolve, reject), 5)
      })
      await new Promise<void>((resolve, reject) => {
        setImmediate(() => void expectReentry(client, hold).then(resolve, reject))
      })
      await new Promise<void>((resolve, reject) => {
        queueMicrotask(() => void expectReentry(client, hold).then(resolve, reject))
      })
      const heard = new Promise<void>((resolve, reject) => {
        emitter.once('go', () => void expectReentry(client, hold).then(resolve, reject))
      })
      emitter.emit('go')
      await heard
      for await (const _chunk of Readable.from(['one', 'two'])) await expectReentry(client, hold)
    })
  })

  it('asks who emits, not who listens: an emitter fired outside the hold re-enters nothing', async () => {
    const client = await lab.connect()
    const emitter = new EventEmitter()
    let heard: Promise<void> | undefined
    let finish: () => void = () => {}
    const body = client.getLock('a').withLock(async () => {
      emitter.once('go', () => {
        heard = expectRefusal(client)
      })
      await new Promise<void>((resolve) => {
        finish = resolve
      })
    })
    await waitUntil(async () => emitter.listenerCount('go') === 1)
    emitter.emit('go')
    await heard
    finish()
    await body
  })

  it('knows an interval that outlives its hold as a new owner', async () => {
    const client = await lab.connect()
    const outcomes: (number | undefined)[] = []
    const ticks: Promise<unknown>[] = []
    const tick = () => client.getLock('a').tryWithLock((mine) => outcomes.push(mine.ownerId))
    let timer: NodeJS.Timeout | undefined
    const { ownerId: first, seen } = await client.getLock('a').withLock(async (hold) => {
      timer = setInterval(() => ticks.push(tick()), 10)
      await waitUntil(() => outcomes.length >= 2)
      return { ownerId: hold.ownerId, seen: new Set(outcomes) }
    })
    await Promise.all(ticks) // those of the hold, and one that came while it was released
    const before = outcomes.length
    await waitUntil(() => outcomes.length >= before + 3).finally(() => clearInterval(timer))
    await Promise.all(ticks)
    assert.deepEqual([...seen], [first])
    const after = outcomes.slice(before)
    assert(!after.includes(first) && new Set(after).size === after.length, 'each tick is an owner of its own')
  })

  it('two tasks inside one hold both re-enter it', async () => {
    const client = await lab.connect()
    await client.getLock('a').withLock(async () => {
      const [one, two] = await Promise.all([client.getLock('a').lock(), client.getLock('a').lock()])
      assert.equal(one.count, 3)
      assert.equal((await client.getLock('a').getHolders())[0]?.holdCount, 3)
      await Promise.all([one.unlock(), two.unlock()])
      assert.equal((await client.getLock('a').getHolders())[0]?.holdCount, 1)
    })
  })

  it('lets listeners re-enter nothing, whoever noticed the loss', async () => {
    const client = await lab.connect()
    const taken: (Hold | null)[] = []
    const tryIt = (): void =>
      void client
        .getLock('a')
        .tryLock()
        .then((hold) => taken.push(hold))
    client.on('lost', tryIt)
    const other = await client.getLock('b').lock({ leaseTimeMs: 200 })
    other.signal.addEventListener('abort', tryIt)
    await client.getLock('a').withLock(async () => {
      await (await client.getLock('c').lock({ leaseTimeMs: 100 })).unlock() // arms the timer inside this frame
      await waitUntil(() => taken.length === 2)
    })
    assert.deepEqual(taken, [null, null])
  })

  describe('a scope', () => {
    it('makes its call chain one owner, so that Java code ports line by line', async () => {
      const client = await lab.connect()
      const lock = client.getLock('a')
      await client.runInScope(async () => {
        assert.equal(await lock.isHeldByCurrentOwner(), false)
        assert.equal(await lock.getHoldCount(), 0)
        const hold = await lock.lock()
        try {
          const again = await lock.lock()
          assert.equal(again.holder, hold.holder)
          assert.equal(await lock.getHoldCount(), 2)
          await lock.unlock()
          assert.equal(await lock.isHeldByCurrentOwner(), true)
          assert.equal((await client.getLock('b').lock()).ownerId, hold.ownerId, 'one owner for all its locks')
          await client.getLock('b').unlock()
        } finally {
          await lock.unlock()
        }
        assert.equal(await lock.isHeldByCurrentOwner(), false)
        await assert.rejects(lock.unlock(), { code: 'LOCK_NOT_HELD' })
      })
    })

    it('excludes other scopes', async () => {
      const client = await lab.connect()
      const lock = client.getLock('a')
      let inside = 0
      await Promise.all(
        Array.from({ length: 5 }, () =>
          client.runInScope(async () => {
            await lock.lock()
            assert.equal(++inside, 1)
            await sleep(2)
            inside--
            await lock.unlock()
          }),
        ),
      )
    })

    it('re-enters the hold of withLock around it', async () => {
      const client = await lab.connect()
      const lock = client.getLock('a')
      await lock.withLock(async (outer) => {
        await client.runInScope(async () => {
          const inner = await lock.lock()
          assert.equal(inner.holder, outer.holder)
          await lock.unlock()
          outer.assertHeld()
        })
      })
    })

    it('treats two acquisitions at the same time as siblings', async () => {
      const client = await lab.connect()
      const lock = client.getLock('a')
      await client.runInScope(async () => {
        const taken = await Promise.all([lock.tryLock(), lock.tryLock(), lock.tryLock()])
        const holds = taken.filter((hold) => hold !== null)
        assert.equal(holds.length, 1)
        await holds[0]?.unlock()
      })
    })

    it('lets tasks that wait at the same time for a lock of somebody else have it one after the other', async () => {
      const [client, other] = [await lab.connect(), await lab.connect()]
      const foreign = await other.getLock('a').lock()
      let inside = 0
      await client.runInScope(async () => {
        const task = async (): Promise<void> => {
          const hold = await client.getLock('a').lock({ waitTimeMs: 3_000 })
          assert.equal(++inside, 1)
          await sleep(5)
          inside--
          await hold.unlock()
        }
        const tasks = [task(), task(), task()]
        await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === 1)
        await foreign.unlock()
        await Promise.all(tasks)
      })
    })

    it('uses a new owner after a hold was lost, so that a late release of the old one frees nothing', async () => {
      const client = await lab.connect()
      const lock = client.getLock('a')
      await client.runInScope(async () => {
        const first = await lock.lock({ leaseTimeMs: 60 })
        await waitUntil(() => first.signal.aborted)
        await assert.rejects(first.unlock(), { code: 'LOCK_LEASE_LOST' })
        const second = await lock.lock()
        assert.notEqual(second.ownerId, first.ownerId)
        await sleep(300)
        assert.equal(await second.isHeld(), true)
        await lock.unlock()
      })
    })

    it('keeps a task out while another one is inside withLock(), and leaves that hold alone', async () => {
      const [client, other] = [await lab.connect(), await lab.connect()]
      const lock = client.getLock('a')
      await client.runInScope(async () => {
        const body = lock.withLock(async (hold) => {
          await sleep(150)
          hold.assertHeld()
          assert.equal(await hold.isHeld(), true)
        })
        await waitUntil(() => lock.isLocked())
        assert.equal(await lock.tryLock(), null)
        assert.deepEqual(await lock.tryWithLock(() => assert.fail('must not run')), { ran: false })
        assert.equal(await other.getLock('a').tryLock(), null)
        await body
      })
    })

    it('leaves a newer hold alone when an older one that was lost is unlocked', async () => {
      const [client, other] = [await lab.connect(), await lab.connect()]
      const lock = client.getLock('a')
      await client.runInScope(async () => {
        const old = await lock.lock({ leaseTimeMs: 60 })
        await sleep(80)
        const fresh = await lock.lock()
        await assert.rejects(old.unlock(), { code: 'LOCK_LEASE_LOST' })
        await sleep(100)
        assert.equal(await other.getLock('a').tryLock(), null)
        assert.equal(await fresh.isHeld(), true)
        await fresh.unlock()
      })
    })

    it('leaves a hold alone after an aborted attempt and the release of another lock', async () => {
      const [client, other] = [await lab.connect(), await lab.connect()]
      const foreign = await other.getLock('a').lock()
      await client.runInScope(async () => {
        const b = await client.getLock('b').lock()
        const controller = new AbortController()
        const aborted = client.getLock('a').tryLock({ signal: controller.signal })
        controller.abort()
        await assert.rejects(aborted)
        await b.unlock()
        await foreign.unlock()
        const a = await client.getLock('a').lock()
        await sleep(300)
        assert.equal(await a.isHeld(), true)
        await a.unlock()
      })
    })

    it('does not take a handed over lock again after the release of another one', async () => {
      const [client, other] = [await lab.connect(), await lab.connect()]
      await client.runInScope(async () => {
        const b = await client.getLock('b').lock()
        const holder = (await client.getLock('a').lock()).handOver()
        await b.unlock()
        assert.equal(await client.getLock('a').tryLock(), null)
        await (await other.adopt('a', holder)).unlock()
      })
    })

    it('does not take a lock again beside the one to whom it was handed over', async () => {
      const [client, other] = [await lab.connect(), await lab.connect()]
      await client.runInScope(async () => {
        const hold = await client.getLock('a').lock()
        const holder = hold.handOver()
        assert.equal(await client.getLock('a').tryLock(), null)
        await (await other.adopt('a', holder)).unlock()
      })
    })

    it('outside any scope or hold the calls of the current owner throw, and say what to do', async () => {
      const client = await lab.connect()
      const lock = client.getLock('a')
      const hold = await lock.lock()
      const calls: Promise<unknown>[] = [lock.unlock(), lock.isHeldByCurrentOwner(), lock.getHoldCount()]
      for (const call of calls) {
        const outcome = await settlesWithin(call, 1_000)
        assert(outcome.status === 'rejected')
        assert.equal(outcome.reason.code, 'LOCK_NOT_HELD')
        assert.match(outcome.reason.message, /runInScope/)
      }
      await hold.unlock()
    })
  })
})
