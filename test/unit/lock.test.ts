/** What a lock of one client does with Redis: acquires, releases, waiters, and what a lost reply leaves. */
import assert from 'node:assert/strict'
import { createHook } from 'node:async_hooks'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Hold } from '../../src/index.js'
import type { Lease } from '../../src/locks/lease.js'
import { fairQueue, turnQueueKey } from '../../src/wire/keys.js'
import { ClientBench } from '../support/fakes/client-bench.js'
import { turn } from '../support/fakes/fake-clock.js'

const COMMAND_TIMEOUT_MS = 3_000
const NO_REPLY = { code: 'LOCK_OUTCOME_UNKNOWN', lockName: 'a' }

let bench: ClientBench

beforeEach(() => {
  bench = new ClientBench({ commandTimeoutMs: COMMAND_TIMEOUT_MS })
})

afterEach(() => bench.close())

describe('an acquire', () => {
  it('without a reply is unknown, and what it acquired is freed at once', async () => {
    bench.port.once('lock/acquire', { lost: 'reply' })
    await assert.rejects(bench.clock.until(bench.lock.tryLock()), NO_REPLY)
    await turn()
    assert.deepEqual(bench.redis.keys, [])
    assert.equal(bench.port.count('lock/acquire'), 1)
  })

  it('that reaches Redis after the caller had its error takes nothing', async () => {
    bench.port.once('lock/acquire', { requestMs: COMMAND_TIMEOUT_MS + 5_000 })
    await assert.rejects(bench.clock.until(bench.lock.tryLock()), NO_REPLY)
    await bench.clock.advance(5_000)
    assert.deepEqual(bench.redis.keys, [])
  })

  it('that Redis grants after a forceUnlock() of the same turn is no concern of that', async () => {
    const { clock, lock, port } = bench
    await clock.until(bench.other.getLock('a').lock())
    port.once('lock/acquire', { requestMs: 10, replyMs: 10 })
    port.once('lock/release-queued', { requestMs: 5, replyMs: 100 })
    const taking = lock.tryLock()
    assert.equal(await clock.until(lock.forceUnlock()), true)
    await bench.releaseSafe((await taking) as Hold)
  })

  it('that Redis grants after a forceUnlock(), released before its reply, does not cost the owner what it takes next', async () => {
    const { clock, client, lock, port } = bench
    await clock.until(bench.other.getLock('a').lock())
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
      bench.assertSafe(next)
      assert.equal(bench.countInRedis(next), 1)
      await next.unlock()
    })
  })

  it('is repeated if there is time to wait, and counts once', async () => {
    bench.port.once('lock/acquire', { lost: 'reply' })
    const hold = await bench.clock.until(bench.lock.lock())
    assert.equal(bench.port.count('lock/acquire'), 2)
    assert.equal(bench.countInRedis(hold), 1)
    assert.equal(hold.remainingMs(), 29_698, 'from the command that had a reply')
    await hold.unlock()
    assert.deepEqual(bench.redis.keys, [])
  })

  it('that the Redis client sent twice counts once', async () => {
    bench.port.once('lock/acquire', { resentMs: 500 })
    const hold = await bench.clock.until(bench.lock.lock())
    assert.equal(bench.countInRedis(hold), 1)
    assert.equal(hold.count, 1)
    await hold.unlock()
    assert.deepEqual(bench.redis.keys, [])
  })

  it('whose reply arrives after its lease is no hold', async () => {
    bench.port.once('lock/acquire', { replyMs: 1_500 })
    await assert.rejects(bench.clock.until(bench.lock.tryLock({ leaseTimeMs: 1_000 })), {
      code: 'LOCK_LEASE_LOST',
      reason: 'expired',
    })
  })

  it('counts its lease from when it was sent', async () => {
    bench.port.once('lock/acquire', { requestMs: 100, replyMs: 400 })
    const hold = await bench.clock.until(bench.lock.lock({ leaseTimeMs: 1_000 }))
    assert.equal(hold.remainingMs(), 1_000 - 12 - 500)
    await hold.unlock()
  })

  it('that is aborted in flight leaves nothing, and its late grant is released', async () => {
    bench.port.once('lock/acquire', { requestMs: 100, replyMs: 400 })
    const controller = new AbortController()
    const taking = bench.lock.lock({ signal: controller.signal })
    await bench.clock.advance(50)
    controller.abort('enough')
    await assert.rejects(taking, (reason) => reason === 'enough')
    await bench.clock.advance(1_000)
    assert.deepEqual(bench.redis.keys, [])
  })

  it('that Redis refuses with an error acquires nothing, and is not repeated', async () => {
    bench.port.once('lock/acquire', { errorReply: 'WRONGTYPE Operation against a key holding the wrong kind of value' })
    await assert.rejects(bench.clock.until(bench.lock.lock()), /WRONGTYPE/)
    await bench.clock.advance(1_000)
    assert.deepEqual(
      bench.port.sent.map(({ name }) => name),
      ['lock/acquire', 'TYPE'], // the latter for the message
    )
  })
})

