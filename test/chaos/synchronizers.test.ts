/** What semaphores and latches promise when things break: never more inside than permits, and in the end all are there. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Client, LeaseLostError } from '../../src/index.js'
import { type Driver, drivers, setUpFixture, watchWholeProcess } from '../support/fixture.js'
import { renewed } from '../support/renewed.js'
import { listening } from '../support/subscribers.js'
import { requestOf, STORED_REPLIES } from '../support/synchronizers.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

describe('a fault', { concurrency: 3 }, () => {
  watchWholeProcess()
  for (const driver of drivers) {
    describe(`semaphores and latches, through ${driver.name} with its default settings`, { concurrency: 1 }, () =>
      faults(driver),
    )
  }
})

function faults(driver: Driver): void {
  const fixture = setUpFixture(driver, [], { keysThatStay: STORED_REPLIES, isBesideOthers: true })
  const PERMITS = 3

  /** The semaphores `a` and, with leases, `p`, and the latch `l`, whose scripts Redis knows from here on. */
  async function warmUp(client: Client) {
    fixture.onEnd(() => fixture.server.admin.del('a', 'p', '{p}:timeout', 'l'))
    const [semaphore, permits] = [client.getSemaphore('a'), client.getPermitExpirableSemaphore('p')]
    const latch = client.getCountDownLatch('l')
    await semaphore.trySetPermits(PERMITS)
    await permits.trySetPermits(PERMITS)
    await semaphore.withPermit(() => {})
    await permits.withPermit(() => {})
    // Also for calls of one turn: the client combines them once it has learned that one server has both names.
    for (let round = 0; round < 2; round++) {
      const both = [1, 2].flatMap(() => [semaphore.tryAcquire(), permits.tryAcquire()] as const)
      const taken = await Promise.all(both)
      await Promise.all(taken.map((permit) => (typeof permit === 'boolean' ? semaphore.release() : permit?.unlock())))
    }
    await latch.trySetCount(1)
    await latch.countDown()
    return { semaphore, permits, latch }
  }

  /** Resolves when all permits are available and nobody has one, background releases included. */
  async function allPermitsAreBack(available = PERMITS): Promise<void> {
    const { admin } = fixture.server
    let found: unknown[] = []
    await waitUntil(
      async () => {
        found = [await admin.get('a'), await admin.get('p'), await admin.zcard('{p}:timeout')]
        return found.join() === [available, available, 0].join()
      },
      { timeoutMs: 15_000, message: () => `${available} permits of each, not ${found.join()}` },
    )
  }

  const takes = ['semaphore/acquire', 'permit/acquire'] as const
  const gives = ['semaphore/release', 'permit/release'] as const

  it('the reply or the request of an acquire is lost: the permits are taken once', async () => {
    const { client, proxy } = await fixture.connectThroughProxy()
    const { semaphore, permits } = await warmUp(client)
    for (const drop of [proxy.dropNextReply.bind(proxy), proxy.dropNextRequest.bind(proxy)]) {
      for (const options of [{ permits: 2 }, { permits: 2, waitTimeMs: 5_000 }]) {
        drop(requestOf(takes[0]))
        await semaphore.acquire(options)
        await proxy.dropped
        assert.equal(await semaphore.availablePermits(), 1)
        await semaphore.release(2)
        drop(requestOf(takes[1]))
        const permit = await permits.acquire(options)
        await proxy.dropped
        assert.deepEqual([await permits.availablePermits(), await permits.acquiredPermits()], [1, 2])
        permit.assertHeld()
        await permit.unlock()
      }
    }
    await allPermitsAreBack()
  })

  it('the reply of tryAcquire() is lost: the permits are taken once, or the outcome is unknown and they return', async () => {
    const { client, proxy } = await fixture.connectThroughProxy()
    const { semaphore, permits } = await warmUp(client)
    for (let round = 0; round < 3; round++) {
      proxy.dropNextReply(requestOf(takes[0]))
      const taken = await settlesWithin(semaphore.tryAcquire({ permits: 2 }), 5_000)
      await proxy.dropped
      if (taken.status === 'fulfilled') {
        assert.equal(taken.value, true)
        assert.equal(await fixture.server.admin.get('a'), '1')
        await semaphore.release(2)
      } else assert.equal(taken.reason.code, 'LOCK_OUTCOME_UNKNOWN')
      proxy.dropNextReply(requestOf(takes[1]))
      const held = await settlesWithin(permits.tryAcquire({ permits: 2, leaseTimeMs: 5_000 }), 5_000)
      await proxy.dropped
      if (held.status === 'fulfilled') await held.value?.unlock()
      else assert.equal(held.reason.code, 'LOCK_OUTCOME_UNKNOWN')
      await allPermitsAreBack()
    }
  })

  it('the reply or the request of a release is lost: the permits are released once', async () => {
    const { client, proxy } = await fixture.connectThroughProxy()
    const other = await fixture.connect()
    const { semaphore, permits } = await warmUp(client)
    const lost: unknown[] = []
    client.on('lost', (loss) => lost.push(loss))
    for (const drop of [proxy.dropNextReply.bind(proxy), proxy.dropNextRequest.bind(proxy)]) {
      await semaphore.acquire({ permits: PERMITS })
      drop(requestOf(gives[0]))
      const waiting = other.getSemaphore('a').withPermit(() => {})
      await semaphore.release(PERMITS)
      await proxy.dropped
      await waiting
      const permit = await permits.acquire({ permits: PERMITS })
      drop(requestOf(gives[1]))
      const next = other.getPermitExpirableSemaphore('p').withPermit(() => {})
      await permit.unlock()
      await proxy.dropped
      await next
      await allPermitsAreBack()
    }
    assert.deepEqual(lost, [])
  })

  it('the reply of a count-down is lost: waiters continue at zero, not before', async () => {
    const { client, proxy } = await fixture.connectThroughProxy()
    const { latch } = await warmUp(client)
    const other = (await fixture.connect()).getCountDownLatch('l')
    await other.trySetCount(3)
    let isOpen = false
    const waiting = other.await().then(() => (isOpen = true))
    for (const left of [2, 1, 0]) {
      assert.equal(isOpen, false)
      proxy.dropNextReply(requestOf('latch/count-down'))
      await latch.countDown()
      await proxy.dropped
      assert.equal(await other.getCount(), left)
    }
    await waiting
  })

  it('a release of permits gets no reply in time: the caller gets an error, and it runs once in the background', async () => {
    const { client, proxy } = await fixture.connectThroughProxy({ commandTimeoutMs: 1_500 })
    const { semaphore, permits } = await warmUp(client)
    await semaphore.acquire({ permits: 2 })
    const permit = await permits.acquire({ permits: 2 })
    const warnings: Error[] = []
    client.on('warning', (warning) => warnings.push(warning))
    let isFrozen = false
    const section = semaphore.withPermit(async () => {
      proxy.freeze()
      isFrozen = true
      return 'charged'
    })
    await waitUntil(() => isFrozen)
    await assert.rejects(semaphore.release(2), { code: 'LOCK_OUTCOME_UNKNOWN', operation: 'release' })
    await assert.rejects(permit.unlock(), { code: 'LOCK_OUTCOME_UNKNOWN', operation: 'unlock' })
    assert.equal(await section, 'charged', 'it was not one too many to its end')
    assert.equal(warnings.length, 1)
    proxy.pass()
    await allPermitsAreBack()
    await sleep(500)
    await allPermitsAreBack()
  })

  it('an abort during an attempt without a reply rejects at once, and late permits are released', async () => {
    const { client, proxy } = await fixture.connectThroughProxy()
    const { semaphore, permits } = await warmUp(client)
    const reason = new Error('the request was aborted')
    for (const isAnswered of [true, false]) {
      const abort = new AbortController()
      proxy.holdReplies()
      const calls = [
        semaphore.acquire({ permits: 2, signal: abort.signal }),
        semaphore.tryAcquire({ signal: abort.signal }),
        permits.acquire({ permits: 2, signal: abort.signal }),
        permits.tryAcquire({ signal: abort.signal }),
      ].map((call) => settlesWithin<unknown>(call, 1_000))
      await waitUntil(async () => (await fixture.server.admin.mget('a', 'p')).join() === '0,0')
      abort.abort(reason)
      for (const outcome of await Promise.all(calls)) assert.deepEqual(outcome, { status: 'rejected', reason })
      if (!isAnswered) proxy.cutAll()
      proxy.pass()
      await allPermitsAreBack()
    }
  })

  it('the subscriber is killed in the gap before the release: waiters are served within 1 s', async () => {
    const [owner, client] = [await fixture.connect(), await fixture.connect()]
    const { semaphore, permits, latch } = await warmUp(owner)
    await semaphore.acquire({ permits: PERMITS })
    const all = await permits.acquire({ permits: PERMITS })
    await latch.trySetCount(1)
    const served = Promise.all([
      client.getSemaphore('a').acquire({ permits: PERMITS }),
      client.getPermitExpirableSemaphore('p').acquire({ permits: PERMITS }),
      client.getCountDownLatch('l').await(),
    ])
    await listening(fixture, 3)
    await sleep(50)
    await fixture.server.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    await Promise.all([semaphore.release(PERMITS), all.unlock(), latch.countDown()])
    const outcome = await settlesWithin(served, 1_000)
    assert(outcome.status === 'fulfilled')
    assert.equal(outcome.value[2], true)
    await outcome.value[1].unlock()
    await semaphore.release(PERMITS)
  })

  it('Redis loses its scripts repeatedly: no call fails', async () => {
    const client = await fixture.connect()
    const { semaphore, permits, latch } = await warmUp(client)
    const flush = () => fixture.server.admin.script('FLUSH')
    for (let round = 0; round < 3; round++) {
      for (const step of [
        () => semaphore.withPermit(flush),
        () => permits.withPermit({ permits: 2 }, flush),
        () => semaphore.availablePermits(),
        () => permits.getPermits(),
        () => latch.trySetCount(1),
        () => latch.countDown(),
        () => latch.await(),
      ]) {
        await flush()
        await step()
      }
    }
    await allPermitsAreBack()
  })

  it('connections are killed again and again: never more holders than permits, and all permits return in the end', async () => {
    const clients = [await fixture.connect(), await fixture.connect(), await fixture.connect()]
    const [first] = clients
    assert(first)
    await warmUp(first)
    for (const client of clients) client.on('warning', () => {})
    const inside = { a: 0, p: 0 }
    const done = { a: 0, p: 0 }
    const enter = async (name: 'a' | 'p', permits: number): Promise<void> => {
      inside[name] += permits
      await sleep(1)
      assert(inside[name] <= PERMITS, `${inside[name]} inside`)
      inside[name] -= permits
      done[name]++
    }
    const unknown = (error: { code: string }) => assert.equal(error.code, 'LOCK_OUTCOME_UNKNOWN')
    const loops = [...clients, ...clients].flatMap((client, index) => {
      const permits = 1 + (index % 2)
      const [semaphore, leased] = [client.getSemaphore('a'), client.getPermitExpirableSemaphore('p')]
      return [
        async () => {
          const options = { permits, waitTimeMs: 3_000 }
          for (let n = 0; n < 20; n++) await semaphore.tryWithPermit(options, () => enter('a', permits)).catch(unknown)
        },
        async () => {
          const options = { permits, waitTimeMs: 3_000 }
          for (let n = 0; n < 20; n++) {
            const body = async (permit: { assertHeld(): void }) => {
              await enter('p', permits)
              permit.assertHeld()
            }
            await leased.tryWithPermit(options, body).catch(unknown)
          }
        },
      ]
    })
    const storm = (async () => {
      for (let kill = 0; kill < 15; kill++) {
        await sleep(50)
        await fixture.server.admin.call('CLIENT', 'KILL', 'TYPE', kill % 3 === 0 ? 'pubsub' : 'normal', 'SKIPME', 'yes')
      }
    })()
    await Promise.all([...loops.map((loop) => loop()), storm])
    assert(done.a > 60 && done.p > 60, `${done.a} and ${done.p} of 120 sections`)
    await allPermitsAreBack()
    await first.getSemaphore('a').withPermit({ permits: PERMITS, waitTimeMs: 5_000 }, () => {})
    await first.getPermitExpirableSemaphore('p').withPermit({ permits: PERMITS, waitTimeMs: 5_000 }, () => {})
    await allPermitsAreBack()
  })

  it('Redis is frozen: signals abort by the deadline, every promise settles, and nothing is counted twice or lost', async () => {
    const options = { lockWatchdogTimeoutMs: 1_000, commandTimeoutMs: 500 }
    const client = await fixture.connect(options)
    const { semaphore, permits, latch } = await warmUp(client)
    client.on('warning', () => {})
    await semaphore.acquire({ permits: 2 })
    const renewed = await permits.acquire()
    const leased = await permits.acquire({ leaseTimeMs: 800 })
    await latch.trySetCount(5)
    const waiting = [
      semaphore.acquire({ permits: 2, waitTimeMs: 1_500 }),
      permits.acquire({ permits: 2, waitTimeMs: 1_500 }),
    ]
    const opens = settlesWithin(latch.await({ waitTimeMs: 1_500 }), 5_000)
    const gone = waiting.map((wait) => settlesWithin<unknown>(wait, 5_000))
    await listening(fixture, 3)
    fixture.server.freeze()
    const calls = [
      ...gone,
      ...[
        semaphore.acquire({ waitTimeMs: 300 }),
        semaphore.tryAcquire(),
        semaphore.release(2),
        semaphore.availablePermits(),
        permits.acquire({ waitTimeMs: 300 }),
        permits.tryAcquire(),
        permits.tryRelease('0'.repeat(32)),
        permits.getPermits(),
        latch.countDown(),
        latch.getCount(),
      ].map((call) => settlesWithin<unknown>(call, 5_000)),
    ]
    await waitUntil(() => leased.signal.aborted && renewed.signal.aborted, {
      timeoutMs: 2_000,
      message: 'aborted although Redis is silent',
    })
    for (const permit of [leased, renewed]) {
      assert.throws(() => permit.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    }
    for (const [index, outcome] of (await Promise.all(calls)).entries()) {
      assert(outcome.status === 'rejected', `call ${index}`)
      assert.equal(outcome.reason.code, 'LOCK_OUTCOME_UNKNOWN', `call ${index}`)
    }
    assert.deepEqual(await opens, { status: 'fulfilled', value: false })
    fixture.server.thaw()
    await waitUntil(async () => (await permits.acquiredPermits()) === 0)
    await allPermitsAreBack()
    await waitUntil(async () => (await latch.getCount()) === 4)
    await sleep(1_000)
    assert.equal(await latch.getCount(), 4)
    await allPermitsAreBack()
    await client.getSemaphore('a').withPermit({ permits: PERMITS, waitTimeMs: 2_000 }, () => {})
    await client.getPermitExpirableSemaphore('p').withPermit({ permits: PERMITS, waitTimeMs: 2_000 }, () => {})
  })

  it('Redis is down for 3 s and comes back empty: holders are notified, and waiters are served when there are permits', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
    const { semaphore, permits, latch } = await warmUp(client)
    client.on('warning', () => {})
    const lost = await permits.acquire()
    const long = await permits.acquire({ leaseTimeMs: 60_000 })
    await latch.trySetCount(1)
    await fixture.server.kill()
    const killedAt = performance.now()
    const failing = settlesWithin(semaphore.tryAcquire(), 6_000)
    const waiting = [semaphore.acquire(), permits.acquire()] as const
    const opens = latch.await()
    await waitUntil(() => lost.signal.aborted, { timeoutMs: 3_400 })
    const failed = await failing
    assert(failed.status === 'rejected')
    assert.equal(failed.reason.code, 'LOCK_OUTCOME_UNKNOWN')
    long.assertHeld()
    await sleep(Math.max(0, killedAt + 3_000 - performance.now()))
    await fixture.server.restart()
    await waitUntil(() => long.signal.aborted, { message: 'the audit after the reconnect finds it gone' })
    assert.equal((long.signal.reason as LeaseLostError).reason, 'gone')
    assert.equal(await opens, true, 'a latch that is not there is open')
    await sleep(300)
    assert.equal(await semaphore.trySetPermits(PERMITS), true)
    assert.equal(await permits.trySetPermits(PERMITS), true)
    await waiting[0]
    await semaphore.release()
    const permit = await waiting[1]
    await renewed([permit])
    await permit.unlock()
    await allPermitsAreBack()
  })

  it('Redis restarts with its data: nothing is counted twice or lost', async () => {
    await fixture.server.restart(['--appendonly', 'yes', '--appendfsync', 'always'])
    const client = await fixture.connect()
    const { semaphore, permits, latch } = await warmUp(client)
    await semaphore.acquire({ permits: 2 })
    const permit = await permits.acquire({ permits: 2 })
    await latch.trySetCount(2)
    const opens = latch.await()
    const served = semaphore.acquire({ permits: 3 })
    await listening(fixture, 2)
    await fixture.server.kill()
    const released = [semaphore.release(2), permit.unlock(), latch.countDown()].map((call) =>
      settlesWithin(call, 10_000),
    )
    await sleep(500)
    await fixture.server.restart()
    for (const outcome of await Promise.all(released)) {
      if (outcome.status === 'rejected') assert.equal(outcome.reason.code, 'LOCK_OUTCOME_UNKNOWN')
    }
    await served
    await semaphore.release(3)
    await waitUntil(async () => (await latch.getCount()) === 1, { timeoutMs: 10_000 })
    await latch.countDown()
    assert.equal(await opens, true)
    await allPermitsAreBack()
  })
}
