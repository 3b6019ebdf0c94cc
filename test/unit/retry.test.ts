import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { retry } from '../../src/util/retry.js'
import { sleep } from '../../src/util/sleep.js'
import { FakeClock } from '../support/fake-clock.js'

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
  it('repeats an attempt after each delay until it resolves', async () => {
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

  it('rejects with the last error when the next attempt would start too late', async () => {
    const clock = new FakeClock()
    const outcome = retry(failing(9).attempt, { clock, delayMs: () => 100, until: clock.now() + 200 })
    const rejected = assert.rejects(outcome, /failure 2/)
    await clock.advance(1_000)
    await rejected
  })

  it('rejects at once with an error that is not retryable', async () => {
    const { attempt, made } = failing(9)
    await assert.rejects(retry(attempt, { clock: new FakeClock(), delayMs: () => 1, isRetryable: () => false }))
    assert.equal(made(), 1)
  })

  it('makes one last attempt at once when its signal aborts', async () => {
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
  it('ends early when its signal aborts, and at once if it already has', async () => {
    const clock = new FakeClock()
    const controller = new AbortController()
    const sleeping = sleep(1_000_000, { clock, signal: controller.signal })
    controller.abort()
    await sleeping
    await sleep(1_000_000, { clock, signal: controller.signal })
  })
})
