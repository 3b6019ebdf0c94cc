/** What every kind of lock promises when things break. What does not apply to a kind is left out by one of its traits. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Redis } from 'ioredis'
import { type Client, connect, type Hold, type LeaseLostError } from '../../src/index.js'
import { spawnChild } from '../support/child.js'
import { countCommands } from '../support/command-stats.js'
import { Bench, type Kind, kinds, kindsThrough, requestTo } from '../support/kinds.js'
import { type Driver, drivers, setUpLab, watchWholeProcess } from '../support/lab.js'
import { renewed } from '../support/renewed.js'
import { startProxy } from '../support/tcp-proxy.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

const VICTIM = new URL('../support/victim-process.js', import.meta.url)

const acquire = requestTo('acquire')
const reentry = requestTo('reenter')
const release = requestTo('release')
const renewal = requestTo('renew')

describe('a fault', { concurrency: 6 }, () => {
  watchWholeProcess()
  for (const { kind, driver } of kindsThrough(drivers)) {
    describe(`of a ${kind.name}, through ${driver.name} with its default settings`, { concurrency: 1 }, () =>
      faults(kind, driver),
    )
  }
  for (const kind of kinds) {
    describe(`of a process that holds a ${kind.name}`, { concurrency: 1 }, () => faultsOfProcesses(kind))
  }
})

function faults(kind: Kind, driver: Driver): void {
  const lab = setUpLab(driver, [], { keysThatStay: kind.keysThatStay, isBesideOthers: true })
  const bench = new Bench(kind, lab)

  /** Redis knows the scripts from here on, so that the faults find the requests. */
  async function warmUp(client: Client): Promise<void> {
    await client.runInScope(async () => {
      const hold = await bench.lock(client).lock()
      if (kind.isReentrant) await (await bench.lock(client).lock()).unlock()
      await hold.unlock()
    })
  }

  it('the reply of an acquire is lost: the hold count is 1, and one unlock frees the lock', async () => {
    const { client, proxy } = await lab.connectThroughProxy()
    await warmUp(client)
    proxy.dropNextReply(acquire)
    const hold = await bench.lock(client).lock()
    await proxy.dropped
    await bench.expectCount(1)
    hold.assertHeld()
    await hold.unlock()
    assert.equal(await bench.isFree(), true)
  })

  it('the reply of a tryLock() is lost: the lock is held once, or the outcome is unknown and it is free within its lease', async () => {
    const { client, proxy } = await lab.connectThroughProxy()
    await warmUp(client)
    proxy.dropNextReply(acquire)
    const outcome = await settlesWithin(bench.lock(client).tryLock({ leaseTimeMs: 5_000 }), 5_000)
    await proxy.dropped
    if (outcome.status === 'fulfilled') {
      await bench.expectCount(1)
      await outcome.value?.unlock()
    } else assert.equal(outcome.reason.code, 'LOCK_OUTCOME_UNKNOWN')
    await waitUntil(() => bench.isFree(), { timeoutMs: 3_000 })
  })

  it('the request of an acquire is lost: it is sent again within the wait', async () => {
    const { client, proxy } = await lab.connectThroughProxy()
    await warmUp(client)
    proxy.dropNextRequest(acquire)
    const hold = await bench.lock(client).lock({ waitTimeMs: 5_000 })
    await proxy.dropped
    await bench.expectCount(1)
    await hold.unlock()
  })

  if (kind.isReentrant) {
    it('the reply of a re-entry is lost: the hold count is 2, and two unlocks free the lock', async () => {
      const { client, proxy } = await lab.connectThroughProxy()
      await warmUp(client)
      await client.runInScope(async () => {
        const hold = await bench.lock(client).lock()
        proxy.dropNextReply(reentry)
        const inner = await bench.lock(client).lock()
        await proxy.dropped
        await bench.expectCount(2)
        await inner.unlock()
        await bench.expectCount(1)
        await hold.unlock()
      })
      assert.equal(await bench.isFree(), true)
    })

    it('the request or the reply of a partial release is lost: the last release still frees the lock', async () => {
      const { client, proxy } = await lab.connectThroughProxy()
      await warmUp(client)
      const releaseOne = requestTo('releaseOne')
      for (const drop of [() => proxy.dropNextReply(releaseOne), () => proxy.dropNextRequest(releaseOne)]) {
        await client.runInScope(async () => {
          const hold = await bench.lock(client).lock()
          const inner = await bench.lock(client).lock()
          drop()
          await inner.unlock()
          await proxy.dropped
          hold.assertHeld()
          assert.equal(await hold.isHeld(), true)
          await hold.unlock()
        })
        assert.equal(await bench.isFree(), true)
      }
    })
  }

  it('the reply of a release is lost: the release still counts, and a later holder is not affected', async () => {
    const { client, proxy } = await lab.connectThroughProxy()
    const other = await lab.connect()
    await warmUp(client)
    const lost: LeaseLostError[] = []
    client.on('lost', ({ error }) => lost.push(error))
    const hold = await bench.lock(client).lock()
    proxy.dropNextReply(release)
    const unlocked = hold.unlock()
    await proxy.dropped
    const next = await bench.lock(other).lock()
    await unlocked
    assert.deepEqual(lost, [])
    assert.equal(hold.signal.aborted, false)
    assert.equal(await next.isHeld(), true)
    await next.unlock()
  })

  it('the request of a release is lost: it is sent again', async () => {
    const { client, proxy } = await lab.connectThroughProxy()
    await warmUp(client)
    const hold = await bench.lock(client).lock()
    proxy.dropNextRequest(release)
    await hold.unlock()
    await proxy.dropped
    assert.equal(await bench.isFree(), true)
  })

  it('the reply or the request of a renewal is lost: the next attempt renews, and no loss is reported', async () => {
    const { client, proxy } = await lab.connectThroughProxy({ lockWatchdogTimeoutMs: 4_000 })
    const lost: LeaseLostError[] = []
    client.on('lost', ({ error }) => lost.push(error))
    const hold = await bench.lock(client).lock()
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

  // A polled kind has no subscriber.
  if (kind.isAnnounced) {
    it('the subscriber is killed in the gap before the unlock: the waiter is served within 1 s', async () => {
      const [owner, client] = [await lab.connect(), await lab.connect()]
      const hold = await bench.rival(owner).lock()
      const waiting = bench.lock(client).lock()
      await bench.somebodyWaits()
      await sleep(50)
      await lab.server.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
      await hold.unlock()
      const outcome = await settlesWithin(waiting, 1_000)
      assert(outcome.status === 'fulfilled')
      await outcome.value.unlock()
    })
  }

  it('connections are killed again and again: every call settles, and two owners never overlap', async () => {
    const [one, two] = [await lab.connect(), await lab.connect()]
    let inside = 0
    let rivals = 0
    let done = 0
    const loops = [one, two, one, two].map(async (client, index) => {
      // Two of the four are rivals to the others; for all kinds but the shared ones that is the same lock.
      const isRival = index >= 2
      const lock = isRival ? bench.rival(client) : bench.lock(client)
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
        await lab.server.admin.call('CLIENT', 'KILL', 'TYPE', kill % 3 === 0 ? 'pubsub' : 'normal', 'SKIPME', 'yes')
      }
    })()
    await Promise.all([...loops, storm])
    assert(done > 50, `${done} of 100 sections`)
    await (await bench.rival(one).lock({ waitTimeMs: 5_000 })).unlock()
  })

  if (!kind.isShared) {
    const LONG_RUN = { maxHandOffMs: 60_000, maxHandOffs: 1_000_000 }

    it('Redis is frozen during hand-offs: the holder is notified by its deadline, and the next ones are served after the thaw', async () => {
      const client = await lab.connect({ ...LONG_RUN, lockWatchdogTimeoutMs: 1_000, commandTimeoutMs: 500 })
      const lock = bench.lock(client)
      const earlier = await lock.lock()
      const waiters = Array.from({ length: 3 }, () => lock.lock())
      for (const waiter of waiters) waiter.catch(() => {})
      await bench.somebodyWaits()
      await sleep(50)
      await earlier.unlock()
      const hold = (await waiters[0]) as Hold
      const leftMs = hold.remainingMs()
      const frozenAt = performance.now()
      lab.server.freeze()
      await waitUntil(() => hold.signal.aborted, { message: 'aborted although Redis is silent' })
      const notifiedMs = performance.now() - frozenAt
      assert(notifiedMs < leftMs + 1_500, `notified after ${notifiedMs} ms, with ${leftMs} ms left`)
      assert.equal(earlier.signal.aborted, false, 'a holder that released in time is not affected')
      await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
      lab.server.thaw()
      for (const waiter of waiters.slice(1)) {
        const next = await settlesWithin(waiter, 10_000)
        assert(next.status === 'fulfilled')
        assert.notEqual(next.value.holder, hold.holder)
        assert.equal(await next.value.isHeld(), true)
        await next.value.unlock()
      }
      await waitUntil(() => bench.isFree(), { timeoutMs: 3_000 })
    })

    it('connections are killed during hand-offs: they continue one at a time, and no loss is reported', async () => {
      const client = await lab.connect(LONG_RUN)
      client.on('lost', () => assert.fail('it was lost'))
      let inside = 0
      let sections = 0
      let isOver = false
      const tasks = Array.from({ length: 10 }, async () => {
        while (!isOver) {
          await bench.lock(client).withLock(async (hold) => {
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
        await lab.server.admin.call('CLIENT', 'KILL', 'TYPE', kill % 2 ? 'pubsub' : 'normal', 'SKIPME', 'yes')
      }
      isOver = true
      await Promise.all(tasks)
      assert(sections > 6, `it went on after each kill: ${sections} sections`)
      await (await bench.rival(client).lock({ waitTimeMs: 5_000 })).unlock()
    })
  }

  it('Redis is frozen: the signal aborts by the lease deadline, every promise settles, and a late grant is released', async () => {
    const options = { lockWatchdogTimeoutMs: 1_000, commandTimeoutMs: 500 }
    const [owner, client] = [await lab.connect(options), await lab.connect(options)]
    const hold = await bench.rival(owner).lock()
    const leased = await bench.lock(owner, 'b').lock({ leaseTimeMs: 800 })
    const waiting = bench.lock(client).lock({ waitTimeMs: 1_500 })
    await bench.somebodyWaits()
    lab.server.freeze()
    const calls = [
      bench.lock(client, 'c').tryLock(),
      bench.lock(client, 'd').lock({ waitTimeMs: 300 }),
      ...bench.parts(client, 'c').flatMap((part) => [part.isLocked(), part.forceUnlock()]),
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
    lab.server.thaw()
    await waitUntil(async () => (await bench.keys()).length === 0, { timeoutMs: 3_000 })
    await (await bench.lock(client).lock({ waitTimeMs: 2_000 })).unlock()
  })

  it('replies are lost for longer than the lease: the holder assumes a loss, and Redis is freed when they pass', async () => {
    const { client, proxy } = await lab.connectThroughProxy({ lockWatchdogTimeoutMs: 900, commandTimeoutMs: 300 })
    const hold = await bench.lock(client).lock()
    proxy.mute()
    await waitUntil(() => hold.signal.aborted, { timeoutMs: 2_000 })
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    await waitUntil(() => bench.isFree(), { timeoutMs: 2_000 })
    proxy.pass()
    await (await bench.lock(client).lock({ waitTimeMs: 5_000 })).unlock()
  })

  it('a release gets no reply in time: the caller gets an error, and the lock is freed in the background', async () => {
    const { client, proxy } = await lab.connectThroughProxy({ commandTimeoutMs: 300 })
    const hold = await bench.lock(client).lock({ leaseTimeMs: 20_000 })
    proxy.freeze()
    await assert.rejects(hold.unlock(), { code: 'LOCK_OUTCOME_UNKNOWN', operation: 'unlock' })
    proxy.pass()
    await waitUntil(() => bench.isFree(), { timeoutMs: 5_000 })
  })

  it('withLock resolves to the value of an exclusive callback, although the release gets no reply', async () => {
    const { client, proxy } = await lab.connectThroughProxy({ commandTimeoutMs: 300 })
    const warnings: Error[] = []
    client.on('warning', (warning) => warnings.push(warning))
    const value = await bench.lock(client).withLock(async () => {
      proxy.freeze()
      return 'charged'
    })
    assert.equal(value, 'charged')
    assert.equal(warnings.length, 1)
    proxy.pass()
    await waitUntil(() => bench.isFree(), { timeoutMs: 5_000 })
  })

  it('an aborted attempt that was refused sends nothing more', async () => {
    const [owner, client] = [await lab.connect(), await lab.connect()]
    const hold = await bench.rival(owner).lock()
    await bench.lock(client, 'b').withLock(() => {})
    const count = await countCommands(lab.server, async () => {
      for (let n = 0; n < 50; n++) {
        const controller = new AbortController()
        const trying = bench.lock(client).tryLock({ signal: controller.signal })
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
    const { client, proxy } = await lab.connectThroughProxy()
    await warmUp(client)
    const controller = new AbortController()
    proxy.holdReplies()
    const waiting = bench.lock(client).lock({ signal: controller.signal })
    await waitUntil(async () => !(await bench.isFree()))
    const reason = new Error('the request was aborted')
    controller.abort(reason)
    const outcome = await settlesWithin(waiting, 1_000)
    assert.deepEqual(outcome, { status: 'rejected', reason })
    proxy.pass()
    await waitUntil(() => bench.isFree())
  })

  it('an aborted wait whose request got no reply leaves no place in a queue and no grant', async () => {
    const { client, proxy } = await lab.connectThroughProxy()
    const owner = await lab.connect()
    await warmUp(client)
    const hold = await bench.rival(owner).lock()
    const before = await bench.keys()
    for (const break_ of [() => proxy.dropNextReply(acquire), () => proxy.dropNextRequest(acquire)]) {
      const controller = new AbortController()
      break_()
      const waiting = bench.lock(client).lock({ signal: controller.signal })
      await proxy.dropped
      controller.abort(new Error('the request was aborted'))
      await assert.rejects(waiting, { message: 'the request was aborted' })
      await bench.onlyKeys(before)
    }
    await hold.unlock()
    await (await bench.lock(owner).lock({ waitTimeMs: 5_000 })).unlock()
  })

  // The lease of a lock made of others begins when all of them are taken.
  if (!kind.isJoint) {
    it('a grant that arrives after its lease is discarded: the lock is requested again, and the new grant counts', async () => {
      const { client, proxy } = await lab.connectThroughProxy()
      await warmUp(client)
      proxy.holdReplies()
      const waiting = bench.lock(client).lock({ leaseTimeMs: 1_500 })
      const trying = settlesWithin(bench.lock(client, 'b').tryLock({ leaseTimeMs: 1_500 }), 5_000)
      await sleep(1_600)
      proxy.pass()
      const hold = await waiting
      hold.assertHeld()
      await bench.expectCount(1)
      await hold.unlock()
      const { status, reason } = (await trying) as PromiseRejectedResult
      assert.deepEqual([status, reason.code, reason.reason], ['rejected', 'LOCK_LEASE_LOST', 'expired'])
    })
  }

  it('the round trip is slow: the lease counts from before the command was sent', async () => {
    const { client, proxy } = await lab.connectThroughProxy()
    const onlooker = await lab.connect()
    await warmUp(client)
    proxy.delay(300)
    const hold = await bench.lock(client).lock({ leaseTimeMs: 5_000 })
    const believed = hold.remainingMs()
    const endsAt = performance.now() + believed
    assert(believed < 4_700, `believes ${believed} ms`)
    for (const part of bench.parts(onlooker)) {
      const askedAt = performance.now()
      const real = await part.remainingLeaseMs()
      assert(endsAt < askedAt + real, `believes ${endsAt - askedAt} ms, Redis says ${real} ms`)
    }
    await hold.unlock()
  })

  it('the round trip takes most of a renewal period: a hold is still renewed in time', async () => {
    const { client, proxy } = await lab.connectThroughProxy({ lockWatchdogTimeoutMs: 5_400, commandTimeoutMs: 4_000 })
    await bench.lock(client).withLock((hold) => renewed([hold], 1)) // Redis knows the scripts from here on
    // Twice that and a period are longer than the lease: the first renewal must not wait for its period.
    proxy.delay(2_000)
    const lost: LeaseLostError[] = []
    client.on('lost', ({ error }) => lost.push(error))
    const hold = await bench.lock(client).lock()
    await renewed([hold])
    assert.deepEqual(lost, [])
    proxy.pass()
    await hold.unlock()
  })

  // As long as people are patient for the kind that most use, and shorter for the others, of which there are many.
  const outageMs = kind === kinds[0] ? 10_000 : 3_000

  it(`Redis is down for ${outageMs / 1_000} s and comes back empty: the holder is notified, then locks work and renew again`, async () => {
    const client = await lab.connect({ lockWatchdogTimeoutMs: 2_400 })
    const hold = await bench.lock(client).lock()
    const long = await bench.lock(client, 'b').lock({ leaseTimeMs: 60_000 })
    await lab.server.kill()
    const killedAt = performance.now()
    const failing = settlesWithin(bench.lock(client, 'c').tryLock(), 6_000)
    const waiting = bench.lock(client, 'd').lock()
    await waitUntil(() => hold.signal.aborted, { timeoutMs: 3_400 })
    long.assertHeld()
    const failed = await failing
    assert(failed.status === 'rejected')
    assert.equal(failed.reason.code, 'LOCK_OUTCOME_UNKNOWN')
    await sleep(Math.max(0, killedAt + outageMs - performance.now()))
    await lab.server.restart()
    const served = await waiting
    await waitUntil(() => long.signal.aborted, { message: 'the audit after the reconnect finds the lock gone' })
    assert.equal((long.signal.reason as LeaseLostError).reason, 'gone')
    await renewed([served])
    assert.equal(await served.isHeld(), true)
    await served.unlock()
    await bench.lock(client).withLock(() => {})
  })

  it('Redis restarts with its data: holds stay held, and waiters are served', async () => {
    await lab.server.restart(['--appendonly', 'yes', '--appendfsync', 'always'])
    const [owner, client] = [await lab.connect(), await lab.connect()]
    const hold = await bench.rival(owner).lock()
    const waiting = bench.lock(client).lock()
    await bench.somebodyWaits()
    await lab.server.restart()
    await bench.somebodyWaits()
    assert.equal(await hold.isHeld(), true)
    await hold.unlock()
    const served = await settlesWithin(waiting, 5_000)
    assert(served.status === 'fulfilled')
    await served.value.unlock()
  })
}

/** The processes have a driver of their own. */
function faultsOfProcesses(kind: Kind): void {
  const lab = setUpLab(undefined, [], { keysThatStay: kind.keysThatStay, isBesideOthers: true })
  const bench = new Bench(kind, lab)

  it('a process stopped past its lease knows in its first turn that it lost the lock, and renews nothing', async () =>
    await isStopped(0))

  if (!kind.isShared) {
    it('a process stopped past its lease during hand-offs knows in its first turn that it lost the lock', async () =>
      await isStopped(5))
  }

  /** @param passes  how often it went from one caller of the process to the next before */
  async function isStopped(passes: number): Promise<void> {
    const child = spawnChild(VICTIM, [lab.server.url, kind.name, drivers[0]?.name ?? '', String(passes)])
    const { holder } = await child.nextMessage<{ at: string; holder: string }>(({ at }) => at === 'held')
    child.freeze()
    const client = await lab.connect()
    const next = await bench.rival(client).lock({ waitTimeMs: 4_000 })
    assert.notEqual(next.holder, holder)
    await sleep(500)
    child.thaw()
    const verdict = await child.nextMessage<{ at: string; error: string; aborted: boolean }>(({ at }) => at === 'woke')
    assert.deepEqual([verdict.error, verdict.aborted], ['LOCK_LEASE_LOST', true])
    await child.nextMessage(({ at }) => at === 'lost')
    await sleep(700)
    assert.equal(await next.isHeld(), true)
    assert.equal(await bench.lock(client).tryLock(), null, 'nobody freed it')
    await next.unlock()
    await child.stop()
    assert.deepEqual(await bench.keys(), [], 'nothing was revived')
  }
}

describe('a holder process', () => {
  const lab = setUpLab(undefined, [], { keysThatStay: /^redisson_lock_token:/ })

  it('a holder whose event loop was blocked past its lease knows on the first line after the block', async () => {
    const client = await lab.connect({ lockWatchdogTimeoutMs: 1_500 })
    const holds = await Promise.all(kinds.map((kind) => kind.lock(client, kind.name).lock()))
    const endsAt = performance.now() + 2_000
    while (performance.now() < endsAt);
    for (const hold of holds) {
      assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'expired' }, hold.lockName)
      assert.equal(hold.signal.aborted, true)
      assert.equal(hold.remainingMs(), 0)
    }
    await sleep(200)
    const keys = await lab.server.admin.keys('*')
    assert.deepEqual(
      keys.filter((key) => !key.startsWith('redisson_lock_token:')),
      [],
      'nothing revived them',
    )
  })
})

describe('an ioredis client that never settles commands without a reply', () => {
  const lab = setUpLab()

  it('every call settles although the ioredis client never does, and nothing stays acquired', async () => {
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
