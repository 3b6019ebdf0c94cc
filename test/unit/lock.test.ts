import assert from 'node:assert/strict'
import { createHook } from 'node:async_hooks'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Client } from '../../src/client.js'
import type { Hold, Lock } from '../../src/index.js'
import type { Lease } from '../../src/locks/lease.js'
import { turnQueueKey } from '../../src/wire/keys.js'
import { fakeClient } from '../support/fake-client.js'
import { FakeClock, turn } from '../support/fake-clock.js'
import { FakePort, FakeRedis } from '../support/fake-port.js'

const COMMAND_TIMEOUT_MS = 3_000
const NO_ANSWER = { code: 'LOCK_OUTCOME_UNKNOWN', lockName: 'a' }

let clock: FakeClock
let redis: FakeRedis
let port: FakePort
let client: Client
let lock: Lock
/** Another process on the same Redis. */
let other: Client

beforeEach(() => {
  clock = new FakeClock()
  redis = new FakeRedis(clock)
  port = new FakePort(clock, redis)
  client = fakeClient(clock, port, { commandTimeoutMs: COMMAND_TIMEOUT_MS })
  other = fakeClient(clock, new FakePort(clock, redis))
  lock = client.getLock('a')
})

afterEach(async () => {
  await clock.until(Promise.all([client.close(), other.close()]))
  assert.equal(clock.pending, 0, 'no timer is left')
  assert.deepEqual(port.channels, [], 'no subscription is left')
  assert.deepEqual(redis.keys, [], 'nothing is held')
})

function countInRedis(hold: Hold): number | undefined {
  return redis.holders(hold.lockName).find(({ holder }) => holder === hold.holder)?.count
}

function assertSafe(hold: Hold): void {
  hold.assertHeld()
  assert(redis.isHeldBy(hold.lockName, hold.holder), 'what the hold believes is true')
}

async function pause(ms: number): Promise<void> {
  await new Promise<void>((resolve) => void clock.after(ms, resolve))
}

describe('an acquire', () => {
  it('that Redis did not answer is unknown, and what it took is freed at once', async () => {
    port.once('lock/acquire', { lost: 'reply' })
    await assert.rejects(clock.until(lock.tryLock()), NO_ANSWER)
    await turn()
    assert.deepEqual(redis.keys, [])
    assert.equal(port.count('lock/acquire'), 1)
  })

  it('that reached Redis late, when the caller knew it as unknown, is freed as well', async () => {
    port.once('lock/acquire', { requestMs: COMMAND_TIMEOUT_MS + 5_000 })
    await assert.rejects(clock.until(lock.tryLock()), NO_ANSWER)
    await clock.advance(5_000)
    assert.deepEqual(redis.keys, ['a'])
    await clock.advance(10_000)
    assert.deepEqual(redis.keys, [])
  })

  it('is asked again when there is time to wait, and counts once', async () => {
    port.once('lock/acquire', { lost: 'reply' })
    const hold = await clock.until(lock.lock())
    assert.equal(port.count('lock/acquire'), 2)
    assert.equal(countInRedis(hold), 1)
    assert.equal(hold.remainingMs(), 29_698, 'from the command that was answered')
    await hold.unlock()
    assert.deepEqual(redis.keys, [])
  })

  it('that the Redis client sent twice counts once', async () => {
    port.once('lock/acquire', { resentMs: 500 })
    const hold = await clock.until(lock.lock())
    assert.equal(countInRedis(hold), 1)
    assert.equal(hold.count, 1)
    await hold.unlock()
    assert.deepEqual(redis.keys, [])
  })

  it('whose answer comes after its lease is no hold', async () => {
    port.once('lock/acquire', { replyMs: 1_500 })
    await assert.rejects(clock.until(lock.tryLock({ leaseTimeMs: 1_000 })), {
      code: 'LOCK_LEASE_LOST',
      reason: 'expired',
    })
  })

  it('counts its lease from when it was sent', async () => {
    port.once('lock/acquire', { requestMs: 100, replyMs: 400 })
    const hold = await clock.until(lock.lock({ leaseTimeMs: 1_000 }))
    assert.equal(hold.remainingMs(), 1_000 - 12 - 500)
    await hold.unlock()
  })

  it('that is aborted in flight leaves nothing, and its late grant goes to nobody', async () => {
    port.once('lock/acquire', { requestMs: 100, replyMs: 400 })
    const controller = new AbortController()
    const taking = lock.lock({ signal: controller.signal })
    await clock.advance(50)
    controller.abort('enough')
    await assert.rejects(taking, (reason) => reason === 'enough')
    await clock.advance(1_000)
    assert.deepEqual(redis.keys, [])
  })

  it('that Redis refuses by an error takes nothing, and is not repeated', async () => {
    port.once('lock/acquire', { errorReply: 'WRONGTYPE Operation against a key holding the wrong kind of value' })
    await assert.rejects(clock.until(lock.lock()), /WRONGTYPE/)
    await clock.advance(1_000)
    assert.deepEqual(
      port.sent.map(({ name }) => name),
      ['lock/acquire'],
    )
  })
})

