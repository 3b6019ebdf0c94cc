/** Read-write locks in order: who waits for whom, and what the dead, the frozen and those who leave cost the others. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Client, QueueFullError, WaitTimeoutError } from '../../src/index.js'
import { INBOX_PREFIX, orderedClients, orderedQueue } from '../../src/wire/keys.js'
import { countCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { measureLateness } from '../support/lateness.js'
import { openTwin } from '../support/redisson-twin/twin.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const QUEUE = orderedQueue('a')
/** A waiter that was offered the lock has so long to ask for it, ms. */
const OFFER_MS = 900
/** By when a waiter that missed its offer has asked again, ms. */
const POLL_MS = 5_000

const ordered = (client: Client, maxWaiters?: number) => client.getReadWriteLock('a', { order: 'fifo', maxWaiters })

describe('an ordered read-write lock', () => {
  const fixture = setUpFixture()

  const queued = async (count: number): Promise<void> => {
    await waitUntil(async () => (await fixture.server.admin.zcard(QUEUE)) === count, { message: `${count} are queued` })
  }

  /** Lets `enter` wait behind `count` others. */
  async function queue<T>(count: number, enter: () => Promise<T>): Promise<{ entered: Promise<T> }> {
    const entered = enter()
    entered.catch(() => {})
    await queued(count + 1)
    return { entered }
  }

  /** A waiter of a client that nobody can reach, or of one that receives messages and does nothing. */
  async function enqueueLost(holder: string, seenMsAgo: number): Promise<void> {
    const { admin } = fixture.server
    const [seconds = '0'] = await admin.time()
    await admin.zadd(QUEUE, 1 + (await admin.zcard(QUEUE)), holder)
    await admin.zadd(orderedClients('a'), Number(seconds) * 1_000 + 15_000 - seenMsAgo, holder.split(':')[0] as string)
  }

  it('an ordered lock is granted in the order of requests: readers together, and none before a writer ahead of it', async () => {
    const [one, two] = [await fixture.connect(), await fixture.connect()]
    const log: string[] = []
    const enter = (client: Client, side: 'readLock' | 'writeLock', name: string) => () =>
      ordered(client)
        [side]()
        .withLock(async () => {
          log.push(`${name} in`)
          await sleep(20)
          log.push(`${name} out`)
        })
    const first = await ordered(one).readLock().lock()
    const steps = [
      enter(two, 'writeLock', 'w1'),
      enter(one, 'readLock', 'r'),
      enter(two, 'readLock', 'r'),
      enter(one, 'writeLock', 'w2'),
      enter(two, 'readLock', 'r3'),
    ]
    const sections: Promise<unknown>[] = []
    for (const [index, step] of steps.entries()) sections.push((await queue(index, step)).entered)
    await first.unlock()
    await Promise.all(sections)
    assert.equal(log.join(', '), 'w1 in, w1 out, r in, r in, r out, r out, w2 in, w2 out, r3 in, r3 out')
    assert.deepEqual(await fixture.server.admin.keys('*a*{a}*'), [])
  })

  it('a writer waits for a pause of the readers of a lock that is not ordered', async () => {
    const [one, two] = [await fixture.connect(), await fixture.connect()]
    const readLock = one.getReadWriteLock('a').readLock()
    let read = await readLock.lock()
    let isOver = false
    const waiting = two.getReadWriteLock('a').writeLock().tryLock({ waitTimeMs: 300 })
    void waiting.finally(() => (isOver = true))
    while (!isOver) {
      const next = await readLock.lock() // before the other one has left: there is no pause, however slow the machine is
      await read.unlock()
      read = next
      await sleep(5)
    }
    assert.equal(await waiting, null)
    await read.unlock()
  })

  it('tryLock of an ordered lock is refused while somebody waits, although readers have the lock', async () => {
    const [one, two] = [await fixture.connect(), await fixture.connect()]
    const read = await ordered(one).readLock().lock()
    const { entered } = await queue(0, () => ordered(two).writeLock().lock())
    assert.equal(await ordered(one).readLock().tryLock(), null)
    await read.unlock()
    await (await entered).unlock()
    const again = await ordered(one).readLock().tryLock()
    await again?.unlock()
    assert(again)
  })

  it('a higher priority goes first in an ordered lock, and equal ones in order', async () => {
    const [one, two] = [await fixture.connect(), await fixture.connect()]
    const order: number[] = []
    const first = await ordered(one).writeLock().lock()
    const sections: Promise<unknown>[] = []
    for (const [index, priority] of [0, -1, 5, 1_000, 5, -1_000].entries()) {
      const enter = () =>
        ordered(index % 2 ? one : two)
          .writeLock()
          .withLock({ priority }, async () => void order.push(10 * priority + index))
      sections.push((await queue(index, enter)).entered)
    }
    await first.unlock()
    await Promise.all(sections)
    assert.deepEqual(order, [10_003, 52, 54, 0, -9, -9_995])
  })

  it('a priority that is no whole number from -1000 to 1000, or of another lock, is refused before a command', async () => {
    const client = await fixture.connect()
    for (const priority of [1.5, 1_001, Number.NaN, '1' as unknown as number]) {
      await assert.rejects(ordered(client).readLock().lock({ priority }), { code: 'LOCK_CONFIG', path: 'priority' })
    }
    await assert.rejects(client.getLock('a').lock({ priority: 1 }), /an ordered lock, which a lock is not/)
    await assert.rejects(client.getFairLock('a').lock({ priority: 1 }), { code: 'LOCK_CONFIG' })
    assert.throws(() => client.getReadWriteLock('a', { maxWaiters: 1 }), { code: 'LOCK_CONFIG' })
    assert.throws(() => client.getReadWriteLock('a', { order: 'lifo' as 'fifo' }), { code: 'LOCK_CONFIG' })
    assert.throws(() => ordered(client, -1), { code: 'LOCK_CONFIG', path: 'maxWaiters' })
  })

  it('with maxWaiters a call is refused at once by a full queue, and learns how many wait and who has the lock', async () => {
    const [one, two] = [await fixture.connect(), await fixture.connect()]
    const locks = {
      ordered: {
        held: ordered(one).writeLock(),
        limited: ordered(two, 1).writeLock(),
        none: ordered(two, 0).writeLock(),
      },
      fair: {
        held: one.getFairLock('b'),
        limited: two.getFairLock('b', { maxWaiters: 1 }),
        none: two.getFairLock('b', { maxWaiters: 0 }),
      },
    }
    for (const { held, limited, none } of Object.values(locks)) {
      const hold = await held.lock()
      const isFull = (waiters: number) => (error: unknown) => {
        assert(error instanceof QueueFullError)
        assert.equal(error.lockName, held.name)
        assert.equal(error.waiters, waiters)
        assert.deepEqual(error.holders, [hold.holder])
        return true
      }
      await assert.rejects(none.lock(), isFull(0))
      const waiting = limited.lock()
      await waitUntil(
        async () =>
          await none.lock().then(
            () => false,
            (error: QueueFullError) => error.waiters === 1,
          ),
      )
      await assert.rejects(limited.lock(), isFull(1))
      await hold.unlock()
      await (await waiting).unlock()
      await none.withLock(() => {})
    }
  })

  /** @returns how long a writer waits behind many waiters of a lost client after a release, and how late timers were, ms */
  async function waitBehind(client: string): Promise<{ tookMs: number; lateMs: number }> {
    const [one, two] = [await fixture.connect(), await fixture.connect()]
    const hold = await ordered(one).writeLock().lock()
    for (let n = 1; n <= 300; n++) await enqueueLost(`${client}:${n}:write`, 2_000)
    const { entered } = await queue(300, () => ordered(two).writeLock().lock())
    const latenessMs = measureLateness()
    const releasedAt = performance.now()
    await hold.unlock()
    const next = await entered
    const tookMs = performance.now() - releasedAt
    await next.unlock()
    return { tookMs, lateMs: latenessMs() }
  }

  it('waiters of a dead client cost the next one nothing, however many there are', async () => {
    const { tookMs, lateMs } = await waitBehind('dead')
    assert(tookMs < 200 + lateMs, `${tookMs} ms`)
  })

  it('waiters of a frozen client cost the next one 1 s in all, however many there are', async () => {
    const frozen = fixture.server.admin.duplicate()
    fixture.onEnd(() => frozen.disconnect())
    await frozen.subscribe(`${INBOX_PREFIX}frozen`)
    const { tookMs, lateMs } = await waitBehind('frozen')
    assert(tookMs > OFFER_MS && tookMs < OFFER_MS + 500 + lateMs, `${tookMs} ms`)
  })

  it('what is noted of an ordered lock ends by itself, even if Redis evicted the rest of it', async () => {
    const client = await fixture.connect()
    const { admin } = fixture.server
    const listener = admin.duplicate()
    fixture.onEnd(() => listener.disconnect())
    await listener.subscribe('redisson_rwlock:{a}') // as Redisson's waiters do
    const hold = await ordered(client).writeLock().lock()
    for (let n = 1; n <= 40; n++) await enqueueLost(`dead:${n}:write`, 2_000)
    await admin.del(orderedClients('a'))
    await hold.unlock()
    const left = await admin.pttl(orderedClients('a'))
    assert.notEqual(left, -1)
    await admin.del(QUEUE, orderedClients('a'))
  })

  it('an ordered lock makes no pause for those who only watch it', async () => {
    const [one, two] = [await fixture.connect(), await fixture.connect()]
    const { admin } = fixture.server
    const states = ordered(two).writeLock().watch()
    const hold = await ordered(one).writeLock().lock()
    await states.next()
    const watching = states.next()
    const isWatching = async () => Number((await admin.pubsub('NUMSUB', 'redisson_rwlock:{a}'))[1]) === 1
    await waitUntil(isWatching)
    const { entered: next } = await queue(0, () => ordered(two).writeLock().lock())
    const { entered: last } = await queue(1, () => ordered(two).writeLock().lock())
    await hold.unlock()
    const second = await next
    assert.equal(await admin.zscore(orderedClients('a'), ''), null, 'no run has begun')
    await watching
    await states.return?.()
    await second.unlock()
    await (await last).unlock()
  })

  it('10,000 waiters that leave an ordered lock at once are out of its queue, by few commands', async (t) => {
    const [one, two] = [await fixture.connect(), await fixture.connect()]
    const hold = await ordered(one).writeLock().lock()
    await fixture.server.admin.config('RESETSTAT')
    const controller = new AbortController()
    const { signal } = controller
    const waits = Array.from({ length: 10_000 }, async () => {
      await assert.rejects(ordered(two).writeLock().lock({ signal }), { name: 'AbortError' })
    })
    // Each asks twice, the second time when it is subscribed.
    const asked = async () =>
      Number(/^cmdstat_hget:calls=(\d+)/m.exec(await fixture.server.admin.info('commandstats'))?.[1])
    await waitUntil(async () => (await asked()) >= 20_000, { timeoutMs: 60_000 })
    assert.equal(await fixture.server.admin.zcard(QUEUE), 10_000)
    const { total, scripts } = await countCommands(fixture.server, async () => {
      controller.abort()
      await Promise.all(waits)
      await waitUntil(async () => (await fixture.server.admin.zcard(QUEUE)) === 0, { timeoutMs: 60_000 })
    })
    t.diagnostic(`${scripts} scripts, and in them ${total / 10_000} commands for each`)
    assert(total < 200_000, `${total} commands`)
    assert(scripts < 2_000, `${scripts} scripts`) // by 32, with their texts if Redis has not seen them
    await hold.unlock()
  })

  it('a caller that gives up, by its time or its signal, lets those behind it in', async () => {
    const [one, two] = [await fixture.connect(), await fixture.connect()]
    const read = await ordered(one).readLock().lock()
    const controller = new AbortController()
    const { entered: late } = await queue(0, () => ordered(two).writeLock().lock({ waitTimeMs: 1_000 }))
    const { entered: aborted } = await queue(1, () => ordered(two).writeLock().lock({ signal: controller.signal }))
    const { entered: reader } = await queue(2, () => ordered(one).readLock().lock())
    controller.abort(new Error('not any more'))
    await assert.rejects(aborted, /not any more/)
    await assert.rejects(late, WaitTimeoutError)
    await (await reader).unlock()
    await read.unlock()
    assert.deepEqual(await fixture.server.admin.keys('*{a}*'), [])
  })

  it('a writer that keeps reading lets the readers in that wait first', async () => {
    const [one, two] = [await fixture.connect(), await fixture.connect()]
    const write = await ordered(one).writeLock().lock()
    const inside = await ordered(one).readLock().lock({ within: write })
    const { entered } = await queue(0, () => ordered(two).readLock().lock())
    const { entered: later } = await queue(1, () => ordered(two).writeLock().lock())
    await write.unlock()
    const reader = await entered
    assert.equal(await ordered(two).writeLock().tryLock(), null)
    await inside.unlock()
    await reader.unlock()
    await (await later).unlock()
  })

  it('waiters whose queue is lost return to it in their old order', async () => {
    const [one, two] = [await fixture.connect(), await fixture.connect()]
    const order: number[] = []
    const hold = await ordered(one).writeLock().lock()
    const sections: Promise<unknown>[] = []
    for (const index of [0, 1, 2, 3]) {
      const enter = () =>
        ordered(index % 2 ? one : two)
          .writeLock()
          .withLock(async () => void order.push(index))
      sections.push((await queue(index, enter)).entered)
    }
    await fixture.server.admin.del(QUEUE)
    await waitUntil(async () => (await fixture.server.admin.zcard(QUEUE)) === 4, { timeoutMs: 2 * POLL_MS })
    await hold.unlock()
    await Promise.all(sections)
    assert.deepEqual(order, [0, 1, 2, 3])
  })

  it('Redisson excludes an ordered lock and is excluded, and a waiter gets in when it releases', async () => {
    const [client, peer] = [await fixture.connect(), await openTwin(fixture)]
    assert.equal(await peer.writeAcquire('a', 7, 30_000), null)
    assert.equal(await ordered(client).readLock().tryLock(), null)
    const { entered } = await queue(0, () => ordered(client).readLock().lock())
    // It has asked once more, and subscribed to Redisson's channel.
    await waitUntil(async () => Number((await fixture.server.admin.pubsub('NUMSUB', 'redisson_rwlock:{a}'))[1]) > 0)
    const latenessMs = measureLateness()
    const releasedAt = performance.now()
    await peer.writeRelease('a', 7)
    const hold = await entered
    const tookMs = performance.now() - releasedAt
    assert(tookMs < 500 + latenessMs(), `${tookMs} ms`)
    assert.notEqual(await peer.writeAcquire('a', 7, 30_000), null)
    await hold.unlock()
    assert.equal(await peer.writeAcquire('a', 7, 30_000), null)
    await peer.writeRelease('a', 7)
  })
})
