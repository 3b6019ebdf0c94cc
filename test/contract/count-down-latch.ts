/** What a count-down latch promises, wherever Redis runs. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import type { SetUp } from '../support/fixture.js'
import { listening, somebodyPolls, WOKEN_MS } from '../support/subscribers.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

/** Call it inside a `describe`. */
export function latchContract(setUp: SetUp): void {
  const fixture = setUp()

  it('a latch is open until a count closes it, and opens when that is counted down', async () => {
    const latch = (await fixture.connect()).getCountDownLatch('a')
    const other = (await fixture.connect()).getCountDownLatch('a')
    assert.equal(latch.name, 'a')
    assert.equal(await latch.getCount(), 0)
    assert.equal(await latch.await(), true)
    assert.equal(await latch.trySetCount(2), true)
    assert.equal(await other.trySetCount(5), false)
    assert.equal(await latch.await({ waitTimeMs: 0 }), false)
    await other.countDown()
    assert.equal(await latch.getCount(), 1)
    assert.equal(await latch.await({ waitTimeMs: 50 }), false)
    await latch.countDown()
    assert.equal(await latch.getCount(), 0)
    assert.equal(await other.await({ waitTimeMs: 0 }), true)
    assert.equal(await other.await({ waitTimeMs: 5_000 }), true)
  })

  it('an open latch stays open however often it is counted down', async () => {
    const latch = (await fixture.connect()).getCountDownLatch('a')
    for (let n = 0; n < 3; n++) await latch.countDown()
    assert.equal(await latch.getCount(), 0)
    assert.equal(await latch.trySetCount(1), true)
    await latch.countDown()
    await latch.countDown()
    assert.equal(await latch.await(), true)
    assert.equal(await latch.trySetCount(1), true, 'it can be used again')
    assert.equal(await latch.delete(), true)
  })

  it('a latch releases all waiters at once, local and remote', async () => {
    const clients = [await fixture.connect(), await fixture.connect(), await fixture.connect()]
    const [latch] = clients.map((client) => client.getCountDownLatch('a'))
    assert(latch)
    await latch.trySetCount(2)
    const waiting = clients.flatMap((client) =>
      Array.from({ length: 3 }, () => client.getCountDownLatch('a').await({ waitTimeMs: 60_000 })),
    )
    const channel = 'redisson_countdownlatch__channel__{a}'
    const listeners = async () => (await fixture.server.admin.pubsub('NUMSUB', channel))[1] === 3
    if (fixture.isWaiting) await somebodyPolls(fixture)
    else await waitUntil(listeners)
    await latch.countDown()
    const outcome = await Promise.race([...waiting, sleep(50)])
    assert.equal(outcome, undefined, 'no waiter continues at 1')
    const openedAt = performance.now()
    await latch.countDown()
    assert.deepEqual(new Set(await Promise.all(waiting)), new Set([true]))
    assert(performance.now() - openedAt < WOKEN_MS, 'woken, not polling')
  })

  it('deleting a latch opens it for its waiters too', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const latch = client.getCountDownLatch('a')
    assert.equal(await latch.delete(), false)
    await latch.trySetCount(1_000)
    const waiting = other.getCountDownLatch('a').await()
    await listening(fixture)
    const deletedAt = performance.now()
    assert.equal(await latch.delete(), true)
    assert.equal(await waiting, true)
    assert(performance.now() - deletedAt < WOKEN_MS, 'woken, not polling')
  })

  it('a wait for a latch ends on time, or at once with the reason of its signal, and leaves nothing', async () => {
    const latch = (await fixture.connect()).getCountDownLatch('a')
    await latch.trySetCount(1)
    const reason = new Error('the request was aborted')
    await assert.rejects(latch.await({ signal: AbortSignal.abort(reason) }), reason)
    const abort = new AbortController()
    const aborted = Array.from({ length: 20 }, () => settlesWithin(latch.await({ signal: abort.signal }), 5_000))
    const timed = latch.await({ waitTimeMs: 200, signal: abort.signal })
    const stays = latch.await()
    await listening(fixture)
    const askedAt = performance.now()
    assert.equal(await latch.await({ waitTimeMs: 100 }), false)
    assert(performance.now() - askedAt >= 98)
    assert.equal(await timed, false)
    abort.abort(reason)
    for (const outcome of await Promise.all(aborted)) assert.deepEqual(outcome, { status: 'rejected', reason })
    await listening(fixture, 1)
    await latch.countDown()
    assert.equal(await stays, true, 'the others wait on')
    await listening(fixture, 0)
  })

  it('a closing client rejects its waiters and refuses every later call', async () => {
    const [client, other] = [await fixture.connect(), await fixture.connect()]
    const latch = client.getCountDownLatch('a')
    await other.getCountDownLatch('a').trySetCount(1)
    const waiting = Array.from({ length: 100 }, () => settlesWithin(latch.await(), 5_000))
    await listening(fixture)
    await client.close()
    for (const outcome of await Promise.all(waiting)) {
      assert(outcome.status === 'rejected')
      assert.deepEqual([outcome.reason.code, outcome.reason.lockName], ['LOCK_CLIENT_CLOSED', 'a'])
    }
    for (const call of [
      () => latch.await(),
      () => latch.await({ waitTimeMs: 0 }),
      () => latch.trySetCount(1),
      () => latch.countDown(),
      () => latch.getCount(),
      () => latch.delete(),
    ]) {
      await assert.rejects(call, { code: 'LOCK_CLIENT_CLOSED' })
    }
    assert.equal(await other.getCountDownLatch('a').delete(), true)
  })
}