describe('a hold', () => {
  it('has one signal, and the wall-clock time of the grant', async () => {
    const before = Date.now()
    const hold = await bench.lock.lock()
    assert(hold.acquiredAt >= before && hold.acquiredAt <= Date.now(), `${hold.acquiredAt}`)
    let aborts = 0
    hold.signal.addEventListener('abort', () => aborts++)
    assert.equal(hold.signal, hold.signal)
    await bench.lock.forceUnlock()
    assert.equal(aborts, 1)
  })

  it('has the name that the program uses, although a nameMapper gives its key another one', async () => {
    const nameMapper = { map: (name: string) => `app:${name}`, unmap: (name: string) => name.slice(4) }
    const hold = await bench.connect({ nameMapper }).client.getLock('order').lock()
    assert.deepEqual([hold.lockName, bench.redis.keys], ['order', ['app:order']])
    await hold.unlock()
  })

  it('is lost if Redis granted the lock to another caller of the client before its own grant arrived', async () => {
    bench.port.once('lock/acquire', { replyMs: 500 })
    const late = bench.lock.tryLock()
    await bench.clock.advance(100)
    bench.redis.flush()
    const hold = (await bench.lock.tryLock()) as Hold
    await assert.rejects(bench.clock.until(late), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    bench.assertSafe(hold)
    await hold.unlock()
  })
})

describe('a release', () => {
  it('is repeated until it has a reply, for as long as a command may take', async () => {
    const hold = await bench.lock.lock()
    bench.port.once('lock/release-queued', { lost: 'request', failsWith: 'Connection is closed' })
    bench.port.once('lock/release-queued', { errorReply: 'BUSY Redis is busy running a script' })
    await bench.clock.until(hold.unlock())
    assert.equal(bench.port.count('lock/release-queued'), 3)
    assert.deepEqual(bench.redis.keys, [])
  })

  it('that was executed without a reply counts as done when it is found so', async () => {
    const hold = await bench.lock.lock()
    bench.port.once('lock/release-queued', { failsWith: 'Connection is closed' })
    await bench.clock.until(hold.unlock())
    assert.equal(bench.port.count('lock/release-queued'), 2)
    assert.equal(hold.signal.aborted, false)
  })

  it('that the Redis client sent twice counts as done', async () => {
    const hold = await bench.lock.lock()
    bench.port.once('lock/release-queued', { resentMs: 100 })
    await bench.clock.until(hold.unlock())
    assert.equal(hold.signal.aborted, false)
  })

  it('that never has a reply is unknown in time, and continues in the background', async () => {
    const hold = await bench.lock.lock()
    const startedAt = bench.clock.now()
    bench.port.once('lock/release-queued', { lost: 'request' })
    await assert.rejects(bench.clock.until(hold.unlock()), NO_REPLY)
    assert.equal(bench.clock.now() - startedAt, COMMAND_TIMEOUT_MS)
    await turn()
    assert.deepEqual(bench.redis.keys, [])
  })

  it('that finds nothing although it was sent once comes too late', async () => {
    const hold = await bench.lock.lock()
    bench.redis.flush()
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert.equal(hold.signal.aborted, true)
  })

  it('of a hold that Redis no longer knew sends nothing', async () => {
    const hold = await bench.lock.lock()
    bench.redis.flush()
    assert.deepEqual(await bench.commandsOf(() => hold.isHeld()), ['lock/inspect'])
    const released = (): Promise<void> => assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert.deepEqual(await bench.commandsOf(released), [])
  })

  it('that finds the lock gone does not affect what another caller has taken meanwhile', async () => {
    const hold = await bench.lock.lock()
    bench.redis.flush()
    bench.port.once('lock/release-queued', { replyMs: 100 })
    const released = assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    const next = await bench.lock.tryLock()
    await bench.clock.advance(100)
    await released
    bench.assertSafe(next as Hold)
    assert.equal(await bench.lock.forceUnlock(), true)
    assert.throws(() => next?.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
  })

  it('that is called again while it is in flight does not wait for the reply', async () => {
    const hold = await bench.lock.lock()
    bench.port.once('lock/release-queued', { replyMs: 100 })
    const released = hold.unlock()
    await hold.unlock()
    await bench.clock.until(released)
    assert.equal(bench.port.count('lock/release-queued'), 1)
  })

  it('of an inner hold that finds the lock gone loses the outer hold too', async () => {
    const outer = await bench.lock.lock()
    const inner = await bench.lock.lock({ within: outer })
    bench.redis.flush()
    await assert.rejects(inner.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert.equal(bench.port.count('lock/release-one'), 1)
    assert.equal(outer.signal.aborted, true)
    await assert.rejects(outer.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
  })

  it('after lease() is repeated in the background as long as that lease may last', async () => {
    const hold = await bench.lock.lock()
    await (hold.lease as Lease).lease(hold.members[0] as Hold, 50_000)
    bench.port.fault = ({ name }) => (name.startsWith('lock/release') ? { lost: 'request' } : undefined)
    await assert.rejects(bench.clock.until(hold.unlock()), NO_REPLY)
    await bench.clock.advance(38_000)
    bench.port.fault = () => undefined
    assert.equal(bench.redis.pttl('a') > 5_000, true)
    await bench.clock.advance(6_000)
    assert.deepEqual(bench.redis.keys, [])
  })

  it('after an attempt without a reply is sent again, because a copy of that attempt may arrive later', async () => {
    bench.port.once('lock/acquire', { requestMs: 5_000, failsWith: 'Connection is closed' })
    const hold = await bench.clock.until(bench.lock.lock({ leaseTimeMs: 20_000 }))
    await hold.unlock()
    assert.deepEqual(bench.redis.keys, [])
    await bench.clock.advance(5_000 + 1)
    await bench.clock.advance(5_000)
    assert.deepEqual(bench.redis.keys, [], 'what the copy took is released')
  })

  it('wakes a waiter in another process at once', async () => {
    const hold = await bench.lock.lock()
    const waiting = bench.other.getLock('a').lock()
    await bench.clock.advance(1_000)
    await hold.unlock()
    const startedAt = bench.clock.now()
    await (await bench.clock.until(waiting)).unlock()
    assert.equal(bench.clock.now(), startedAt)
  })
})

describe('a waiter', () => {
  it('that leaves takes its client out of the turn queue', async () => {
    const hold = await bench.other.getLock('a').lock()
    const abort = new AbortController()
    const waiting = bench.lock.lock({ signal: abort.signal })
    const timed = bench.lock.tryLock({ waitTimeMs: 1_000 })
    await bench.clock.advance(500)
    assert.equal(bench.redis.tickets(turnQueueKey('a')).length, 1)
    abort.abort(new Error('enough'))
    await assert.rejects(waiting, /enough/)
    await bench.clock.advance(0)
    assert.equal(bench.redis.tickets(turnQueueKey('a')).length, 1, 'another caller of the client still waits')
    assert.equal(await bench.clock.until(timed), null)
    await bench.clock.advance(0)
    assert.deepEqual(bench.redis.tickets(turnQueueKey('a')), [])
    await hold.unlock()
  })

  it('whose wait time ends learns which lock did not become free', async () => {
    const hold = await bench.other.getLock('a').lock()
    const [lock, limit] = [bench.lock, { waitTimeMs: 50 }]
    const calls: (() => Promise<unknown>)[] = [() => lock.lock(limit), () => lock.withLock(limit, () => {})]
    for (const call of calls) {
      await assert.rejects(
        bench.clock.until(call()),
        /^WaitTimeoutError: Lock "a" did not become free within 50 ms: held by/,
      )
    }
    await hold.unlock()
  })

  it('for a fair lock is queued in Redis until it leaves, and a single try is not', async () => {
    const queued = (): unknown => bench.redis.execute(['LRANGE', fairQueue('a'), '0', '-1'])
    const [lock, abort] = [bench.client.getFairLock('a'), new AbortController()]
    const hold = await bench.other.getFairLock('a').lock()
    assert.equal(await lock.tryLock(), null)
    assert.deepEqual(queued(), [])
    const waiting = lock.lock({ signal: abort.signal })
    await bench.clock.advance(100)
    assert.equal((queued() as string[]).length, 1)
    abort.abort(new Error('enough'))
    await assert.rejects(waiting, /enough/)
    await bench.clock.advance(0)
    assert.deepEqual(queued(), [])
    await hold.unlock()
  })

  it('is not held up by one for another lock that has the same channel', async () => {
    const [plain, braced] = [await bench.other.getLock('a').lock(), await bench.other.getLock('{a}').lock()]
    const [first, second] = [bench.lock.lock(), bench.client.getLock('{a}').lock()]
    await bench.clock.advance(1_000)
    await braced.unlock()
    await (await bench.clock.until(second, 1_000)).unlock()
    await plain.unlock()
    await (await bench.clock.until(first)).unlock()
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
  it('an uncontended cycle of lock() and unlock() creates 26 promises, apart from those of the Redis client', async () => {
    const send = bench.port.send.bind(bench.port)
    const cycle = async (): Promise<void> => await (await bench.lock.lock()).unlock()
    const bare = async (): Promise<unknown> => [await bench.port.send([], ''), await bench.port.send([], '')]
    await cycle()
    await turn() // the test runner has promises, too
    const replies = [null, 1]
    bench.port.send = async () => replies.shift()
    const ofCycle = await promisesOf(cycle)
    const ofPort = await promisesOf(bare)
    bench.port.send = send
    assert.deepEqual(replies, [])
    assert.equal(ofCycle - ofPort, 26)
  })
})
