import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { countCommands } from '../support/command-stats.js'
import { expectKeys, NAMES, recordMessages } from '../support/key-contents.js'
import { setUpLab } from '../support/lab.js'
import { renewed } from '../support/renewed.js'
import { startTwin, type Twin } from '../support/twin.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000
/** What a waiter without a wait time adds to its deadline: Redisson's `fairLockWaitTimeout`. */
const FAIR_WAIT_MS = 300_000

const QUEUE = 'redisson_lock_queue:{order}'
const DEADLINES = 'redisson_lock_timeout:{order}'
const CHANNEL = 'redisson_lock__channel:{order}'

/** For how long somebody may be at the head without coming, ms: if it listens, and if nobody hears it. */
const GRACE_MS = { listening: 5_000, deaf: 1_000 }

describe('the wire of a fair lock', () => {
  const lab = setUpLab()

  async function twin(): Promise<Twin> {
    const opened = await startTwin(lab.server.url)
    lab.onEnd(() => opened.close())
    return opened
  }

  /** Waits until these stand in the queue of `order`, in this order. */
  async function queued(...holders: string[]): Promise<void> {
    const queue = () => lab.server.admin.lrange(QUEUE, 0, -1)
    await waitUntil(async () => (await queue()).join() === holders.join(), { message: `${holders.join()} are queued` })
  }

  async function listening(count = 1): Promise<void> {
    await waitUntil(async () => (await lab.server.admin.pubsub('CHANNELS')).length === count)
  }

  async function deadlineOf(holder: string): Promise<number> {
    return Number(await lab.server.admin.zscore(DEADLINES, holder))
  }

  /** Queues somebody who is not of this library, with a deadline `inMs` from now. */
  async function enqueue(holder: string, inMs = FAIR_WAIT_MS): Promise<number> {
    const deadline = Date.now() + inMs
    await lab.server.admin.zadd(DEADLINES, deadline, holder)
    await lab.server.admin.rpush(QUEUE, holder)
    return deadline
  }

  for (const [name, tagged] of NAMES) {
    it(`of ${JSON.stringify(name)} is the plain hash; a list, a sorted set and channels end in ${tagged}`, async () => {
      const client = await lab.connect()
      const other = await lab.connect()
      const waiter = `${other.id}:1`
      const queue = { [`redisson_lock_queue:${tagged}`]: { list: [waiter] } }
      const deadlines = { [`redisson_lock_timeout:${tagged}`]: { zset: [waiter] } }
      const channel = `redisson_lock__channel:${tagged}:${waiter}`
      const held = (holder: string, count: string) => ({ [name]: { hash: { [holder]: count }, ttl: WATCHDOG_MS } })
      const messages = await recordMessages(lab)

      const hold = await client.getFairLock(name).lock()
      assert.equal(hold.holder, `${client.id}:1`)
      await expectKeys(lab.server, held(hold.holder, '1'))
      const again = await client.getFairLock(name).lock({ within: hold })
      await expectKeys(lab.server, held(hold.holder, '2'))

      const waiting = other.getFairLock(name).lock()
      await listening()
      assert.deepEqual(await lab.server.admin.pubsub('CHANNELS'), [channel])
      await expectKeys(lab.server, { ...held(hold.holder, '2'), ...queue, ...deadlines })

      await again.unlock()
      await expectKeys(lab.server, { ...held(hold.holder, '1'), ...queue, ...deadlines })
      await hold.unlock()
      const next = await waiting
      assert.equal(next.holder, waiter)
      await expectKeys(lab.server, held(waiter, '1'))
      await listening(0)
      await next.unlock()
      await expectKeys(lab.server, {})
      assert.deepEqual(await messages(), [[channel, '0']])
    })
  }

  it('has deadlines that add up along the queue, and move forward by the wait of who gets the lock', async () => {
    const clients = [await lab.connect(), await lab.connect(), await lab.connect(), await lab.connect()] as const
    const locks = clients.map((client) => client.getFairLock('order'))
    const [first, second, third] = clients.slice(1).map(({ id }) => `${id}:1`) as [string, string, string]
    const hold = await clients[0].getFairLock('order').lock()

    const before = Date.now()
    const waits = [locks[1]?.lock()]
    await queued(first)
    waits.push(locks[2]?.lock({ waitTimeMs: 60_000 }))
    await queued(first, second)
    waits.push(locks[3]?.lock({ waitTimeMs: 45_000 }))
    await queued(first, second, third)
    const deadline = await deadlineOf(first)
    const elapsed = Date.now() - before
    assert(deadline >= before + FAIR_WAIT_MS + WATCHDOG_MS - elapsed, 'the lease of the holder, and its own wait')
    assert(deadline <= before + FAIR_WAIT_MS + WATCHDOG_MS + elapsed)
    assert.equal(await deadlineOf(second), deadline + 60_000)
    assert.equal(await deadlineOf(third), deadline + 105_000)

    await hold.unlock()
    const next = await waits[0]
    assert.equal(await deadlineOf(second), deadline + 60_000 - FAIR_WAIT_MS)
    assert.equal(await deadlineOf(third), deadline + 105_000 - FAIR_WAIT_MS)
    await next?.unlock()
    await (await waits[1])?.unlock()
    await (await waits[2])?.unlock()
    await expectKeys(lab.server, {})
  })

  it('of a waiter that gives up is out of the queue; the deadlines behind it move forward by its wait', async () => {
    const client = await lab.connect()
    const other = await lab.connect()
    const hold = await client.getFairLock('order').lock()
    const messages = await recordMessages(lab)
    const waiting = other.getFairLock('order').tryLock({ waitTimeMs: 700 })
    await queued(`${other.id}:1`)
    const deadline = await enqueue('java:7')
    assert.equal(await waiting, null)
    await queued('java:7')
    assert.equal(await deadlineOf('java:7'), deadline - 700)
    assert.equal(await lab.server.admin.zcard(DEADLINES), 1)
    assert.deepEqual(await messages(), [], 'it was nobody’s turn')
    await lab.server.admin.del(QUEUE, DEADLINES)
    await hold.unlock()
  })

  it('of a waiter whose wait is aborted, or whose client is closed, is out of the queue', async () => {
    const client = await lab.connect()
    const hold = await client.getFairLock('order').lock()
    const [aborted, closed] = [await lab.connect(), await lab.connect()]
    const abort = new AbortController()
    const waits = [aborted.getFairLock('order').lock({ signal: abort.signal }), closed.getFairLock('order').lock()]
    const outcomes = Promise.allSettled(waits)
    await waitUntil(async () => (await lab.server.admin.llen(QUEUE)) === 2)
    abort.abort(new Error('enough'))
    await closed.close()
    for (const { status } of await outcomes) assert.equal(status, 'rejected')
    await waitUntil(async () => (await lab.server.admin.exists(QUEUE, DEADLINES)) === 0)
    await expectKeys(lab.server, { order: { hash: { [hold.holder]: '1' }, ttl: WATCHDOG_MS } })
    await hold.unlock()
  })

  it('of a waiter that leaves when it is its turn is the message to its successor', async () => {
    const peer = await twin()
    await peer.fairAcquire('order', 7, WATCHDOG_MS)
    const [leaving, staying] = [await lab.connect(), await lab.connect()]
    const abort = new AbortController()
    const left = leaving.getFairLock('order').lock({ signal: abort.signal })
    await queued(`${leaving.id}:1`)
    const waiting = staying.getFairLock('order').lock()
    await queued(`${leaving.id}:1`, `${staying.id}:1`)
    await listening(2)
    const messages = await recordMessages(lab)
    await lab.server.admin.del('order') // as the end of the lease: nobody is told
    abort.abort(new Error('enough'))
    await assert.rejects(left, /enough/)
    await (await waiting).unlock()
    const told = await messages()
    assert.deepEqual(told.at(-1), [`${CHANNEL}:${staying.id}:1`, '0'])
  })

  it('of a forced release is DEL and the message to the first in the queue; of a free lock nothing', async () => {
    const client = await lab.connect()
    const peer = await twin()
    const messages = await recordMessages(lab)
    const lock = client.getFairLock('order')
    assert.equal(await lock.forceUnlock(), false)
    const hold = await lock.lock()
    await peer.fairAcquire('order', 7, WATCHDOG_MS)
    await peer.fairAcquire('order', 8, WATCHDOG_MS)
    const heard = await peer.listen('order', `${CHANNEL}:${peer.holder(7)}`)
    assert.equal(await lock.forceUnlock(), true)
    assert.equal((await heard.next()).payload, '0')
    assert.deepEqual(await messages(), [[`${CHANNEL}:${peer.holder(7)}`, '0']])
    await expectKeys(lab.server, {
      [QUEUE]: { list: [peer.holder(7), peer.holder(8)] },
      [DEADLINES]: { zset: [peer.holder(7), peer.holder(8)] },
    })
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
    await lab.server.admin.del(QUEUE, DEADLINES)
    await heard.stop()
  })

  it('of a renewal is the TTL of the hash alone', async () => {
    const client = await lab.connect({ lockWatchdogTimeoutMs: 2_400 })
    const hold = await client.getFairLock('order').lock()
    await enqueue('java:7')
    await renewed([hold])
    await expectKeys(lab.server, {
      order: { hash: { [hold.holder]: '1' }, ttl: 2_400 },
      [QUEUE]: { list: ['java:7'] },
      [DEADLINES]: { zset: ['java:7'] },
    })
    await lab.server.admin.del(QUEUE, DEADLINES)
    await hold.unlock()
  })

  it('of a hold that is handed over is the field of the successor; the queue stays', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const hold = await client.getFairLock('order').lock()
    await enqueue('java:7')
    const adopted = await other.getFairLock('order').adopt(hold.handOver())
    await expectKeys(lab.server, {
      order: { hash: { [`${other.id}:1`]: '1' }, ttl: WATCHDOG_MS },
      [QUEUE]: { list: ['java:7'] },
      [DEADLINES]: { zset: ['java:7'] },
    })
    await lab.server.admin.del(QUEUE, DEADLINES)
    await adopted.unlock()
  })

  it('of an uncontended lock and unlock is two commands', async () => {
    const client = await lab.connect()
    const lock = client.getFairLock('order')
    await (await lock.lock()).unlock() // Redis knows the scripts from here on
    const count = await countCommands(lab.server, async () => {
      for (let n = 0; n < 10; n++) await (await lock.lock()).unlock()
    })
    assert.equal(count.scripts, 20)
    const inside = ['del', 'hexists', 'hset', 'lindex', 'lrange', 'pexpire', 'pttl', 'time']
    assert.deepEqual(Object.keys(count.calls).sort(), [...inside, 'evalsha'].sort())
  })

  it('of one who waits is two attempts, and then nothing for as long as no message comes', async () => {
    const [client, other] = [await lab.connect(), await lab.connect()]
    const hold = await client.getFairLock('order').lock()
    const waiting = other.getFairLock('order').lock()
    await listening()
    await sleep(200)
    const count = await countCommands(lab.server, () => sleep(2_000))
    assert(count.scripts <= 1, `${count.scripts} scripts in 2 s`)
    await hold.unlock()
    await (await waiting).unlock()
  })

  describe('with a peer that does what Redisson does', () => {
    it('keeps it out, queues it by its own rules, and wakes it', async () => {
      const client = await lab.connect()
      const peer = await twin()
      const hold = await client.getFairLock('order').lock()
      assert.equal(await peer.fairTry('order', 7, WATCHDOG_MS), false)
      assert.equal(await peer.fairRelease('order', 7), null)
      const waiting = peer.fairLock('order', 7, WATCHDOG_MS, 60_000)
      await listening()
      await expectKeys(lab.server, {
        order: { hash: { [hold.holder]: '1' }, ttl: WATCHDOG_MS },
        [QUEUE]: { list: [peer.holder(7)] },
        [DEADLINES]: { zset: [peer.holder(7)] },
      })
      const releasedAt = performance.now()
      await hold.unlock()
      assert.equal(await waiting, true)
      assert(performance.now() - releasedAt < 3_000, 'woken, not polling')
      await expectKeys(lab.server, { order: { hash: { [peer.holder(7)]: '1' }, ttl: WATCHDOG_MS } })
      assert.equal(await peer.fairRelease('order', 7), 1)
    })

    it('is kept out and woken by it, also from behind another thread of it', async () => {
      const client = await lab.connect()
      const peer = await twin()
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
      await expectKeys(lab.server, { order: { hash: { [hold.holder]: '1' }, ttl: WATCHDOG_MS } })
      await hold.unlock()
    })

    it('wakes it on its own channel when it is its turn, and lets nobody overtake it meanwhile', async () => {
      const [client, other, third] = [await lab.connect(), await lab.connect(), await lab.connect()]
      const peer = await twin()
      const hold = await client.getFairLock('order').lock()
      const told = await peer.fairAcquire('order', 7, WATCHDOG_MS)
      assert(told !== null && told > WATCHDOG_MS - 4_000 && told <= WATCHDOG_MS)
      const heard = await peer.listen('order', `${CHANNEL}:${peer.holder(7)}`)
      const waiting = other.getFairLock('order').lock()
      await queued(peer.holder(7), `${other.id}:1`)

      await hold.unlock()
      assert.equal((await heard.next()).payload, '0')
      for (let n = 0; n < 5; n++) {
        assert.equal(await third.getFairLock('order').tryLock(), null, 'tryLock() asks for its turn, too')
        assert.equal(await lab.server.admin.exists('order'), 0)
        await sleep(50)
      }
      await queued(peer.holder(7), `${other.id}:1`)
      assert.equal(await peer.fairAcquire('order', 7, WATCHDOG_MS), null)
      await queued(`${other.id}:1`)
      assert.equal(await peer.fairRelease('order', 7), 1)
      await (await waiting).unlock()
      await heard.stop()
      await expectKeys(lab.server, {})
    })

    it('serves both in the order of asking', async () => {
      const [client, other] = [await lab.connect(), await lab.connect()]
      const peer = await twin()
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
      await listening(6)
      await hold.unlock()
      await Promise.all(waits)
      assert.deepEqual(order, holders)
    })

    for (const [title, listens] of [
      ['that nobody hears', false],
      ['that listens but does not come', true],
    ] as const) {
      const graceMs = listens ? GRACE_MS.listening : GRACE_MS.deaf
      it(`passes a head ${title} after about ${graceMs / 1_000} s, and asks Redis a handful of times`, async () => {
        const client = await lab.connect()
        const peer = await twin()
        await enqueue(peer.holder(7))
        const heard = listens ? await peer.listen('order', `${CHANNEL}:${peer.holder(7)}`) : undefined
        const startedAt = performance.now()
        let holder = ''
        const count = await countCommands(lab.server, async () => {
          holder = (await client.getFairLock('order').lock()).holder
        })
        const tookMs = performance.now() - startedAt
        assert(tookMs > graceMs - 50 && tookMs < graceMs + 3_500, `it took ${tookMs} ms`)
        // Once a second, as the head may come, and die with the lock.
        const most = 4 + Math.ceil(graceMs / 1_000)
        assert(count.scripts <= most, `${count.scripts} scripts`)
        if (heard) assert(heard.messages.length > 0, 'it was called')
        await expectKeys(lab.server, { order: { hash: { [holder]: '1' }, ttl: WATCHDOG_MS } })
        await heard?.stop()
      })
    }

    it('does not pass a head that comes within its time, though others ask all along', async () => {
      const clients = [await lab.connect(), await lab.connect()]
      const peer = await twin()
      await enqueue(peer.holder(7))
      const heard = await peer.listen('order', `${CHANNEL}:${peer.holder(7)}`)
      const waits = clients.map((client) => client.getFairLock('order').lock())
      await waitUntil(async () => (await lab.server.admin.llen(QUEUE)) === 3)
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

    it('never queues by tryLock(), and changes nobody’s place', async () => {
      const client = await lab.connect()
      const peer = await twin()
      await peer.fairAcquire('order', 7, WATCHDOG_MS)
      await enqueue('java:8')
      assert.equal(await client.getFairLock('order').tryLock(), null)
      await expectKeys(lab.server, {
        order: { hash: { [peer.holder(7)]: '1' }, ttl: WATCHDOG_MS },
        [QUEUE]: { list: ['java:8'] },
        [DEADLINES]: { zset: ['java:8'] },
      })
      await lab.server.admin.del(QUEUE, DEADLINES)
      await peer.fairRelease('order', 7)
    })

    it('makes a deadline that a peer moved into the past good when it asks, before a peer judges it', async () => {
      const client = await lab.connect()
      const peer = await twin()
      await peer.fairAcquire('order', 7, WATCHDOG_MS)
      const waiting = client.getFairLock('order').lock({ waitTimeMs: 60_000 })
      const waiter = `${client.id}:1`
      await queued(waiter)
      await listening()
      await lab.server.admin.zadd(DEADLINES, 1, waiter)
      await lab.server.admin.publish(`${CHANNEL}:${waiter}`, '0')
      await waitUntil(async () => (await deadlineOf(waiter)) > Date.now() + 50_000)
      assert.equal(await peer.fairRelease('order', 7), 1)
      const hold = await waiting
      assert.equal(hold.holder, waiter)
      await hold.unlock()
    })

    it('queues anew, at the end, when a peer threw it out', async () => {
      const client = await lab.connect()
      const peer = await twin()
      await peer.fairAcquire('order', 7, WATCHDOG_MS)
      const waiting = client.getFairLock('order').lock()
      const waiter = `${client.id}:1`
      await queued(waiter)
      await listening()
      await lab.server.admin.multi().lrem(QUEUE, 0, waiter).zrem(DEADLINES, waiter).exec()
      await enqueue(peer.holder(8))
      await lab.server.admin.publish(`${CHANNEL}:${waiter}`, '0') // its poll, which comes within 5 s, does the same
      await queued(peer.holder(8), waiter)
      await peer.fairLeave('order', 8)
      await peer.fairRelease('order', 7)
      await (await waiting).unlock()
    })
  })
})
