/** The waiters of one client for one lock, first come first served. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type Attempt, waitFor } from '../../src/waiting/wait-loop.js'
import { turn } from '../support/fakes/fake-clock.js'
import { CHANNEL, WaitBench } from '../support/fakes/wait-bench.js'

let bench: WaitBench

beforeEach(() => {
  bench = new WaitBench()
})

afterEach(() => bench.expectNothingLeft())

describe('a wait queue', () => {
  it('of a thousand has one subscription, and only its head makes attempts', async () => {
    bench.takenUntil = bench.clock.now() + 60_000
    const waits = Array.from({ length: 1_000 }, (_, n) => bench.start(`${n}`, { waitTimeMs: 50_000 }))
    await bench.clock.advance(10_000)
    assert.equal(bench.port.count('SUBSCRIBE'), 1)
    assert(
      bench.attempts.every(({ caller }) => caller === '0'),
      'only the head makes attempts',
    )
    assert(bench.attempts.length <= 5, `${bench.attempts.length} attempts in 10 s`)
    for (const [n, wait] of waits.entries()) {
      bench.release()
      await turn()
      assert.equal(wait.value, `${n}`, 'first come first served')
    }
    assert(bench.attempts.length <= 1_005, `${bench.attempts.length} attempts for 1,000 grants`)
    assert.equal(bench.port.count('SUBSCRIBE'), 1)
  })

  it('makes the next waiter try at once when the head is aborted', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const controller = new AbortController()
    const head = bench.start('head', { signal: controller.signal })
    const next = bench.start('next')
    await bench.clock.advance(1_000)
    const at = bench.clock.now()
    controller.abort()
    await turn()
    assert.deepEqual(bench.attempts.at(-1), { caller: 'next', at })
    await bench.end(head, next)
  })

  it('makes the next waiter try at once when the wait time of the head ends', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const head = bench.start('head', { waitTimeMs: 1_000 })
    const next = bench.start('next')
    await bench.clock.until(head.promise)
    assert.deepEqual(bench.attempts.at(-1), { caller: 'next', at: bench.clock.now() })
    await bench.end(next)
  })

  it('makes the next waiter try at once when the head fails', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const head = bench.start('head')
    const next = bench.start('next')
    await turn()
    bench.failure = new Error('NOPERM')
    bench.port.redis.publish(CHANNEL, '0')
    await assert.rejects(bench.clock.until(head.promise), bench.failure)
    await assert.rejects(bench.clock.until(next.promise), bench.failure)
  })

  it('skips waiters that have left', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const controller = new AbortController()
    const head = bench.start('head')
    const middle = bench.start('middle', { signal: controller.signal })
    const last = bench.start('last')
    await turn()
    controller.abort()
    bench.release()
    assert.equal(await bench.clock.until(head.promise), 'head')
    bench.release()
    assert.equal(await bench.clock.until(last.promise), 'last')
    await bench.end(middle)
  })

  it('makes no attempt after a grant until it is woken', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const head = bench.start('head')
    const next = bench.start('next')
    await bench.clock.advance(1_000)
    bench.release()
    assert.equal(await bench.clock.until(head.promise), 'head')
    await bench.clock.advance(4_000)
    assert.equal(bench.attempts.at(-1)?.caller, 'head')
    bench.release()
    assert.equal(await bench.clock.until(next.promise), 'next')
  })

  it('makes an attempt right after a grant that others can have, too', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const share = (caller: string) => waitFor({ ...bench.waitOf(caller), isShared: true }, bench.tools)
    const [head, next] = [share('head'), share('next')]
    await bench.clock.advance(1_000)
    bench.release()
    assert.equal(await bench.clock.until(head), 'head')
    await turn()
    assert.deepEqual(bench.attempts.at(-1), { caller: 'next', at: bench.clock.now() })
    bench.release()
    assert.equal(await bench.clock.until(next), 'next')
  })

  it('makes an attempt when the lease of a grant ends, if that is sooner than a poll', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const attempt = bench.attemptOf('head')
    const run: Attempt<string>['run'] = async (caller) => {
      const outcome = await attempt.run(caller)
      if (outcome.is === 'granted') bench.takenUntil = bench.clock.now() + 2_000
      return outcome.is === 'granted' ? { ...outcome, leaseMs: 2_000 } : outcome
    }
    const head = waitFor({ ...bench.waitOf('head'), attempt: { ...attempt, run } }, bench.tools)
    const next = bench.start('next')
    await bench.clock.advance(1_000)
    bench.release()
    assert.equal(await bench.clock.until(head), 'head')
    const grantedAt = bench.clock.now()
    await bench.clock.until(next.promise)
    assert.deepEqual(
      bench.attempts.filter(({ caller }) => caller === 'next').map(({ at }) => at - grantedAt),
      [2_001],
    )
  })

  it('makes an attempt right after a grant if a message arrived during the attempt that was granted', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const head = bench.start('head')
    const next = bench.start('next')
    await bench.clock.advance(1_000)
    bench.attemptMs = 100
    bench.release()
    await bench.clock.advance(50)
    bench.port.redis.publish(CHANNEL, '0')
    assert.equal(await bench.clock.until(head.promise), 'head')
    await turn()
    assert.deepEqual(bench.attempts.at(-1), { caller: 'next', at: bench.clock.now() })
    await bench.end(next)
    await bench.clock.advance(100)
  })

  it('makes an attempt right after a grant if it is not subscribed yet, as a release could be missed', async () => {
    const head = bench.start('head')
    const next = bench.start('next')
    assert.equal(await bench.clock.until(head.promise), 'head')
    await turn()
    assert.deepEqual(
      bench.attempts.map(({ caller }) => caller),
      ['head', 'next', 'next'],
    )
    await bench.end(next)
  })

  it('unsubscribes only when its last waiter leaves', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const [first, second] = [bench.start('first', { waitTimeMs: 1_000 }), bench.start('second', { waitTimeMs: 2_000 })]
    await bench.clock.until(first.promise)
    assert.deepEqual(bench.port.channels, [CHANNEL])
    await bench.clock.until(second.promise)
    assert.deepEqual(bench.port.channels, [])
  })

  it('subscribes again when a waiter arrives during the unsubscription', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    bench.port.once('SUBSCRIBE', { replyMs: 500 })
    const first = bench.start('first', { waitTimeMs: 100 })
    await bench.clock.until(first.promise)
    const second = bench.start('second')
    await bench.clock.advance(1_000)
    assert.equal(bench.port.count('SUBSCRIBE'), 2)
    bench.release()
    await turn()
    assert.equal(second.value, 'second')
  })

  it('is not closed while somebody waits in it', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const waiting = bench.start('me')
    await turn()
    bench.tools.waitQueues.close()
    assert.deepEqual(bench.port.channels, [CHANNEL])
    bench.release()
    await turn()
    assert.equal(waiting.value, 'me')
  })

  it('without a channel has a head that asks every 250 ms', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const wait = { ...bench.waitOf('me'), channel: undefined }
    const waiting = waitFor(wait, bench.tools)
    await bench.clock.advance(10_000)
    assert(bench.attempts.length >= 40 && bench.attempts.length <= 46, `${bench.attempts.length} attempts in 10 s`)
    bench.takenUntil = 0
    assert.equal(await bench.clock.until(waiting), 'me')
    assert.equal(bench.port.count('SUBSCRIBE'), 0)
  })

  it('is dismissed as a whole when the client closes', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const waits = Array.from({ length: 10 }, (_, n) => bench.start(`${n}`))
    await bench.clock.advance(1_000)
    const before = bench.attempts.length
    bench.tools.waitQueues.dismissAll((lockName) => `closed, while waiting for ${lockName}`)
    await turn()
    assert(waits.every(({ value }) => value === 'closed, while waiting for a'))
    assert.equal(bench.attempts.length, before)
  })
})
