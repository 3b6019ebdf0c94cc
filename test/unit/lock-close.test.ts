/** How a client closes, and a channel that Redis refuses. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { ClientBench } from '../support/client-bench.js'
import { turn } from '../support/fake-clock.js'

const COMMAND_TIMEOUT_MS = 3_000

let bench: ClientBench

beforeEach(() => {
  bench = new ClientBench({ commandTimeoutMs: COMMAND_TIMEOUT_MS })
})

afterEach(() => bench.close())

describe('close()', () => {
  it('frees what is held, dismisses waiters, and leaves no timer', async () => {
    const hold = await bench.lock.lock()
    await bench.other.getLock('b').lock()
    const waiting = assert.rejects(bench.client.getLock('b').lock(), { code: 'LOCK_CLIENT_CLOSED', lockName: 'b' })
    await bench.clock.advance(1_000)
    await bench.clock.until(bench.client.close())
    await waiting
    assert.equal(hold.signal.aborted, true)
    assert.deepEqual(bench.redis.keys, ['b'])
    assert.equal(bench.port.isClosed, true)
    await assert.rejects(bench.lock.lock(), { code: 'LOCK_CLIENT_CLOSED' })
  })

  it('releases what is granted meanwhile', async () => {
    bench.port.fault = () => ({ requestMs: 500, replyMs: 500 })
    const taking = assert.rejects(bench.lock.lock(), { code: 'LOCK_CLIENT_CLOSED' })
    await turn()
    await bench.clock.until(bench.client.close())
    await taking
    assert.deepEqual(bench.redis.keys, [])
  })

  it('waits for a release that is being repeated', async () => {
    const hold = await bench.lock.lock()
    bench.port.once('lock/release-queued', { lost: 'request', failsWith: 'Connection is closed' })
    const releasing = hold.unlock()
    await turn()
    await bench.clock.until(bench.client.close())
    assert.deepEqual(bench.redis.keys, [])
    await bench.clock.until(releasing)
  })

  it('ends although Redis is silent', async () => {
    await bench.lock.lock({ leaseTimeMs: 10_000 })
    bench.port.fault = () => ({ lost: 'request' })
    const startedAt = bench.clock.now()
    await bench.clock.until(bench.client.close())
    assert(bench.clock.now() - startedAt <= 2 * COMMAND_TIMEOUT_MS, `after ${bench.clock.now() - startedAt} ms`)
    await bench.clock.advance(10_000)
  })

  it('refuses later calls without sending anything', async () => {
    await bench.clock.until(bench.client.close())
    const sent = bench.port.count()
    for (const call of [
      () => bench.lock.lock(),
      () => bench.lock.tryLock(),
      () => bench.client.adopt('a', 'client:1'),
    ]) {
      await assert.rejects(bench.clock.until(call()), { code: 'LOCK_CLIENT_CLOSED', lockName: 'a' })
    }
    assert.equal(bench.port.count(), sent)
  })

  it('lets work that drains take again what it holds', async () => {
    let closing: Promise<void> | undefined
    await bench.lock.withLock(async () => {
      closing = bench.client.close({ drainMs: 1_000 })
      assert.equal(await bench.lock.withLock((inner) => inner.count), 2)
      await assert.rejects(bench.client.getLock('b').lock(), { code: 'LOCK_CLIENT_CLOSED' })
    })
    await bench.clock.until(closing as Promise<void>)
  })

  it('lets holds continue for drainMs, and is cut by a second call', async () => {
    const [brief, long] = [await bench.lock.lock(), await bench.client.getLock('b').lock()]
    const closing = bench.client.close({ drainMs: 60_000 })
    await bench.clock.advance(5_000)
    brief.assertHeld()
    await brief.unlock()
    long.assertHeld()
    await bench.clock.until(bench.client.close())
    assert.equal(long.signal.aborted, true)
    await closing
  })
})

describe('a channel that Redis refuses', () => {
  it('is reported once, and its waiters are served nevertheless', async () => {
    const warnings: Error[] = []
    bench.client.on('warning', (warning) => warnings.push(warning))
    bench.port.fault = ({ name }) =>
      name === 'SUBSCRIBE' ? { errorReply: 'NOPERM No permissions to access a channel' } : undefined
    for (let round = 0; round < 3; round++) {
      const foreign = await bench.other.getLock('a').lock()
      const waiting = bench.lock.lock()
      await bench.clock.advance(1_000)
      await foreign.unlock()
      await (await bench.clock.until(waiting)).unlock()
    }
    assert.deepEqual(
      warnings.map(({ message }) => /holdfast_inbox:/.test(message)),
      [true],
    )
  })
})
