/** The client's side of the memory that it shares with the watchdog thread; the thread is a fake that only connects. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it, mock } from 'node:test'
import { lockRenew } from '../../src/lua/generated.js'
import { type Clock, threadClock } from '../../src/util/clock.js'
import type { Watched } from '../../src/watchdog/renewable.js'
import { ThreadClient } from '../../src/watchdog/thread-client.js'
import { ALIVE_AT, FIRST_SLOT, micros, TAKE_OVER_AT, type ThreadStatus } from '../../src/watchdog/thread-protocol.js'
import { fileOf, PERIOD_MS, random, termsWith } from '../support/thread-terms.js'

/** A quarter of a period. */
const GRACE_MS = 250

/** Replies that it is connected, with the memory that it was given. */
const THREAD = fileOf(`
  import { parentPort } from 'node:worker_threads'
  parentPort.on('message', ({ client, ...message }) => {
    const memory = Object.values(message).find((value) => value?.memory)?.memory
    if (memory) parentPort.postMessage({ client, isReady: true, memory })
  })`)

function unexpected(error: unknown): never {
  throw error
}

/** A client of the thread that shows its shared memory. */
class OpenThreadClient extends ThreadClient {
  words: BigInt64Array = new BigInt64Array()

  override receive(status: ThreadStatus & { readonly memory?: SharedArrayBuffer }): void {
    if (status.memory) this.words = new BigInt64Array(status.memory)
    super.receive(status)
  }
}

/** On the clock of the threads, ms. */
let now: number
/** How far the client's clock is ahead of that, ms. */
let aheadMs: number
let client: OpenThreadClient

beforeEach(async () => {
  ;[now, aheadMs] = [50_000, 7_000]
  mock.method(threadClock, 'now', () => now)
  const clock = { now: () => now + aheadMs } as Clock
  client = new OpenThreadClient(clock, random, termsWith(THREAD), unexpected, unexpected)
  await client.start()
})

afterEach(async () => {
  mock.restoreAll()
  await client.close()
})

/** A lease that was requested so long ago. */
function lease(agoMs = 0, renewals: number[] = []): Watched {
  const call = lockRenew(['a'], ['client:1', 3 * PERIOD_MS])
  let leasedAt = now + aheadMs - agoMs
  return {
    get leasedAt() {
      return leasedAt
    },
    renewableUntil: Number.POSITIVE_INFINITY,
    renewal: () => call,
    renewalFor: () => call,
    renewed: (sentAt) => {
      leasedAt = sentAt
      renewals.push(sentAt)
    },
    markLost: () => assert.fail('lost'),
    inspect: () => Number.POSITIVE_INFINITY,
  }
}

/** The client is alive, and renews again so much later. */
function heartbeat(dueInMs = PERIOD_MS): void {
  client.heartbeat(now + aheadMs + dueInMs)
}

const word = (index: number): bigint => Atomics.load(client.words, index)
const takesOverInMs = (): number => Number(word(TAKE_OVER_AT)) / 1_000 - now

describe('the memory shared with the watchdog thread', () => {
  it('the shared memory tells the thread to take over a quarter of a period after the client is due', () => {
    heartbeat()
    assert.equal(takesOverInMs(), PERIOD_MS + GRACE_MS)
    assert.equal(word(ALIVE_AT), micros(now))
    now += 400
    heartbeat(100)
    assert.equal(takesOverInMs(), 100 + GRACE_MS)
    assert.equal(word(ALIVE_AT), micros(now))
  })

  it('the shared memory tells the thread to take over sooner for a slow grant, not before the client', () => {
    heartbeat()
    client.watch(lease())
    assert.equal(takesOverInMs(), PERIOD_MS + GRACE_MS)
    client.watch(lease(900))
    assert.equal(takesOverInMs(), PERIOD_MS + GRACE_MS - 900)
    client.watch(lease())
    assert.equal(takesOverInMs(), PERIOD_MS + GRACE_MS - 900, 'a later one changes nothing')
    client.watch(lease(2 * PERIOD_MS))
    assert.equal(takesOverInMs(), GRACE_MS)
  })

  it('the shared memory shows when the thread sent a renewal, once, and not after a sleep', () => {
    const renewals: number[] = []
    heartbeat(60_000)
    const held = lease(0, renewals)
    client.watch(held)
    client.catchUp(held)
    assert.deepEqual(renewals, [])
    now += 5
    Atomics.store(client.words, FIRST_SLOT, micros(now))
    client.catchUp(held)
    assert.deepEqual(renewals, [now + aheadMs])
    client.catchUp(held)
    assert.equal(renewals.length, 1)

    aheadMs += 30_000 // the machine slept, and only the client's clock continued
    heartbeat(60_000)
    client.catchUp(held)
    assert.equal(renewals.length, 1)
  })

  it('the shared memory shows what the thread renewed during a block, by the clocks of then', () => {
    const renewals: number[] = []
    heartbeat()
    client.watch(lease(0, renewals))
    now += 2 * PERIOD_MS
    Atomics.store(client.words, FIRST_SLOT, micros(now))
    const renewedAt = now + aheadMs
    now += 10
    aheadMs += 1_000
    heartbeat()
    assert.deepEqual(renewals, [renewedAt])
  })

  it('the shared memory frees the slot of an ended lease, which the thread distinguishes by its id', () => {
    heartbeat()
    const [first, second] = [lease(), lease()]
    client.watch(first)
    assert.equal(word(FIRST_SLOT), -1n)
    client.unwatch(first)
    assert.equal(word(FIRST_SLOT), 0n)
    client.watch(second)
    assert.equal(word(FIRST_SLOT), -2n)
    assert.equal(word(FIRST_SLOT + 1), 0n)
  })

  it('the shared memory grows with the number of leases', () => {
    const initial = client.words.length
    const leases = Array.from({ length: initial - FIRST_SLOT }, () => lease())
    for (const one of leases) client.watch(one)
    assert.equal(client.words.length, initial)
    client.watch(lease())
    assert.equal(client.words.length, 2 * initial)
    assert.equal(word(initial), -BigInt(leases.length + 1))
  })
})

describe('a lease that is forgotten', () => {
  it('a forgotten lease may have been renewed by the thread only if that took over meanwhile', () => {
    const [early, late, overtaken] = [lease(), lease(), lease()]
    heartbeat()
    for (const one of [early, late, overtaken]) client.watch(one)
    now += PERIOD_MS
    heartbeat()
    assert.equal(client.unwatch(early), false)
    assert.equal(client.unwatch(early), false, 'it is not known any more')
    now += PERIOD_MS + GRACE_MS + 1
    assert.equal(client.unwatch(late), true)
    heartbeat()
    assert.equal(client.unwatch(overtaken), true, 'the thread was in charge before that sign of life')
  })
})
