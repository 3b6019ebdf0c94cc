/** A fair lock of a client and one of a peer that runs the scripts of Redisson, on one name. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { countCommands } from '../support/command-stats.js'
import { fairQueue } from '../support/fair-queue.js'
import { setUpFixture } from '../support/fixture.js'
import { expectKeys } from '../support/key-contents.js'
import { FAIR_WAIT_MS, openTwin } from '../support/redisson-twin/twin.js'
import { listening } from '../support/subscribers.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000

const QUEUE = 'redisson_lock_queue:{order}'
const DEADLINES = 'redisson_lock_timeout:{order}'
const CHANNEL = 'redisson_lock__channel:{order}'

/** How long a waiter may be at the head without coming, ms: if it is subscribed, and if it is not. */
const GRACE_MS = { listening: 5_000, deaf: 1_000 }

describe('a fair lock next to a Redisson peer', () => {
  const fixture = setUpFixture()
  const { queued, deadlineOf, enqueue } = fairQueue(fixture, 'order')

  it('a fair lock keeps a Redisson peer out, in its queue, and wakes it', async () => {
    const client = await fixture.connect()
    const peer = await openTwin(fixture)
    const hold = await client.getFairLock('order').lock()
    assert.equal(await peer.fairTry('order', 7, WATCHDOG_MS), false)
    assert.equal(await peer.fairRelease('order', 7), null)
    const waiting = peer.fairLock('order', 7, WATCHDOG_MS, 60_000)
    await listening(fixture)
    await expectKeys(fixture.server, {
      order: { hash: { [hold.holder]: '1' }, ttl: WATCHDOG_MS },
      [QUEUE]: { list: [peer.holder(7)] },
      [DEADLINES]: { zset: [peer.holder(7)] },
    })
    const releasedAt = performance.now()
    await hold.unlock()
    assert.equal(await waiting, true)
    assert(performance.now() - releasedAt < 3_000, 'woken, not polling')
    await expectKeys(fixture.server, { order: { hash: { [peer.holder(7)]: '1' }, ttl: WATCHDOG_MS } })
    assert.equal(await peer.fairRelease('order', 7), 1)
  })

  it('a fair lock is kept out and woken by a Redisson peer, even behind another of its threads', async () => {
    const client = await fixture.connect()
    const peer = await openTwin(fixture)
    await peer.fairAcquire('order', 7, WATCHDOG_MS)
    const behind = peer.fairLock('order', 8, WATCHDOG_MS, Number.POSITIVE_INFINITY)
    await queued(peer.holder(8))
    const waiting = client.getFairLock('order').lock()
    await queued(peer.holder(8), `${client.id}:1`)
    const ahead = await deadlineOf(peer.holder(8))
    assert.equal(await deadlineOf(`${client.id}:1`), ahead + FAIR_WAIT_MS)
    assert.equal(await client.getFairLock('order').tryLock(), null)
    assert.equal(await peer.fairRelease('order', 7), 1)
    assert.equal(await behind, true)
    assert.equal(await deadlineOf(`${client.id}:1`), ahead)
    assert.equal(await peer.fairRelease('order', 8), 1)
    const hold = await waiting
    await expectKeys(fixture.server, { order: { hash: { [hold.holder]: '1' }, ttl: WATCHDOG_MS } })
    await hold.unlock()
  })

  it('a Redisson peer is woken on its own channel when it is its turn, and nobody overtakes it', async () => {
    const [client, other, third] = [await fixture.connect(), await fixture.connect(), await fixture.connect()]
    const peer = await openTwin(fixture)
    const hold = await client.getFairLock('order').lock()
    const leftMs = await peer.fairAcquire('order', 7, WATCHDOG_MS)
    assert(leftMs !== null && leftMs > WATCHDOG_MS - 4_000 && leftMs <= WATCHDOG_MS)
    const heard = await peer.listen('order', `${CHANNEL}:${peer.holder(7)}`)
    const waiting = other.getFairLock('order').lock()
    await queued(peer.holder(7), `${other.id}:1`)

    await hold.unlock()
    assert.equal((await heard.next()).payload, '0')
    for (let n = 0; n < 5; n++) {
      assert.equal(await third.getFairLock('order').tryLock(), null, 'tryLock() needs its turn too')
      assert.equal(await fixture.server.admin.exists('order'), 0)
      await sleep(50)
    }
    await queued(peer.holder(7), `${other.id}:1`)
    assert.equal(await peer.fairAcquire('order', 7, WATCHDOG_MS), null)
    await queued(`${other.id}:1`)
    assert.equal(await peer.fairRelease('order', 7), 1)
    await (await waiting).unlock()
    await heard.stop()
    await expectKeys(fixture.server, {})
  })

  it('a fair lock and a Redisson peer are served in the order of their requests', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const peer = await openTwin(fixture)
    const order: string[] = []
    const hold = await client.getFairLock('order').lock()
    const waits: Promise<unknown>[] = []
    const holders: string[] = []
    for (let n = 1; n <= 6; n++) {
      const threadId = 100 + n
      const isPeer = n % 2 === 0
      holders.push(isPeer ? peer.holder(threadId) : `${other.id}:${(n + 1) / 2}`)
      waits.push(
        isPeer
          ? peer.fairLock('order', threadId, WATCHDOG_MS, 60_000).then(async (held) => {
              assert.equal(held, true)
              order.push(peer.holder(threadId))
              assert.equal(await peer.fairRelease('order', threadId), 1)
            })
          : other.getFairLock('order').withLock(({ holder }) => order.push(holder)),
      )
      await queued(...holders)
    }
    await listening(fixture, 6)
    await hold.unlock()
    await Promise.all(waits)
    assert.deepEqual(order, holders)
  })

  for (const [title, listens] of [
    ['without a subscription', false],
    ['that is subscribed but does not come', true],
  ] as const) {
    const graceMs = listens ? GRACE_MS.listening : GRACE_MS.deaf
    it(`a head ${title} is skipped after about ${graceMs / 1_000} s with a handful of commands`, async () => {
      const client = await fixture.connect()
      const peer = await openTwin(fixture)
      await enqueue(peer.holder(7))
      const heard = listens ? await peer.listen('order', `${CHANNEL}:${peer.holder(7)}`) : undefined
      const startedAt = performance.now()
      let holder = ''
      const count = await countCommands(fixture.server, async () => {
        holder = (await client.getFairLock('order').lock()).holder
      })
      const tookMs = performance.now() - startedAt
      assert(tookMs > graceMs - 50 && tookMs < graceMs + 3_500, `it took ${tookMs} ms`)
      // Once a second, as the head may come, and die with the lock.
      const most = 4 + Math.ceil(graceMs / 1_000)
      assert(count.scripts <= most, `${count.scripts} scripts`)
      if (heard) assert(heard.messages.length > 0, 'it was called')
      await expectKeys(fixture.server, { order: { hash: { [holder]: '1' }, ttl: WATCHDOG_MS } })
      await heard?.stop()
    })
  }

  it('a head of the fair queue that comes in time is not skipped, although others keep trying', async () => {
    const clients = [await fixture.connect(), await fixture.connect()]
    const peer = await openTwin(fixture)
    await enqueue(peer.holder(7))
    const heard = await peer.listen('order', `${CHANNEL}:${peer.holder(7)}`)
    const waits = clients.map((client) => client.getFairLock('order').lock())
    await waitUntil(async () => (await fixture.server.admin.llen(QUEUE)) === 3)
    const until = performance.now() + 2_500
    while (performance.now() < until) {
      assert.equal(await clients[0]?.getFairLock('order').tryLock(), null)
      await sleep(100)
    }
    assert.equal(await peer.fairAcquire('order', 7, WATCHDOG_MS), null)
    assert.equal(await peer.fairRelease('order', 7), 1)
    for (const waiting of waits) void waiting.then((hold) => hold.unlock())
    await Promise.all(waits)
    await heard.stop()
  })

  it('tryLock() of a fair lock never queues, and changes nobody’s place', async () => {
    const client = await fixture.connect()
    const peer = await openTwin(fixture)
    await peer.fairAcquire('order', 7, WATCHDOG_MS)
    await enqueue('java:8')
    assert.equal(await client.getFairLock('order').tryLock(), null)
    await expectKeys(fixture.server, {
      order: { hash: { [peer.holder(7)]: '1' }, ttl: WATCHDOG_MS },
      [QUEUE]: { list: ['java:8'] },
      [DEADLINES]: { zset: ['java:8'] },
    })
    await fixture.server.admin.del(QUEUE, DEADLINES)
    await peer.fairRelease('order', 7)
  })

  it('a waiter repairs a deadline that a peer moved into the past before a peer judges it', async () => {
    const client = await fixture.connect()
    const peer = await openTwin(fixture)
    await peer.fairAcquire('order', 7, WATCHDOG_MS)
    const waiting = client.getFairLock('order').lock({ waitTimeMs: 60_000 })
    const waiter = `${client.id}:1`
    await queued(waiter)
    await listening(fixture)
    await fixture.server.admin.zadd(DEADLINES, 1, waiter)
    await fixture.server.admin.publish(`${CHANNEL}:${waiter}`, '0')
    await waitUntil(async () => (await deadlineOf(waiter)) > Date.now() + 50_000)
    assert.equal(await peer.fairRelease('order', 7), 1)
    const hold = await waiting
    assert.equal(hold.holder, waiter)
    await hold.unlock()
  })

  it('a fair waiter that a peer removed is queued again at the end', async () => {
    const client = await fixture.connect()
    const peer = await openTwin(fixture)
    await peer.fairAcquire('order', 7, WATCHDOG_MS)
    const waiting = client.getFairLock('order').lock()
    const waiter = `${client.id}:1`
    await queued(waiter)
    await listening(fixture)
    // At once: its attempt after subscribing may come at any time, and must not find an empty queue.
    const replaced = fixture.server.admin.multi().lrem(QUEUE, 0, waiter).zrem(DEADLINES, waiter)
    replaced.zadd(DEADLINES, Date.now() + FAIR_WAIT_MS, peer.holder(8)).rpush(QUEUE, peer.holder(8))
    await replaced.exec()
    await fixture.server.admin.publish(`${CHANNEL}:${waiter}`, '0') // its poll, which comes within 5 s, does the same
    await queued(peer.holder(8), waiter)
    await peer.fairLeave('order', 8)
    await peer.fairRelease('order', 7)
    await (await waiting).unlock()
  })
})