describe('a release', () => {
  it('is repeated until it is answered, for as long as a command may take', async () => {
    const hold = await lock.lock()
    port.once('lock/release-queued', { lost: 'request', failsWith: 'Connection is closed' })
    port.once('lock/release-queued', { errorReply: 'BUSY Redis is busy running a script' })
    await clock.until(hold.unlock())
    assert.equal(port.count('lock/release-queued'), 3)
    assert.deepEqual(redis.keys, [])
  })

  it('that was done but not answered counts as done when it is found so', async () => {
    const hold = await lock.lock()
    port.once('lock/release-queued', { failsWith: 'Connection is closed' })
    await clock.until(hold.unlock())
    assert.equal(port.count('lock/release-queued'), 2)
    assert.equal(hold.signal.aborted, false)
  })

  it('that the Redis client sent twice counts as done', async () => {
    const hold = await lock.lock()
    port.once('lock/release-queued', { resentMs: 100 })
    await clock.until(hold.unlock())
    assert.equal(hold.signal.aborted, false)
  })

  it('that is never answered is unknown in time, and goes on in the background', async () => {
    const hold = await lock.lock()
    const startedAt = clock.now()
    port.once('lock/release-queued', { lost: 'request' })
    await assert.rejects(clock.until(hold.unlock()), NO_ANSWER)
    assert.equal(clock.now() - startedAt, COMMAND_TIMEOUT_MS)
    await turn()
    assert.deepEqual(redis.keys, [])
  })

  it('that finds nothing although it was sent once comes too late', async () => {
    const hold = await lock.lock()
    redis.flush()
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert.equal(hold.signal.aborted, true)
  })

  it('of an inner hold that finds the lock gone loses the outer hold too', async () => {
    const outer = await lock.lock()
    const inner = await lock.lock({ within: outer })
    redis.flush()
    await assert.rejects(inner.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert.equal(port.count('lock/release-one'), 1)
    assert.equal(outer.signal.aborted, true)
    await assert.rejects(outer.unlock(), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
  })

  it('after lease() is repeated in the background as long as that lease may last', async () => {
    const hold = await lock.lock()
    await (hold.lease as Lease).lease(hold.members[0] as Hold, 50_000)
    port.fault = ({ name }) => (name.startsWith('lock/release') ? { lost: 'request' } : undefined)
    await assert.rejects(clock.until(hold.unlock()), NO_ANSWER)
    await clock.advance(38_000)
    port.fault = () => undefined
    assert.equal(redis.pttl('a') > 5_000, true)
    await clock.advance(6_000)
    assert.deepEqual(redis.keys, [])
  })

  it('after an attempt without a reply is sent again, because a copy of that attempt may arrive later', async () => {
    port.once('lock/acquire', { requestMs: 5_000, failsWith: 'Connection is closed' })
    const hold = await clock.until(lock.lock({ leaseTimeMs: 20_000 }))
    await hold.unlock()
    assert.deepEqual(redis.keys, [])
    await clock.advance(5_000 + 1)
    await clock.advance(5_000)
    assert.deepEqual(redis.keys, [], 'what the copy took is released')
  })

  it('wakes a waiter in another process at once', async () => {
    const hold = await lock.lock()
    const waiting = other.getLock('a').lock()
    await clock.advance(1_000)
    await hold.unlock()
    const startedAt = clock.now()
    await (await clock.until(waiting)).unlock()
    assert.equal(clock.now(), startedAt)
  })
})

describe('a waiter', () => {
  it('that leaves takes its client out of the turn queue', async () => {
    const hold = await other.getLock('a').lock()
    const abort = new AbortController()
    const waiting = lock.lock({ signal: abort.signal })
    const timed = lock.tryLock({ waitTimeMs: 1_000 })
    await clock.advance(500)
    assert.equal(redis.tickets(turnQueueKey('a')).length, 1)
    abort.abort(new Error('enough'))
    await assert.rejects(waiting, /enough/)
    await clock.advance(0)
    assert.equal(redis.tickets(turnQueueKey('a')).length, 1, 'somebody else of the client still waits')
    assert.equal(await clock.until(timed), null)
    await clock.advance(0)
    assert.deepEqual(redis.tickets(turnQueueKey('a')), [])
    await hold.unlock()
  })

  it('is not held up by one for another lock that has the same channel', async () => {
    const [plain, braced] = [await other.getLock('a').lock(), await other.getLock('{a}').lock()]
    const [first, second] = [lock.lock(), client.getLock('{a}').lock()]
    await clock.advance(1_000)
    await braced.unlock()
    await (await clock.until(second, 1_000)).unlock()
    await plain.unlock()
    await (await clock.until(first)).unlock()
  })
})

describe('forceUnlock()', () => {
  it('ends what this client holds, and not what it takes right after', async () => {
    const hold = await lock.lock()
    const [wasHeld, next] = await Promise.all([lock.forceUnlock(), lock.lock()])
    assert.equal(wasHeld, true)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST', reason: 'forced' })
    assertSafe(next)
    await next.unlock()
  })
})

describe('re-entries', () => {
  it('at the same time count each, and the last release of any order frees the lock', async () => {
    const outer = await lock.lock()
    port.fault = () => ({ requestMs: 5, replyMs: 5 })
    const inner = await clock.until(Promise.all([1, 2, 3].map(() => lock.lock({ within: outer }))))
    assert.equal(outer.count, 4)
    assert.equal(countInRedis(outer), 4)
    await clock.until(Promise.all([outer.unlock(), inner[1]?.unlock()]))
    assert.equal(countInRedis(outer), 2)
    await clock.until(Promise.all([inner[0]?.unlock(), inner[2]?.unlock()]))
    assert.deepEqual(redis.keys, [])
  })

  it('and releases at the same time leave the right count', async () => {
    const outer = await lock.lock()
    let inner = await lock.lock({ within: outer })
    port.fault = () => ({ requestMs: 5, replyMs: 5 })
    for (let round = 0; round < 5; round++) {
      const [next] = await clock.until(Promise.all([lock.lock({ within: outer }), inner.unlock()]))
      assert.deepEqual([outer.count, countInRedis(outer)], [2, 2])
      inner = next
    }
    await clock.until(Promise.all([inner.unlock(), outer.unlock()]))
  })

  it('whose answer was lost count once', async () => {
    const outer = await lock.lock()
    port.once('lock/reenter', { lost: 'reply' })
    port.once('lock/reenter', { resentMs: 10 })
    const inner = await clock.until(lock.lock({ within: outer }))
    assert.equal(countInRedis(outer), 2)
    await inner.unlock()
    assert.equal(countInRedis(outer), 1)
    await outer.unlock()
  })

  it('that were aborted in flight count for nothing', async () => {
    const outer = await lock.lock()
    port.once('lock/reenter', { requestMs: 100, replyMs: 100 })
    const controller = new AbortController()
    const taking = lock.lock({ within: outer, signal: controller.signal })
    await turn()
    controller.abort('enough')
    await assert.rejects(taking, (reason) => reason === 'enough')
    await clock.advance(300)
    assert.equal(outer.count, 1)
    assert.equal(countInRedis(outer), 1)
    await outer.unlock()
  })

  it('fail when the lock is gone, and the outer hold is lost with them', async () => {
    const outer = await lock.lock()
    redis.flush()
    await assert.rejects(clock.until(lock.lock({ within: outer })), { code: 'LOCK_LEASE_LOST', reason: 'gone' })
    assert.equal(outer.signal.aborted, true)
  })

  it('keep what they were promised while a renewal overtakes them', async () => {
    const outer = await lock.lock()
    await clock.advance(9_950)
    port.once('lock/reenter', { requestMs: 20, replyMs: 100 })
    const taking = lock.lock({ within: outer, leaseTimeMs: 600_000 })
    await clock.advance(60)
    assert.equal(port.count('lock/renew'), 1)
    const inner = await clock.until(taking)
    assert(redis.pttl('a') >= inner.remainingMs())
    await inner.unlock()
    await outer.unlock()
  })
})

describe('a lease', () => {
  it('that a re-entry was granted is not cut by a renewal that was sent before and had to be repeated', async () => {
    redis.forgetScripts()
    const outer = await lock.lock({ leaseTimeMs: 5_000 })
    await (await clock.until(lock.lock({ within: outer }))).unlock()
    await clock.advance(4_000)
    port.fault = () => ({ requestMs: 5, replyMs: 5 })
    port.reconnect() // asks about all holds, by a script that Redis does not know yet
    await clock.advance(2)
    const inner = await clock.until(lock.lock({ within: outer, leaseTimeMs: 60_000 }))
    assert.equal(port.count('lock/renew'), 2)
    await clock.advance(2_000)
    assertSafe(inner)
    await clock.until(inner.unlock())
  })
})

describe('a scope', () => {
  it('takes a lock again as the same owner', async () => {
    await client.runInScope(async () => {
      const first = await lock.lock()
      await lock.unlock()
      const second = await lock.lock()
      assert.equal(second.holder, first.holder)
      await lock.unlock()
    })
  })

  it('takes it as another owner while a release of the first may still be on its way', async () => {
    await client.runInScope(async () => {
      await lock.lock()
      port.once('lock/release-queued', { requestMs: 10_000, failsWith: 'Connection is closed' })
      await clock.until(lock.unlock())
      const second = await lock.lock()
      await clock.advance(11_000)
      assertSafe(second)
      await lock.unlock()
    })
  })

  it('takes it as another owner after a release that is unknown', async () => {
    await client.runInScope(async () => {
      await lock.lock({ leaseTimeMs: 10_000 })
      port.fault = () => ({ lost: 'request' })
      await assert.rejects(clock.until(lock.unlock()), NO_ANSWER)
      port.fault = () => undefined
      const second = await clock.until(lock.lock())
      await clock.advance(10_000)
      assertSafe(second)
      await lock.unlock()
    })
  })

  it('keeps its lease although an attempt of an earlier hold arrives late', async () => {
    await client.runInScope(async () => {
      port.once('lock/acquire', { requestMs: 8_000 })
      await clock.until(lock.lock({ leaseTimeMs: 5_000 }))
      await lock.unlock()
      const second = await lock.lock({ leaseTimeMs: 60_000 })
      await clock.advance(20_000)
      assertSafe(second)
      await lock.unlock()
    })
  })

  it('takes it as another owner after a hold was lost, which may be released later', async () => {
    await client.runInScope(async () => {
      const first = await lock.lock({ leaseTimeMs: 1_000 })
      await clock.advance(1_000)
      const second = await lock.lock()
      await assert.rejects(first.unlock(), { code: 'LOCK_LEASE_LOST' })
      await turn()
      assertSafe(second)
      await lock.unlock()
    })
  })

  it('does not take it beside the one it was handed over to', async () => {
    await client.runInScope(async () => {
      const holder = (await lock.lock()).handOver()
      assert.equal(await lock.tryLock(), null)
      const adopted = await other.adopt('a', holder)
      assert.equal(await lock.tryLock(), null)
      await adopted.unlock()
    })
  })

  it('re-enters what a withLock in it still holds, or waits for it; it never takes it a second time', async () => {
    await client.runInScope(async () => {
      const outer = await lock.lock()
      const body = lock.withLock(async (hold) => {
        await pause(100)
        assertSafe(hold)
      })
      await turn()
      await outer.unlock()
      const again = await lock.tryLock()
      await again?.unlock()
      await clock.until(body)
    })
  })

  it('has siblings that take the same lock at the same time exclude each other', async () => {
    await client.runInScope(async () => {
      const taken = await clock.until(Promise.all([lock.tryLock(), lock.tryLock(), lock.tryLock()]))
      assert.equal(taken.filter((hold) => hold !== null).length, 1)
      await lock.unlock()
    })
  })
})

describe('adopt()', () => {
  it('goes on with a hold that was handed over, without a moment in which the lock is free', async () => {
    const hold = await lock.lock()
    const holder = hold.handOver()
    const adopted = await other.adopt('a', holder)
    assert.equal(await lock.tryLock(), null)
    assertSafe(adopted)
    await clock.advance(60_000)
    assertSafe(adopted)
    await adopted.unlock()
  })

  it('that Redis did not answer frees what it may have taken over', async () => {
    const holder = (await other.getLock('a').lock()).handOver()
    port.once('lock/adopt', { lost: 'reply' })
    await assert.rejects(clock.until(client.adopt('a', holder)), NO_ANSWER)
    await turn()
    assert.deepEqual(redis.keys, [])
  })

  it('is for one only', async () => {
    const holder = (await lock.lock()).handOver()
    const [first, second] = await Promise.allSettled([client.adopt('a', holder), other.adopt('a', holder)])
    assert(first.status === 'fulfilled' && second.status === 'rejected')
    assert.equal(second.reason.code, 'LOCK_NOT_HELD')
    await first.value.unlock()
  })
})

describe('close()', () => {
  it('frees what is held, sends waiters away, and leaves no timer', async () => {
    const hold = await lock.lock()
    await other.getLock('b').lock()
    const waiting = assert.rejects(client.getLock('b').lock(), { code: 'LOCK_CLIENT_CLOSED', lockName: 'b' })
    await clock.advance(1_000)
    await clock.until(client.close())
    await waiting
    assert.equal(hold.signal.aborted, true)
    assert.deepEqual(redis.keys, ['b'])
    assert.equal(port.isClosed, true)
    await assert.rejects(lock.lock(), { code: 'LOCK_CLIENT_CLOSED' })
  })

  it('gives back what is granted meanwhile', async () => {
    port.fault = () => ({ requestMs: 500, replyMs: 500 })
    const taking = assert.rejects(lock.lock(), { code: 'LOCK_CLIENT_CLOSED' })
    await turn()
    await clock.until(client.close())
    await taking
    assert.deepEqual(redis.keys, [])
  })

  it('waits for a release that is being repeated', async () => {
    const hold = await lock.lock()
    port.once('lock/release-queued', { lost: 'request', failsWith: 'Connection is closed' })
    const releasing = hold.unlock()
    await turn()
    await clock.until(client.close())
    assert.deepEqual(redis.keys, [])
    await clock.until(releasing)
  })

  it('ends although Redis is silent', async () => {
    await lock.lock({ leaseTimeMs: 10_000 })
    port.fault = () => ({ lost: 'request' })
    const startedAt = clock.now()
    await clock.until(client.close())
    assert(clock.now() - startedAt <= 2 * COMMAND_TIMEOUT_MS, `after ${clock.now() - startedAt} ms`)
    await clock.advance(10_000)
  })

  it('lets holds go on for drainMs, and is cut by a second call', async () => {
    const [brief, long] = [await lock.lock(), await client.getLock('b').lock()]
    const closing = client.close({ drainMs: 60_000 })
    await clock.advance(5_000)
    brief.assertHeld()
    await brief.unlock()
    long.assertHeld()
    await clock.until(client.close())
    assert.equal(long.signal.aborted, true)
    await closing
  })
})

describe('a channel that Redis refuses', () => {
  it('is told once, and its waiters are served all the same', async () => {
    const warnings: Error[] = []
    client.on('warning', (warning) => warnings.push(warning))
    port.fault = ({ name }) =>
      name === 'SUBSCRIBE' ? { errorReply: 'NOPERM No permissions to access a channel' } : undefined
    for (let round = 0; round < 3; round++) {
      const foreign = await other.getLock('a').lock()
      const waiting = lock.lock()
      await clock.advance(1_000)
      await foreign.unlock()
      await (await clock.until(waiting)).unlock()
    }
    assert.deepEqual(
      warnings.map(({ message }) => /holdfast_inbox:/.test(message)),
      [true],
    )
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
    const send = port.send.bind(port)
    const cycle = async (): Promise<void> => await (await lock.lock()).unlock()
    const bare = async (): Promise<unknown> => [await port.send([], ''), await port.send([], '')]
    await cycle()
    await turn() // the test runner has promises, too
    const replies = [null, 1]
    port.send = async () => replies.shift()
    const ofCycle = await promisesOf(cycle)
    const ofPort = await promisesOf(bare)
    port.send = send
    assert.deepEqual(replies, [])
    assert.equal(ofCycle - ofPort, 26)
  })
})
