import assert from 'node:assert/strict'
import { EventEmitter } from 'node:events'
import { Readable } from 'node:stream'
import { describe, it } from 'node:test'
import { type Client, type Hold, NotHeldError } from '../../src/index.js'
import { setUpFixture } from '../support/fixture.js'
import { mostInside } from '../support/most-inside.js'
import { listening } from '../support/subscribers.js'
import { sleep, waitUntil } from '../support/wait-until.js'

describe('ownership', () => {
  const fixture = setUpFixture()

  async function expectReentry(client: Client, hold: Hold, name = 'a'): Promise<void> {
    const again = await client.getLock(name).tryLock()
    assert(again, 'the call chain is inside the hold')
    assert.equal(again.holder, hold.holder)
    await again.unlock()
  }

  async function expectRefusal(client: Client, name = 'a'): Promise<void> {
    assert.equal(await client.getLock(name).tryLock(), null, 'a new owner is refused')
  }

  it('siblings of one Promise.all exclude each other, on one lock object and on two', async () => {
    const client = await fixture.connect()
    const lock = client.getLock('a')
    assert.equal(await mostInside([lock, lock, lock]), 1)
    assert.equal(await mostInside([client.getLock('a'), client.getLock('a'), client.getLock('a')]), 1)
  })

  it('siblings started inside a hold on another lock exclude each other', async () => {
    const client = await fixture.connect()
    await client.getLock('outer').withLock(async () => {
      await null
      assert.equal(await mostInside([client.getLock('a'), client.getLock('a')]), 1)
    })
  })

  it('each explicit lock() is a new owner', async () => {
    const client = await fixture.connect()
    const first = await client.getLock('a').lock()
    await expectRefusal(client)
    await first.unlock()
    const second = await client.getLock('a').lock()
    assert.notEqual(second.ownerId, first.ownerId)
    await second.unlock()
  })

  it('the call chain of withLock re-enters through any lock object of the name', async () => {
    const client = await fixture.connect()
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

  it('unlock() inside withLock() releases the latest hold, not the hold around it', async () => {
    const client = await fixture.connect()
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

  it('a hold is re-entered while others wait for it', async () => {
    const client = await fixture.connect()
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
    await listening(fixture)
    othersWait()
    await Promise.all([body, ...waiting])
  })

  it('inner and outer holds may end in either order, and the other one stays held', async () => {
    const client = await fixture.connect()
    const outer = await client.getLock('a').lock()
    const inner = await client.getLock('a').lock({ within: outer })
    await outer.unlock()
    assert.equal(await inner.isHeld(), true)
    await expectRefusal(client)
    await inner.unlock()
    assert.equal(await client.getLock('a').isLocked(), false)
  })

  it('a frame whose hold has ended re-enters nothing', async () => {
    const client = await fixture.connect()
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

  it('`within` re-enters where the call chain does not reach, and refuses a hold that does not fit', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
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

  it('a hold of another client in the same process is never re-entered', async () => {
    const [one, two] = [await fixture.connect(), await fixture.connect()]
    await one.getLock('a').withLock(async () => await expectRefusal(two))
  })

  it('timers, event emitters, microtasks and streams started inside a hold belong to it', async () => {
    const client = await fixture.connect()
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
      const received = new Promise<void>((resolve, reject) => {
        emitter.once('go', () => void expectReentry(client, hold).then(resolve, reject))
      })
      emitter.emit('go')
      await received
      for await (const _chunk of Readable.from(['one', 'two'])) await expectReentry(client, hold)
    })
  })

  it('re-entry follows the emitter, not the listener: an event fired outside the hold re-enters nothing', async () => {
    const client = await fixture.connect()
    const emitter = new EventEmitter()
    let received: Promise<void> | undefined
    let finish: () => void = () => {}
    const body = client.getLock('a').withLock(async () => {
      emitter.once('go', () => {
        received = expectRefusal(client)
      })
      await new Promise<void>((resolve) => {
        finish = resolve
      })
    })
    await waitUntil(async () => emitter.listenerCount('go') === 1)
    emitter.emit('go')
    await received
    finish()
    await body
  })

  it('an interval that outlives its hold is a new owner', async () => {
    const client = await fixture.connect()
    const outcomes: (number | undefined)[] = []
    const errors: unknown[] = []
    const ticks: Promise<unknown>[] = []
    const tick = () => client.getLock('a').tryWithLock((mine) => outcomes.push(mine.ownerId))
    let timer: NodeJS.Timeout | undefined
    fixture.onEnd(() => clearInterval(timer))
    const { ownerId: first, seen } = await client.getLock('a').withLock(async (hold) => {
      timer = setInterval(() => ticks.push(tick().catch((error) => errors.push(error))), 10)
      await waitUntil(() => outcomes.length >= 2)
      return { ownerId: hold.ownerId, seen: new Set(outcomes) }
    })
    await Promise.all(ticks.splice(0)) // those of the hold, and those that came while it was released
    for (const error of errors.splice(0)) assert(error instanceof NotHeldError, String(error))
    const before = outcomes.length
    await waitUntil(() => outcomes.length >= before + 3)
    clearInterval(timer)
    await Promise.all(ticks)
    assert.deepEqual([...seen], [first])
    assert.deepEqual(errors, [])
    const after = outcomes.slice(before)
    assert(!after.includes(first) && new Set(after).size === after.length, 'each tick is a new owner')
  })

  it('two tasks inside one hold both re-enter it', async () => {
    const client = await fixture.connect()
    await client.getLock('a').withLock(async () => {
      const [one, two] = await Promise.all([client.getLock('a').lock(), client.getLock('a').lock()])
      assert.equal(one.count, 3)
      assert.equal((await client.getLock('a').getHolders())[0]?.holdCount, 3)
      await Promise.all([one.unlock(), two.unlock()])
      assert.equal((await client.getLock('a').getHolders())[0]?.holdCount, 1)
    })
  })

  it('event listeners re-enter nothing, wherever the loss was noticed', async () => {
    const client = await fixture.connect()
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
})
