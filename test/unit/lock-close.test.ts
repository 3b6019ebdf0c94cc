/** How a client closes, and a channel that Redis refuses. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'

const COMMAND_TIMEOUT_MS = 3_000

let fixture: ClientFixture

beforeEach(() => {
  fixture = new ClientFixture({ commandTimeoutMs: COMMAND_TIMEOUT_MS })
})

afterEach(() => fixture.close())

describe('close()', () => {
  it('close() frees what is held, dismisses waiters, and leaves no timer', async () => {
    const hold = await fixture.lock.lock()
    await fixture.other.getLock('b').lock()
    const waiting = assert.rejects(fixture.client.getLock('b').lock(), { code: 'LOCK_CLIENT_CLOSED', lockName: 'b' })
    await fixture.clock.advance(1_000)
    await fixture.clock.until(fixture.client.close())
    await waiting
    assert.equal(hold.signal.aborted, true)
    assert.deepEqual(fixture.redis.keys, ['b'])
    assert.equal(fixture.port.isClosed, true)
    await assert.rejects(fixture.lock.lock(), { code: 'LOCK_CLIENT_CLOSED' })
  })

  it('close() releases what is granted meanwhile', async () => {
    fixture.port.fault = () => ({ requestMs: 500, replyMs: 500 })
    const taking = assert.rejects(fixture.lock.lock(), { code: 'LOCK_CLIENT_CLOSED' })
    await turn()
    await fixture.clock.until(fixture.client.close())
    await taking
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('close() waits for a release that is being repeated', async () => {
    const hold = await fixture.lock.lock()
    fixture.port.once('lock/release-queued', { lost: 'request', failsWith: 'Connection is closed' })
    const releasing = hold.unlock()
    await turn()
    await fixture.clock.until(fixture.client.close())
    assert.deepEqual(fixture.redis.keys, [])
    await fixture.clock.until(releasing)
  })

  it('close() waits for sent operations, and deletes the replies that Redis stored for them', async () => {
    const semaphore = fixture.client.getSemaphore('permits')
    await fixture.clock.until(semaphore.trySetPermits(1))
    fixture.port.fault = ({ name }) => (name.startsWith('semaphore/') ? { requestMs: 500, replyMs: 500 } : undefined)
    const adding = semaphore.addPermits(1)
    await turn()
    await fixture.clock.until(fixture.client.close())
    await adding
    assert.deepEqual(
      fixture.redis.keys.filter((key) => key.startsWith('holdfast_idempotency')),
      [],
    )
    await fixture.clock.until(fixture.other.getSemaphore('permits').delete())
  })

  it('close() leaves no stored reply in Redis, also of an operation whose reply arrives meanwhile', async () => {
    const { clock, other, redis } = fixture
    const stored = (): string[] => redis.keyspace.names().filter((name) => name.startsWith('holdfast_idempotency'))
    for (const fault of [{}, { replyMs: 500 }, { requestMs: 500, replyMs: 500 }]) {
      const { client: closing, port } = fixture.connect({})
      await clock.until(closing.getSemaphore('permits').trySetPermits(1))
      port.once('semaphore/add-permits', fault)
      const adding = closing.getSemaphore('permits').addPermits(1)
      await turn()
      await clock.until(closing.close())
      await adding
      assert.deepEqual(stored(), [], JSON.stringify(fault))
    }
    await clock.until(other.getSemaphore('permits').delete())
  })

  it('close() ends although Redis is silent', async () => {
    await fixture.lock.lock({ leaseTimeMs: 10_000 })
    fixture.port.fault = () => ({ lost: 'request' })
    const startedAt = fixture.clock.now()
    await fixture.clock.until(fixture.client.close())
    assert(fixture.clock.now() - startedAt <= 2 * COMMAND_TIMEOUT_MS, `after ${fixture.clock.now() - startedAt} ms`)
    await fixture.clock.advance(10_000)
  })

  it('close() refuses later calls without sending anything', async () => {
    await fixture.clock.until(fixture.client.close())
    const sent = fixture.port.count()
    for (const call of [
      () => fixture.lock.lock(),
      () => fixture.lock.tryLock(),
      () => fixture.client.adopt('a', 'client:1'),
    ]) {
      await assert.rejects(fixture.clock.until(call()), { code: 'LOCK_CLIENT_CLOSED', lockName: 'a' })
    }
    assert.equal(fixture.port.count(), sent)
  })

  it('close() lets work that drains take again what it holds', async () => {
    let closing: Promise<void> | undefined
    await fixture.lock.withLock(async () => {
      closing = fixture.client.close({ drainMs: 1_000 })
      assert.equal(await fixture.lock.withLock((inner) => inner.count), 2)
      await assert.rejects(fixture.client.getLock('b').lock(), { code: 'LOCK_CLIENT_CLOSED' })
    })
    await fixture.clock.until(closing as Promise<void>)
  })

  it('close() lets holds continue for drainMs, and is cut by a second call', async () => {
    const [brief, long] = [await fixture.lock.lock(), await fixture.client.getLock('b').lock()]
    const closing = fixture.client.close({ drainMs: 60_000 })
    await fixture.clock.advance(5_000)
    brief.assertHeld()
    await brief.unlock()
    long.assertHeld()
    await fixture.clock.until(fixture.client.close())
    assert.equal(long.signal.aborted, true)
    await closing
  })
})

describe('a client that drains', () => {
  it('a client that drains lets holds ask Redis until the drain is over', async () => {
    const hold = await fixture.lock.lock()
    const closing = fixture.client.close({ drainMs: 60_000 })
    assert.equal(await fixture.clock.until(hold.isHeld()), true)
    assert.equal(await fixture.clock.until(fixture.lock.isLocked()), true)
    await hold.unlock()
    await fixture.clock.until(closing)
    await assert.rejects(fixture.lock.isLocked(), { code: 'LOCK_CLIENT_CLOSED', lockName: 'a' })
  })

  it('a client that drains waits for what is held and for what runs with permits', async () => {
    const hold = await fixture.lock.lock()
    const semaphore = fixture.client.getSemaphore('permits')
    await fixture.clock.until(semaphore.trySetPermits(1))
    let finish = (): void => {}
    const working = semaphore.withPermit(() => new Promise<void>((resolve) => (finish = resolve)))
    await turn()
    const closing = fixture.client.close({ drainMs: 60_000 })
    await fixture.clock.advance(1_000)
    hold.assertHeld()
    finish()
    await fixture.clock.until(working)
    await fixture.clock.advance(1_000)
    hold.assertHeld()
    await hold.unlock()
    await fixture.clock.until(closing)
    await fixture.clock.until(fixture.other.getSemaphore('permits').delete())
  })

  it('a client that drains tells late calls why it was closed, as it was first', async () => {
    const other = (): void => {}
    process.on('SIGTERM', other)
    fixture.client.on('warning', () => {}) // of that handler
    fixture.client.closeOnSignals({ drainMs: 60_000 })
    const hold = await fixture.lock.lock()
    process.emit('SIGTERM', 'SIGTERM')
    await turn()
    await assert.rejects(fixture.lock.lock(), /the process received SIGTERM\. To finish what is under way first/)
    process.emit('SIGTERM', 'SIGTERM')
    await fixture.clock.until(fixture.client.close())
    assert.equal(hold.signal.aborted, true)
    await assert.rejects(fixture.lock.lock(), /the process received SIGTERM\. To finish what is under way first/)
    process.off('SIGTERM', other)
  })
})

describe('a channel that Redis refuses', () => {
  it('a channel that Redis refuses is reported once, and its waiters are served nevertheless', async () => {
    fixture.port.fault = ({ name }) =>
      name === 'SUBSCRIBE' ? { errorReply: 'NOPERM No permissions to access a channel' } : undefined
    for (let round = 0; round < 3; round++) {
      const foreign = await fixture.other.getLock('a').lock()
      const waiting = fixture.lock.lock()
      await fixture.clock.advance(1_000)
      await foreign.unlock()
      await (await fixture.clock.until(waiting)).unlock()
    }
    assert.deepEqual(
      fixture.warnings.map(({ message }) => /holdfast_inbox:/.test(message)),
      [true],
    )
  })
})
