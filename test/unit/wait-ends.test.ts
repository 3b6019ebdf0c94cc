/** How a wait ends without the lock: its deadline, and an abort. */
import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { tryOnce } from '../../src/waiting/wait-loop.js'
import { turn } from '../support/fakes/fake-clock.js'
import { CHANNEL, TransientError, WaitBench } from '../support/fakes/wait-bench.js'

let bench: WaitBench

beforeEach(() => {
  bench = new WaitBench()
})

afterEach(() => bench.expectNothingLeft())

describe('the deadline of a wait', () => {
  it('ends it without the lock, and without another attempt', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const startedAt = bench.clock.now()
    const waiting = bench.start('me', { waitTimeMs: 1_000 })
    await bench.clock.advance(999)
    assert.equal(waiting.at, undefined)
    await bench.clock.until(waiting.promise)
    assert.equal(waiting.value, undefined)
    assert.equal((waiting.at ?? 0) - startedAt, 1_000)
  })

  it('is one point in time, however the wait is spent', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const startedAt = bench.clock.now()
    const waiting = bench.start('me', { waitTimeMs: 10_000 })
    for (let second = 0; second < 9; second++) {
      bench.attemptMs = second * 100
      bench.port.redis.publish(CHANNEL, '0')
      await bench.clock.advance(1_000)
    }
    bench.attemptMs = 0
    await bench.clock.until(waiting.promise)
    assert.equal((waiting.at ?? 0) - startedAt, 10_000)
  })

  it('allows a last attempt when the lease of the holder ends at that moment', async () => {
    bench.takenUntil = bench.clock.now() + 1_000
    const waiting = bench.start('me', { waitTimeMs: 1_000 })
    await bench.clock.until(waiting.promise)
    assert.equal(waiting.value, 'me')
  })

  it('waits for the attempt in flight, and resolves to its late grant', async () => {
    bench.attemptMs = 2_000
    const startedAt = bench.clock.now()
    const waiting = bench.start('me', { waitTimeMs: 1_000 })
    await bench.clock.until(waiting.promise)
    assert.equal(waiting.value, 'me')
    assert.equal((waiting.at ?? 0) - startedAt, 2_000)
    assert.deepEqual(bench.undone, [])
  })

  it('waits for the attempt in flight, and ends with its late refusal or error', async () => {
    bench.attemptMs = 2_000
    bench.takenUntil = Number.POSITIVE_INFINITY
    assert.equal(await bench.clock.until(bench.start('me', { waitTimeMs: 1_000 }).promise), undefined)
    bench.failure = new TransientError('no reply')
    await assert.rejects(bench.clock.until(bench.start('me', { waitTimeMs: 1_000 }).promise), bench.failure)
    assert.equal(bench.attempts.length, 2)
  })

  it('is checked first after a pause of the process', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const waiting = bench.start('me', { waitTimeMs: 1_000 })
    await turn()
    const before = bench.attempts.length
    bench.clock.block(10_000)
    await bench.clock.advance(0)
    assert.equal(waiting.value, undefined)
    assert(bench.attempts.length <= before + 1)
  })

  it('ends a wait in the middle of the wait queue, which made no attempt', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const head = bench.start('head')
    const waiting = bench.start('me', { waitTimeMs: 1_000 })
    assert.equal(await bench.clock.until(waiting.promise), undefined)
    assert(bench.attempts.every(({ caller }) => caller === 'head'))
    await bench.end(head)
  })
})

describe('an abort', () => {
  const reason = new Error('the user went away')

  it('ends a wait before it began', async () => {
    await assert.rejects(bench.start('me', { signal: AbortSignal.abort(reason) }).promise, reason)
    await assert.rejects(tryOnce(bench.waitOf('me', { signal: AbortSignal.abort(reason) }), bench.tools), reason)
    assert.equal(bench.attempts.length, 0)
  })

  it('ends a sleep at once, with its reason', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const controller = new AbortController()
    const waiting = bench.start('me', { signal: controller.signal })
    await bench.clock.advance(1_000)
    controller.abort(reason)
    await turn()
    assert.equal(waiting.value, reason)
  })

  it('without a reason ends a wait with the AbortError of the platform', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const controller = new AbortController()
    const waiting = bench.start('me', { signal: controller.signal })
    await turn()
    controller.abort()
    await assert.rejects(waiting.promise, { name: 'AbortError' })
  })

  it('does not wait for an attempt in flight, and undoes its late grant', async () => {
    bench.attemptMs = 1_000
    const controller = new AbortController()
    const waiting = bench.start('me', { signal: controller.signal })
    await bench.clock.advance(500)
    controller.abort(reason)
    await turn()
    assert.equal(waiting.value, reason)
    assert.deepEqual(bench.undone, [])
    await bench.clock.advance(500)
    assert.deepEqual(bench.undone, ['me'])
  })

  it('ignores how an attempt in flight fails', async () => {
    bench.attemptMs = 1_000
    bench.failure = new Error('WRONGTYPE')
    const controller = new AbortController()
    const waiting = bench.start('me', { signal: controller.signal })
    await turn()
    controller.abort(reason)
    await bench.clock.advance(1_000)
    assert.equal(waiting.value, reason)
  })

  it('ends a back-off at once', async () => {
    bench.failure = new TransientError('no reply')
    const controller = new AbortController()
    const waiting = bench.start('me', { signal: controller.signal })
    await bench.clock.advance(3_000)
    controller.abort(reason)
    await turn()
    assert.equal(waiting.value, reason)
  })

  it('is ignored once the lock is granted', async () => {
    const controller = new AbortController()
    const waiting = bench.start('me', { signal: controller.signal })
    assert.equal(await bench.clock.until(waiting.promise), 'me')
    controller.abort(reason)
    await turn()
    assert.deepEqual(bench.undone, [])
  })

  it('is not listened for once the wait has ended', async () => {
    const { signal } = new AbortController()
    assert.equal(await bench.clock.until(bench.start('me', { signal }).promise), 'me')
    assert.deepEqual(getEventListeners(signal, 'abort'), [])
    assert.equal(await bench.clock.until(bench.start('another', { signal, waitTimeMs: 100 }).promise), undefined)
    assert.deepEqual(getEventListeners(signal, 'abort'), [])
  })

  it('of one signal ends a thousand waits, by one listener', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const controller = new AbortController()
    const waits = Array.from({ length: 1_000 }, (_, n) => bench.start(`${n}`, { signal: controller.signal }))
    assert.equal(getEventListeners(controller.signal, 'abort').length, 1)
    await turn()
    controller.abort(reason)
    await turn()
    assert(waits.every(({ value }) => value === reason))
  })
})
