/** The attempts of a wait: failed, delayed, or a single one. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type Attempt, OUTAGE_PATIENCE_MS, tryOnce, type Wait, waitFor } from '../../src/waiting/wait-loop.js'
import { turn } from '../support/fakes/fake-clock.js'
import { TransientError, WaitBench } from '../support/fakes/wait-bench.js'

let bench: WaitBench

beforeEach(() => {
  bench = new WaitBench()
})

afterEach(() => bench.expectNothingLeft())

describe('an attempt that fails', () => {
  it('is not repeated after an error that another attempt would meet again', async () => {
    bench.failure = new Error('WRONGTYPE Operation against a key holding the wrong kind of value')
    await assert.rejects(bench.clock.until(bench.start('me').promise), bench.failure)
    assert.equal(bench.attempts.length, 1)
  })

  it('is repeated with growing pauses, and then succeeds', async () => {
    bench.failure = new TransientError('LOADING')
    const startedAt = bench.clock.now()
    const waiting = bench.start('me')
    await bench.clock.advance(10_000)
    const times = bench.attemptsSince(startedAt)
    const pauses = times.slice(1).map((at, index) => at - (times[index] ?? 0))
    assert(pauses.length >= 10 && pauses.length <= 25, `pauses of ${pauses.join(', ')} ms`)
    for (const [index, pause] of pauses.entries()) {
      assert(pause >= (pauses[index - 1] ?? 25) && pause <= 1_000, `pauses of ${pauses.join(', ')} ms`)
    }
    bench.failure = undefined
    await bench.clock.advance(1_000)
    assert.equal(waiting.value, 'me')
  })

  it('is given up after 15 s, with the last error', async () => {
    const startedAt = bench.clock.now()
    bench.failure = new TransientError('first')
    const waiting = bench.start('me')
    await bench.clock.advance(10_000)
    bench.failure = new TransientError('last')
    await assert.rejects(bench.clock.until(waiting.promise), { message: 'last' })
    const waitedMs = bench.clock.now() - startedAt
    assert(waitedMs >= OUTAGE_PATIENCE_MS && waitedMs <= OUTAGE_PATIENCE_MS + 1_000, `${waitedMs} ms`)
  })

  it('has another 15 s after each reply', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const waiting = bench.start('me')
    for (let outage = 0; outage < 4; outage++) {
      bench.failure = new TransientError('LOADING')
      await bench.clock.advance(14_000)
      assert.equal(waiting.at, undefined)
      bench.failure = undefined
      await bench.clock.advance(6_000)
    }
    bench.release()
    await bench.clock.until(waiting.promise)
  })

  it('ends with its error, not with a refusal, when the wait time ends first', async () => {
    bench.failure = new TransientError('no reply')
    const startedAt = bench.clock.now()
    const waiting = bench.start('me', { waitTimeMs: 1_000 })
    await assert.rejects(bench.clock.until(waiting.promise), bench.failure)
    assert.equal(bench.clock.now() - startedAt, 1_000)
    assert(
      bench.attempts.every(({ at }) => at < startedAt + 1_000),
      'none at the deadline',
    )
  })

  it('does not cost the caller what it is handed during the pause that follows, however late it runs again', async () => {
    bench.failure = new TransientError('no reply')
    const wait = bench.waitOf('me', { waitTimeMs: 20_000 })
    const waiting = waitFor({ ...wait, takeOver: (offered) => `${offered}` }, bench.tools)
    await bench.clock.advance(10)
    assert.equal(bench.tools.waitQueues.at('a')?.offer('what was released'), true)
    bench.clock.block(60_000)
    assert.equal(await waiting, 'what was released')
  })
})

describe('a single try', () => {
  it('makes one attempt, outside the wait queue', async () => {
    assert.equal(await tryOnce(bench.waitOf('me'), bench.tools), 'me')
    assert.equal(await tryOnce(bench.waitOf('you'), bench.tools), undefined)
    bench.failure = new TransientError('no reply')
    await assert.rejects(tryOnce(bench.waitOf('me'), bench.tools), bench.failure)
    assert.equal(bench.attempts.length, 3)
    assert.equal(bench.port.count(), 0)
  })

  it('undoes a grant that arrives after an abort', async () => {
    bench.attemptMs = 1_000
    const controller = new AbortController()
    const trying = tryOnce(bench.waitOf('me', { signal: controller.signal }), bench.tools)
    await turn()
    controller.abort('enough')
    await assert.rejects(trying, (reason) => reason === 'enough')
    await bench.clock.advance(1_000)
    assert.deepEqual(bench.undone, ['me'])
  })
})

describe('an attempt that may not be sent yet', () => {
  /** A wait whose attempts may be sent after 1 s. */
  function waitSoon(waitTimeMs: number): Wait<string> {
    const wait = bench.waitOf('me', { waitTimeMs })
    let isReady = false
    const prepare = async (): Promise<void> => {
      await bench.travel(1_000)
      isReady = true
    }
    return { ...wait, attempt: { ...wait.attempt, untilReady: () => (isReady ? undefined : prepare()) } }
  }

  it('is sent as soon as it may be', async () => {
    const startedAt = bench.clock.now()
    assert.equal(await bench.clock.until(waitFor(waitSoon(2_000), bench.tools)), 'me')
    assert.deepEqual(bench.attemptsSince(startedAt), [1_000])
  })

  it('is not sent when the wait time ends first', async () => {
    assert.equal(await bench.clock.until(waitFor(waitSoon(500), bench.tools)), undefined)
    assert.deepEqual(bench.attempts, [])
  })

  it('waits for that once', async () => {
    const { attempt, ...wait } = bench.waitOf('me')
    const untilReady = (): Promise<void> => bench.travel(1_000)
    const startedAt = bench.clock.now()
    assert.equal(await bench.clock.until(waitFor({ ...wait, attempt: { ...attempt, untilReady } }, bench.tools)), 'me')
    assert.deepEqual(bench.attemptsSince(startedAt), [1_000])
  })

  it('is sent by a single try however long that takes', async () => {
    assert.equal(await bench.clock.until(tryOnce(waitSoon(0), bench.tools)), 'me')
    assert.equal(bench.attempts.length, 1)
  })
})

describe('a single try that is refused because of a sibling', () => {
  function trying(signal?: AbortSignal): Promise<string | undefined> {
    const wait = bench.waitOf('me', signal ? { signal } : {})
    const siblingUntil = bench.clock.now() + 100
    const run: Attempt<string>['run'] = async (caller) => {
      if (bench.clock.now() < siblingUntil)
        return { is: 'refused', heldForMs: 20, retryUntil: bench.clock.now() + 1_000 }
      return await wait.attempt.run(caller)
    }
    return tryOnce({ ...wait, attempt: { ...wait.attempt, run } }, bench.tools)
  }

  it('makes another attempt soon', async () => {
    const startedAt = bench.clock.now()
    assert.equal(await bench.clock.until(trying()), 'me')
    assert.equal(bench.clock.now() - startedAt, 100)
  })

  it('ends at once when it is aborted', async () => {
    const controller = new AbortController()
    const waiting = trying(controller.signal)
    await turn()
    controller.abort('enough')
    await assert.rejects(waiting, (reason) => reason === 'enough')
    assert.deepEqual(bench.attempts, [])
  })
})
