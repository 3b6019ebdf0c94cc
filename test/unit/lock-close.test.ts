/** How a client closes, and a channel that Redis refuses. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { ClientBench } from '../support/fakes/client-bench.js'
import { turn } from '../support/fakes/fake-clock.js'

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

  it('waits for operations that have been sent, and deletes the replies that Redis stored for them', async () => {
    const semaphore = bench.client.getSemaphore('permits')
    await bench.clock.until(semaphore.trySetPermits(1))
    bench.port.fault = ({ name }) => (name.startsWith('semaphore/') ? { requestMs: 500, replyMs: 500 } : undefined)
    const adding = semaphore.addPermits(1)
    await turn()
    await bench.clock.until(bench.client.close())
    await adding
    assert.deepEqual(
      bench.redis.keys.filter((key) => key.startsWith('holdfast_idempotency')),
      [],
    )
    await bench.clock.until(bench.other.getSemaphore('permits').delete())
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

describe('a client that drains', () => {
  it('lets holds ask Redis until the drain is over', async () => {
    const hold = await bench.lock.lock()
    const closing = bench.client.close({ drainMs: 60_000 })
    assert.equal(await bench.clock.until(hold.isHeld()), true)
    assert.equal(await bench.clock.until(bench.lock.isLocked()), true)
    await hold.unlock()
    await bench.clock.until(closing)
    await assert.rejects(bench.lock.isLocked(), { code: 'LOCK_CLIENT_CLOSED', lockName: 'a' })
  })

  it('waits for what is held and for what runs with permits', async () => {
    const hold = await bench.lock.lock()
    const semaphore = bench.client.getSemaphore('permits')
    await bench.clock.until(semaphore.trySetPermits(1))
    let finish = (): void => {}
    const working = semaphore.withPermit(() => new Promise<void>((resolve) => (finish = resolve)))
    await turn()
    const closing = bench.client.close({ drainMs: 60_000 })
    await bench.clock.advance(1_000)
    hold.assertHeld()
    finish()
    await bench.clock.until(working)
    await bench.clock.advance(1_000)
    hold.assertHeld()
    await hold.unlock()
    await bench.clock.until(closing)
    await bench.clock.until(bench.other.getSemaphore('permits').delete())
  })

  it('tells calls that come too late why it was closed, as it was first', async () => {
    const other = (): void => {}
    process.on('SIGTERM', other)
    bench.client.on('warning', () => {}) // of that handler
    bench.client.closeOnSignals({ drainMs: 60_000 })
    const hold = await bench.lock.lock()
    process.emit('SIGTERM', 'SIGTERM')
    await turn()
    await assert.rejects(bench.lock.lock(), /the process received SIGTERM\. To finish what is under way first/)
    process.emit('SIGTERM', 'SIGTERM')
    await bench.clock.until(bench.client.close())
    assert.equal(hold.signal.aborted, true)
    await assert.rejects(bench.lock.lock(), /the process received SIGTERM\. To finish what is under way first/)
    process.off('SIGTERM', other)
  })
})

describe('a channel that Redis refuses', () => {
  it('is reported once, and its waiters are served nevertheless', async () => {
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
      bench.warnings.map(({ message }) => /holdfast_inbox:/.test(message)),
      [true],
    )
  })
})
