/** What every kind of lock promises when connections are killed, and when the server is frozen, down or restarted. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { Hold, LeaseLostError } from '../../src/index.js'
import { kinds } from '../support/kinds.js'
import { renewed } from '../support/renewed.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'
import { describeEachKind } from './each-kind.js'

describeEachKind('a fault of the server', ({ kind, fixture, kindFixture }) => {
  // A polled kind has no subscriber.
  if (kind.isAnnounced) {
    it('the subscriber is killed in the gap before the unlock: the waiter is served within 1 s', async () => {
      const [owner, client] = [await fixture.connect(), await fixture.connect()]
      const hold = await kindFixture.rival(owner).lock()
      const waiting = kindFixture.lock(client).lock()
      await kindFixture.somebodyWaits()
      await sleep(50)
      await fixture.server.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
      await hold.unlock()
      const outcome = await settlesWithin(waiting, 1_000)
      assert(outcome.status === 'fulfilled')
      await outcome.value.unlock()
    })
  }

  it('connections are killed again and again: every call settles, and two owners never overlap', async () => {
    const [one, two] = [await fixture.connect(), await fixture.connect()]
    let inside = 0
    let rivals = 0
    let done = 0
    const loops = [one, two, one, two].map(async (client, index) => {
      // Two of the four are rivals to the others; for all kinds but the shared ones that is the same lock.
      const isRival = index >= 2
      const lock = isRival ? kindFixture.rival(client) : kindFixture.lock(client)
      for (let round = 0; round < 25; round++) {
        const outcome = await lock
          .tryWithLock({ waitTimeMs: 3_000 }, async (hold) => {
            if (isRival) rivals++
            else inside++
            await sleep(1)
            assert(
              kind.isShared && rivals === 0 ? inside <= 2 : inside + rivals === 1,
              `${inside} and ${rivals} inside`,
            )
            hold.assertHeld()
            if (isRival) rivals--
            else inside--
          })
          .catch((error: { code: string }) => assert.equal(error.code, 'LOCK_OUTCOME_UNKNOWN'))
        if (outcome) done++
      }
    })
    const storm = (async () => {
      for (let kill = 0; kill < 12; kill++) {
        await sleep(50)
        await fixture.server.admin.call('CLIENT', 'KILL', 'TYPE', kill % 3 === 0 ? 'pubsub' : 'normal', 'SKIPME', 'yes')
      }
    })()
    await Promise.all([...loops, storm])
    assert(done > 50, `${done} of 100 sections`)
    await (await kindFixture.rival(one).lock({ waitTimeMs: 5_000 })).unlock()
  })

  if (!kind.isShared) {
    const LONG_RUN = { maxHandOffMs: 60_000, maxHandOffs: 1_000_000 }

    it('Redis is frozen during hand-offs: the holder is notified by its deadline, and the next ones are served after the thaw', async () => {
      const client = await fixture.connect({ ...LONG_RUN, lockWatchdogTimeoutMs: 1_000, commandTimeoutMs: 500 })
      const lock = kindFixture.lock(client)
      const earlier = await lock.lock()
      const waiters = Array.from({ length: 3 }, () => lock.lock())
      for (const waiter of waiters) waiter.catch(() => {})
      await kindFixture.somebodyWaits()
      await sleep(50)
      await earlier.unlock()
      const hold = (await waiters[0]) as Hold
      const leftMs = hold.remainingMs()
      const frozenAt = performance.now()
      fixture.server.freeze()
      await waitUntil(() => hold.signal.aborted, { message: 'aborted although Redis is silent' })
      const notifiedMs = performance.now() - frozenAt
      assert(notifiedMs < leftMs + 1_500, `notified after ${notifiedMs} ms, with ${leftMs} ms left`)
      assert.equal(earlier.signal.aborted, false, 'a holder that released in time is not affected')
      await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
      fixture.server.thaw()
      for (const waiter of waiters.slice(1)) {
        const next = await settlesWithin(waiter, 10_000)
        assert(next.status === 'fulfilled')
        assert.notEqual(next.value.holder, hold.holder)
        assert.equal(await next.value.isHeld(), true)
        await next.value.unlock()
      }
      await waitUntil(() => kindFixture.isFree(), { timeoutMs: 3_000 })
    })

    it('connections are killed during hand-offs: they continue one at a time, and no loss is reported', async () => {
      const client = await fixture.connect(LONG_RUN)
      client.on('lost', () => assert.fail('it was lost'))
      let inside = 0
      let sections = 0
      let isOver = false
      const tasks = Array.from({ length: 10 }, async () => {
        while (!isOver) {
          await kindFixture.lock(client).withLock(async (hold) => {
            assert.equal(++inside, 1)
            await sleep(1)
            hold.assertHeld()
            sections++
            inside--
          })
        }
      })
      for (let kill = 0; kill < 6; kill++) {
        await sleep(100)
        await fixture.server.admin.call('CLIENT', 'KILL', 'TYPE', kill % 2 ? 'pubsub' : 'normal', 'SKIPME', 'yes')
      }
      isOver = true
      await Promise.all(tasks)
      assert(sections > 6, `they continued after each kill: ${sections} sections`)
      await (await kindFixture.rival(client).lock({ waitTimeMs: 5_000 })).unlock()
    })
  }

  it('Redis is frozen: the signal aborts by the lease deadline, every promise settles, and a late grant is released', async () => {
    const options = { lockWatchdogTimeoutMs: 1_000, commandTimeoutMs: 500 }
    const [owner, client] = [await fixture.connect(options), await fixture.connect(options)]
    const hold = await kindFixture.rival(owner).lock()
    const leased = await kindFixture.lock(owner, 'b').lock({ leaseTimeMs: 800 })
    const waiting = kindFixture.lock(client).lock({ waitTimeMs: 1_500 })
    await kindFixture.somebodyWaits()
    fixture.server.freeze()
    const calls = [
      kindFixture.lock(client, 'c').tryLock(),
      kindFixture.lock(client, 'd').lock({ waitTimeMs: 300 }),
      ...kindFixture.parts(client, 'c').flatMap((part) => [part.isLocked(), part.forceUnlock()]),
      waiting,
    ].map((call) => settlesWithin<unknown>(call, 5_000))
    await waitUntil(() => leased.signal.aborted && hold.signal.aborted, {
      timeoutMs: 2_000,
      message: 'aborted although Redis is silent',
    })
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    for (const outcome of await Promise.all(calls)) {
      assert(outcome.status === 'rejected')
      assert.equal(outcome.reason.code, 'LOCK_OUTCOME_UNKNOWN')
    }
    const unlockedAt = performance.now()
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    assert(performance.now() - unlockedAt < 400, 'a lost hold does not wait for Redis')
    fixture.server.thaw()
    await waitUntil(async () => (await kindFixture.keys()).length === 0, { timeoutMs: 3_000 + kind.outlivesMs })
    await (await kindFixture.lock(client).lock({ waitTimeMs: 2_000 })).unlock()
  })

  // As long as people are patient for the kind that most use, and shorter for the others, of which there are many.
  const outageMs = kind === kinds[0] ? 10_000 : 3_000

  it(`Redis is down for ${outageMs / 1_000} s and comes back empty: the holder is notified, then locks work and renew again`, async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
    const hold = await kindFixture.lock(client).lock()
    const long = await kindFixture.lock(client, 'b').lock({ leaseTimeMs: 60_000 })
    await fixture.server.kill()
    const killedAt = performance.now()
    const failing = settlesWithin(kindFixture.lock(client, 'c').tryLock(), 6_000)
    const waiting = kindFixture.lock(client, 'd').lock()
    await waitUntil(() => hold.signal.aborted, { timeoutMs: 3_400 })
    long.assertHeld()
    const failed = await failing
    assert(failed.status === 'rejected')
    assert.equal(failed.reason.code, 'LOCK_OUTCOME_UNKNOWN')
    await sleep(Math.max(0, killedAt + outageMs - performance.now()))
    await fixture.server.restart()
    const served = await waiting
    await waitUntil(() => long.signal.aborted, { message: 'the audit after the reconnect finds the lock gone' })
    assert.equal((long.signal.reason as LeaseLostError).reason, 'gone')
    await renewed([served])
    assert.equal(await served.isHeld(), true)
    await served.unlock()
    await kindFixture.lock(client).withLock(() => {})
  })

  it('Redis restarts with its data: holds stay held, and waiters are served', async () => {
    await fixture.server.restart(['--appendonly', 'yes', '--appendfsync', 'always'])
    const [owner, client] = [await fixture.connect(), await fixture.connect()]
    const hold = await kindFixture.rival(owner).lock()
    const waiting = kindFixture.lock(client).lock()
    await kindFixture.somebodyWaits()
    await fixture.server.restart()
    await kindFixture.somebodyWaits()
    assert.equal(await hold.isHeld(), true)
    await hold.unlock()
    const served = await settlesWithin(waiting, 5_000)
    assert(served.status === 'fulfilled')
    await served.value.unlock()
  })
})
