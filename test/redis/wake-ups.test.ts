/** A release wakes one waiting client on the channel of that client: its cost, and what cannot delay it. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Client } from '../../src/index.js'
import { INBOX_PREFIX, lockChannel, turnQueueKey } from '../../src/wire/keys.js'
import { countCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { type Child, spawnChild } from '../support/processes/child.js'
import { Twin } from '../support/redisson-twin/twin.js'
import { listening } from '../support/subscribers.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

const WAITER = new URL('../support/processes/waiter-process.js', import.meta.url)

/** A waiting client polls after this time even without a message, ms. */
const POLL_MS = 5_000

describe('a release of a lock', () => {
  const fixture = setUpFixture()
  const queued = async (name = 'a'): Promise<number> => await fixture.server.admin.llen(turnQueueKey(name))
  const standing = (count: number, name?: string): Promise<unknown> =>
    waitUntil(async () => (await queued(name)) === count, { message: `${count} are queued`, timeoutMs: 20_000 })
  const listeners = async (channel: string): Promise<number> =>
    Number(((await fixture.server.admin.pubsub('NUMSUB', channel)) as unknown[])[1])

  function twin(): Twin {
    const opened = new Twin(fixture.server.url)
    fixture.onEnd(() => opened[Symbol.asyncDispose]())
    return opened
  }

  /** A process with several queued clients. */
  async function processWith(clients: number): Promise<Child> {
    const before = await queued()
    const child = spawnChild(WAITER, [fixture.server.url, String(clients)])
    fixture.onEnd(() => child.stop())
    await standing(before + clients)
    return child
  }

  /** Clients that acquire the lock once each, all queued behind the present ones. */
  async function takers(count: number): Promise<{ all: Promise<unknown>; clients: Client[] }> {
    const before = await queued()
    const clients = await Promise.all(Array.from({ length: count }, () => fixture.connect()))
    const all = Promise.all(clients.map((client) => client.getLock('a').withLock(() => sleep(1))))
    await standing(before + count)
    return { all, clients }
  }

  it('a release skips clients that were killed while they waited', async (t) => {
    const holder = await fixture.connect()
    const hold = await holder.getLock('a').lock()
    const killed = await processWith(20)
    const { all } = await takers(10)
    await killed.stop()
    await listening(fixture, 10, `${INBOX_PREFIX}*`)
    const releasedAt = performance.now()
    await hold.unlock()
    await settlesWithin(all, 20_000)
    const tookMs = performance.now() - releasedAt
    t.diagnostic(`ten clients behind twenty dead ones were served within ${Math.round(tookMs)} ms`)
    assert(tookMs < 1_500, `it took ${Math.round(tookMs)} ms`)
    assert.equal(await queued(), 0)
  })

  it('a forced release by another client wakes the waiters of the client that had the lock', async () => {
    const [holder, waiter, other] = [await fixture.connect(), await fixture.connect(), await fixture.connect()]
    const hold = await holder.getLock('a').lock()
    const [second, third] = [waiter.getLock('a').lock(), waiter.getLock('a').lock()]
    await standing(1)
    await hold.unlock()
    await second
    assert.equal(await queued(), 1)
    assert.equal(await other.getLock('a').forceUnlock(), true)
    assert.equal((await settlesWithin(third, POLL_MS)).status, 'fulfilled')
    await (await third).unlock()
  })

  it('many frozen clients in the queue cost one poll in total', async (t) => {
    const holder = await fixture.connect()
    const hold = await holder.getLock('a').lock()
    const frozen = await processWith(12)
    const { all } = await takers(4)
    frozen.freeze()
    const releasedAt = performance.now()
    await hold.unlock()
    const outcome = await settlesWithin(all, 20_000)
    const tookMs = performance.now() - releasedAt
    t.diagnostic(`four clients behind twelve that stand still were served within ${Math.round(tookMs)} ms`)
    assert.equal(outcome.status, 'fulfilled')
    assert(tookMs < POLL_MS + 2_000, `it took ${Math.round(tookMs)} ms`)
    frozen.thaw()
    await frozen.exit
  })

  it('forty waiting clients cost as many messages and scripts for each release as ten', async (t) => {
    const costOfTurn = async (count: number): Promise<{ bytes: number; scripts: number }> => {
      const holder = await fixture.connect()
      const hold = await holder.getLock('a').lock()
      const { all, clients } = await takers(count)
      const sent = async (): Promise<number> =>
        Number(/^total_net_output_bytes:(\d+)/m.exec(await fixture.server.admin.info('stats'))?.[1])
      // Which resets what was sent, too.
      const { scripts } = await countCommands(fixture.server, async () => {
        await hold.unlock()
        await all
      })
      const bytes = await sent()
      await Promise.all([holder, ...clients].map((client) => client.close()))
      return { bytes: bytes / count, scripts: scripts / count }
    }
    const [few, many] = [await costOfTurn(10), await costOfTurn(40)]
    t.diagnostic(`a turn of 10 clients: ${JSON.stringify(few)}, of 40: ${JSON.stringify(many)}`)
    assert(many.scripts < 1.5 * few.scripts, `${many.scripts} scripts a turn, with fewer clients ${few.scripts}`)
    assert(many.bytes < 1.5 * few.bytes, `${many.bytes} bytes a turn, with fewer clients ${few.bytes}`)
  })

  it('a release by Redisson wakes a waiter whatever was published on the channels before', async () => {
    const peer = twin()
    await peer.acquire('a', 7, 30_000)
    const client = await fixture.connect()
    const waiting = client.getLock('a').lock()
    await waitUntil(async () => (await listeners(lockChannel('a'))) === 1)
    await standing(1)
    for (const garbage of ['12345', '281474976710656', `${client.id}:1`, 'turn 1', '']) {
      await fixture.server.admin.publish(lockChannel('a'), garbage)
      await fixture.server.admin.publish(INBOX_PREFIX + client.id, garbage)
    }
    await sleep(1_500) // by now nothing of that is under way
    await peer.release('a', 7)
    const outcome = await settlesWithin(waiting, 900)
    assert.equal(outcome.status, 'fulfilled')
    if (outcome.status === 'fulfilled') await outcome.value.unlock()
  })

  it('a release does not affect the queue of the lock with the same name in braces', async () => {
    const [holder, first, second] = [await fixture.connect(), await fixture.connect(), await fixture.connect()]
    const braced = await holder.getLock('{a}').lock()
    const waitsForBraced = first.getLock('{a}').lock()
    await standing(1, '{a}')
    const plain = await holder.getLock('a').lock()
    const waitsForPlain = second.getLock('a').lock()
    await standing(1, 'a')
    await sleep(300)
    await plain.unlock()
    const outcome = await settlesWithin(waitsForPlain, 900)
    assert.equal(outcome.status, 'fulfilled')
    assert.equal(await queued('{a}'), 1)
    await braced.unlock()
    for (const hold of await Promise.all([waitsForPlain, waitsForBraced])) await hold.unlock()
  })

  for (const [what, release] of [
    ['forceUnlock() of another client', (other: Client) => other.getLock('a').forceUnlock()],
    ['the release of a fenced lock of the same name', undefined],
  ] as const) {
    it(`the first client in the queue is also woken by ${what}`, async () => {
      const holder = await fixture.connect()
      const hold = await (release ? holder.getLock('a') : holder.getFencedLock('a')).lock()
      const waiting = (await fixture.connect()).getLock('a').lock()
      await standing(1)
      if (release) await release(await fixture.connect())
      else await hold.unlock()
      const outcome = await settlesWithin(waiting, 900)
      assert.equal(outcome.status, 'fulfilled')
      if (outcome.status === 'fulfilled') await outcome.value.unlock()
      await fixture.server.admin.del('redisson_lock_token:{a}')
    })
  }

  it('a release announced only as Redisson does it wakes the client that has been first in the queue for a second', async () => {
    const hold = await (await fixture.connect()).getLock('a').lock()
    const waiting = (await fixture.connect()).getLock('a').lock()
    const behind = (await fixture.connect()).getLock('a').lock()
    await standing(2)
    await waitUntil(async () => (await listeners(lockChannel('a'))) === 1)
    // What Redisson's forceUnlock does to a lock that Holdfast holds.
    await fixture.server.admin.multi().del('a').publish(lockChannel('a'), '0').exec()
    const outcome = await settlesWithin(Promise.race([waiting, behind]), 900)
    assert.equal(outcome.status, 'fulfilled')
    for (const next of [waiting, behind]) await (await next).unlock()
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
  })

  it('a release announced only as Redisson does it wakes other waiters of the client that had the lock', async () => {
    const client = await fixture.connect()
    const hold = await (await fixture.connect()).getLock('a').lock()
    const [first, second] = [client.getLock('a').lock(), client.getLock('a').lock()]
    await standing(1)
    await hold.unlock()
    await first
    await waitUntil(async () => (await listeners(lockChannel('a'))) === 1)
    await fixture.server.admin.multi().del('a').publish(lockChannel('a'), '0').exec()
    const outcome = await settlesWithin(second, 900)
    assert.equal(outcome.status, 'fulfilled')
    await assert.rejects((await first).unlock(), { code: 'LOCK_LEASE_LOST' })
    await (await second).unlock()
  })

  it('a release reaches a client that lost its subscription and regained it', async () => {
    const holder = await fixture.connect()
    const hold = await holder.getLock('a').lock()
    const client = await fixture.connect()
    const waiting = client.getLock('a').lock()
    await standing(1)
    const inbox = INBOX_PREFIX + client.id
    const attempts = await countCommands(fixture.server, async () => {
      await fixture.server.admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
      await waitUntil(async () => (await listeners(inbox)) === 1)
      await sleep(200)
    })
    assert(attempts.scripts >= 1, 'it makes one attempt, as messages may have been missed')
    await hold.unlock()
    const outcome = await settlesWithin(waiting, 900)
    assert.equal(outcome.status, 'fulfilled')
    if (outcome.status === 'fulfilled') await outcome.value.unlock()
  })
})

