/** The values of a multi-lock of values, each by itself. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { setUpFixture } from '../support/fixture.js'
import { recordMessages } from '../support/key-contents.js'
import { renewed } from '../support/renewed.js'
import { listening, WOKEN_MS } from '../support/subscribers.js'
import { sleep, waitUntil } from '../support/wait-until.js'

/** Each test shows that a known defect of Redisson’s RedissonFasterMultiLock does not occur here. */
describe('the values of a faster multi-lock', () => {
  const fixture = setUpFixture()

  it('a faster multi-lock that lost some values releases the rest, wakes their waiters, and notifies the holder', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await client.getFasterMultiLock('order', ['a', 'b']).lock()
    await other.getFasterMultiLock('order', ['a']).forceUnlock()
    const waiting = other.getFasterMultiLock('order', ['b']).lock({ waitTimeMs: WOKEN_MS })
    await listening(fixture)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    await (await waiting).unlock()
    assert.equal(await fixture.server.admin.exists('order'), 0)
  })

  it('each value of a faster multi-lock is held or free independently of the rest of the group', async () => {
    const client = await fixture.connect()
    const [first, second] = ['a', 'b'].map((value) => client.getFasterMultiLock('order', [value]))
    assert.ok(first && second)
    await client.runInScope(async () => {
      await first.lock()
      assert.equal(await first.isLocked(), true)
      assert.equal(await first.isHeldByCurrentOwner(), true)
      assert.equal(await second.isLocked(), false)
      assert.equal(await second.isHeldByCurrentOwner(), false)
      assert.equal(await client.getFasterMultiLock('order', ['b', 'a']).isLocked(), true)
      await first.unlock()
    })
  })

  it('a forced release of a faster multi-lock frees the locked values even if others are free, and returns true', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const hold = await client.getFasterMultiLock('order', ['b', 'c']).lock()
    assert.equal(await other.getFasterMultiLock('order', ['a', 'b', 'c']).forceUnlock(), true)
    assert.equal(await other.getFasterMultiLock('order', ['a', 'b', 'c']).forceUnlock(), false)
    assert.equal(await fixture.server.admin.exists('order'), 0)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
  })

  it('the remains of an expired owner of a faster multi-lock add to no hold count and are removed', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const lock = client.getFasterMultiLock('order', ['a'])
    const keepsTheGroup = await other.getFasterMultiLock('order', ['z']).lock()
    // For this client it is over before it is for Redis: the release finds what was left, however slow the machine is.
    const terms = { leaseTimeMs: 30_000, maxHoldMs: 300 }
    const hold = await lock.lock(terms)
    const again = await lock.lock({ within: hold, ...terms })
    const fields = Object.keys(await fixture.server.admin.hgetall('order')).filter((field) =>
      field.includes(hold.holder),
    )
    assert.equal(fields.length, 2) // when its lease ends, and its count
    await waitUntil(() => hold.signal.aborted && again.signal.aborted)

    // As Redisson takes it over: it leaves these where they are.
    const value = String(fields[0]?.split(':')[0])
    await fixture.server.admin.hset('order', value, keepsTheGroup.holder)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    await waitUntil(async () => {
      const left = Object.keys(await fixture.server.admin.hgetall('order'))
      return !left.some((field) => field.includes(hold.holder)) && left.includes(value)
    })
    await fixture.server.admin.hdel('order', value)
    await keepsTheGroup.unlock()
  })

  it('a faster multi-lock acquired after a wait has a full lease and is renewed', async () => {
    const [client, other] = [await fixture.connect({ lockWatchdogTimeoutMs: 2_400 }), await fixture.connect()]
    const busy = await other.getFasterMultiLock('order', ['a']).lock()
    const waiting = client.getFasterMultiLock('order', ['a', 'b']).lock({ waitTimeMs: 10_000 })
    await listening(fixture)
    await busy.unlock()
    const hold = await waiting
    await renewed([hold])
    assert.equal(await hold.isHeld(), true)
    assert.equal(await other.getFasterMultiLock('order', ['b']).tryLock(), null)
    await hold.unlock()
  })

  it('a release of values wakes the waiters for these values, whoever else of the group waits', async () => {
    const clients = [await fixture.connect(), await fixture.connect(), await fixture.connect()] as const
    const a = await clients[0].getFasterMultiLock('order', ['a']).lock()
    const b = await clients[0].getFasterMultiLock('order', ['b']).lock()
    const waitsForA = clients[1].getFasterMultiLock('order', ['a']).lock()
    await listening(fixture)
    const waitsForB = [1, 2].map((n) => clients[n]?.getFasterMultiLock('order', ['b']).lock({ waitTimeMs: WOKEN_MS }))
    await sleep(200)
    await b.unlock()
    await Promise.all(waitsForB.map(async (waiting) => await (await waiting)?.unlock()))
    await a.unlock()
    await (await waitsForA).unlock()
  })

  it('for a faster multi-lock clock skew does not matter, an abort ends a wait, and a release of nothing publishes nothing', async (t) => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const lock = other.getFasterMultiLock('order', ['a'])
    const hold = await client.getFasterMultiLock('order', ['a']).lock()
    const now = Date.now
    t.mock.method(Date, 'now', () => now() + 3_600_000)
    assert.equal(await lock.tryLock(), null)
    t.mock.restoreAll()

    const abort = new AbortController()
    const waiting = lock.lock({ signal: abort.signal })
    await listening(fixture)
    abort.abort(new Error('enough'))
    await assert.rejects(waiting, /enough/)

    await fixture.server.admin.del('order')
    const messages = await recordMessages(fixture)
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    assert.deepEqual(await messages(), [])
  })

  it('an acquire or release of a faster multi-lock is safely repeated when its reply is lost', async () => {
    const { client, proxy } = await fixture.connectThroughProxy()
    const lock = client.getFasterMultiLock('order', ['a', 'b'])
    await lock.withLock(() => {})
    proxy.dropNextReply((request) => request.startsWith('EVALSHA'))
    const hold = await lock.lock()
    await proxy.dropped
    const counts = Object.entries(await fixture.server.admin.hgetall('order')).filter(([field]) =>
      /:lock_count$/.test(field),
    )
    assert.deepEqual(
      counts.map(([, count]) => count),
      ['1', '1'],
    )
    proxy.dropNextReply((request) => request.startsWith('EVALSHA'))
    await hold.unlock()
    await proxy.dropped
    assert.equal(await fixture.server.admin.exists('order'), 0)
  })
})
