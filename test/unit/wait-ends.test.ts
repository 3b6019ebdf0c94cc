/** How a wait ends without the lock: its deadline, and an abort. */
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { tryOnce } from '../../src/waiting/wait-loop.js'
import { turn } from '../support/fakes/fake-clock.js'
import { CHANNEL, TransientError, WaitFixture } from '../support/fakes/wait-fixture.js'

let fixture: WaitFixture

beforeEach(() => {
  fixture = new WaitFixture()
})

afterEach(() => fixture.expectNothingLeft())

describe('the deadline of a wait', () => {
  it('the deadline of a wait ends it without the lock, and without another attempt', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const startedAt = fixture.clock.now()
    const waiting = fixture.start('me', { waitTimeMs: 1_000 })
    await fixture.clock.advance(999)
    assert.equal(waiting.at, undefined)
    await fixture.clock.until(waiting.promise)
    assert.equal(waiting.value, undefined)
    assert.equal((waiting.at ?? 0) - startedAt, 1_000)
  })

  it('the deadline of a wait is one point in time, however the wait is spent', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const startedAt = fixture.clock.now()
    const waiting = fixture.start('me', { waitTimeMs: 10_000 })
    for (let second = 0; second < 9; second++) {
      fixture.attemptMs = second * 100
      fixture.port.redis.publish(CHANNEL, '0')
      await fixture.clock.advance(1_000)
    }
    fixture.attemptMs = 0
    await fixture.clock.until(waiting.promise)
    assert.equal((waiting.at ?? 0) - startedAt, 10_000)
  })

  it('the deadline of a wait allows a last attempt when the lease of the holder ends at that moment', async () => {
    fixture.takenUntil = fixture.clock.now() + 1_000
    const waiting = fixture.start('me', { waitTimeMs: 1_000 })
    await fixture.clock.until(waiting.promise)
    assert.equal(waiting.value, 'me')
  })

  it('the deadline of a wait waits for the attempt in flight, and resolves to its late grant', async () => {
    fixture.attemptMs = 2_000
    const startedAt = fixture.clock.now()
    const waiting = fixture.start('me', { waitTimeMs: 1_000 })
    await fixture.clock.until(waiting.promise)
    assert.equal(waiting.value, 'me')
    assert.equal((waiting.at ?? 0) - startedAt, 2_000)
    assert.deepEqual(fixture.undone, [])
  })

  it('the deadline of a wait waits for the attempt in flight, and ends with its late refusal or error', async () => {
    fixture.attemptMs = 2_000
    fixture.takenUntil = Number.POSITIVE_INFINITY
    assert.equal(await fixture.clock.until(fixture.start('me', { waitTimeMs: 1_000 }).promise), undefined)
    fixture.failure = new TransientError('no reply')
    await assert.rejects(fixture.clock.until(fixture.start('me', { waitTimeMs: 1_000 }).promise), fixture.failure)
    assert.equal(fixture.attempts.length, 2)
  })

  it('the deadline of a wait is checked first after a pause of the process', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const waiting = fixture.start('me', { waitTimeMs: 1_000 })
    await turn()
    const before = fixture.attempts.length
    fixture.clock.block(10_000)
    await fixture.clock.advance(0)
    assert.equal(waiting.value, undefined)
    assert(fixture.attempts.length <= before + 1)
  })

  it('the deadline of a wait ends a wait in the middle of the wait queue, which made no attempt', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const head = fixture.start('head')
    const waiting = fixture.start('me', { waitTimeMs: 1_000 })
    assert.equal(await fixture.clock.until(waiting.promise), undefined)
    assert(fixture.attempts.every(({ caller }) => caller === 'head'))
    await fixture.end(head)
  })
})

describe('an abort', () => {
  const reason = new Error('the user went away')

  it('an abort ends a wait before it began', async () => {
    await assert.rejects(fixture.start('me', { signal: AbortSignal.abort(reason) }).promise, reason)
    await assert.rejects(tryOnce(fixture.waitOf('me', { signal: AbortSignal.abort(reason) }), fixture.tools), reason)
    assert.equal(fixture.attempts.length, 0)
  })

  it('an abort ends a sleep at once, with its reason', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const controller = new AbortController()
    const waiting = fixture.start('me', { signal: controller.signal })
    await fixture.clock.advance(1_000)
    controller.abort(reason)
    await turn()
    assert.equal(waiting.value, reason)
  })

  it('an abort without a reason ends a wait with the AbortError of the platform', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const controller = new AbortController()
    const waiting = fixture.start('me', { signal: controller.signal })
    await turn()
    controller.abort()
    await assert.rejects(waiting.promise, { name: 'AbortError' })
  })

  it('an abort does not wait for an attempt in flight, and undoes its late grant', async () => {
    fixture.attemptMs = 1_000
    const controller = new AbortController()
    const waiting = fixture.start('me', { signal: controller.signal })
    await fixture.clock.advance(500)
    controller.abort(reason)
    await turn()
    assert.equal(waiting.value, reason)
    assert.deepEqual(fixture.undone, [])
    await fixture.clock.advance(500)
    assert.deepEqual(fixture.undone, ['me'])
  })

  it('an abort ignores how an attempt in flight fails', async () => {
    fixture.attemptMs = 1_000
    fixture.failure = new Error('WRONGTYPE')
    const controller = new AbortController()
    const waiting = fixture.start('me', { signal: controller.signal })
    await turn()
    controller.abort(reason)
    await fixture.clock.advance(1_000)
    assert.equal(waiting.value, reason)
  })

  it('an abort ends a back-off at once', async () => {
    fixture.failure = new TransientError('no reply')
    const controller = new AbortController()
    const waiting = fixture.start('me', { signal: controller.signal })
    await fixture.clock.advance(3_000)
    controller.abort(reason)
    await turn()
    assert.equal(waiting.value, reason)
  })

  it('an abort is ignored once the lock is granted', async () => {
    const controller = new AbortController()
    const waiting = fixture.start('me', { signal: controller.signal })
    assert.equal(await fixture.clock.until(waiting.promise), 'me')
    controller.abort(reason)
    await turn()
    assert.deepEqual(fixture.undone, [])
  })

  it('an abort is not listened for once the wait has ended', async () => {
    const { signal } = new AbortController()
    assert.equal(await fixture.clock.until(fixture.start('me', { signal }).promise), 'me')
    assert.deepEqual(getEventListeners(signal, 'abort'), [])
    assert.equal(await fixture.clock.until(fixture.start('another', { signal, waitTimeMs: 100 }).promise), undefined)
    assert.deepEqual(getEventListeners(signal, 'abort'), [])
  })

  it('an abort of one signal ends a thousand waits, by one listener', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const controller = new AbortController()
    const waits = Array.from({ length: 1_000 }, (_, n) => fixture.start(`${n}`, { signal: controller.signal }))
    assert.equal(getEventListeners(controller.signal, 'abort').length, 1)
    await turn()
    controller.abort(reason)
    await turn()
    assert(waits.every(({ value }) => value === reason))
  })
})
