/** Hand-offs from one caller of a client to the next without Redis: others still get the lock, and it stays renewed. */
import assert from 'node:assert/strict'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { describe, it } from 'node:test'
import type { BaseLock, Client, ReadWriteLock } from '../../src/index.js'
import type { Lease } from '../../src/locks/lease.js'
import { countCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { startTwin } from '../support/redisson-twin/twin.js'
import { sleep, waitUntil } from '../support/wait-until.js'

/** The default limit of a run, the time it leaves to others, and some for a busy machine. */
const SOON_MS = 50 + 10 + 1_000
const LONG_RUN = { maxHandOffMs: 600_000, maxHandOffs: 1_000_000 }

/** Tasks that acquire a lock again and again without a pause, until `stop`. */
class Crowd {
  sections = 0
  /** How often it was taken from Redis. */
  grants = 0
  #isOver = false
  readonly #tasks: Promise<void>[]

  constructor(lock: BaseLock, tasks: number, workMs = 0) {
    this.#tasks = Array.from({ length: tasks }, async () => {
      while (!this.#isOver) {
        await lock.withLock(async (hold) => {
          this.sections++
          if ((hold.lease as Lease).handOffs === 0) this.grants++
          if (workMs > 0) await sleep(workMs)
        })
      }
    })
  }

  async stop(): Promise<void> {
    this.#isOver = true
    await Promise.all(this.#tasks)
  }
}

/** How long another client had to wait, each time. */
async function waits(times: number, take: () => Promise<() => Promise<unknown>>): Promise<number[]> {
  const waited: number[] = []
  for (let time = 0; time < times; time++) {
    await sleep(Math.random() * 20)
    const askedAt = performance.now()
    const release = await take()
    waited.push(performance.now() - askedAt)
    await release()
  }
  return waited.sort((a, b) => a - b)
}

function figures(waited: readonly number[]): string {
  const at = (share: number): string => (waited[Math.floor((waited.length - 1) * share)] as number).toFixed(1)
  return `${waited.length} waits, median ${at(0.5)} ms, p90 ${at(0.9)} ms, longest ${at(1)} ms`
}

