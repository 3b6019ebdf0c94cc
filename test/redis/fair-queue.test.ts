/** The queue of a fair lock: clocks, deadlines, waiters that died or gave up. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Client, getMultiLock } from '../../src/index.js'
import { countCommands } from '../support/command-stats.js'
import { fairQueue } from '../support/fair-queue.js'
import { setUpFixture } from '../support/fixture.js'
import { FAIR_WAIT_MS, openTwin } from '../support/redisson-twin/twin.js'
import { listening, WOKEN_MS } from '../support/subscribers.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000
const QUEUE_TTL_MS = 86_400_000

const QUEUE = 'redisson_lock_queue:{a}'
const DEADLINES = 'redisson_lock_timeout:{a}'

/** Each test shows that a known defect of Redisson’s RedissonFairLock does not occur here. */
describe('the fair queue', () => {
  const fixture = setUpFixture()
  const { queued, deadlineOf, enqueue } = fairQueue(fixture, 'a')

  /** Queues waiters that died: they are not subscribed, and their deadlines are minutes away. */
  async function enqueueDead(...holders: string[]): Promise<void> {
    for (const [index, holder] of holders.entries()) await enqueue(holder, (index + 1) * FAIR_WAIT_MS)
  }

  /** The clock that deadlines go by. */
  async function serverTime(): Promise<number> {
    const [seconds, micros] = await fixture.server.admin.time()
    return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000)
  }

  for (const [title, byMs] of [
    ['ahead', 3_600_000],
    ['behind', -3_600_000],
  ] as const) {
    it(`a process whose clock is an hour ${title} neither evicts waiters of a fair lock nor is evicted`, async (t) => {
      const [client, other] = [await fixture.connect(), await fixture.connect()]
      const hold = await client.getFairLock('a').lock()
      const now = Date.now
      t.mock.method(Date, 'now', () => now() + byMs)
      const waiting = other.getFairLock('a').lock({ waitTimeMs: 60_000 })
      await queued(`${other.id}:1`)
      t.mock.restoreAll()
      const late = client.getFairLock('a').lock()
      await queued(`${other.id}:1`, `${client.id}:2`)
      const deadline = (await deadlineOf(`${other.id}:1`)) - (await serverTime())
      assert(deadline > 60_000 && deadline <= 60_000 + WATCHDOG_MS, `${deadline} ms from now, by the server`)
      await hold.unlock()
      const next = await waiting
      assert.equal(next.holder, `${other.id}:1`)
      await next.unlock()
      await (await late).unlock()
    })
  }

  it('a dead waiter at the head of a fair queue does not make the others spin', async () => {
    const clients = [await fixture.connect(), await fixture.connect(), await fixture.connect()]
    await enqueueDead('dead:1')
    const count = await countCommands(fixture.server, async () => {
      const waits = clients.map((client) => client.getFairLock('a').lock())
      for (const waiting of waits) void waiting.then((hold) => hold.unlock())
      await Promise.all(waits)
    })
    assert(count.scripts <= 25, `${count.scripts} scripts for three sections behind one dead head`)
  })

  it('a fair lock without an expiry does not make its waiters spin', async () => {
    const clients = [await fixture.connect(), await fixture.connect()]
    await fixture.server.admin.hset('a', 'somebody:1', '1')
    const abort = new AbortController()
    const waits = clients.map((client) => client.getFairLock('a').lock({ signal: abort.signal }))
    await listening(fixture, 2)
    await sleep(200)
    const count = await countCommands(fixture.server, () => sleep(2_000))
    assert(count.scripts <= 4, `${count.scripts} scripts in 2 s`)
    abort.abort(new Error('enough'))
    for (const waiting of waits) await assert.rejects(waiting, /enough/)
    await fixture.server.admin.del('a')
  })

  it('a waiter that gives up a fair lock reduces later deadlines by no more than its own wait added', async () => {
    const client = await fixture.connect()
    const hold = await client.getFairLock('a').lock()
    const waits = [client.getFairLock('a').tryLock({ waitTimeMs: 500 })]
    await queued(`${client.id}:2`)
    for (let n = 3; n <= 5; n++) {
      waits.push(client.getFairLock('a').tryLock({ waitTimeMs: n === 5 ? 300_000 : 20_000 }))
      await queued(...Array.from({ length: n - 1 }, (_, index) => `${client.id}:${index + 2}`))
    }
    assert.equal(await waits[0], null)
    await queued(`${client.id}:3`, `${client.id}:4`, `${client.id}:5`)
    const now = await serverTime()
    for (const deadline of (await fixture.server.admin.zrange(DEADLINES, 0, '-1', 'WITHSCORES')).filter(
      (_, n) => n % 2,
    )) {
      assert(Number(deadline) > now + 15_000, 'all waiters count as alive')
    }
    await hold.unlock()
    for (const [index, waiting] of waits.slice(1).entries()) {
      const next = await waiting
      assert.equal(next?.holder, `${client.id}:${index + 3}`, 'no waiter lost its place')
      await next?.unlock()
    }
  })

  it('the next waiter is woken when a dead head of a fair queue is skipped', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await client.getFairLock('a').lock()
    await enqueueDead('dead:1')
    const waiting = other.getFairLock('a').lock()
    await queued('dead:1', `${other.id}:1`)
    await listening(fixture)
    await sleep(100)
    const releasedAt = performance.now()
    await hold.unlock()
    const next = await waiting
    const tookMs = performance.now() - releasedAt
    assert(tookMs < 1_000 + WOKEN_MS, `${tookMs} ms; the lease in its reply has ${WATCHDOG_MS} ms`)
    await next.unlock()
  })

  it('the next waiter is woken when the head of a fair queue leaves on its turn', async () => {
    const [leaving, staying, peer] = [await fixture.connect(), await fixture.connect(), await openTwin(fixture)]
    await peer.fairAcquire('a', 7, WATCHDOG_MS)
    const abort = new AbortController()
    const left = leaving.getFairLock('a').lock({ signal: abort.signal })
    await queued(`${leaving.id}:1`)
    const waiting = staying.getFairLock('a').lock()
    await listening(fixture, 2)
    await sleep(100)
    await fixture.server.admin.del('a')
    const freeAt = performance.now()
    abort.abort(new Error('enough'))
    await assert.rejects(left, /enough/)
    const hold = await waiting
    assert(performance.now() - freeAt < WOKEN_MS)
    await hold.unlock()
  })

  it('a fair wait that is aborted, times out or is closed leaves no ghost in the queue', async () => {
    const [holder, client, closed] = [await fixture.connect(), await fixture.connect(), await fixture.connect()]
    const hold = await holder.getFairLock('a').lock()
    const abort = new AbortController()
    const outcomes = Promise.allSettled([
      client.getFairLock('a').lock({ signal: abort.signal }),
      client.getFairLock('a').lock({ waitTimeMs: 400 }),
      closed.getFairLock('a').lock(),
    ])
    await waitUntil(async () => (await fixture.server.admin.llen(QUEUE)) === 3)
    abort.abort(new Error('enough'))
    await closed.close()
    for (const { status } of await outcomes) assert.equal(status, 'rejected')
    await waitUntil(async () => (await fixture.server.admin.exists(QUEUE, DEADLINES)) === 0)
    await hold.unlock()
    const next = await client.getFairLock('a').tryLock()
    assert.notEqual(next, null)
    await next?.unlock()
  })

  it('releasing a fair lock that is gone is an error', async () => {
    const client = await fixture.connect()
    const gone = await client.getFairLock('a').lock()
    await fixture.server.admin.del('a')
    await assert.rejects(gone.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    const expired = await client.getFairLock('a').lock({ leaseTimeMs: 200 })
    await waitUntil(() => expired.signal.aborted)
    await assert.rejects(expired.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
  })

  it('a head of a fair queue without a deadline is skipped', async () => {
    const client = await fixture.connect()
    await fixture.server.admin.rpush(QUEUE, 'ghost:1', 'ghost:2')
    const hold = await client.getFairLock('a').tryLock()
    assert.notEqual(hold, null)
    await hold?.unlock()
  })

  it('several waiters that died together delay the others by seconds, not by the sum of their deadlines', async () => {
    const client = await fixture.connect()
    await enqueueDead('dead:1', 'dead:2', 'dead:3')
    const startedAt = performance.now()
    const hold = await client.getFairLock('a').lock()
    const tookMs = performance.now() - startedAt
    assert(tookMs > 900 && tookMs < 10_000, `${tookMs} ms for three`)
    await hold.unlock()
  })

  it('the lease of a multi-lock that contains a fair lock does not end the queue or the deadlines', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await client.getFairLock('a').lock()
    const waiting = getMultiLock(client.getFairLock('a'), client.getLock('b')).lock({ leaseTimeMs: 1_000 })
    await queued(`${client.id}:2`)
    const behind = other.getFairLock('a').lock()
    await queued(`${client.id}:2`, `${other.id}:1`)
    await hold.unlock()
    const multi = await waiting
    for (const key of [QUEUE, DEADLINES]) {
      const leftMs = await fixture.server.admin.pttl(key)
      assert(leftMs > QUEUE_TTL_MS / 2, `${key} lasts for ${leftMs} ms, and not for the lease`)
    }
    await multi.unlock()
    await (await behind).unlock()
  })

  it('a thousand waiters that died together delay the next one by seconds', async () => {
    const client = await fixture.connect()
    const dead = Array.from({ length: 1_000 }, (_, index) => `dead:${index + 1}`)
    const [scores, members] = [dead.flatMap((holder, n) => [Date.now() + (n + 1) * FAIR_WAIT_MS, holder]), dead]
    await fixture.server.admin.zadd(DEADLINES, ...scores)
    await fixture.server.admin.rpush(QUEUE, ...members)
    const startedAt = performance.now()
    const hold = await client.getFairLock('a').lock()
    const tookMs = performance.now() - startedAt
    assert(tookMs > 900 && tookMs < 20_000, `${tookMs} ms for a thousand`)
    assert.equal(await fixture.server.admin.exists(QUEUE, DEADLINES), 0)
    await hold.unlock()
  })

  for (const [title, leave] of [
    ['are aborted', (_: Client, abort: AbortController) => abort.abort(new Error('enough'))],
    ['belong to a client that closes', (client: Client) => client.close()],
  ] as const) {
    it(`two thousand waiters that ${title} together leave no place, and cost Redis the same each`, async () => {
      const [holder, client] = [await fixture.connect(), await fixture.connect()]
      const hold = await holder.getFairLock('a').lock()
      const abort = new AbortController()
      const leaving = async (count: number): Promise<number> => {
        const waits = Array.from({ length: count }, () => client.getFairLock('a').lock({ signal: abort.signal }))
        const outcomes = Promise.allSettled(waits)
        await waitUntil(async () => (await fixture.server.admin.llen(QUEUE)) === count, { timeoutMs: 30_000 })
        await listening(fixture, count)
        const { calls } = await countCommands(fixture.server, async () => {
          await leave(client, abort)
          for (const { status } of await outcomes) assert.equal(status, 'rejected')
          await waitUntil(async () => (await fixture.server.admin.exists(QUEUE, DEADLINES)) === 0, {
            timeoutMs: 30_000,
          })
        })
        // Of the commands in the scripts: some of the waiters also ask meanwhile.
        return (calls['zadd'] ?? 0) + (calls['zscore'] ?? 0)
      }
      const inside = await leaving(2_000)
      assert(inside < 20 * 2_000, `${inside} commands on the deadlines of 2,000 waiters`)
      await hold.unlock()
      const next = await holder.getFairLock('a').tryLock()
      assert.notEqual(next, null, 'nobody is ahead')
      await next?.unlock()
    })
  }

  it('the places of a client that died without leaving end a day after it last asked', async () => {
    const [holder, client] = [await fixture.connect(), await fixture.connect()]
    const hold = await holder.getFairLock('a').lock()
    const abort = new AbortController()
    const waiting = client.getFairLock('a').lock({ signal: abort.signal })
    await queued(`${client.id}:1`)
    for (const key of [QUEUE, DEADLINES]) {
      const leftMs = await fixture.server.admin.pttl(key)
      assert(leftMs > QUEUE_TTL_MS - 60_000 && leftMs <= QUEUE_TTL_MS, `${key}: ${leftMs} ms`)
    }
    abort.abort(new Error('enough'))
    await assert.rejects(waiting, /enough/)
    await hold.unlock()
  })

  it('waits of very different lengths push no live waiter out of a fair queue', async () => {
    const [client, peer] = [await fixture.connect(), await openTwin(fixture)]
    const hold = await client.getFairLock('a').lock()
    const order: string[] = []
    const waits: Promise<unknown>[] = []
    const holders: string[] = []
    for (const [index, waitTimeMs] of [300_000, 20_000, 300_000, 20_000, 300_000].entries()) {
      holders.push(`${client.id}:${index + 2}`)
      waits.push(client.getFairLock('a').withLock({ waitTimeMs }, ({ holder }) => order.push(holder)))
      await queued(...holders)
    }
    // A peer judges by the deadlines alone, whenever it makes an attempt.
    const judging = setInterval(() => void peer.fairTry('a', 7, WATCHDOG_MS), 2)
    fixture.onEnd(() => clearInterval(judging))
    await hold.unlock()
    await Promise.all(waits)
    clearInterval(judging)
    assert.deepEqual(order, holders)
    if (await peer.fairTry('a', 8, WATCHDOG_MS)) await peer.fairRelease('a', 8)
    else await fixture.server.admin.del('a')
  })

  it('a waiter that leaves does not shorten the time that the next one needs to retry', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await client.getFairLock('a').lock()
    const abort = new AbortController()
    const leaving = client.getFairLock('a').lock({ signal: abort.signal })
    await queued(`${client.id}:2`)
    const waiting = other.getFairLock('a').lock({ waitTimeMs: 60_000 })
    await queued(`${client.id}:2`, `${other.id}:1`)
    // Less than the wait time of the previous waiter, as after that one was called to come at once.
    await fixture.server.admin.zadd(DEADLINES, (await serverTime()) + 100_000, `${other.id}:1`)
    abort.abort(new Error('enough'))
    await assert.rejects(leaving, /enough/)
    await queued(`${other.id}:1`)
    const deadline = (await deadlineOf(`${other.id}:1`)) - (await serverTime())
    assert(deadline > 5_000, `its deadline is ${deadline} ms from now`)
    await hold.unlock()
    await (await waiting).unlock()
  })

  it('a process has one subscriber however many fair waiters it has, and a forced release wakes the queue', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await client.getFairLock('a').lock()
    const waits = Array.from({ length: 20 }, () => other.getFairLock('a').lock())
    await listening(fixture, 20)
    const subscribers = String(await fixture.server.admin.client('LIST', 'TYPE', 'PUBSUB'))
      .trim()
      .split('\n')
    assert.equal(subscribers.length, 1)
    await sleep(100)
    assert.equal(await other.getFairLock('a').forceUnlock(), true)
    const freeAt = performance.now()
    for (const waiting of waits) await (await waiting).unlock()
    assert(performance.now() - freeAt < WOKEN_MS)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
  })
})
