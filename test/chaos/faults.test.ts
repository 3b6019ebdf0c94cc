import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { connect, type LeaseLostError } from '../../src/index.js'
import { spawnChild } from '../support/child.js'
import { countCommands } from '../support/command-stats.js'
import { drivers, setUpLab } from '../support/lab.js'
import { startProxy } from '../support/tcp-proxy.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

/** A script call that names the lock, whatever the client does beside it. */
const acquire = (request: string): boolean => /^EVAL(SHA)? /.test(request) && / 1 a \d+ \S+:\d+$/.test(request)
const release = (request: string): boolean => /^EVAL(SHA)? /.test(request) && request.includes('redisson_lock__channel')
const renewal = (request: string): boolean => /^EVAL(SHA)? /.test(request) && / 1 a \S+:\d+ \d+$/.test(request)

for (const driver of drivers) {
  describe(`a fault, through ${driver.name} with its default settings`, () => {
    const lab = setUpLab(driver)

    async function holdCount(name = 'a'): Promise<string | undefined> {
      return Object.values(await lab.server.admin.hgetall(name))[0]
    }

    it('the reply of an acquire is lost: the hold count is 1, and one unlock frees the lock', async () => {
      const { client, proxy } = await lab.connectThroughProxy()
      await client.getLock('a').withLock(() => {})
      proxy.dropNextReply(acquire)
      const hold = await client.getLock('a').lock()
      await proxy.dropped
      assert.equal(await holdCount(), '1')
      hold.assertHeld()
      await hold.unlock()
      assert.equal(await lab.server.admin.exists('a'), 0)
    })

    it('the reply of a tryLock() is lost: it is held once, or unknown and free again within its lease', async () => {
      const { client, proxy } = await lab.connectThroughProxy()
      await client.getLock('a').withLock(() => {})
      proxy.dropNextReply(acquire)
      const outcome = await settlesWithin(client.getLock('a').tryLock({ leaseTimeMs: 5_000 }), 5_000)
      await proxy.dropped
      if (outcome.status === 'fulfilled') {
        assert.equal(await holdCount(), '1')
        await outcome.value?.unlock()
      } else assert.equal(outcome.reason.code, 'LOCK_OUTCOME_UNKNOWN')
      await waitUntil(async () => (await lab.server.admin.exists('a')) === 0, { timeoutMs: 3_000 })
    })

    it('the request of an acquire is lost: it is sent again within the wait', async () => {
      const { client, proxy } = await lab.connectThroughProxy()
      await client.getLock('a').withLock(() => {})
      proxy.dropNextRequest(acquire)
      const hold = await client.getLock('a').lock({ waitTimeMs: 5_000 })
      await proxy.dropped
      assert.equal(await holdCount(), '1')
      await hold.unlock()
    })

    it('the reply of a re-entry is lost: the hold count is 2, and two unlocks free the lock', async () => {
      const { client, proxy } = await lab.connectThroughProxy()
      await client.getLock('a').withLock(async (hold) =>
        client
          .getLock('a')
          .lock({ within: hold })
          .then((h) => h.unlock()),
      )
      const hold = await client.getLock('a').lock()
      proxy.dropNextReply((request) => request.endsWith(' 2'))
      const inner = await client.getLock('a').lock({ within: hold })
      await proxy.dropped
      assert.equal(await holdCount(), '2')
      await inner.unlock()
      assert.equal(await holdCount(), '1')
      await hold.unlock()
    })

    it('the reply of a release is lost: it is a release all the same, and a later holder is left alone', async () => {
      const { client, proxy } = await lab.connectThroughProxy()
      const other = await lab.connect()
      await client.getLock('a').withLock(() => {})
      const lost: LeaseLostError[] = []
      client.on('lost', ({ error }) => lost.push(error))
      const hold = await client.getLock('a').lock()
      proxy.dropNextReply(release)
      const unlocked = hold.unlock()
      await proxy.dropped
      const next = await other.getLock('a').lock()
      await unlocked
      assert.deepEqual(lost, [])
      assert.equal(hold.signal.aborted, false)
      assert.equal(await next.isHeld(), true)
      await next.unlock()
    })

    it('the request of a release is lost: it is sent again', async () => {
      const { client, proxy } = await lab.connectThroughProxy()
      await client.getLock('a').withLock(() => {})
      const hold = await client.getLock('a').lock()
      proxy.dropNextRequest(release)
      await hold.unlock()
      await proxy.dropped
      assert.equal(await lab.server.admin.exists('a'), 0)
    })

    it('the reply or the request of a renewal is lost: the next try renews, and nobody is told of a loss', async () => {
      const { client, proxy } = await lab.connectThroughProxy({ lockWatchdogTimeoutMs: 1_500 })
      const lost: LeaseLostError[] = []
      client.on('lost', ({ error }) => lost.push(error))
      const hold = await client.getLock('a').lock()
      for (const drop of [() => proxy.dropNextReply(renewal), () => proxy.dropNextRequest(renewal)]) {
        drop()
        await proxy.dropped
        await sleep(1_200)
        hold.assertHeld()
      }
      assert.deepEqual(lost, [])
      await hold.unlock()
    })

    it('the subscriber is killed in the gap before the unlock: the waiter is served within 1 s', async () => {
      const [owner, client] = [await lab.connect(), await lab.connect()]
      const hold = await owner.getLock('a').lock()
      const waiting = client.getLock('a').lock()
      await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === 1)
      await sleep(50)
      await lab.server.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
      await hold.unlock()
      const outcome = await settlesWithin(waiting, 1_000)
      assert(outcome.status === 'fulfilled')
      await outcome.value.unlock()
    })

    it('connections are killed again and again: every call settles, and two owners never overlap', async () => {
      const [one, two] = [await lab.connect(), await lab.connect()]
      let inside = 0
      let done = 0
      const loops = [one, two, one, two].map(async (client) => {
        for (let round = 0; round < 25; round++) {
          const outcome = await client
            .getLock('a')
            .tryWithLock({ waitTimeMs: 3_000 }, async (hold) => {
              assert.equal(++inside, 1)
              await sleep(1)
              hold.assertHeld()
              inside--
            })
            .catch((error: { code: string }) => assert.equal(error.code, 'LOCK_OUTCOME_UNKNOWN'))
          if (outcome) done++
        }
      })
      const storm = (async () => {
        for (let kill = 0; kill < 12; kill++) {
          await sleep(50)
          await lab.server.admin.call('CLIENT', 'KILL', 'TYPE', kill % 3 === 0 ? 'pubsub' : 'normal', 'SKIPME', 'yes')
        }
      })()
      await Promise.all([...loops, storm])
      assert(done > 50, `${done} of 100 sections`)
      assert.equal(
        await one
          .getLock('a')
          .tryLock()
          .then((hold) => hold?.unlock()),
        undefined,
      )
    })

    it('Redis is frozen: the signal aborts by the lease deadline, every promise settles, and a late grant is given back', async () => {
      const [owner, client] = [
        await lab.connect({ lockWatchdogTimeoutMs: 1_000, commandTimeoutMs: 500 }),
        await lab.connect({ lockWatchdogTimeoutMs: 1_000, commandTimeoutMs: 500 }),
      ]
      const hold = await owner.getLock('a').lock()
      const leased = await owner.getLock('b').lock({ leaseTimeMs: 800 })
      const waiting = client.getLock('a').lock({ waitTimeMs: 1_500 })
      await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === 1)
      lab.server.freeze()
      const frozenAt = performance.now()
      const calls = [
        client.getLock('c').tryLock(),
        client.getLock('d').lock({ waitTimeMs: 300 }),
        client.getLock('c').isLocked(),
        client.getLock('c').forceUnlock(),
        waiting,
      ].map((call) => settlesWithin<unknown>(call, 4_000))
      await waitUntil(() => leased.signal.aborted && hold.signal.aborted)
      assert(performance.now() - frozenAt < 1_250, 'aborted although Redis is silent')
      assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
      for (const outcome of await Promise.all(calls)) {
        assert(outcome.status === 'rejected')
        assert.equal(outcome.reason.code, 'LOCK_OUTCOME_UNKNOWN')
      }
      const unlockedAt = performance.now()
      await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
      assert(performance.now() - unlockedAt < 100, 'who lost the lock does not wait for Redis')
      lab.server.thaw()
      await waitUntil(async () => (await lab.server.admin.keys('*')).length === 0, { timeoutMs: 3_000 })
      await (await client.getLock('a').lock({ waitTimeMs: 2_000 })).unlock()
    })

    it('replies are lost for longer than the lease: the holder assumes the worst, and Redis is freed when they pass', async () => {
      const { client, proxy } = await lab.connectThroughProxy({ lockWatchdogTimeoutMs: 900, commandTimeoutMs: 300 })
      const hold = await client.getLock('a').lock()
      proxy.mute()
      await waitUntil(() => hold.signal.aborted, { timeoutMs: 1_200 })
      assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
      await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
      await waitUntil(async () => (await lab.server.admin.exists('a')) === 0, { timeoutMs: 1_500 })
      proxy.pass()
      await (await client.getLock('a').lock({ waitTimeMs: 5_000 })).unlock()
    })

    it('a release is not answered in time: the caller is told so, and the lock comes free in the background', async () => {
      const { client, proxy } = await lab.connectThroughProxy({ commandTimeoutMs: 300 })
      const hold = await client.getLock('a').lock({ leaseTimeMs: 20_000 })
      proxy.freeze()
      await assert.rejects(hold.unlock(), { code: 'LOCK_OUTCOME_UNKNOWN', operation: 'unlock' })
      proxy.pass()
      await waitUntil(async () => (await lab.server.admin.exists('a')) === 0, { timeoutMs: 5_000 })
    })

    it('withLock gives the value of a body that was alone to its end, although the release is not answered', async () => {
      const { client, proxy } = await lab.connectThroughProxy({ commandTimeoutMs: 300 })
      const warnings: Error[] = []
      client.on('warning', (warning) => warnings.push(warning))
      const value = await client.getLock('a').withLock(async () => {
        proxy.freeze()
        return 'charged'
      })
      assert.equal(value, 'charged')
      assert.equal(warnings.length, 1)
      proxy.pass()
      await waitUntil(async () => (await lab.server.admin.exists('a')) === 0, { timeoutMs: 5_000 })
    })

    it('an aborted attempt that was refused sends nothing more', async () => {
      const [owner, client] = [await lab.connect(), await lab.connect()]
      const hold = await owner.getLock('a').lock()
      await client.getLock('b').withLock(() => {})
      const count = await countCommands(lab.server, async () => {
        for (let n = 0; n < 50; n++) {
          const controller = new AbortController()
          const trying = client.getLock('a').tryLock({ signal: controller.signal })
          controller.abort()
          await assert.rejects(trying)
        }
        await sleep(500)
      })
      assert.equal(count.scripts, 50)
      await hold.unlock()
    })

    it('an abort during a silent attempt rejects at once, and a late grant is given back', async () => {
      const { client, proxy } = await lab.connectThroughProxy()
      await client.getLock('a').withLock(() => {})
      const controller = new AbortController()
      proxy.holdReplies()
      const waiting = client.getLock('a').lock({ signal: controller.signal })
      await waitUntil(async () => (await lab.server.admin.exists('a')) === 1)
      const reason = new Error('the request was aborted')
      controller.abort(reason)
      const outcome = await settlesWithin(waiting, 100)
      assert.deepEqual(outcome, { status: 'rejected', reason })
      proxy.pass()
      await waitUntil(async () => (await lab.server.admin.exists('a')) === 0)
    })

    it('a grant that arrives after its lease is no grant: it is asked for again, and the new one counts', async () => {
      const { client, proxy } = await lab.connectThroughProxy()
      await client.getLock('a').withLock(() => {})
      proxy.holdReplies()
      const waiting = client.getLock('a').lock({ leaseTimeMs: 300 })
      const trying = settlesWithin(client.getLock('b').tryLock({ leaseTimeMs: 300 }), 3_000)
      await sleep(600)
      proxy.pass()
      const hold = await waiting
      hold.assertHeld()
      assert.equal(await holdCount(), '1')
      await hold.unlock()
      const { status, reason } = (await trying) as PromiseRejectedResult
      assert.deepEqual([status, reason.code, reason.reason], ['rejected', 'LOCK_LEASE_LOST', 'expired'])
    })

    it('the round trip is slow: the lease counts from before the command was sent', async () => {
      const { client, proxy } = await lab.connectThroughProxy()
      await client.getLock('a').withLock(() => {})
      proxy.delay(300)
      const hold = await client.getLock('a').lock({ leaseTimeMs: 2_000 })
      const [believed, real] = [hold.remainingMs(), await lab.server.admin.pttl('a')]
      assert(believed < real && believed < 1_700, `believes ${believed} ms, Redis says ${real} ms`)
      await hold.unlock()
    })

    it('the round trip takes most of a renewal period: a hold is renewed in time all the same', async () => {
      const { client, proxy } = await lab.connectThroughProxy({ lockWatchdogTimeoutMs: 1_200, commandTimeoutMs: 1_000 })
      await client.getLock('a').withLock(() => {})
      proxy.delay(550)
      const lost: LeaseLostError[] = []
      client.on('lost', ({ error }) => lost.push(error))
      const hold = await client.getLock('a').lock()
      await sleep(3_000)
      hold.assertHeld()
      assert.deepEqual(lost, [])
      proxy.pass()
      await hold.unlock()
    })

    it('Redis is down for 10 s and comes back empty: the holder is told, then locks work and renew again', async () => {
      const client = await lab.connect({ lockWatchdogTimeoutMs: 1_000 })
      const hold = await client.getLock('a').lock()
      const long = await client.getLock('b').lock({ leaseTimeMs: 60_000 })
      await lab.server.kill()
      const failing = settlesWithin(client.getLock('c').tryLock(), 6_000)
      const waiting = client.getLock('d').lock()
      await waitUntil(() => hold.signal.aborted, { timeoutMs: 1_250 })
      long.assertHeld()
      const failed = await failing
      assert(failed.status === 'rejected')
      assert.equal(failed.reason.code, 'LOCK_OUTCOME_UNKNOWN')
      await sleep(10_000 - 3_000)
      await lab.server.restart()
      const served = await waiting
      await waitUntil(() => long.signal.aborted, { message: 'the audit after the reconnect finds the lock gone' })
      assert.equal((long.signal.reason as LeaseLostError).reason, 'gone')
      await sleep(1_500)
      served.assertHeld()
      assert.equal(await served.isHeld(), true)
      await served.unlock()
      await client.getLock('a').withLock(() => {})
    })

    it('Redis restarts with its data: what is held stays held, and waiters are served', async () => {
      await lab.server.restart(['--appendonly', 'yes', '--appendfsync', 'always'])
      const [owner, client] = [await lab.connect(), await lab.connect()]
      const hold = await owner.getLock('a').lock()
      const waiting = client.getLock('a').lock()
      await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === 1)
      await lab.server.restart()
      await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === 1)
      assert.equal(await hold.isHeld(), true)
      await hold.unlock()
      await (await waiting).unlock()
    })
  })
}

