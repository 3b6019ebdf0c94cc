import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { countCommands, expectTwoCommands } from '../support/command-stats.js'
import { fairQueue } from '../support/fair-queue.js'
import { setUpFixture } from '../support/fixture.js'
import { expectKeys, NAMES, recordMessages, repliesForgotten } from '../support/key-contents.js'
import { FAIR_WAIT_MS, openTwin } from '../support/redisson-twin/twin.js'
import { renewed } from '../support/renewed.js'
import { listening } from '../support/subscribers.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const WATCHDOG_MS = 30_000
/** How long a queue lasts after a waiter of a client has last asked. */
const QUEUE_TTL_MS = 86_400_000

const QUEUE = 'redisson_lock_queue:{order}'
const DEADLINES = 'redisson_lock_timeout:{order}'
const CHANNEL = 'redisson_lock__channel:{order}'

describe('the wire format of a fair lock', () => {
  const fixture = setUpFixture()
  const { queued, deadlineOf, enqueue } = fairQueue(fixture, 'order')

  for (const [name, tagged] of NAMES) {
    it(`a fair lock named ${JSON.stringify(name)} is the plain hash; its list, sorted set and channels end in ${tagged}`, async () => {
      const client = await fixture.connect()
      const other = await fixture.connect()
      const waiter = `${other.id}:1`
      const queue = { [`redisson_lock_queue:${tagged}`]: { list: [waiter], ttl: QUEUE_TTL_MS } }
      const deadlines = { [`redisson_lock_timeout:${tagged}`]: { zset: [waiter], ttl: QUEUE_TTL_MS } }
      const channel = `redisson_lock__channel:${tagged}:${waiter}`
      const held = (holder: string, count: string) => ({ [name]: { hash: { [holder]: count }, ttl: WATCHDOG_MS } })
      const messages = await recordMessages(fixture)

      const hold = await client.getFairLock(name).lock()
      assert.equal(hold.holder, `${client.id}:1`)
      await expectKeys(fixture.server, held(hold.holder, '1'))
      const again = await client.getFairLock(name).lock({ within: hold })
      await expectKeys(fixture.server, held(hold.holder, '2'))

      const waiting = other.getFairLock(name).lock()
      await listening(fixture)
      assert.deepEqual(await fixture.server.admin.pubsub('CHANNELS'), [channel])
      await expectKeys(fixture.server, { ...held(hold.holder, '2'), ...queue, ...deadlines })

      await again.unlock()
      await expectKeys(fixture.server, { ...held(hold.holder, '1'), ...queue, ...deadlines })
      await hold.unlock()
      const next = await waiting
      assert.equal(next.holder, waiter)
      await expectKeys(fixture.server, held(waiter, '1'))
      await listening(fixture, 0)
      await next.unlock()
      await expectKeys(fixture.server, {})
      assert.deepEqual(await messages(), [[channel, '0']])
    })
  }

  it('fair deadlines add up along the queue, and the last one moves forward by the wait of the waiter that is granted the lock', async () => {
    const clients = [
      await fixture.connect(),
      await fixture.connect(),
      await fixture.connect(),
      await fixture.connect(),
    ] as const
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
    assert.equal(await deadlineOf(second), deadline + 60_000)
    assert.equal(await deadlineOf(third), deadline + 105_000 - FAIR_WAIT_MS)
    const late = locks[0]?.tryLock({ waitTimeMs: 5_000 })
    await queued(second, third, `${clients[0].id}:2`)
    assert.equal(await deadlineOf(`${clients[0].id}:2`), deadline + 110_000 - FAIR_WAIT_MS, 'the next one adds to that')
    await next?.unlock()
    await (await waits[1])?.unlock()
    await (await waits[2])?.unlock()
    await (await late)?.unlock()
    await expectKeys(fixture.server, {})
  })

  it('a fair waiter that gives up leaves the queue, and the last deadline behind it moves forward by its wait', async () => {
    const client = await fixture.connect()
    const other = await fixture.connect()
    const hold = await client.getFairLock('order').lock()
    const messages = await recordMessages(fixture)
    const waiting = other.getFairLock('order').tryLock({ waitTimeMs: 700 })
    await queued(`${other.id}:1`)
    const deadline = await enqueue('java:7')
    assert.equal(await waiting, null)
    await queued('java:7')
    assert.equal(await deadlineOf('java:7'), deadline - 700)
    assert.equal(await fixture.server.admin.zcard(DEADLINES), 1)
    assert.deepEqual(await messages(), [], 'it was not the turn of anybody')
    await fixture.server.admin.del(QUEUE, DEADLINES)
    await hold.unlock()
  })

  it('a fair waiter that is aborted, or whose client closes, leaves the queue', async () => {
    const client = await fixture.connect()
    const hold = await client.getFairLock('order').lock()
    const [aborted, closed] = [await fixture.connect(), await fixture.connect()]
    const abort = new AbortController()
    const waits = [aborted.getFairLock('order').lock({ signal: abort.signal }), closed.getFairLock('order').lock()]
    const outcomes = Promise.allSettled(waits)
    await waitUntil(async () => (await fixture.server.admin.llen(QUEUE)) === 2)
    abort.abort(new Error('enough'))
    await closed.close()
    for (const { status } of await outcomes) assert.equal(status, 'rejected')
    await waitUntil(async () => (await fixture.server.admin.exists(QUEUE, DEADLINES)) === 0)
    await expectKeys(fixture.server, { order: { hash: { [hold.holder]: '1' }, ttl: WATCHDOG_MS } })
    await hold.unlock()
  })

  it('a fair waiter that leaves on its turn publishes the message for the next one', async () => {
    const peer = await openTwin(fixture)
    await peer.fairAcquire('order', 7, WATCHDOG_MS)
    const [leaving, staying] = [await fixture.connect(), await fixture.connect()]
    const abort = new AbortController()
    const left = leaving.getFairLock('order').lock({ signal: abort.signal })
    await queued(`${leaving.id}:1`)
    const waiting = staying.getFairLock('order').lock()
    await queued(`${leaving.id}:1`, `${staying.id}:1`)
    await listening(fixture, 2)
    const messages = await recordMessages(fixture)
    await fixture.server.admin.del('order') // like the end of the lease: no message
    abort.abort(new Error('enough'))
    await assert.rejects(left, /enough/)
    await (await waiting).unlock()
    const published = await messages()
    assert.deepEqual(published.at(-1), [`${CHANNEL}:${staying.id}:1`, '0'])
  })

  it('a forced release of a fair lock is DEL and a message to the first waiter; of a free lock it does nothing', async () => {
    const client = await fixture.connect()
    const peer = await openTwin(fixture)
    const messages = await recordMessages(fixture)
    const lock = client.getFairLock('order')
    assert.equal(await lock.forceUnlock(), false)
    const hold = await lock.lock()
    await peer.fairAcquire('order', 7, WATCHDOG_MS)
    await peer.fairAcquire('order', 8, WATCHDOG_MS)
    const heard = await peer.listen('order', `${CHANNEL}:${peer.holder(7)}`)
    assert.equal(await lock.forceUnlock(), true)
    assert.equal((await heard.next()).payload, '0')
    assert.deepEqual(await messages(), [[`${CHANNEL}:${peer.holder(7)}`, '0']])
    await repliesForgotten(fixture.server)
    await expectKeys(fixture.server, {
      [QUEUE]: { list: [peer.holder(7), peer.holder(8)] },
      [DEADLINES]: { zset: [peer.holder(7), peer.holder(8)] },
    })
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
    await fixture.server.admin.del(QUEUE, DEADLINES)
    await heard.stop()
  })

  it('a renewal of a fair lock sets only the TTL of the hash', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 2_400 })
    const hold = await client.getFairLock('order').lock()
    await enqueue('java:7')
    await renewed([hold])
    await expectKeys(fixture.server, {
      order: { hash: { [hold.holder]: '1' }, ttl: 2_400 },
      [QUEUE]: { list: ['java:7'] },
      [DEADLINES]: { zset: ['java:7'] },
    })
    await fixture.server.admin.del(QUEUE, DEADLINES)
    await hold.unlock()
  })

  it('a transfer of a fair lock replaces the field of the holder and keeps the queue', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await client.getFairLock('order').lock()
    await enqueue('java:7')
    const adopted = await other.getFairLock('order').adopt(hold.handOver())
    await expectKeys(fixture.server, {
      order: { hash: { [`${other.id}:1`]: '1' }, ttl: WATCHDOG_MS },
      [QUEUE]: { list: ['java:7'] },
      [DEADLINES]: { zset: ['java:7'] },
    })
    await fixture.server.admin.del(QUEUE, DEADLINES)
    await adopted.unlock()
  })

  it('an uncontended lock and unlock costs two commands', async () => {
    const client = await fixture.connect()
    const inside = ['del', 'hexists', 'hset', 'lindex', 'pexpire', 'pttl', 'time']
    await expectTwoCommands(fixture, client.getFairLock('order'), inside)
  })

  it('a fair waiter makes two attempts, and then sends nothing until a message arrives', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await client.getFairLock('order').lock()
    const waiting = other.getFairLock('order').lock()
    await listening(fixture)
    await sleep(200)
    const count = await countCommands(fixture.server, () => sleep(2_000))
    assert(count.scripts <= 1, `${count.scripts} scripts in 2 s`)
    await hold.unlock()
    await (await waiting).unlock()
  })
})
