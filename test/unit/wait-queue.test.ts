/** The waiters of one client for one lock, first come first served. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type Attempt, waitFor } from '../../src/waiting/wait-loop.js'
import { turn } from '../support/fakes/fake-clock.js'
import { CHANNEL, WaitFixture } from '../support/fakes/wait-fixture.js'

let fixture: WaitFixture

beforeEach(() => {
  fixture = new WaitFixture()
})

afterEach(() => fixture.expectNothingLeft())

describe('a wait queue', () => {
  it('a wait queue of a thousand has one subscription, and only its head makes attempts', async () => {
    fixture.takenUntil = fixture.clock.now() + 60_000
    const waits = Array.from({ length: 1_000 }, (_, n) => fixture.start(`${n}`, { waitTimeMs: 50_000 }))
    await fixture.clock.advance(10_000)
    assert.equal(fixture.port.count('SUBSCRIBE'), 1)
    assert(
      fixture.attempts.every(({ caller }) => caller === '0'),
      'only the head makes attempts',
    )
    assert(fixture.attempts.length <= 5, `${fixture.attempts.length} attempts in 10 s`)
    for (const [n, wait] of waits.entries()) {
      fixture.release()
      await turn()
      assert.equal(wait.value, `${n}`, 'first come first served')
    }
    assert(fixture.attempts.length <= 1_005, `${fixture.attempts.length} attempts for 1,000 grants`)
    assert.equal(fixture.port.count('SUBSCRIBE'), 1)
  })

  it('a wait queue makes the next waiter try at once when the head is aborted', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const controller = new AbortController()
    const head = fixture.start('head', { signal: controller.signal })
    const next = fixture.start('next')
    await fixture.clock.advance(1_000)
    const at = fixture.clock.now()
    controller.abort()
    await turn()
    assert.deepEqual(fixture.attempts.at(-1), { caller: 'next', at })
    await fixture.end(head, next)
  })

  it('a wait queue makes the next waiter try at once when the wait time of the head ends', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const head = fixture.start('head', { waitTimeMs: 1_000 })
    const next = fixture.start('next')
    await fixture.clock.until(head.promise)
    assert.deepEqual(fixture.attempts.at(-1), { caller: 'next', at: fixture.clock.now() })
    await fixture.end(next)
  })

  it('a wait queue makes the next waiter try at once when the head fails', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const head = fixture.start('head')
    const next = fixture.start('next')
    await turn()
    fixture.failure = new Error('NOPERM')
    fixture.port.redis.publish(CHANNEL, '0')
    await assert.rejects(fixture.clock.until(head.promise), fixture.failure)
    await assert.rejects(fixture.clock.until(next.promise), fixture.failure)
  })

  it('a wait queue skips waiters that have left', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const controller = new AbortController()
    const head = fixture.start('head')
    const middle = fixture.start('middle', { signal: controller.signal })
    const last = fixture.start('last')
    await turn()
    controller.abort()
    fixture.release()
    assert.equal(await fixture.clock.until(head.promise), 'head')
    fixture.release()
    assert.equal(await fixture.clock.until(last.promise), 'last')
    await fixture.end(middle)
  })

  it('a wait queue makes no attempt after a grant until it is woken', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const head = fixture.start('head')
    const next = fixture.start('next')
    await fixture.clock.advance(1_000)
    fixture.release()
    assert.equal(await fixture.clock.until(head.promise), 'head')
    await fixture.clock.advance(4_000)
    assert.equal(fixture.attempts.at(-1)?.caller, 'head')
    fixture.release()
    assert.equal(await fixture.clock.until(next.promise), 'next')
  })

  it('a wait queue makes an attempt right after a grant that others can have, too', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const share = (caller: string) => waitFor({ ...fixture.waitOf(caller), isShared: true }, fixture.tools)
    const [head, next] = [share('head'), share('next')]
    await fixture.clock.advance(1_000)
    fixture.release()
    assert.equal(await fixture.clock.until(head), 'head')
    await turn()
    assert.deepEqual(fixture.attempts.at(-1), { caller: 'next', at: fixture.clock.now() })
    fixture.release()
    assert.equal(await fixture.clock.until(next), 'next')
  })

  it('a wait queue makes an attempt when the lease of a grant ends, if that is sooner than a poll', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const attempt = fixture.attemptOf('head')
    const run: Attempt<string>['run'] = async (caller) => {
      const outcome = await attempt.run(caller)
      if (outcome.is === 'granted') fixture.takenUntil = fixture.clock.now() + 2_000
      return outcome.is === 'granted' ? { ...outcome, leaseMs: 2_000 } : outcome
    }
    const head = waitFor({ ...fixture.waitOf('head'), attempt: { ...attempt, run } }, fixture.tools)
    const next = fixture.start('next')
    await fixture.clock.advance(1_000)
    fixture.release()
    assert.equal(await fixture.clock.until(head), 'head')
    const grantedAt = fixture.clock.now()
    await fixture.clock.until(next.promise)
    assert.deepEqual(
      fixture.attempts.filter(({ caller }) => caller === 'next').map(({ at }) => at - grantedAt),
      [2_001],
    )
  })

  it('a wait queue makes an attempt right after a grant if a message came during that attempt', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const head = fixture.start('head')
    const next = fixture.start('next')
    await fixture.clock.advance(1_000)
    fixture.attemptMs = 100
    fixture.release()
    await fixture.clock.advance(50)
    fixture.port.redis.publish(CHANNEL, '0')
    assert.equal(await fixture.clock.until(head.promise), 'head')
    await turn()
    assert.deepEqual(fixture.attempts.at(-1), { caller: 'next', at: fixture.clock.now() })
    await fixture.end(next)
    await fixture.clock.advance(100)
  })

  it('a wait queue asks right after a grant if not subscribed yet, as a release could be missed', async () => {
    const head = fixture.start('head')
    const next = fixture.start('next')
    assert.equal(await fixture.clock.until(head.promise), 'head')
    await turn()
    assert.deepEqual(
      fixture.attempts.map(({ caller }) => caller),
      ['head', 'next', 'next'],
    )
    await fixture.end(next)
  })

  it('a wait queue unsubscribes only when its last waiter leaves', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const [first, second] = [
      fixture.start('first', { waitTimeMs: 1_000 }),
      fixture.start('second', { waitTimeMs: 2_000 }),
    ]
    await fixture.clock.until(first.promise)
    assert.deepEqual(fixture.port.channels, [CHANNEL])
    await fixture.clock.until(second.promise)
    assert.deepEqual(fixture.port.channels, [])
  })

  it('a wait queue subscribes again when a waiter arrives during the unsubscription', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    fixture.port.once('SUBSCRIBE', { replyMs: 500 })
    const first = fixture.start('first', { waitTimeMs: 100 })
    await fixture.clock.until(first.promise)
    const second = fixture.start('second')
    await fixture.clock.advance(1_000)
    assert.equal(fixture.port.count('SUBSCRIBE'), 2)
    fixture.release()
    await turn()
    assert.equal(second.value, 'second')
  })

  it('a wait queue is not closed while somebody waits in it', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const waiting = fixture.start('me')
    await turn()
    fixture.tools.waitQueues.close()
    assert.deepEqual(fixture.port.channels, [CHANNEL])
    fixture.release()
    await turn()
    assert.equal(waiting.value, 'me')
  })

  it('a wait queue of a single waiter with a place of its own ends with its wait', async () => {
    const { clock, tools } = fixture
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const own = { leaveTurnQueue: () => {}, ownTicket: { number: '7', since: undefined } }
    const waiting = waitFor({ ...fixture.waitOf('one', { waitTimeMs: 500 }), ...own, channel: undefined }, tools)
    assert.equal(await clock.until(waiting), undefined)
    assert.equal(tools.waitQueues.at('a'), undefined)
  })

  it('a wait queue without a channel has a head that asks every 250 ms', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const wait = { ...fixture.waitOf('me'), channel: undefined }
    const waiting = waitFor(wait, fixture.tools)
    await fixture.clock.advance(10_000)
    assert(
      fixture.attempts.length >= 40 && fixture.attempts.length <= 46,
      `${fixture.attempts.length} attempts in 10 s`,
    )
    fixture.takenUntil = 0
    assert.equal(await fixture.clock.until(waiting), 'me')
    assert.equal(fixture.port.count('SUBSCRIBE'), 0)
  })

  it('a wait queue is dismissed as a whole when the client closes', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const waits = Array.from({ length: 10 }, (_, n) => fixture.start(`${n}`))
    await fixture.clock.advance(1_000)
    const before = fixture.attempts.length
    fixture.tools.waitQueues.dismissAll((lockName) => `closed, while waiting for ${lockName}`)
    await turn()
    assert(waits.every(({ value }) => value === 'closed, while waiting for a'))
    assert.equal(fixture.attempts.length, before)
  })
})
