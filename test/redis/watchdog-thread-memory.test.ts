/** The thread's side of the memory that it shares with a client; the client is a fake whose event loop is blocked. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { describe, it } from 'node:test'
import { Worker } from 'node:worker_threads'
import { lockRenew } from '../../src/lua/generated.js'
import { threadClock } from '../../src/util/clock.js'
import {
  ALIVE_AT,
  type FromThread,
  micros,
  type SentToThread,
  TAKE_OVER_AT,
  type ToThread,
} from '../../src/watchdog/thread-protocol.js'
import { setUpFixture } from '../support/fixture.js'
import { startProxy } from '../support/servers/tcp-proxy.js'
import { waitUntil } from '../support/wait-until.js'

const THREAD = new URL('../../src/watchdog-thread.js', import.meta.url)
const LEASE_MS = 60_000
const SLOT = 2

describe('the watchdog thread and its shared memory', () => {
  const fixture = setUpFixture()

  it('a reply to the thread that arrives after the release writes nothing into the slot of the next lease', async () => {
    const { admin } = fixture.server
    const proxy = await startProxy(fixture.server.port)
    fixture.onEnd(() => proxy[Symbol.asyncDispose]())
    const memory = new SharedArrayBuffer(64, { maxByteLength: 1_024 })
    const words = new BigInt64Array(memory)
    const worker = new Worker(THREAD)
    fixture.onEnd(async () => void (await worker.terminate()))
    const send = (message: ToThread): void =>
      worker.postMessage({ ...message, sentAt: threadClock.now() } satisfies SentToThread)
    const terms = { periodMs: 20_000, batchSize: 100, maxBlockMs: 60_000, commandTimeoutMs: 10_000 }
    Atomics.store(words, TAKE_OVER_AT, micros(threadClock.now() + 600_000))
    send({ client: 1, registration: { ...terms, connection: proxy.url, memory } })
    const [reply] = (await once(worker, 'message')) as [FromThread]
    assert.equal('isReady' in reply, true)

    const { script, keys, args } = lockRenew(['a'], ['client:1', LEASE_MS])
    const renewal = { sha1: script.sha1, keys, args, until: threadClock.now() + 600_000 }
    send({ client: 1, script })
    // The first renewal makes the script known and is written down; the second one is on its way for long.
    for (const id of [1n, 2n]) {
      await admin.hset('a', 'client:1', 1)
      await admin.pexpire('a', 1_000)
      Atomics.store(words, SLOT, -id)
      Atomics.store(words, ALIVE_AT, micros(threadClock.now()))
      Atomics.store(words, TAKE_OVER_AT, micros(threadClock.now() + 50))
      if (id === 2n) proxy.delay(300)
      send({ client: 1, slot: SLOT, id, renewal })
      await waitUntil(async () => (await admin.pttl('a')) > 1_000)
      if (id === 1n) await waitUntil(() => Atomics.load(words, SLOT) > 0n)
    }
    Atomics.store(words, SLOT, -3n)
    await new Promise((resolve) => setTimeout(resolve, 1_000))
    assert.equal(Atomics.load(words, SLOT), -3n)
    await admin.del('a')
  })
})