describe('an ioredis client that leaves what it had sent unanswered for ever', () => {
  const lab = setUpLab()

  it('leaves no call of ours unanswered, and nothing taken', async () => {
    const proxy = await startProxy(lab.server.port)
    lab.onEnd(() => proxy.stop())
    const redis = new Redis(proxy.url, { autoResendUnfulfilledCommands: false, maxRetriesPerRequest: null })
    redis.on('error', () => {})
    const client = await connect({ client: redis, commandTimeoutMs: 500 })
    lab.onEnd(async () => {
      await client.close()
      redis.disconnect()
    })
    await client.getLock('a').withLock(() => {})

    proxy.dropNextReply(acquire)
    const tried = await settlesWithin(client.getLock('a').tryLock(), 1_500)
    assert(tried.status === 'rejected')
    assert.equal(tried.reason.code, 'LOCK_OUTCOME_UNKNOWN')
    await waitUntil(async () => (await lab.server.admin.exists('a')) === 0)

    proxy.dropNextReply(acquire)
    const hold = await client.getLock('a').lock({ waitTimeMs: 5_000 })
    assert.deepEqual(Object.values(await lab.server.admin.hgetall('a')), ['1'])
    proxy.dropNextReply(release)
    await settlesWithin(hold.unlock(), 1_500)
    await waitUntil(async () => (await lab.server.admin.exists('a')) === 0)
  })
})

