import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { Worker } from 'node:worker_threads'
import { Redis } from 'ioredis'
import { ownedIoredis } from '../../src/adapters/ioredis/port.js'
import { Client, type Hold } from '../../src/index.js'
import { SystemClock } from '../../src/util/clock.js'
import * as threadClient from '../../src/watchdog/thread-client.js'
import { block } from '../support/block.js'
import { countCommands, recordMonitor } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { guarded, LEASE_MS } from '../support/guarded.js'
import { kinds } from '../support/kinds.js'
import { spawnChild } from '../support/processes/child.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const BLOCKED = new URL('../support/processes/blocked-process.js', import.meta.url)
type Woke = { at: string; problems: string[]; remainingMs: number[] }
const STAYS = { keysThatStay: /^(redisson_lock_token:|permit$)/ }

const fixture = setUpFixture(undefined, [], STAYS)

/** The threads that are started from now on. */
function threadsOf(t: TestContext): Worker[] {
  const threads: Worker[] = []
  const { unref } = Worker.prototype
  t.mock.method(Worker.prototype, 'unref', function (this: Worker) {
    threads.push(this)
    unref.call(this)
  })
  return threads
}

async function assertHeldInRedis(holds: readonly Hold[]): Promise<void> {
  for (const hold of holds) {
    hold.assertHeld()
    assert.equal(hold.signal.aborted, false)
  }
  const held = await Promise.all(holds.map((hold) => hold.isHeld()))
  assert(held.every((isHeld) => isHeld))
}

describe('an event loop that is blocked for three leases', () => {
  it('a block of three leases loses no lock of any kind: nobody else gets in, and the first turn after it knows', async () => {
    // Long enough for the machine to stall for 2 s between two renewals.
    const leaseMs = 4_000
    await using child = spawnChild(BLOCKED, [fixture.server.url, String(leaseMs), String(10 * leaseMs)])
    await child.nextMessage(({ at }) => at === 'held', 30_000)
    const contender = await fixture.connect()
    const rivals = kinds.map((kind) => kind.rival(contender, kind.name))
    const semaphore = contender.getPermitExpirableSemaphore('permit')

    child.send({ blockMs: 3 * leaseMs })
    await child.nextMessage(({ at }) => at === 'blocking')
    const leaseEndsAt = performance.now() + leaseMs
    let woke = false
    const intruders: string[] = []
    const contend = async (name: string, tryIt: () => Promise<Hold | null>): Promise<number> => {
      let lateAttempts = 0
      while (!woke) {
        if (performance.now() > leaseEndsAt) lateAttempts++
        const hold = await tryIt()
        if (hold) intruders.push(name)
        await hold?.unlock()
        await sleep(20)
      }
      return lateAttempts
    }
    const contending = [
      ...rivals.map((rival) => contend(rival.name, () => rival.tryLock())),
      contend('permit', () => semaphore.tryAcquire()),
    ]
    const { problems, remainingMs } = await child
      .nextMessage<Woke>(({ at }) => at === 'woke', 30_000)
      .finally(() => {
        woke = true
      })
    // The child still holds everything here, so every grant up to now is an intrusion.
    const attempts = await Promise.all(contending)
    child.send({ release: true })
    assert.deepEqual(new Set(problems), new Set(['held']), JSON.stringify(problems))
    assert(Math.min(...remainingMs) > 0, JSON.stringify(remainingMs))
    const { refused, lost } = await child.nextMessage<{ at: string; refused: number; lost: number }>(
      ({ at }) => at === 'released',
    )
    assert.deepEqual([refused, lost, intruders], [0, 0, []])
    assert(Math.min(...attempts) > 5, `attempts after the first lease: ${attempts}`)
    const free = await Promise.all(rivals.map((rival) => rival.tryLock()))
    assert(free.every(Boolean), 'all of them are free again')
    await Promise.all(free.map((hold) => hold?.unlock()))
    child.endCommands()
    assert.deepEqual(await child.exit, { code: 0, signal: null })
  })

  it('the watchdog thread keeps thousands of locks with one script call for each hundred', async () => {
    const client = await guarded(fixture, { lockWatchdogTimeoutMs: 3_000 })
    const holds: Hold[] = []
    while (holds.length < 2_500) {
      const names = Array.from({ length: 100 }, (_, n) => `lock:${holds.length + n}`)
      holds.push(...(await Promise.all(names.map((name) => client.getLock(name).lock()))))
    }
    const count = await countCommands(fixture.server, () => block(6_000))
    await assertHeldInRedis(holds.slice(0, 10))
    for (const hold of holds) hold.assertHeld()
    // Six periods less the first, and what this thread renewed by itself before and after the block.
    assert(count.scripts >= 100 && count.scripts <= 300, `${count.scripts} scripts`)
    await Promise.all(holds.map((hold) => hold.unlock()))
  })

  it('the watchdog thread keeps locks of a configuration with a database and a name mapper', async () => {
    const client = await guarded(fixture, {
      config: { singleServerConfig: { address: fixture.server.url, database: 3 } },
      nameMapper: { map: (name) => `app:${name}`, unmap: (key) => key.slice('app:'.length) },
    })
    const hold = await client.getLock('a').lock()
    block(1.5 * LEASE_MS)
    await assertHeldInRedis([hold])
    await hold.unlock()
  })

  it('the watchdog thread keeps locks of a client that the user passed, over its own connection', async () => {
    const redis = new Redis(fixture.server.url)
    fixture.onEnd(() => redis.disconnect())
    const client = await guarded(fixture, { client: redis, watchdog: { connection: fixture.server.url } })
    const hold = await client.getLock('a').lock()
    block(1.5 * LEASE_MS)
    await assertHeldInRedis([hold])
    await hold.unlock()
  })

  it('the watchdog thread keeps locks that were re-entered without a limit or unsuccessfully', async () => {
    const client = await guarded(fixture)
    const [first, second] = [client.getLock('a'), client.getLock('b')]
    const outer = await first.lock({ maxHoldMs: 60_000 })
    const inner = await first.lock({ within: outer })
    const kept = await second.lock()
    const short = await second.lock({ within: kept, leaseTimeMs: 100 })
    await short.unlock().catch(() => {})
    block(1.5 * LEASE_MS)
    await assertHeldInRedis([outer, inner, kept])
    await Promise.all([inner, outer, kept].map((hold) => hold.unlock()))
  })
})