describe('hand-offs between tasks of one client', () => {
  const fixture = setUpFixture()

  for (const workMs of [0, 1]) {
    const sections = workMs > 0 ? `sections of ${workMs} ms` : 'empty sections'

    it(`another client gets the lock after each run, although 50 tasks never pause, with ${sections}`, async (t) => {
      const [client, other] = [await fixture.connect(), await fixture.connect()]
      const crowd = new Crowd(client.getLock('a'), 50, workMs)
      const waited = await waits(30, async () => {
        const hold = await other.getLock('a').lock()
        return () => hold.unlock()
      })
      await crowd.stop()
      t.diagnostic(`${figures(waited)}; ${crowd.sections} sections of the others, ${crowd.grants} grants`)
      assert((waited.at(-1) as number) < SOON_MS)
      assert(crowd.sections > 2 * crowd.grants, 'it was passed on')
    })

    it(`Redisson gets the lock after each run, although 50 tasks never pause, with ${sections}`, async (t) => {
      const client = await fixture.connect()
      await using java = await startTwin(fixture.server.url)
      const crowd = new Crowd(client.getLock('a'), 50, workMs)
      const waited = await waits(30, async () => {
        assert(await java.lock('a', 1, 30_000, 30_000))
        return () => java.release('a', 1)
      })
      await crowd.stop()
      t.diagnostic(`${figures(waited)}; ${crowd.sections} sections of the others, ${crowd.grants} grants`)
      assert((waited.at(-1) as number) < SOON_MS)
    })
  }

  it('readers of the same client get the lock after each run of its writers', async (t) => {
    const client = await fixture.connect()
    const lock = client.getReadWriteLock('a')
    const crowd = new Crowd(lock.writeLock(), 50, 1)
    const waited = await waits(30, async () => {
      const hold = await lock.readLock().lock()
      return () => hold.unlock()
    })
    await crowd.stop()
    t.diagnostic(`${figures(waited)}; ${crowd.sections} sections of the others, ${crowd.grants} grants`)
    assert((waited.at(-1) as number) < SOON_MS)
  })

  it('the non-reentrant lock of the same client and name gets its turn after each run', async (t) => {
    const client = await fixture.connect()
    const crowd = new Crowd(client.getLock('a'), 50, 1)
    const waited = await waits(30, async () => {
      const hold = await client.getNonReentrantLock('a').lock()
      return () => hold.unlock()
    })
    await crowd.stop()
    t.diagnostic(`${figures(waited)}; ${crowd.sections} sections of the others, ${crowd.grants} grants`)
    assert((waited.at(-1) as number) < SOON_MS)
  })

  it('two busy clients get about equal shares of a lock', async (t) => {
    const clients = [await fixture.connect(), await fixture.connect()]
    const crowds = clients.map((client) => new Crowd(client.getLock('a'), 10, 1))
    await sleep(3_000)
    await Promise.all(crowds.map((crowd) => crowd.stop()))
    const [one = 0, two = 0] = crowds.map(({ sections }) => sections)
    t.diagnostic(`${one} and ${two} sections`)
    assert(Math.min(one, two) > Math.max(one, two) / 3, `${one} and ${two} sections`)
  })

  it('every holder releases to Redis with maxHandOffs: 0, every fourth with maxHandOffs: 3', async () => {
    for (const [maxHandOffs, share] of [
      [0, 1],
      [3, 4],
    ] as const) {
      const client = await fixture.connect({ maxHandOffs, maxHandOffMs: 600_000 })
      const crowd = new Crowd(client.getLock('a'), 10, 1)
      await waitUntil(() => crowd.sections >= 100, { timeoutMs: 30_000 })
      await crowd.stop()
      // A waiter with an attempt in flight is skipped, so a run may be shorter, never longer.
      assert(crowd.sections <= share * crowd.grants, `${crowd.grants} grants, ${crowd.sections} sections`)
      assert(crowd.sections > (share * crowd.grants) / 2, `${crowd.grants} grants, ${crowd.sections} sections`)
    }
  })

  it('a run of hand-offs over five leases is renewed, and costs only renewals', async (t) => {
    const leaseMs = 1_500
    const client = await fixture.connect({ ...LONG_RUN, lockWatchdogTimeoutMs: leaseMs })
    client.on('lost', () => assert.fail('it was lost'))
    const crowd = new Crowd(client.getLock('a'), 20, 1)
    await waitUntil(async () => (await fixture.server.admin.pubsub('CHANNELS')).length > 0)
    await waitUntil(() => crowd.sections > 100)
    const [sections, grants] = [crowd.sections, crowd.grants]
    let least = leaseMs
    const startedAt = performance.now()
    const count = await countCommands(fixture.server, async () => {
      const endsAt = startedAt + 5 * leaseMs
      while (performance.now() < endsAt) {
        least = Math.min(least, await fixture.server.admin.pttl('a'))
        await sleep(20)
      }
    })
    // A head that polls every 5 s ends a run if it does so at the moment of a release.
    assert(crowd.grants <= grants + 2, `${crowd.grants - grants} grants`)
    t.diagnostic(`${crowd.sections - sections} sections, ${count.scripts} scripts, least lease ${least} ms`)
    assert(least > 0, `${least} ms of the lease were left`)
    // A renewal for each period, and what the lookups cost. A machine that stalls has fewer.
    const periods = (performance.now() - startedAt) / (leaseMs / 3)
    assert(
      count.scripts >= periods / 2 && count.scripts <= 1.6 * periods,
      `${count.scripts} scripts, ${periods} periods`,
    )
    await crowd.stop()
  })

  it('a run with empty sections blocks the event loop no longer than maxHandOffMs', async (t) => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
    client.on('lost', () => assert.fail('it was lost'))
    const delay = monitorEventLoopDelay({ resolution: 1 })
    const crowd = new Crowd(client.getLock('a'), 50)
    const other = await client.getLock('b').lock()
    delay.enable()
    await sleep(3_000)
    delay.disable()
    other.assertHeld()
    await crowd.stop()
    const [p50, p99, most] = [delay.percentile(50), delay.percentile(99), delay.max].map((ns) => (ns / 1e6).toFixed(1))
    t.diagnostic(
      `${crowd.sections} sections, ${crowd.grants} grants; delay p50 ${p50} ms, p99 ${p99} ms, max ${most} ms`,
    )
    await other.unlock()
  })
})