describe('a waiter', () => {
  const fixture = setUpFixture()

  it('a waiter makes at most one attempt in 10 ms, however many messages arrive', async (t) => {
    const peer = new Twin(fixture.server.url)
    fixture.onEnd(() => peer[Symbol.asyncDispose]())
    await peer.acquire('a', 7, 30_000)
    const client = await fixture.connect()
    const waiting = client.getLock('a').lock()
    await listening(fixture, 2)
    const channels = (await fixture.server.admin.pubsub('CHANNELS')) as string[]
    const flooder = fixture.server.admin.duplicate()
    fixture.onEnd(() => flooder.disconnect())
    let messages = 0
    const startedAt = performance.now()
    const attempts = await countCommands(fixture.server, async () => {
      while (performance.now() - startedAt < 1_000 || messages <= 500) {
        const batch = flooder.pipeline()
        for (const channel of channels) batch.publish(channel, channel.startsWith(INBOX_PREFIX) ? 'turn 1' : '0')
        await batch.exec()
        messages += channels.length
      }
    })
    const most = (performance.now() - startedAt) / 10 + 10
    t.diagnostic(`${messages} messages, ${attempts.calls['evalsha']} attempts`)
    assert((attempts.calls['evalsha'] ?? 0) <= most, `${attempts.calls['evalsha']} attempts for ${messages} messages`)
    await peer.release('a', 7)
    await (await waiting).unlock()
  })

  for (const [sections, ms, most] of [
    ['empty sections', 0, 1_000],
    ['sections of a millisecond', 1, 200],
  ] as const) {
    it(`waiters in each of eight busy clients of one process are served: ${sections}`, async (t) => {
      const clients = await Promise.all(Array.from({ length: 8 }, () => fixture.connect()))
      const grants = clients.map(() => 0)
      const isOver = (): boolean => Math.max(...grants) >= most
      await Promise.all(
        clients.map(async (client, at) => {
          const lock = client.getLock('a')
          while (!isOver()) {
            await lock.withLock(async () => {
              grants[at] = (grants[at] ?? 0) + 1
              if (ms > 0) await sleep(ms)
            })
          }
        }),
      )
      t.diagnostic(`grants: ${grants.join(' ')}`)
      assert(Math.min(...grants) > most / 10, `grants: ${grants.join(' ')}`)
    })
  }
})
