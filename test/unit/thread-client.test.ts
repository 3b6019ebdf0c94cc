/** The client's side of the memory that it shares with the watchdog thread; the thread is a fake that only connects. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { lockRenew } from '../../src/lua/generated.js'
import { type Clock, threadClock } from '../../src/util/clock.js'
import type { Watched } from '../../src/watchdog/renewable.js'
import { ThreadClient } from '../../src/watchdog/thread-client.js'
import { FIRST_SLOT, micros, TAKE_OVER_AT, type ThreadStatus } from '../../src/watchdog/thread-protocol.js'
import { sleep } from '../support/wait-until.js'

const PERIOD_MS = 1_000

/** Replies that it is connected, with the memory that it was given. */
const THREAD = `
  import { parentPort } from 'node:worker_threads'
  parentPort.on('message', ({ client, ...message }) => {
    const memory = Object.values(message).find((value) => value?.memory)?.memory
    if (memory) parentPort.postMessage({ client, isReady: true, memory })
  })`

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

describe('the memory shared with the watchdog thread', () => {
  /** How far the client's clock is ahead of that of the threads, ms. */
  let aheadMs: number
  let client: OpenThreadClient

  beforeEach(async () => {
    aheadMs = 0
    const clock = { now: () => threadClock.now() + aheadMs } as Clock
    const terms = {
      periodMs: PERIOD_MS,
      batchSize: 100,
      connection: 'redis://127.0.0.1',
      maxBlockMs: 60_000,
      commandTimeoutMs: 3_000,
      leaseTimeMs: 3 * PERIOD_MS,
      file: `data:text/javascript,${encodeURIComponent(THREAD)}`,
    }
    client = new OpenThreadClient(clock, { uuid: () => '', fraction: () => 0.5 }, terms, unexpected, unexpected)
    await client.start()
  })

  afterEach(() => client.close())

  function lease(leasedAt: number, renewals: number[] = []): Watched {
    const call = lockRenew(['a'], ['client:1', 3 * PERIOD_MS])
    return {
      leasedAt,
      renewableUntil: Number.POSITIVE_INFINITY,
      renewal: () => call,
      renewalFor: () => call,
      renewed: (sentAt) => void renewals.push(sentAt),
      markLost: () => assert.fail('lost'),
      inspect: () => Number.POSITIVE_INFINITY,
    }
  }

  it('a renewal that the thread sent before the last sign of life is not counted after the machine slept', async () => {
    const renewals: number[] = []
    client.heartbeat(threadClock.now() + 60_000)
    const held = lease(threadClock.now(), renewals)
    client.watch(held)
    await sleep(5)
    const sentAt = Math.floor(threadClock.now())
    Atomics.store(client.words, FIRST_SLOT, micros(sentAt))
    client.catchUp(held)
    assert(renewals.length === 1 && Math.abs((renewals[0] ?? 0) - sentAt) < 1)

    await sleep(5)
    aheadMs = 30_000 // the machine slept, and only the client's clock continued
    client.heartbeat(threadClock.now() + aheadMs + 60_000)
    client.catchUp(held)
    assert.equal(renewals.length, 1)
  })

  it('a lease whose grant was slow brings the schedule of the thread forward', () => {
    const now = threadClock.now()
    const takesOverInMs = (): number => Number(Atomics.load(client.words, TAKE_OVER_AT)) / 1_000 - now
    client.heartbeat(now + PERIOD_MS)
    client.watch(lease(now))
    const usualMs = takesOverInMs()
    assert(usualMs > PERIOD_MS && usualMs < 2 * PERIOD_MS, `${usualMs} ms`)
    client.watch(lease(now - 0.9 * PERIOD_MS))
    const slowMs = takesOverInMs()
    assert(slowMs < usualMs - PERIOD_MS / 2, `${slowMs} ms instead of ${usualMs} ms`)
  })

  it('a lease that ends frees its slot for the next one, which the thread distinguishes by its id', () => {
    client.heartbeat(threadClock.now() + 60_000)
    const [first, second] = [lease(threadClock.now()), lease(threadClock.now())]
    client.watch(first)
    const id = Atomics.load(client.words, FIRST_SLOT)
    client.forget(first)
    assert.equal(Atomics.load(client.words, FIRST_SLOT), 0n)
    client.watch(second)
    assert.notEqual(Atomics.load(client.words, FIRST_SLOT), id)
  })
})
