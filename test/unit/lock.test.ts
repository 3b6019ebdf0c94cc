/** What a lock of one client does with Redis: acquires, releases, waiters, and what a lost reply leaves. */
import assert from 'node:assert/strict'
import { createHook } from 'node:async_hooks'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Hold } from '../../src/index.js'
import type { Lease } from '../../src/locks/lease.js'
import { fairQueue, turnQueueKey } from '../../src/wire/keys.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'

const COMMAND_TIMEOUT_MS = 3_000
const NO_REPLY = { code: 'LOCK_OUTCOME_UNKNOWN', lockName: 'a' }

let fixture: ClientFixture

beforeEach(() => {
  fixture = new ClientFixture({ commandTimeoutMs: COMMAND_TIMEOUT_MS })
})

afterEach(() => fixture.close())

describe('an acquire', () => {
  it('an acquire without a reply is unknown, and what it acquired is freed at once', async () => {
    fixture.port.once('lock/acquire', { lost: 'reply' })
    await assert.rejects(fixture.clock.until(fixture.lock.tryLock()), NO_REPLY)
    await turn()
    assert.deepEqual(fixture.redis.keys, [])
    assert.equal(fixture.port.count('lock/acquire'), 1)
  })

  it('an acquire that reaches Redis after the caller had its error takes nothing', async () => {
    fixture.port.once('lock/acquire', { requestMs: COMMAND_TIMEOUT_MS + 5_000 })
    await assert.rejects(fixture.clock.until(fixture.lock.tryLock()), NO_REPLY)
    await fixture.clock.advance(5_000)
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('a grant after a forceUnlock() of the same turn is no concern of it', async () => {
    const { clock, lock, port } = fixture
    await clock.until(fixture.other.getLock('a').lock())
    port.once('lock/acquire', { requestMs: 10, replyMs: 10 })
    port.once('lock/release-queued', { requestMs: 5, replyMs: 100 })
    const taking = lock.tryLock()
    assert.equal(await clock.until(lock.forceUnlock()), true)
    await fixture.releaseSafe((await taking) as Hold)
  })

  it('a grant after a forceUnlock(), released before its reply, does not cost the owner its next lock', async () => {
    const { clock, client, lock, port } = fixture
    await clock.until(fixture.other.getLock('a').lock())
    port.once('lock/acquire', { requestMs: 10, replyMs: 10 })
    port.once('lock/release-queued', { requestMs: 5, replyMs: 100 })
    await client.runInScope(async () => {
      const taking = lock.tryLock()
      const forcing = lock.forceUnlock()
      const first = await clock.until(taking)
      await clock.until((first as Hold).unlock())
      const next = await clock.until(lock.lock())
      assert.equal(await clock.until(forcing), true)
      await turn()
      fixture.assertSafe(next)
      assert.equal(fixture.countInRedis(next), 1)
      await next.unlock()
    })
  })

  it('an acquire is repeated if there is time to wait, and counts once', async () => {
    fixture.port.once('lock/acquire', { lost: 'reply' })
    const hold = await fixture.clock.until(fixture.lock.lock())
    assert.equal(fixture.port.count('lock/acquire'), 2)
    assert.equal(fixture.countInRedis(hold), 1)
    assert.equal(hold.remainingMs(), 29_698, 'from the command that had a reply')
    await hold.unlock()
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('an acquire that the Redis client sent twice counts once', async () => {
    fixture.port.once('lock/acquire', { resentMs: 500 })
    const hold = await fixture.clock.until(fixture.lock.lock())
    assert.equal(fixture.countInRedis(hold), 1)
    assert.equal(hold.count, 1)
    await hold.unlock()
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('an acquire whose reply arrives after its lease is no hold', async () => {
    fixture.port.once('lock/acquire', { replyMs: 1_500 })
    await assert.rejects(fixture.clock.until(fixture.lock.tryLock({ leaseTimeMs: 1_000 })), {
      code: 'LOCK_LEASE_LOST',
      reason: 'expired',
    })
  })

  it('an acquire counts its lease from when it was sent', async () => {
    fixture.port.once('lock/acquire', { requestMs: 100, replyMs: 400 })
    const hold = await fixture.clock.until(fixture.lock.lock({ leaseTimeMs: 1_000 }))
    assert.equal(hold.remainingMs(), 1_000 - 12 - 500)
    await hold.unlock()
  })

  it('an acquire that is aborted in flight leaves nothing, and its late grant is released', async () => {
    fixture.port.once('lock/acquire', { requestMs: 100, replyMs: 400 })
    const controller = new AbortController()
    const taking = fixture.lock.lock({ signal: controller.signal })
    await fixture.clock.advance(50)
    controller.abort('enough')
    await assert.rejects(taking, (reason) => reason === 'enough')
    await fixture.clock.advance(1_000)
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('an acquire that Redis refuses with an error acquires nothing, and is not repeated', async () => {
    fixture.port.once('lock/acquire', {
      errorReply: 'WRONGTYPE Operation against a key holding the wrong kind of value',
    })
    await assert.rejects(fixture.clock.until(fixture.lock.lock()), /WRONGTYPE/)
    await fixture.clock.advance(1_000)
    assert.deepEqual(
      fixture.port.sent.map(({ name }) => name),
      ['lock/acquire', 'TYPE'], // the latter for the message
    )
  })
})

describe('a hold', () => {
  it('a hold has one signal, and the wall-clock time of the grant', async () => {
    const before = Date.now()
    const hold = await fixture.lock.lock()
    assert(hold.acquiredAt >= before && hold.acquiredAt <= Date.now(), `${hold.acquiredAt}`)
    let aborts = 0
    hold.signal.addEventListener('abort', () => aborts++)
    assert.equal(hold.signal, hold.signal)
    await fixture.lock.forceUnlock()
    assert.equal(aborts, 1)
  })

  it("a hold has the program's name, although a nameMapper gives its key another one", async () => {
    const nameMapper = { map: (name: string) => `app:${name}`, unmap: (name: string) => name.slice(4) }
    const hold = await fixture.connect({ nameMapper }).client.getLock('order').lock()
    assert.deepEqual([hold.lockName, fixture.redis.keys], ['order', ['app:order']])
    await hold.unlock()
  })

  it('a hold is lost if Redis granted the lock to another caller before its own grant arrived', async () => {
    fixture.port.once('lock/acquire', { replyMs: 500 })
    const late = fixture.lock.tryLock()
    await fixture.clock.advance(100)
    fixture.redis.flush()
    const hold = (await fixture.lock.tryLock()) as Hold
    await assert.rejects(fixture.clock.until(late), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    fixture.assertSafe(hold)
    await hold.unlock()
  })
})

describe('a release', () => {
  it('a release is repeated until it has a reply, for as long as a command may take', async () => {
    const hold = await fixture.lock.lock()
    fixture.port.once('lock/release-queued', { lost: 'request', failsWith: 'Connection is closed' })
    fixture.port.once('lock/release-queued', { errorReply: 'BUSY Redis is busy running a script' })
    await fixture.clock.until(hold.unlock())
    assert.equal(fixture.port.count('lock/release-queued'), 3)
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('a release that was executed without a reply counts as done when it is found so', async () => {
    const hold = await fixture.lock.lock()
    fixture.port.once('lock/release-queued', { failsWith: 'Connection is closed' })
    await fixture.clock.until(hold.unlock())
    assert.equal(fixture.port.count('lock/release-queued'), 2)
    assert.equal(hold.signal.aborted, false)
  })

  it('a release that the Redis client sent twice counts as done', async () => {
    const hold = await fixture.lock.lock()
    fixture.port.once('lock/release-queued', { resentMs: 100 })
    await fixture.clock.until(hold.unlock())
    assert.equal(hold.signal.aborted, false)
  })

  it('a release that never has a reply is unknown in time, and continues in the background', async () => {
    const hold = await fixture.lock.lock()
    const startedAt = fixture.clock.now()
    fixture.port.once('lock/release-queued', { lost: 'request' })
    await assert.rejects(fixture.clock.until(hold.unlock()), NO_REPLY)
    assert.equal(fixture.clock.now() - startedAt, COMMAND_TIMEOUT_MS)
    await turn()
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('a release that finds nothing although it was sent once comes too late', async () => {
    const hold = await fixture.lock.lock()
    fixture.redis.flush()
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert.equal(hold.signal.aborted, true)
  })

  it('a release of a hold that Redis no longer knew sends nothing', async () => {
    const hold = await fixture.lock.lock()
    fixture.redis.flush()
    assert.deepEqual(await fixture.commandsOf(() => hold.isHeld()), ['lock/inspect'])
    const released = (): Promise<void> => assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert.deepEqual(await fixture.commandsOf(released), [])
  })

  it('a release that finds the lock gone does not affect what another caller has taken meanwhile', async () => {
    const hold = await fixture.lock.lock()
    fixture.redis.flush()
    fixture.port.once('lock/release-queued', { replyMs: 100 })
    const released = assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    const next = await fixture.lock.tryLock()
    await fixture.clock.advance(100)
    await released
    fixture.assertSafe(next as Hold)
    assert.equal(await fixture.lock.forceUnlock(), true)
    assert.throws(() => next?.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
  })

  it('a release that is called again while it is in flight does not wait for the reply', async () => {
    const hold = await fixture.lock.lock()
    fixture.port.once('lock/release-queued', { replyMs: 100 })
    const released = hold.unlock()
    await hold.unlock()
    await fixture.clock.until(released)
    assert.equal(fixture.port.count('lock/release-queued'), 1)
  })

  it('a release of an inner hold that finds the lock gone loses the outer hold too', async () => {
    const outer = await fixture.lock.lock()
    const inner = await fixture.lock.lock({ within: outer })
    fixture.redis.flush()
    await assert.rejects(inner.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert.equal(fixture.port.count('lock/release-one'), 1)
    assert.equal(outer.signal.aborted, true)
    await assert.rejects(outer.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
  })

  it('a release after lease() is repeated in the background as long as that lease may last', async () => {
    const hold = await fixture.lock.lock()
    await (hold.lease as Lease).lease(hold.members[0] as Hold, 50_000)
    fixture.port.fault = ({ name }) => (name.startsWith('lock/release') ? { lost: 'request' } : undefined)
    await assert.rejects(fixture.clock.until(hold.unlock()), NO_REPLY)
    await fixture.clock.advance(38_000)
    fixture.port.fault = () => undefined
    assert.equal(fixture.redis.pttl('a') > 5_000, true)
    await fixture.clock.advance(6_000)
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('a release after an attempt without a reply is sent again, as a copy may arrive later', async () => {
    fixture.port.once('lock/acquire', { requestMs: 5_000, failsWith: 'Connection is closed' })
    const hold = await fixture.clock.until(fixture.lock.lock({ leaseTimeMs: 20_000 }))
    await hold.unlock()
    assert.deepEqual(fixture.redis.keys, [])
    await fixture.clock.advance(5_000 + 1)
    await fixture.clock.advance(5_000)
    assert.deepEqual(fixture.redis.keys, [], 'what the copy took is released')
  })

  it('a release wakes a waiter in another process at once', async () => {
    const hold = await fixture.lock.lock()
    const waiting = fixture.other.getLock('a').lock()
    await fixture.clock.advance(1_000)
    await hold.unlock()
    const startedAt = fixture.clock.now()
    await (await fixture.clock.until(waiting)).unlock()
    assert.equal(fixture.clock.now(), startedAt)
  })
})

describe('a waiter', () => {
  it('a waiter that leaves takes its client out of the turn queue', async () => {
    const hold = await fixture.other.getLock('a').lock()
    const abort = new AbortController()
    const waiting = fixture.lock.lock({ signal: abort.signal })
    const timed = fixture.lock.tryLock({ waitTimeMs: 1_000 })
    await fixture.clock.advance(500)
    assert.equal(fixture.redis.tickets(turnQueueKey('a')).length, 1)
    abort.abort(new Error('enough'))
    await assert.rejects(waiting, /enough/)
    await fixture.clock.advance(0)
    assert.equal(fixture.redis.tickets(turnQueueKey('a')).length, 1, 'another caller of the client still waits')
    assert.equal(await fixture.clock.until(timed), null)
    await fixture.clock.advance(0)
    assert.deepEqual(fixture.redis.tickets(turnQueueKey('a')), [])
    await hold.unlock()
  })

  it('a waiter whose wait time ends learns which lock did not become free', async () => {
    const hold = await fixture.other.getLock('a').lock()
    const [lock, limit] = [fixture.lock, { waitTimeMs: 50 }]
    const calls: (() => Promise<unknown>)[] = [() => lock.lock(limit), () => lock.withLock(limit, () => {})]
    for (const call of calls) {
      await assert.rejects(
        fixture.clock.until(call()),
        /^WaitTimeoutError: Lock "a" did not become free within 50 ms: held by/,
      )
    }
    await hold.unlock()
  })

  it('a waiter for a fair lock is queued in Redis until it leaves, and a single try is not', async () => {
    const queued = (): unknown => fixture.redis.execute(['LRANGE', fairQueue('a'), '0', '-1'])
    const [lock, abort] = [fixture.client.getFairLock('a'), new AbortController()]
    const hold = await fixture.other.getFairLock('a').lock()
    assert.equal(await lock.tryLock(), null)
    assert.deepEqual(queued(), [])
    const waiting = lock.lock({ signal: abort.signal })
    await fixture.clock.advance(100)
    assert.equal((queued() as string[]).length, 1)
    abort.abort(new Error('enough'))
    await assert.rejects(waiting, /enough/)
    await fixture.clock.advance(0)
    assert.deepEqual(queued(), [])
    await hold.unlock()
  })

  it('a waiter is not held up by one for another lock that has the same channel', async () => {
    const [plain, braced] = [await fixture.other.getLock('a').lock(), await fixture.other.getLock('{a}').lock()]
    const [first, second] = [fixture.lock.lock(), fixture.client.getLock('{a}').lock()]
    await fixture.clock.advance(1_000)
    await braced.unlock()
    await (await fixture.clock.until(second, 1_000)).unlock()
    await plain.unlock()
    await (await fixture.clock.until(first)).unlock()
  })
})

/** How many promises are created while `action` runs, including those that `await` makes. */
async function promisesOf(action: () => Promise<unknown>): Promise<number> {
  let count = 0
  const hook = createHook({
    init(_id, type) {
      if (type === 'PROMISE') count++
    },
  }).enable()
  await action()
  hook.disable()
  return count
}

describe('promises', () => {
  it('an uncontended cycle of lock() and unlock() creates 6 promises, apart from those of the Redis client', async () => {
    const send = fixture.port.send.bind(fixture.port)
    const cycle = async (): Promise<void> => await (await fixture.lock.lock()).unlock()
    const bare = async (): Promise<unknown> => [await fixture.port.send([], ''), await fixture.port.send([], '')]
    await cycle()
    await turn() // the test runner has promises, too
    const replies = [null, 1]
    fixture.port.send = async () => replies.shift()
    const ofCycle = await promisesOf(cycle)
    const ofPort = await promisesOf(bare)
    fixture.port.send = send
    assert.deepEqual(replies, [])
    assert.equal(ofCycle - ofPort, 6)
  })
})
