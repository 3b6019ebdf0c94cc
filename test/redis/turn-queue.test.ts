/** Clients that wait for one lock are queued in Redis, and a release wakes the first of them. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Client, Hold } from '../../src/index.js'
import { lockChannel, turnQueueKey } from '../../src/wire/keys.js'
import { countCommands } from '../support/command-stats.js'
import { setUpFixture } from '../support/fixture.js'
import { spawnChild } from '../support/processes/child.js'
import { Twin } from '../support/redisson-twin/twin.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

const WAITER = new URL('../support/processes/waiter-process.js', import.meta.url)

/** So that a slow machine does not end it. */
const LONG_RUN = { maxHandOffMs: 60_000 }

/** A waiting client polls after this time even without a message, ms. */
const POLL_MS = 5_000

describe('clients that wait for one lock', () => {
  const fixture = setUpFixture()
  const queued = async (): Promise<string[]> =>
    (await fixture.server.admin.call('LRANGE', turnQueueKey('a'), '0', '-1')) as string[]
  const standing = (count: number): Promise<unknown> =>
    waitUntil(async () => (await queued()).length === count, { message: `${count} are queued` })

  /** So many clients that wait, in this order. */
  async function waiters(count: number): Promise<{ clients: Client[]; waiting: Promise<Hold>[] }> {
    const clients: Client[] = []
    const waiting: Promise<Hold>[] = []
    for (let n = 1; n <= count; n++) {
      const client = await fixture.connect()
      clients.push(client)
      waiting.push(client.getLock('a').lock())
      await standing(n)
    }
    return { clients, waiting }
  }

  async function allServed(waiting: readonly Promise<Hold>[], withinMs: number): Promise<void> {
    const all = Promise.all(waiting.map(async (hold) => await (await hold).unlock()))
    assert.equal((await settlesWithin(all, withinMs)).status, 'fulfilled')
  }

  it('waiting clients are served in the order in which they came, with one attempt for each release', async () => {
    const holder = await fixture.connect()
    const hold = await holder.getLock('a').lock()
    const { waiting } = await waiters(6)
    const served: number[] = []
    const count = await countCommands(fixture.server, async () => {
      const sections = waiting.map(async (one, n) => {
        const next = await one
        served.push(n)
        await next.unlock()
      })
      await hold.unlock()
      await Promise.all(sections)
    })
    assert.deepEqual(served, [0, 1, 2, 3, 4, 5])
    // 7 releases and 6 attempts; without a line it would be 21 attempts.
    assert(count.scripts <= 13 + 2, `${count.scripts} scripts`)
    assert.deepEqual(await queued(), [])
  })

  it('waiting clients are served within about 1 s when the client whose turn it is stalls', async () => {
    const holder = await fixture.connect()
    const hold = await holder.getLock('a').lock()
    const frozen = spawnChild(WAITER, [fixture.server.url])
    fixture.onEnd(() => frozen.stop())
    await standing(1)
    const client = await fixture.connect()
    const waiting = client.getLock('a').lock()
    await standing(2)
    frozen.freeze()
    await hold.unlock()
    const next = await settlesWithin(waiting, 4_000)
    assert.equal(next.status, 'fulfilled')
    await (await waiting).unlock()
    frozen.thaw()
    await frozen.exit
  })

  it('waiting clients are served at once when the client whose turn it is gives up', async () => {
    for (let round = 0; round < 20; round++) {
      const holder = await fixture.connect()
      const hold = await holder.getLock('a').lock()
      const leaver = await fixture.connect()
      const controller = new AbortController()
      const left = leaver.getLock('a').lock({ signal: controller.signal })
      left.catch(() => {})
      await standing(1)
      const stayer = await fixture.connect()
      const stays = stayer.getLock('a').lock()
      await standing(2)
      const released = hold.unlock()
      if (round % 2) await sleep(round / 20)
      controller.abort(new Error('gives up'))
      await released
      const outcome = await settlesWithin(left, 1_000)
      if (outcome.status === 'fulfilled') await outcome.value.unlock()
      const next = await settlesWithin(stays, 900)
      assert.equal(next.status, 'fulfilled', `round ${round}`)
      if (next.status === 'fulfilled') await next.value.unlock()
      for (const client of [holder, leaver, stayer]) await client.close()
    }
  })

  it('a client keeps its place for callers that come in turns, and gives it up if they do not come back', async () => {
    const [busy, other, third] = [await fixture.connect(LONG_RUN), await fixture.connect(), await fixture.connect()]
    const held = await busy.getLock('a').lock()
    const handedOff = busy.getLock('a').lock()
    await standing(1)
    const waiting = other.getLock('a').lock()
    await standing(2)
    await held.unlock()
    const last = await handedOff
    assert.equal(last.holder, held.holder) // it went from the one to the other
    // The first one learns that others are subscribed: then the client stays queued.
    await last.unlock()
    const next = await waiting
    const again = await busy.getLock('a').tryLock()
    assert.equal(again, null)
    const behind = third.getLock('a').lock()
    await sleep(100)
    await next.unlock()
    const outcome = await settlesWithin(behind, 900)
    assert.equal(outcome.status, 'fulfilled')
    if (outcome.status === 'fulfilled') await outcome.value.unlock()
    const hold = await settlesWithin(busy.getLock('a').lock(), 900)
    assert.equal(hold.status, 'fulfilled')
    if (hold.status === 'fulfilled') await hold.value.unlock()
  })

  it('a client makes an attempt at once when no client was queued, although others were subscribed', async () => {
    const listener = fixture.server.admin.duplicate()
    fixture.onEnd(() => listener.disconnect())
    await listener.subscribe(lockChannel('a'))
    const client = await fixture.connect(LONG_RUN)
    let slowest = 0
    for (let round = 0; round < 20; round++) {
      const held = await client.getLock('a').lock()
      const handedOff = client.getLock('a').lock()
      await standing(1)
      await held.unlock()
      await (await handedOff).unlock()
      await sleep(round % 5)
      const since = performance.now()
      const hold = await client.getLock('a').lock()
      slowest = Math.max(slowest, performance.now() - since)
      await hold.unlock()
    }
    assert(slowest < 900, `it took ${Math.round(slowest)} ms`)
  })

  it('clients that take turns with pauses of any length are all served', async () => {
    const clients = await Promise.all(Array.from({ length: 3 }, () => fixture.connect()))
    let slowest = 0
    const loops = clients.flatMap((client, at) =>
      Array.from({ length: 2 }, async (_, task) => {
        for (let round = 0; round < 40; round++) {
          const since = performance.now()
          const hold = await client.getLock('a').lock()
          slowest = Math.max(slowest, performance.now() - since)
          await hold.unlock()
          await sleep(((round * (at + 2) + task * 7) % 25) * (round % 10 === 0 ? 20 : 1))
        }
      }),
    )
    await Promise.all(loops)
    assert(slowest < 900, `one client waited for ${Math.round(slowest)} ms`) // no client had to poll
  })

  it('a release by a program without a turn queue wakes all clients together', async () => {
    const twin = new Twin(fixture.server.url)
    fixture.onEnd(() => twin[Symbol.asyncDispose]())
    await twin.acquire('a', 7, 30_000)
    const { waiting } = await waiters(3)
    await twin.release('a', 7)
    await allServed(waiting, 1_000)
  })

  it('a waiting Redisson thread gets the lock soon, however many clients wait', async (t) => {
    const twin = new Twin(fixture.server.url)
    fixture.onEnd(() => twin[Symbol.asyncDispose]())
    const clients = await Promise.all(Array.from({ length: 4 }, () => fixture.connect()))
    let isOver = false
    const loops = clients.flatMap((client) =>
      Array.from({ length: 4 }, async () => {
        while (!isOver) await client.getLock('a').withLock(() => sleep(1))
      }),
    )
    const waits: number[] = []
    for (let round = 0; round < 10; round++) {
      const since = performance.now()
      await twin.lock('a', 7, 30_000, Number.POSITIVE_INFINITY)
      waits.push(performance.now() - since)
      await twin.release('a', 7)
    }
    isOver = true
    await Promise.all(loops)
    t.diagnostic(`a thread of Redisson waited ${Math.round(Math.max(...waits))} ms at most`)
    assert(Math.max(...waits) < POLL_MS, `${waits}`)
  })

  it('waiting clients are served within a poll when Redis has lost the turn queue', async () => {
    const holder = await fixture.connect()
    const hold = await holder.getLock('a').lock()
    const { waiting } = await waiters(2)
    await fixture.server.admin.del(turnQueueKey('a'))
    await hold.unlock()
    await allServed(waiting, POLL_MS + 1_000)
  })

  it('clients use a turn queue of their own when another program has written a million entries into it', async () => {
    const holder = await fixture.connect()
    const hold = await holder.getLock('a').lock()
    const fill =
      "for n = 1, 1000 do local all = {} for m = 1, 1000 do all[m] = n * m end redis.call('rpush', KEYS[1], unpack(all)) end"
    await fixture.server.admin.call('EVAL', fill, '1', turnQueueKey('a'))
    const length = (): Promise<number> => fixture.server.admin.llen(turnQueueKey('a'))
    assert.equal(await length(), 1_000_000)
    const client = await fixture.connect()
    const waiting = client.getLock('a').lock()
    await waitUntil(async () => (await length()) === 1, { message: 'one is queued' })
    await hold.unlock()
    await allServed([waiting], POLL_MS)
    assert.deepEqual(await queued(), [])
  })

  it('clients keep their places in a turn queue of thousands', async () => {
    const holder = await fixture.connect()
    const hold = await holder.getLock('a').lock()
    const others = Array.from({ length: 4_095 }, (_, n) => `other-${n}`)
    await fixture.server.admin.rpush(turnQueueKey('a'), ...others)
    const client = await fixture.connect()
    const waiting = client.getLock('a').tryLock({ waitTimeMs: 1_000 })
    await standing(4_096)
    assert.deepEqual((await queued()).slice(0, -1), others)
    assert.equal(await waiting, null)
    await hold.unlock()
    await fixture.server.admin.del(turnQueueKey('a'))
  })

  it('clients unsubscribe soon after the last waiter has left, and nothing stays in the turn queue', async () => {
    const holder = await fixture.connect()
    const hold = await holder.getLock('a').lock()
    const client = await fixture.connect()
    assert.equal(await client.getLock('a').tryLock({ waitTimeMs: 300 }), null)
    await waitUntil(async () => (await queued()).length === 0)
    await waitUntil(
      async () => Number(((await fixture.server.admin.pubsub('NUMSUB', lockChannel('a'))) as unknown[])[1]) === 0,
    )
    await hold.unlock()
  })

  it('the turn queue expires if its clients leave nothing but their tickets', async () => {
    const [holder, client] = [await fixture.connect(), await fixture.connect()]
    const hold = await holder.getLock('a').lock()
    const waiting = client.getLock('a').lock()
    const key = turnQueueKey('a')
    await waitUntil(async () => (await fixture.server.admin.exists(key)) === 1)
    const leftMs = await fixture.server.admin.pttl(key)
    assert(leftMs > 0 && leftMs <= 24 * 3_600_000, `PTTL is ${leftMs}`)
    await hold.unlock()
    await (await waiting).unlock()
  })
})
