import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Hold } from '../../src/index.js'
import { countCommands } from '../support/command-stats.js'
import { drivers, setUpLab } from '../support/lab.js'
import { sleep, waitUntil } from '../support/wait-until.js'

for (const driver of drivers) {
  describe(`a lock, through ${driver.name}`, () => {
    const lab = setUpLab(driver)

    it('is held after lock(), and free after unlock()', async () => {
      const client = await lab.connect()
      const lock = client.getLock('a')
      assert.equal(await lock.isLocked(), false)
      assert.equal(await lock.remainingLeaseMs(), 0)
      assert.deepEqual(await lock.getHolders(), [])

      const hold = await lock.lock()
      hold.assertHeld()
      assert.equal(hold.lockName, 'a')
      assert.equal(hold.count, 1)
      assert.equal(hold.signal.aborted, false)
      assert.equal(await hold.isHeld(), true)
      assert.equal(await lock.isLocked(), true)
      assert.deepEqual(await lock.getHolders(), [{ holder: hold.holder, holdCount: 1 }])
      assert(hold.remainingMs() > 29_000 && hold.remainingMs() <= 30_000)
      const leaseMs = await lock.remainingLeaseMs()
      assert(hold.remainingMs() <= leaseMs && leaseMs <= 30_000, 'what we believe ends before what Redis believes')

      await hold.unlock()
      assert.equal(await hold.isHeld(), false)
      assert.equal(await lock.isLocked(), false)
      assert.equal(hold.count, 0)
      assert.equal(hold.remainingMs(), 0)
      assert.equal(hold.signal.aborted, false, 'a clean release aborts nothing')
      assert.throws(() => hold.assertHeld(), { code: 'LOCK_NOT_HELD' })
    })

    it('is released once however often the hold is', async () => {
      const client = await lab.connect()
      const first = await client.getLock('a').lock()
      await Promise.all([first.unlock(), first.unlock()])
      await first.unlock()
      const second = await client.getLock('a').lock()
      await first.unlock()
      assert.equal(await second.isHeld(), true)
      await second.unlock()
    })

    it('is released at the end of an await using block', async () => {
      const client = await lab.connect()
      {
        await using hold = await client.getLock('a').lock()
        assert.equal(await hold.isHeld(), true)
      }
      assert.equal(await client.getLock('a').isLocked(), false)
    })

    it('answers null to tryLock() while somebody else holds it', async () => {
      const [one, two] = [await lab.connect(), await lab.connect()]
      const hold = await one.getLock('a').lock()
      assert.equal(await two.getLock('a').tryLock(), null)
      assert.equal(await one.getLock('a').tryLock(), null, 'also in the same client')
      const startedAt = performance.now()
      assert.equal(await two.getLock('a').tryLock({ waitTimeMs: 200 }), null)
      const waitedMs = performance.now() - startedAt
      assert(waitedMs >= 199 && waitedMs < 1_200, `waited ${waitedMs} ms`)
      await hold.unlock()
      const taken = await two.getLock('a').tryLock()
      assert(taken)
      await taken.unlock()
    })

    it('throws WaitTimeoutError from lock() and withLock() when the wait time ends first', async () => {
      const [one, two] = [await lab.connect(), await lab.connect()]
      const hold = await one.getLock('a').lock()
      const refused = { code: 'LOCK_WAIT_TIMEOUT', lockName: 'a', waitTimeMs: 50 }
      await assert.rejects(two.getLock('a').lock({ waitTimeMs: 50 }), refused)
      await assert.rejects(
        two.getLock('a').withLock({ waitTimeMs: 50 }, () => assert.fail('must not run')),
        refused,
      )
      assert.deepEqual(await two.getLock('a').tryWithLock(() => assert.fail('must not run')), { ran: false })
      await hold.unlock()
      assert.deepEqual(await two.getLock('a').tryWithLock(() => 42), { ran: true, value: 42 })
    })

    it('wakes a waiter of another client at once when it is released', async () => {
      const [one, two] = [await lab.connect(), await lab.connect()]
      const hold = await one.getLock('a').lock()
      const waiting = two.getLock('a').lock()
      await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === 1)
      await sleep(50)
      const releasedAt = performance.now()
      await hold.unlock()
      const next = await waiting
      assert(performance.now() - releasedAt < 100)
      await next.unlock()
    })

    it('serves waiters of one client in the order in which they came', async () => {
      const client = await lab.connect()
      const lock = client.getLock('a')
      const hold = await lock.lock()
      const order: number[] = []
      const waiting = Array.from({ length: 20 }, (_, index) => lock.withLock(() => order.push(index)))
      await hold.unlock()
      await Promise.all(waiting)
      assert.deepEqual(
        order,
        Array.from({ length: 20 }, (_, index) => index),
      )
    })

    it('keeps a read-modify-write of two clients and many tasks exact', async () => {
      const clients = [await lab.connect(), await lab.connect()]
      await lab.server.admin.set('stock', 200)
      const sell = async (index: number): Promise<void> => {
        await (clients[index % 2] as (typeof clients)[number]).getLock('a').withLock(async () => {
          const stock = Number(await lab.server.admin.get('stock'))
          await null
          await lab.server.admin.set('stock', stock - 1)
        })
      }
      await Promise.all(Array.from({ length: 200 }, (_, index) => sell(index)))
      assert.equal(await lab.server.admin.get('stock'), '0')
      await lab.server.admin.del('stock')
    })

    it('is taken within its lease + 1 s when its holder crashed', async () => {
      const client = await lab.connect()
      await lab.server.admin.hset('a', 'dead:1', 1)
      await lab.server.admin.pexpire('a', 700)
      const startedAt = performance.now()
      const hold = await client.getLock('a').lock()
      const waitedMs = performance.now() - startedAt
      assert(waitedMs > 600 && waitedMs < 1_700, `waited ${waitedMs} ms`)
      await hold.unlock()
    })

    it('waits for a key without expiry with at most 5 commands a second', async () => {
      const client = await lab.connect()
      await lab.server.admin.hset('a', 'foreign:1', 1)
      assert.equal(await client.getLock('a').remainingLeaseMs(), Number.POSITIVE_INFINITY)
      const count = await countCommands(lab.server, async () => {
        assert.equal(await client.getLock('a').tryLock({ waitTimeMs: 1_000 }), null)
      })
      assert(count.scripts <= 5, `${count.scripts} scripts`)
      await lab.server.admin.del('a')
    })

    it('takes a lease longer than a timer can run, and waits for one, without a hot loop', async () => {
      const client = await lab.connect()
      const leaseTimeMs = 40 * 24 * 60 * 60 * 1000
      const hold = await client.getLock('a').lock({ leaseTimeMs, maxHoldMs: leaseTimeMs, warnAfterMs: leaseTimeMs })
      assert(hold.remainingMs() > 2 ** 31)
      const count = await countCommands(lab.server, async () => {
        const waiting = client.getLock('a').lock({ waitTimeMs: leaseTimeMs })
        await sleep(300)
        await hold.unlock()
        await (await waiting).unlock()
      })
      assert(count.scripts <= 6, `${count.scripts} scripts`)
    })

    it('ends a wait at once with the reason of the signal, and leaves nothing', async () => {
      const client = await lab.connect()
      const hold = await client.getLock('a').lock()
      const controller = new AbortController()
      const waiting = Array.from({ length: 20 }, () => client.getLock('a').lock({ signal: controller.signal }))
      await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === 1)
      const reason = new Error('the request was aborted')
      controller.abort(reason)
      for (const outcome of await Promise.allSettled(waiting)) assert.deepEqual(outcome, { status: 'rejected', reason })
      await assert.rejects(client.getLock('b').lock({ signal: controller.signal }), reason)
      await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === 0)
      await hold.unlock()
      assert.equal(await client.getLock('a').isLocked(), false)
    })

    it('is either held by the caller or free when an abort races with the grant', async () => {
      const client = await lab.connect()
      const lock = client.getLock('a')
      for (let round = 0; round < 300; round++) {
        const controller = new AbortController()
        const waiting = lock.tryLock({ signal: controller.signal, waitTimeMs: round % 2 ? 0 : 50 })
        if (round % 3 === 0) await new Promise((resolve) => setImmediate(resolve))
        else await Promise.resolve()
        if (round % 5 === 0) void Promise.resolve().then(() => controller.abort(new Error('too late')))
        else controller.abort(new Error('too late'))
        const hold: Hold | null | undefined = await waiting.catch(() => undefined)
        if (hold) {
          assert.equal(await hold.isHeld(), true)
          await hold.unlock()
        } else {
          await waitUntil(async () => !(await lock.isLocked()), { message: 'the late grant is given back' })
        }
      }
    })

    it('tells the body its hold, its value to the caller, and calls onAcquire and onRelease', async () => {
      const client = await lab.connect()
      const lock = client.getLock('a')
      const calls: string[] = []
      const value = await lock.withLock(
        {
          label: 'charge',
          onAcquire: (hold) => calls.push(`acquire ${hold.label}`),
          onRelease: async () => calls.push(`release ${await lock.isLocked()}`),
        },
        (hold) => {
          hold.assertHeld()
          calls.push('body')
          return 'done'
        },
      )
      assert.equal(value, 'done')
      assert.deepEqual(calls, ['acquire charge', 'body', 'release false'])
    })

    it('is released when the body fails, and the error of the body is what the caller gets', async () => {
      const client = await lab.connect()
      const lock = client.getLock('a')
      const failure = new Error('the card was declined')
      await assert.rejects(
        lock.withLock(() => {
          throw failure
        }),
        failure,
      )
      assert.equal(await lock.isLocked(), false)
      await assert.rejects(
        lock.withLock(async () => {
          await lab.server.admin.del('a')
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
      const lost: string[] = []
      client.on('lost', ({ hold, error }) => lost.push(`${hold.lockName} ${error.reason}`))
      await assert.rejects(
        client.getLock('a').withLock(async (hold) => {
          await lab.server.admin.del('a')
          hold.assertHeld()
        }),
        { code: 'LOCK_LEASE_LOST', reason: 'gone' },
      )
      assert.deepEqual(lost, ['a gone'])
    })

    it('never releases what somebody else took after the loss', async () => {
      const [one, two] = [await lab.connect(), await lab.connect()]
      const hold = await one.getLock('a').lock()
      await lab.server.admin.del('a')
      const other = await two.getLock('a').lock()
      const before = await lab.server.admin.hgetall('a')
      await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
      assert.equal(hold.signal.aborted, true)
      assert.deepEqual(await lab.server.admin.hgetall('a'), before)
      await other.unlock()
    })

    it('loses a hold with a lease of its own exactly when that ends', async () => {
      const client = await lab.connect()
      const hold = await client.getLock('a').lock({ leaseTimeMs: 300 })
      const startedAt = performance.now()
      await new Promise((resolve) => hold.signal.addEventListener('abort', resolve))
      const heldMs = performance.now() - startedAt
      assert(heldMs > 250 && heldMs < 600, `aborted after ${heldMs} ms`)
      assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
      assert.equal((hold.signal.reason as { code: string }).code, 'LOCK_LEASE_LOST')
      await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    })

    it('goes on in another client that adopts a hold that was handed over', async () => {
      const [one, two] = [await lab.connect(), await lab.connect()]
      const hold = await one.getLock('a').lock()
      await one.getLock('a').lock({ within: hold })
      const holder = hold.handOver()
      assert.throws(() => hold.assertHeld(), { code: 'LOCK_NOT_HELD' })
      assert.throws(() => hold.handOver(), { code: 'LOCK_NOT_HELD' })
      const adopted = await two.adopt('a', holder)
      assert.deepEqual([adopted.holder, adopted.count], [`${two.id}:${adopted.ownerId}`, 1])
      assert.deepEqual(await one.getLock('a').getHolders(), [{ holder: adopted.holder, holdCount: 1 }])
      await assert.rejects(two.adopt('a', holder), { code: 'LOCK_NOT_HELD' }, 'only one can adopt it')
      assert.equal(await one.getLock('a').tryLock(), null)
      await one.close()
      assert.equal(await adopted.isHeld(), true, 'who handed it over has no more say in it')
      await adopted.unlock()
      assert.equal(await two.getLock('a').isLocked(), false)
      await assert.rejects(two.adopt('a', holder), { code: 'LOCK_NOT_HELD' })
      await assert.rejects(two.adopt('a', 'nonsense'), { code: 'LOCK_CONFIG', path: 'holder' })
    })

    it('tells a holder that did not let go that its hold was adopted', async () => {
      const [one, two] = [await lab.connect({ lockWatchdogTimeoutMs: 300 }), await lab.connect()]
      const hold = await one.getLock('a').lock()
      const adopted = await two.adopt('a', hold.holder)
      await waitUntil(() => hold.signal.aborted)
      assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
      assert.equal(await adopted.isHeld(), true)
      await adopted.unlock()
    })

    it('is not condemned by a forceUnlock() that was sent before it was taken', async () => {
      const [client, other] = [await lab.connect(), await lab.connect()]
      await client.getLock('a').withLock(() => {})
      await client.getLock('a').forceUnlock() // Redis knows the scripts from here on
      for (let round = 0; round < 10; round++) {
        await other.getLock('a').lock()
        const [wasHeld, hold] = await Promise.all([client.getLock('a').forceUnlock(), client.getLock('a').tryLock()])
        assert.deepEqual([wasHeld, hold?.signal.aborted], [true, false])
        await hold?.unlock()
      }
    })

    it('recovers when Redis forgets the scripts at any time', async () => {
      const client = await lab.connect({ lockWatchdogTimeoutMs: 300 })
      const lock = client.getLock('a')
      for (let round = 0; round < 5; round++) {
        const hold = await lock.lock()
        await lab.server.admin.script('FLUSH')
        const again = await lock.lock({ within: hold })
        await lab.server.admin.script('FLUSH')
        await again.unlock()
        await lab.server.admin.script('FLUSH')
        await sleep(130)
        assert.equal(await hold.isHeld(), true)
        await lab.server.admin.script('FLUSH')
        await hold.unlock()
      }
    })
  })
}
