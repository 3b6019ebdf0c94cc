/** What a semaphore promises, wherever Redis runs. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Client, ClientClosedError, OrderOptions, Semaphore } from '../../src/index.js'
import { generationKey } from '../../src/wire/keys.js'
import { countCommands } from '../support/command-stats.js'
import type { SetUp } from '../support/fixture.js'
import { listening, WOKEN_MS } from '../support/subscribers.js'
import { allWait, moment } from '../support/synchronizers.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

/** Call it inside a `describe`. */
export function semaphoreContract(setUp: SetUp, order?: OrderOptions): void {
  const fixture = setUp()

  /** The semaphore `a` with `permits` permits, which is deleted after the test. */
  async function semaphoreWith(permits: number): Promise<{ client: Client; semaphore: Semaphore }> {
    fixture.onEnd(() => fixture.server.admin.del('a'))
    const client = await fixture.connect()
    const semaphore = client.getSemaphore('a', order)
    assert.equal(await semaphore.trySetPermits(permits), true)
    return { client, semaphore }
  }

  it('a semaphore is created once, and has no permits before', async () => {
    const client = await fixture.connect()
    const semaphore = client.getSemaphore('a', order)
    assert.equal(semaphore.name, 'a')
    assert.equal(await semaphore.availablePermits(), 0)
    assert.equal(await semaphore.tryAcquire(), false)
    assert.equal(await semaphore.trySetPermits(3), true)
    assert.equal(await semaphore.trySetPermits(5), false)
    assert.equal(await semaphore.availablePermits(), 3)
    assert.equal(await semaphore.delete(), true)
    assert.equal(await semaphore.delete(), false)
    assert.equal(await semaphore.trySetPermits(0), true)
    assert.equal(await semaphore.tryAcquire(), false)
    assert.equal(await semaphore.delete(), true)
  })

  it('a semaphore grants permits as long as there are enough', async () => {
    const { semaphore } = await semaphoreWith(3)
    const other = (await fixture.connect()).getSemaphore('a', order)
    await semaphore.acquire()
    assert.equal(await other.tryAcquire({ permits: 3 }), false)
    await other.acquire({ permits: 2 })
    assert.equal(await semaphore.tryAcquire(), false)
    assert.equal(await semaphore.availablePermits(), 0)
    await other.release(3)
    assert.equal(await semaphore.availablePermits(), 3)
  })

  it('zero permits are acquired and released without a command', async () => {
    const { semaphore } = await semaphoreWith(0)
    const count = await countCommands(fixture.server, async () => {
      await semaphore.acquire({ permits: 0 })
      assert.equal(await semaphore.tryAcquire({ permits: 0 }), true)
      await semaphore.release(0)
      assert.equal(await semaphore.releaseIfExists(0), false)
      await semaphore.addPermits(0)
      await semaphore.reducePermits(0)
      await sleep(80) // what was to be forgotten of its creation
    })
    assert.equal(count.calls['incrby'], undefined)
    assert(count.scripts <= 1, `${count.scripts} commands`)
  })

  it('a semaphore can get more permits, fewer, fewer than none, or be drained', async () => {
    const { semaphore } = await semaphoreWith(2)
    await semaphore.addPermits(3)
    assert.equal(await semaphore.availablePermits(), 5)
    await semaphore.reducePermits(4)
    assert.equal(await semaphore.availablePermits(), 1)
    await semaphore.reducePermits(3)
    assert.equal(await semaphore.availablePermits(), -2)
    assert.equal(await semaphore.tryAcquire(), false)
    await semaphore.release(2)
    assert.equal(await semaphore.tryAcquire(), false)
    await semaphore.release(4)
    assert.equal(await semaphore.drainPermits(), 4)
    assert.equal(await semaphore.drainPermits(), 0)
    assert.equal(await semaphore.tryAcquire(), false)
  })

  it('a semaphore may expire, and releaseIfExists does not create it again', async () => {
    const semaphore = (await fixture.connect()).getSemaphore('a', order)
    assert.equal(await semaphore.trySetPermits(1, { timeToLiveMs: 1_000 }), true)
    await semaphore.acquire()
    assert.equal(await semaphore.releaseIfExists(), true)
    await semaphore.acquire()
    await waitUntil(async () => (await fixture.server.admin.exists('a')) === 0)
    assert.equal(await semaphore.releaseIfExists(), false)
    assert.equal(await fixture.server.admin.exists('a'), 0)
    await semaphore.release() // what does not exist is created
    assert.equal(await semaphore.availablePermits(), 1)
    await semaphore.delete()
  })

  it('a waiter in another process is woken as soon as there are enough permits', async () => {
    const { semaphore } = await semaphoreWith(0)
    const other = (await fixture.connect()).getSemaphore('a', order)
    const waiting = other.acquire({ permits: 2 })
    await listening(fixture)
    await semaphore.release()
    assert.equal(await semaphore.availablePermits(), 1)
    const releasedAt = performance.now()
    await semaphore.release()
    await waiting
    assert(performance.now() - releasedAt < WOKEN_MS, 'woken, not polling')
    assert.equal(await semaphore.availablePermits(), 0)
  })

  it('as many waiters are served, local and remote, as permits become available', async () => {
    const { client, semaphore } = await semaphoreWith(0)
    const other = await fixture.connect()
    let served = 0
    const waiting = [client, other, client, other, client, other].map(async (each) => {
      await each.getSemaphore('a', order).acquire()
      served++
    })
    await allWait(fixture, 6, order !== undefined)
    const releasedAt = performance.now()
    await semaphore.release(4)
    await waitUntil(() => served === 4)
    await semaphore.addPermits(2)
    await Promise.all(waiting)
    assert(performance.now() - releasedAt < WOKEN_MS, 'woken, not polling')
    assert.equal(await semaphore.availablePermits(), 0)
  })

  it('waiters are woken when the semaphore is created', async () => {
    fixture.onEnd(() => fixture.server.admin.del('a'))
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const waiting = client.getSemaphore('a', order).acquire()
    await listening(fixture)
    const createdAt = performance.now()
    await other.getSemaphore('a', order).trySetPermits(1)
    await waiting
    assert(performance.now() - createdAt < WOKEN_MS, 'woken, not polling')
  })

  it('an acquire is refused when its wait time ends, and has taken nothing', async () => {
    const { semaphore } = await semaphoreWith(1)
    for (const waitTimeMs of [0, 150]) {
      const askedAt = performance.now()
      assert.equal(await semaphore.tryAcquire({ permits: 2, waitTimeMs }), false)
      assert(performance.now() - askedAt >= waitTimeMs - 2)
      await assert.rejects(semaphore.acquire({ permits: 2, waitTimeMs }), {
        code: 'LOCK_WAIT_TIMEOUT',
        lockName: 'a',
        waitTimeMs,
        message: /^Semaphore "a" did not have enough free permits within/,
      })
    }
    const outcome = await settlesWithin(semaphore.tryAcquire({ permits: 2, waitTimeMs: undefined }), 3_000)
    assert.deepEqual(outcome, { status: 'fulfilled', value: false })
    assert.equal(await semaphore.availablePermits(), 1)
  })

  it('an abort ends a wait for permits at once with its reason, and leaves nothing', async () => {
    const { semaphore } = await semaphoreWith(0)
    const reason = new Error('the request was aborted')
    await assert.rejects(semaphore.acquire({ signal: AbortSignal.abort(reason) }), reason)
    const abort = new AbortController()
    const waiting = [
      semaphore.acquire({ signal: abort.signal }),
      semaphore.tryAcquire({ waitTimeMs: 60_000, signal: abort.signal }),
    ]
    const settled = Promise.allSettled(waiting)
    await listening(fixture)
    abort.abort(reason)
    assert.deepEqual(await settled, [
      { status: 'rejected', reason },
      { status: 'rejected', reason },
    ])
    await listening(fixture, 0)
    await semaphore.release()
    assert.equal(await semaphore.availablePermits(), 1)
  })

  it('an abort that races with the grant loses no permit', async () => {
    const { semaphore } = await semaphoreWith(2)
    const other = (await fixture.connect()).getSemaphore('a', order)
    const outcomes = { taken: 0, aborted: 0 }
    const settle = async (taking: Promise<void>): Promise<void> => {
      const { status } = await settlesWithin(taking, 5_000)
      if (status === 'fulfilled') await semaphore.release(2)
      outcomes[status === 'fulfilled' ? 'taken' : 'aborted']++
    }
    for (let round = 0; round < 80; round++) {
      const abort = new AbortController()
      const taking = settle(semaphore.acquire({ permits: 2, signal: abort.signal }))
      await moment()
      abort.abort()
      await taking
      await waitUntil(async () => (await other.availablePermits()) === 2)
    }
    for (let round = 0; round < 40; round++) {
      const abort = new AbortController()
      await other.acquire({ permits: 2 })
      const taking = settle(semaphore.acquire({ permits: 2, signal: abort.signal }))
      await listening(fixture)
      const released = other.release(2)
      await moment()
      abort.abort()
      await Promise.all([taking, released])
      await waitUntil(async () => (await other.availablePermits()) === 2)
    }
    assert(outcomes.aborted > 0, 'some were aborted')
  })

  it('withPermit runs a callback with permits, and releases them however it ends', async () => {
    const { semaphore } = await semaphoreWith(2)
    assert.equal(await semaphore.withPermit(() => 'done'), 'done')
    const value = await semaphore.withPermit({ permits: 2 }, async (signal) => {
      assert.equal(signal.aborted, false)
      assert.equal(await semaphore.availablePermits(), 0)
      assert.deepEqual(await semaphore.tryWithPermit(() => 'never'), { ran: false })
      assert.deepEqual(await semaphore.tryWithPermit({ permits: 2, waitTimeMs: 50 }, () => 'never'), { ran: false })
      return 7
    })
    assert.equal(value, 7)
    assert.deepEqual(await semaphore.tryWithPermit({ permits: 2 }, () => 'done'), { ran: true, value: 'done' })
    await assert.rejects(
      semaphore.withPermit(() => Promise.reject(new Error('body'))),
      { message: 'body' },
    )
    await assert.rejects(
      semaphore.tryWithPermit(() => {
        throw new Error('body')
      }),
      { message: 'body' },
    )
    await assert.rejects(
      semaphore.withPermit({ permits: 3, waitTimeMs: 20 }, () => {}),
      { code: 'LOCK_WAIT_TIMEOUT' },
    )
    assert.equal(await semaphore.availablePermits(), 2)
  })

  it('withPermit returns nothing to a semaphore that expired meanwhile, and the next one can be created', async () => {
    const semaphore = (await fixture.connect()).getSemaphore('a', order)
    await semaphore.trySetPermits(2, { timeToLiveMs: 1_000 })
    const areGone = () => waitUntil(async () => (await fixture.server.admin.exists('a')) === 0)
    await Promise.all([semaphore.withPermit(areGone), semaphore.withPermit(areGone)])
    assert.equal(await fixture.server.admin.exists('a'), 0)

    await semaphore.trySetPermits(2, { timeToLiveMs: 1_000 })
    await semaphore.withPermit(async () => {
      await areGone()
      assert.equal(await semaphore.trySetPermits(2, { timeToLiveMs: 60_000 }), true)
    })
    assert.equal(await semaphore.availablePermits(), 2)
    await semaphore.delete()
  })

  it('withPermit returns no permits of an earlier semaphore to the next one of its name', async () => {
    const { client, semaphore } = await semaphoreWith(2)
    const other = (await fixture.connect()).getSemaphore('a', order)
    const { admin } = fixture.server
    const replacements: readonly (() => Promise<unknown>)[] = [
      async () => [await other.delete(), await semaphore.trySetPermits(2)],
      async () => [await other.delete(), await other.release(2)],
      async () => [await other.delete(), await other.addPermits(2)],
      async () => [await other.delete(), await admin.set('a', 2)], // Redisson's doing
      async () => [await admin.del('a'), await other.trySetPermits(2)], // Redisson has deleted it
      async () => [await admin.del('a'), await semaphore.release(2)],
    ]
    for (const replace of replacements) {
      await client.getSemaphore('a', order).withPermit({ permits: 2 }, replace)
      assert.equal(await semaphore.availablePermits(), 2)
    }
    await semaphore.withPermit(async () => {
      await other.delete()
    })
    assert.equal(await semaphore.availablePermits(), 0)
    assert.equal(await semaphore.releaseIfExists(), false, 'it was not created')
  })

  it('withPermit returns its permits whatever Redisson and others did to the number meanwhile', async () => {
    const { semaphore } = await semaphoreWith(3)
    const { admin } = fixture.server
    await semaphore.withPermit(async () => {
      await semaphore.addPermits(1)
      await semaphore.release()
      await admin.incr('a')
    })
    assert.equal(await semaphore.availablePermits(), 6)
    // What is known of the semaphore may get lost, by an eviction or after a day: then what is there is believed to be it.
    await semaphore.withPermit(() => admin.del(generationKey('a')))
    await semaphore.withPermit(() => admin.set('a', 7))
    assert.equal(await semaphore.availablePermits(), 8)
    await admin.del('a')
    await admin.set('a', 1) // created by Redisson
    await semaphore.withPermit(() => {})
    assert.equal(await semaphore.availablePermits(), 1)
  })

  it('withPermit returns no permits of an earlier rate window of Redisson', async () => {
    const { client } = await semaphoreWith(1)
    const { admin } = fixture.server
    const semaphore = client.getSemaphore('a', order)
    await semaphore.delete()
    await admin.set('a', 2, 'PX', 1_000)
    await semaphore.withPermit(async () => {
      await waitUntil(async () => (await admin.exists('a')) === 0)
      await admin.set('a', 2, 'PX', 60_000)
    })
    assert.equal(await semaphore.availablePermits(), 2)
    await semaphore.withPermit(() => {})
    assert.equal(await semaphore.availablePermits(), 2)
  })

  it('a closing client rejects its waiters and refuses every later call', async () => {
    const { client, semaphore } = await semaphoreWith(0)
    const waiting = Array.from({ length: 200 }, (_, n) =>
      settlesWithin(semaphore.acquire({ permits: 1 + (n % 3) }), 5_000),
    )
    await listening(fixture)
    await client.close()
    for (const outcome of await Promise.all(waiting)) {
      assert(outcome.status === 'rejected')
      assert.deepEqual([outcome.reason.code, outcome.reason.lockName], ['LOCK_CLIENT_CLOSED', 'a'])
    }
    for (const call of [
      () => semaphore.acquire(),
      () => semaphore.acquire({ permits: 0 }),
      () => semaphore.tryAcquire(),
      () => semaphore.withPermit(() => {}),
      () => semaphore.release(),
      () => semaphore.releaseIfExists(),
      () => semaphore.trySetPermits(1),
      () => semaphore.addPermits(1),
      () => semaphore.reducePermits(1),
      () => semaphore.drainPermits(),
      () => semaphore.availablePermits(),
      () => semaphore.delete(),
    ]) {
      await assert.rejects(call, { code: 'LOCK_CLIENT_CLOSED' })
    }
  })

  it('sections may end within drainMs, then close() releases the remaining permits', async () => {
    const { client, semaphore } = await semaphoreWith(5)
    const steps: string[] = []
    let reason: ClientClosedError | undefined
    let running = 0
    const ends = semaphore.withPermit({ permits: 2 }, async (signal) => {
      running++
      await sleep(100)
      steps.push(signal.aborted ? 'cut' : 'drained')
    })
    const goesOn = settlesWithin(
      semaphore.withPermit({ permits: 3 }, async (signal) => {
        running++
        await new Promise((resolve) => signal.addEventListener('abort', resolve))
        reason = signal.reason
        await waitUntil(async () => (await fixture.server.admin.get('a')) === '5')
        return 'too late'
      }),
      5_000,
    )
    await waitUntil(() => running === 2)
    await client.close({ drainMs: 400 })
    await ends
    assert.deepEqual(steps, ['drained'])
    assert.equal(await fixture.server.admin.get('a'), '5')
    assert.equal(reason?.code, 'LOCK_CLIENT_CLOSED')
    const outcome = await goesOn
    assert.equal(outcome.status === 'rejected' && outcome.reason, reason)
    assert.equal(await fixture.server.admin.get('a'), '5', 'released once')
  })

  it('a grant that arrives while the client closes is returned', async () => {
    fixture.onEnd(() => fixture.server.admin.del('a'))
    for (let round = 0; round < 5; round++) {
      await fixture.server.admin.set('a', '40')
      const client = await fixture.connect()
      const semaphore = client.getSemaphore('a', order)
      await semaphore.availablePermits()
      let ran = 0
      const calls = Array.from({ length: 10 }, () => [
        semaphore.tryAcquire(),
        semaphore.acquire(),
        semaphore.tryWithPermit(() => ran++),
        semaphore.withPermit(() => ran++),
      ])
      const settled = Promise.allSettled(calls.flat())
      await client.close()
      for (const outcome of await settled) {
        assert(outcome.status === 'rejected', 'a closed client grants no permits')
        assert.equal(outcome.reason.code, 'LOCK_CLIENT_CLOSED')
      }
      assert.equal(ran, 0)
      assert.equal(await fixture.server.admin.get('a'), '40')
    }
  })
}
