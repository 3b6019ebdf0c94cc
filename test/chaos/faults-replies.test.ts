/** What every kind of lock promises when requests or replies are lost or late. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { connect, type LeaseLostError } from '../../src/index.js'
import { countCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { requestTo } from '../support/kinds.js'
import { renewed } from '../support/renewed.js'
import { startProxy } from '../support/servers/tcp-proxy.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'
import { describeEachKind } from './each-kind.js'

const acquire = requestTo('acquire')
const reentry = requestTo('reenter')
const release = requestTo('release')
const renewal = requestTo('renew')

describeEachKind('a lost or late reply', ({ kind, fixture, kindFixture, warmUp }) => {
  it('the reply of an acquire is lost: the hold count is 1, and one unlock frees the lock', async () => {
    const { client, proxy } = await fixture.connectThroughProxy()
    await warmUp(client)
    proxy.dropNextReply(acquire)
    const hold = await kindFixture.lock(client).lock()
    await proxy.dropped
    await kindFixture.expectCount(1)
    hold.assertHeld()
    await hold.unlock()
    assert.equal(await kindFixture.isFree(), true)
  })

  it('the reply of a tryLock() is lost: the lock is held once, or the outcome is unknown and it is free within its lease', async () => {
    const { client, proxy } = await fixture.connectThroughProxy()
    await warmUp(client)
    proxy.dropNextReply(acquire)
    const outcome = await settlesWithin(kindFixture.lock(client).tryLock({ leaseTimeMs: 5_000 }), 5_000)
    await proxy.dropped
    if (outcome.status === 'fulfilled') {
      await kindFixture.expectCount(1)
      await outcome.value?.unlock()
    } else assert.equal(outcome.reason.code, 'LOCK_OUTCOME_UNKNOWN')
    await waitUntil(() => kindFixture.isFree(), { timeoutMs: 3_000 })
  })

  it('the request of an acquire is lost: it is sent again within the wait', async () => {
    const { client, proxy } = await fixture.connectThroughProxy()
    await warmUp(client)
    proxy.dropNextRequest(acquire)
    const hold = await kindFixture.lock(client).lock({ waitTimeMs: 5_000 })
    await proxy.dropped
    await kindFixture.expectCount(1)
    await hold.unlock()
  })

  if (kind.isReentrant) {
    it('the reply of a re-entry is lost: the hold count is 2, and two unlocks free the lock', async () => {
      const { client, proxy } = await fixture.connectThroughProxy()
      await warmUp(client)
      await client.runInScope(async () => {
        const hold = await kindFixture.lock(client).lock()
        proxy.dropNextReply(reentry)
        const inner = await kindFixture.lock(client).lock()
        await proxy.dropped
        await kindFixture.expectCount(2)
        await inner.unlock()
        await kindFixture.expectCount(1)
        await hold.unlock()
      })
      assert.equal(await kindFixture.isFree(), true)
    })

    it('the request or the reply of a partial release is lost: the last release still frees the lock', async () => {
      const { client, proxy } = await fixture.connectThroughProxy()
      await warmUp(client)
      const releaseOne = requestTo('releaseOne')
      for (const drop of [() => proxy.dropNextReply(releaseOne), () => proxy.dropNextRequest(releaseOne)]) {
        await client.runInScope(async () => {
          const hold = await kindFixture.lock(client).lock()
          const inner = await kindFixture.lock(client).lock()
          drop()
          await inner.unlock()
          await proxy.dropped
          hold.assertHeld()
          assert.equal(await hold.isHeld(), true)
          await hold.unlock()
        })
        assert.equal(await kindFixture.isFree(), true)
      }
    })
  }

  it('the reply of a release is lost: the release still counts, and a later holder is not affected', async () => {
    const { client, proxy } = await fixture.connectThroughProxy()
    const other = await fixture.connect()
    await warmUp(client)
    const lost: LeaseLostError[] = []
    client.on('lost', ({ error }) => lost.push(error))
    const hold = await kindFixture.lock(client).lock()
    proxy.dropNextReply(release)
    const unlocked = hold.unlock()
    await proxy.dropped
    const next = await kindFixture.lock(other).lock()
    await unlocked
    assert.deepEqual(lost, [])
    assert.equal(hold.signal.aborted, false)
    assert.equal(await next.isHeld(), true)
    await next.unlock()
  })

  it('the request of a release is lost: it is sent again', async () => {
    const { client, proxy } = await fixture.connectThroughProxy()
    await warmUp(client)
    const hold = await kindFixture.lock(client).lock()
    proxy.dropNextRequest(release)
    await hold.unlock()
    await proxy.dropped
    assert.equal(await kindFixture.isFree(), true)
  })

  it('the reply or the request of a renewal is lost: the next attempt renews, and no loss is reported', async () => {
    const { client, proxy } = await fixture.connectThroughProxy({ lockWatchdogTimeoutMs: 4_000 })
    const lost: LeaseLostError[] = []
    client.on('lost', ({ error }) => lost.push(error))
    const hold = await kindFixture.lock(client).lock()
    await renewed([hold], 1) // Redis knows the script from here on
    for (const drop of [() => proxy.dropNextReply(renewal), () => proxy.dropNextRequest(renewal)]) {
      drop()
      await proxy.dropped
      await renewed([hold], 1)
    }
    assert.equal(await hold.isHeld(), true)
    assert.deepEqual(lost, [])
    await hold.unlock()
  })

  it('replies are lost for longer than the lease: the holder assumes a loss, and Redis is freed when they pass', async () => {
    const { client, proxy } = await fixture.connectThroughProxy({ lockWatchdogTimeoutMs: 900, commandTimeoutMs: 300 })
    const hold = await kindFixture.lock(client).lock()
    proxy.mute()
    await waitUntil(() => hold.signal.aborted, { timeoutMs: 2_000 })
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    await waitUntil(() => kindFixture.isFree(), { timeoutMs: 2_000 })
    proxy.pass()
    await (await kindFixture.lock(client).lock({ waitTimeMs: 5_000 })).unlock()
  })

  it('a release gets no reply in time: the caller gets an error, and the lock is freed in the background', async () => {
    const { client, proxy } = await fixture.connectThroughProxy({ commandTimeoutMs: 300 })
    const hold = await kindFixture.lock(client).lock({ leaseTimeMs: 20_000 })
    proxy.freeze()
    await assert.rejects(hold.unlock(), { code: 'LOCK_OUTCOME_UNKNOWN', operation: 'unlock' })
    proxy.pass()
    await waitUntil(() => kindFixture.isFree(), { timeoutMs: 5_000 })
  })

  it('withLock resolves to the value of an exclusive callback, although the release gets no reply', async () => {
    const { client, proxy } = await fixture.connectThroughProxy({ commandTimeoutMs: 300 })
    const warnings: Error[] = []
    client.on('warning', (warning) => warnings.push(warning))
    const value = await kindFixture.lock(client).withLock(async () => {
      proxy.freeze()
      return 'charged'
    })
    assert.equal(value, 'charged')
    assert.equal(warnings.length, 1)
    proxy.pass()
    await waitUntil(() => kindFixture.isFree(), { timeoutMs: 5_000 })
  })

  it('an aborted attempt that was refused sends nothing more', async () => {
    const [owner, client] = [await fixture.connect(), await fixture.connect()]
    const hold = await kindFixture.rival(owner).lock()
    await kindFixture.lock(client, 'b').withLock(() => {})
    const count = await countCommands(fixture.server, async () => {
      for (let n = 0; n < 50; n++) {
        const controller = new AbortController()
        const trying = kindFixture.lock(client).tryLock({ signal: controller.signal })
        await new Promise<void>((sent) => process.nextTick(sent)) // the commands of a turn are sent at its end
        controller.abort()
        await assert.rejects(trying)
      }
      await sleep(500)
    })
    assert.equal(count.scripts, 50)
    await hold.unlock()
  })

  it('an abort during an attempt without a reply rejects at once, and a late grant is released', async () => {
    const { client, proxy } = await fixture.connectThroughProxy()
    await warmUp(client)
    const controller = new AbortController()
    proxy.holdReplies()
    const waiting = kindFixture.lock(client).lock({ signal: controller.signal })
    await waitUntil(async () => !(await kindFixture.isFree()))
    const reason = new Error('the request was aborted')
    controller.abort(reason)
    const outcome = await settlesWithin(waiting, 1_000)
    assert.deepEqual(outcome, { status: 'rejected', reason })
    proxy.pass()
    await waitUntil(() => kindFixture.isFree())
  })

  it('an aborted wait whose request got no reply leaves no place in a queue and no grant', async () => {
    const { client, proxy } = await fixture.connectThroughProxy()
    const owner = await fixture.connect()
    await warmUp(client)
    const hold = await kindFixture.rival(owner).lock()
    const before = await kindFixture.keys()
    for (const break_ of [() => proxy.dropNextReply(acquire), () => proxy.dropNextRequest(acquire)]) {
      const controller = new AbortController()
      break_()
      const waiting = kindFixture.lock(client).lock({ signal: controller.signal })
      await proxy.dropped
      controller.abort(new Error('the request was aborted'))
      await assert.rejects(waiting, { message: 'the request was aborted' })
      await kindFixture.onlyKeys(before)
    }
    await hold.unlock()
    await (await kindFixture.lock(owner).lock({ waitTimeMs: 5_000 })).unlock()
  })

  // The lease of a lock made of others begins when all of them are taken.
  if (!kind.isJoint) {
    it('a grant that arrives after its lease is discarded: the lock is requested again, and the new grant counts', async () => {
      const { client, proxy } = await fixture.connectThroughProxy()
      await warmUp(client)
      proxy.holdReplies()
      const waiting = kindFixture.lock(client).lock({ leaseTimeMs: 1_500 })
      const trying = settlesWithin(kindFixture.lock(client, 'b').tryLock({ leaseTimeMs: 1_500 }), 5_000)
      await sleep(1_600)
      proxy.pass()
      const hold = await waiting
      hold.assertHeld()
      await kindFixture.expectCount(1)
      await hold.unlock()
      const { status, reason } = (await trying) as PromiseRejectedResult
      assert.deepEqual([status, reason.code, reason.reason], ['rejected', 'LOCK_LEASE_LOST', 'expired'])
    })
  }

  it('the round trip is slow: the lease counts from before the command was sent', async () => {
    const { client, proxy } = await fixture.connectThroughProxy()
    const observer = await fixture.connect()
    await warmUp(client)
    proxy.delay(300)
    const hold = await kindFixture.lock(client).lock({ leaseTimeMs: 5_000 })
    const countedOnMs = hold.remainingMs()
    const endsAt = performance.now() + countedOnMs
    assert(countedOnMs < 4_700, `it counts on ${countedOnMs} ms`)
    for (const part of kindFixture.parts(observer)) {
      const calledAt = performance.now()
      const real = await part.remainingLeaseMs()
      assert(endsAt < calledAt + real, `it counts on ${endsAt - calledAt} ms, Redis says ${real} ms`)
    }
    await hold.unlock()
  })

  it('the round trip takes most of a renewal period: a hold is still renewed in time', async () => {
    const { client, proxy } = await fixture.connectThroughProxy({
      lockWatchdogTimeoutMs: 9_000,
      commandTimeoutMs: 7_000,
    })
    await kindFixture.lock(client).withLock((hold) => renewed([hold], 1)) // Redis knows the scripts from here on
    // Twice that and a period are longer than the lease: the first renewal must not wait for its period.
    proxy.delay(3_050)
    const lost: LeaseLostError[] = []
    client.on('lost', ({ error }) => lost.push(error))
    const hold = await kindFixture.lock(client).lock()
    await renewed([hold])
    assert.deepEqual(lost, [])
    proxy.pass()
    await hold.unlock()
  })
})

describe('an ioredis client that never settles commands without a reply', () => {
  const fixture = setUpFixture()

  it('every call settles although the ioredis client never does, and nothing stays acquired', async () => {
    const proxy = await startProxy(fixture.server.port)
    fixture.onEnd(() => proxy.stop())
    const redis = new Redis(proxy.url, { autoResendUnfulfilledCommands: false, maxRetriesPerRequest: null })
    redis.on('error', () => {})
    const client = await connect({ client: redis, commandTimeoutMs: 500 })
    fixture.onEnd(async () => {
      await client.close()
      redis.disconnect()
    })
    await client.getLock('a').withLock(() => {})

    proxy.dropNextReply(acquire)
    const tried = await settlesWithin(client.getLock('a').tryLock(), 1_500)
    assert(tried.status === 'rejected')
    assert.equal(tried.reason.code, 'LOCK_OUTCOME_UNKNOWN')
    await waitUntil(async () => (await fixture.server.admin.exists('a')) === 0)

    proxy.dropNextReply(acquire)
    const hold = await client.getLock('a').lock({ waitTimeMs: 5_000 })
    assert.deepEqual(Object.values(await fixture.server.admin.hgetall('a')), ['1'])
    proxy.dropNextReply(release)
    await settlesWithin(hold.unlock(), 1_500)
    await waitUntil(async () => (await fixture.server.admin.exists('a')) === 0)
  })
})
