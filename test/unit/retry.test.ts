/** Repeated attempts, pauses and time limits. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { backoffMs } from '../../src/util/backoff.js'
import { retry } from '../../src/util/retry.js'
import { sleep } from '../../src/util/sleep.js'
import { within } from '../../src/util/timeout.js'
import { FakeClock, turn } from '../support/fakes/fake-clock.js'

/** An attempt that fails `failures` times and then resolves to `done`. */
function failing(failures: number): { attempt: () => Promise<string>; made: () => number } {
  let made = 0
  const attempt = async (): Promise<string> => {
    if (++made <= failures) throw new Error(`failure ${made}`)
    return 'done'
  }
  return { attempt, made: () => made }
}

describe('retry', () => {
  it('retry() repeats an attempt after each delay until it resolves', async () => {
    const clock = new FakeClock()
    const { attempt, made } = failing(2)
    const outcome = retry(attempt, { clock, delayMs: (failures) => 100 * (failures + 1) })
    await clock.advance(99)
    assert.equal(made(), 1)
    await clock.advance(1)
    assert.equal(made(), 2)
    await clock.advance(199)
    assert.equal(made(), 2)
    await clock.advance(1)
    assert.equal(await outcome, 'done')
  })

  it('retry() rejects with the last error when the next attempt would start too late', async () => {
    const clock = new FakeClock()
    const outcome = retry(failing(9).attempt, { clock, delayMs: () => 100, until: clock.now() + 200 })
    const rejected = assert.rejects(outcome, /failure 2/)
    await clock.advance(1_000)
    await rejected
  })

  it('retry() rejects at once with an error that is not retryable', async () => {
    const { attempt, made } = failing(9)
    await assert.rejects(retry(attempt, { clock: new FakeClock(), delayMs: () => 1, isRetryable: () => false }))
    assert.equal(made(), 1)
  })

  it('retry() makes one last attempt at once when its signal aborts', async () => {
    const clock = new FakeClock()
    const { attempt, made } = failing(9)
    const controller = new AbortController()
    const outcome = retry(attempt, { clock, delayMs: () => 1_000_000, signal: controller.signal })
    const rejected = assert.rejects(outcome, /failure 2/)
    await clock.advance(1)
    controller.abort()
    await rejected
    assert.equal(made(), 2)
  })
})

describe('sleep', () => {
  it('sleep() ends early when its signal aborts, and at once if it already has', async () => {
    const clock = new FakeClock()
    const controller = new AbortController()
    const sleeping = sleep(1_000_000, { clock, signal: controller.signal })
    controller.abort()
    await sleeping
    await sleep(1_000_000, { clock, signal: controller.signal })
    assert.equal(clock.pending, 0)
  })

  it('sleep() keeps the process alive, unless told otherwise', async () => {
    const clock = new FakeClock()
    const sleeping = [sleep(100, { clock }), sleep(100, { clock, keepAlive: false })]
    assert.deepEqual([clock.pending, clock.keepingAlive], [2, 1])
    await clock.advance(100)
    await Promise.all(sleeping)
  })
})

describe('within', () => {
  let clock: FakeClock

  beforeEach(() => {
    clock = new FakeClock()
  })

  afterEach(() => assert.equal(clock.pending, 0, 'no timer is left'))

  it('within() settles as the promise does', async () => {
    assert.equal(await within(100, Promise.resolve('done'), undefined, clock), 'done')
    await assert.rejects(within(100, Promise.reject(new Error('refused')), undefined, clock), { message: 'refused' })
  })

  it('within() rejects when the time is over, whatever becomes of the promise', async () => {
    let fail = (_: Error): void => {}
    const failing = new Promise((_, reject) => {
      fail = reject
    })
    const errors: Error[] = []
    const limited = within(99.6, failing, undefined, clock).catch((error: Error) => errors.push(error))
    await clock.advance(99)
    assert.deepEqual(errors, [])
    await clock.advance(1)
    await limited
    assert.deepEqual(errors, [new Error('no reply within 100 ms')])
    fail(new Error('too late'))
    await turn()
  })

  it('within() rejects with the reason of a signal that aborts, or has aborted before', async () => {
    const controller = new AbortController()
    const pending = new Promise(() => {})
    const limited = assert.rejects(within(100, pending, controller.signal, clock), { message: 'stop' })
    controller.abort(new Error('stop'))
    await limited
    await assert.rejects(within(100, pending, controller.signal, clock), { message: 'stop' })
  })
})

describe('backoffMs', () => {
  for (const [fraction, pauses] of [
    [0, [25, 50, 100, 200, 400, 500, 500, 500]],
    [0.5, [37.5, 75, 150, 300, 600, 750, 750, 750]],
  ] as const) {
    it(`backoffMs() doubles up to a maximum, and half of it is random: ${fraction}`, () => {
      const random = { uuid: () => '', fraction: () => fraction }
      const failures = [0, 1, 2, 3, 4, 5, 6, 10_000]
      assert.deepEqual(
        failures.map((failures) => backoffMs(failures, 50, 1_000, random)),
        pauses,
      )
    })
  }
})