describe('an event loop that is blocked for longer than maxBlockMs', () => {
  it('locks are lost during a block longer than maxBlockMs, and the first turn after it knows', async () => {
    await using child = spawnChild(BLOCKED, [fixture.server.url, String(LEASE_MS), String(LEASE_MS)])
    await child.nextMessage(({ at }) => at === 'held', 30_000)
    const contender = await fixture.connect()
    child.send({ blockMs: 5 * LEASE_MS })
    await child.nextMessage(({ at }) => at === 'blocking')
    let hasWoken = false
    const waking = child.nextMessage<Woke>(({ at }) => at === 'woke', 30_000)
    void waking.finally(() => {
      hasWoken = true
    })
    for (const kind of kinds) {
      const hold = await kind.rival(contender, kind.name).lock({ waitTimeMs: 20_000 })
      assert(!hasWoken, `${kind.name} came free during the block`)
      await hold.unlock()
    }
    const { problems } = await waking
    assert.deepEqual(new Set(problems), new Set(['expired']), JSON.stringify(problems))
    child.send({ release: true })
    child.endCommands()
    assert.deepEqual(await child.exit, { code: 0, signal: null })
  })
})

describe('the watchdog thread', () => {
  it('the watchdog thread keeps no lock beyond maxHoldMs, and none with a fixed lease', async () => {
    const client = await guarded(fixture)
    const holds = [
      await client.getLock('limited').lock({ maxHoldMs: LEASE_MS / 2 }),
      await client.getLock('leased').lock({ leaseTimeMs: LEASE_MS }),
    ]
    // From renewal to a fixed lease.
    const kept = await client.getLock('turned').lock()
    const inner = await client.getLock('turned').lock({ within: kept, leaseTimeMs: LEASE_MS })
    await kept.unlock()
    block(2 * LEASE_MS)
    for (const hold of [...holds, inner]) assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST' })
    assert.deepEqual(await fixture.server.admin.keys('*'), [])
  })

  it('the watchdog thread does not revive a lock that was freed before or during the block', async () => {
    const client = await guarded(fixture)
    const gone = await client.getLock('gone').lock()
    const released = await client.getLock('released').lock()
    const kept = await client.getLock('kept').lock()
    await released.unlock()
    const operator = spawnChild(new URL('../support/processes/redis-cli-process.js', import.meta.url), [
      fixture.server.url,
      String(LEASE_MS),
      'del',
      'gone',
    ])
    await operator.nextMessage(({ at }) => at === 'ready')
    operator.endCommands()
    block(2 * LEASE_MS)
    // Nothing renewed it since.
    assert.throws(() => gone.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    await assertHeldInRedis([kept])
    assert.deepEqual(await fixture.server.admin.keys('*'), ['kept'])
    await kept.unlock()
    await operator.stop()
  })

  it('the watchdog thread sends nothing while the event loop runs', async () => {
    const client = await guarded(fixture)
    const hold = await client.getLock('a').lock()
    const monitor = await recordMonitor(fixture.server)
    await sleep(1.5 * LEASE_MS)
    const lines = await monitor.stop()
    const sources = new Set(lines.map(({ source }) => source).filter((source) => source !== 'lua'))
    assert.equal(sources.size, 1, JSON.stringify(lines.map(({ source, args }) => [source, args[0]])))
    await hold.unlock()
  })

  it('the watchdog thread reconnects while the event loop is blocked', async () => {
    const client = await guarded(fixture, { watchdog: { maxBlockMs: 20 * LEASE_MS } })
    const hold = await client.getLock('a').lock()
    await fixture.server.admin.call('CLIENT', 'KILL', 'TYPE', 'normal')
    block(2 * LEASE_MS)
    await assertHeldInRedis([hold])
    await hold.unlock()
  })

  it('time in which the machine was suspended counts as time without renewal', async () => {
    let sleptMs = 0
    const clock = new SystemClock({
      monotonic: () => performance.now(),
      wall: () => Date.now() + sleptMs,
      sinceBoot: () => performance.now() + sleptMs,
    })
    const leaseMs = 3_000
    const client = new Client(
      ownedIoredis(new Redis(fixture.server.url)),
      { lockWatchdogTimeoutMs: leaseMs },
      { clock },
    )
    fixture.onEnd(() => client.close())
    await client.protect(threadClient, {
      connection: fixture.server.url,
      maxBlockMs: 20 * leaseMs,
      file: new URL('../../src/watchdog-thread.js', import.meta.url).href,
    })
    const hold = await client.getLock('a').lock()
    for (let times = 0; times < 2; times++) {
      sleptMs += 600
      block(1.4 * leaseMs)
      await assertHeldInRedis([hold])
    }
    sleptMs += leaseMs
    block(100)
    assert.throws(() => hold.assertHeld(), { reason: 'expired' })
    await assert.rejects(hold.unlock(), { reason: 'expired' })
  })

  it('a watchdog thread that ends causes a warning, is restarted, and renews as before', async (t) => {
    const threads = threadsOf(t)
    const client = await guarded(fixture)
    const warnings: (Error & { code?: string })[] = []
    client.on('warning', (warning) => warnings.push(warning))
    const hold = await client.getLock('a').lock()
    await threads[0]?.terminate()
    await waitUntil(() => threads.length === 2, { message: 'another one is started' })
    await waitUntil(async () => (await fixture.server.connections()).length === 2, { message: 'it is connected' })
    await sleep(100)
    block(2 * LEASE_MS)
    await assertHeldInRedis([hold])
    assert.deepEqual(
      warnings.map(({ code }) => code),
      ['WATCHDOG_THREAD_ENDED'],
    )
    assert.match(warnings[0]?.message ?? '', /ended \(it exited with code 1\)/)
    await hold.unlock()
  })

  it('one watchdog thread serves all clients of a process, from the first to the last', async (t) => {
    const threads = threadsOf(t)
    const [one, other] = await Promise.all([guarded(fixture), guarded(fixture)])
    let hasEnded = false // not by `threadId`, which Deno never changes
    threads[0]?.once('exit', () => {
      hasEnded = true
    })
    const holds = [await one.getLock('a').lock(), await other.getLock('b').lock()]
    block(1.5 * LEASE_MS)
    await assertHeldInRedis(holds)
    await one.close()
    await waitUntil(async () => (await fixture.server.connections()).length === 2, {
      message: 'its connections are closed',
    })
    block(1.5 * LEASE_MS)
    await assertHeldInRedis(holds.slice(1))
    assert.deepEqual([threads.length, hasEnded], [1, false])
    await other.close()
    await waitUntil(() => hasEnded)
    const again = await guarded(fixture)
    assert.equal(threads.length, 2)
    await again.close()
  })

  it('the watchdog warns once when Redis refuses its renewals', async () => {
    const { url, admin } = fixture.server
    await admin.acl('SETUSER', 'app', 'on', '>hunter2', '+@all', '~*', '&*')
    fixture.onEnd(() => admin.acl('DELUSER', 'app'))
    const client = await guarded(fixture, {
      url,
      watchdog: { connection: url.replace('redis://', 'redis://app:hunter2@') },
    })
    const codes: unknown[] = []
    client.on('warning', (warning) => codes.push((warning as { code?: string }).code))
    const hold = await client.getLock('a').lock()
    await admin.acl('SETUSER', 'app', '-pexpire')
    block(1.5 * LEASE_MS)
    assert.throws(() => hold.assertHeld(), { reason: 'expired' })
    await waitUntil(() => codes.length > 0)
    assert.deepEqual(codes, ['RENEWAL_REFUSED'])
  })

  it('the cost of starting the watchdog thread is paid once, in connect()', async (t) => {
    const times: number[] = []
    for (const watchdog of [{ thread: false }, { thread: true }, { thread: true }]) {
      const startedAt = performance.now()
      await guarded(fixture, { watchdog })
      times.push(performance.now() - startedAt)
    }
    const [without, first, second] = times.map((ms) => `${ms.toFixed(0)} ms`)
    t.diagnostic(
      `connect() without a thread ${without}, with the first client of one ${first}, with the next ${second}`,
    )
  })
})