describe('a holder process', () => {
  const lab = setUpLab()
  const VICTIM = new URL('../support/victim-process.js', import.meta.url)

  it('that was stopped past its lease knows in its first turn that it lost the lock, and renews nothing', async () => {
    const child = spawnChild(VICTIM, [lab.server.url])
    const { holder } = await child.nextMessage<{ at: string; holder: string }>(({ at }) => at === 'held')
    child.freeze()
    const client = await lab.connect()
    const next = await client.getLock('a').lock({ waitTimeMs: 4_000 })
    assert.notEqual(next.holder, holder)
    await sleep(500)
    child.thaw()
    const verdict = await child.nextMessage<{ at: string; error: string; aborted: boolean }>(({ at }) => at === 'woke')
    assert.deepEqual([verdict.error, verdict.aborted], ['LOCK_LEASE_LOST', true])
    await child.nextMessage(({ at }) => at === 'lost')
    await sleep(700)
    assert.equal(await next.isHeld(), true)
    assert.deepEqual(Object.keys(await lab.server.admin.hgetall('a')), [next.holder])
    await next.unlock()
    await child.stop()
  })

  it('whose event loop was blocked past its lease is told on the first line after the block', async () => {
    const client = await lab.connect({ lockWatchdogTimeoutMs: 300 })
    const hold = await client.getLock('a').lock()
    const endsAt = performance.now() + 900
    while (performance.now() < endsAt);
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    assert.equal(hold.signal.aborted, true)
    assert.equal(hold.remainingMs(), 0)
    await sleep(200)
    assert.equal(await lab.server.admin.exists('a'), 0, 'nothing revived it')
  })
})