describe('hand-offs of a write lock', () => {
  const fixture = setUpFixture()

  /** Whether a waiting writer got it by a hand-off, not from Redis. */
  async function isPassedOn(client: Client, inside: (lock: ReadWriteLock) => Promise<unknown>): Promise<boolean> {
    const lock = client.getReadWriteLock('a')
    const first = lock.writeLock().withLock(async (hold) => {
      await inside(lock)
      await waitUntil(async () => (await fixture.server.admin.pubsub('CHANNELS')).length > 0)
      await sleep(20)
      return hold.holder
    })
    await sleep(5)
    const second = lock.writeLock().withLock((hold) => hold.holder)
    return (await first) === (await second)
  }

  it('a write lock is handed off when its holder has read inside and released the read', async () => {
    const client = await fixture.connect(LONG_RUN)
    assert.equal(await isPassedOn(client, async () => {}), true)
    assert.equal(await isPassedOn(client, async (lock) => await lock.readLock().withLock(() => {})), true)
  })

  it('a write lock is not handed off while its holder still reads', async () => {
    const client = await fixture.connect(LONG_RUN)
    const lock = client.getReadWriteLock('a')
    let release: Promise<void> | undefined
    const passed = isPassedOn(client, async () => {
      const read = await lock.readLock().lock()
      release = (async () => {
        await sleep(400)
        assert.equal(await read.isHeld(), true)
        // The writer went, and the next one waits for the reader.
        const holders = await lock.writeLock().getHolders()
        assert.deepEqual(holders, [])
        await read.unlock()
      })()
    })
    assert.equal(await passed, false)
    await release
  })

  it('a write lock is not handed off while a reader waits to join it', async () => {
    const { client, proxy } = await fixture.connectThroughProxy(LONG_RUN)
    const lock = client.getReadWriteLock('a')
    await lock.writeLock().withLock(async () => await lock.readLock().withLock(() => {})) // Redis knows the scripts
    const write = await lock.writeLock().lock()
    const next = lock.writeLock().lock()
    await waitUntil(async () => (await fixture.server.admin.pubsub('CHANNELS')).length > 0)
    const abort = new AbortController()
    proxy.delay(100)
    const aborted = lock.readLock().lock({ within: write, signal: abort.signal })
    const reading = lock.readLock().lock({ within: write })
    const read = reading.then(async (hold) => await hold.unlock())
    abort.abort(new Error('enough'))
    await assert.rejects(aborted, /enough/)
    // Its late grant is released. The other reader tries again a few ms later, and has claimed nothing until then.
    const { owner, field } = write.lease as Lease
    while (!owner.hasOnly(field)) await new Promise((resolve) => setImmediate(resolve))
    assert.equal((write.lease as Lease).joining, 1)
    const released = write.unlock()
    proxy.pass()
    await released
    const hold = await next
    assert.notEqual(hold.holder, write.holder)
    await hold.unlock()
    await read
  })

  it('a write lock is not handed off while a leftover task of its holder is about to read as the old owner', async () => {
    const client = await fixture.connect(LONG_RUN)
    let stray: Promise<unknown> | undefined
    const passed = await isPassedOn(client, async (lock) => {
      stray = (async () => {
        await sleep(30)
        for (let round = 0; round < 50; round++) {
          await lock.readLock().withLock(async (hold) => {
            const writers = await lock.writeLock().getHolders()
            for (const { holder } of writers) assert.equal(holder, `${hold.holder}:write`)
          })
        }
      })()
    })
    await stray
    assert.equal(typeof passed, 'boolean')
  })
})
