/** The attempts of a wait: failed, delayed, or a single one. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type Attempt, MAX_OUTAGE_MS, tryOnce, type Wait, waitFor } from '../../src/waiting/wait-loop.js'
import { turn } from '../support/fakes/fake-clock.js'
import { TransientError, WaitFixture } from '../support/fakes/wait-fixture.js'

let fixture: WaitFixture

beforeEach(() => {
  fixture = new WaitFixture()
})

afterEach(() => fixture.expectNothingLeft())

describe('an attempt that fails', () => {
  it('a failed attempt is not repeated after an error that another attempt would meet again', async () => {
    fixture.failure = new Error('WRONGTYPE Operation against a key holding the wrong kind of value')
    await assert.rejects(fixture.clock.until(fixture.start('me').promise), fixture.failure)
    assert.equal(fixture.attempts.length, 1)
  })

  it('a failed attempt is repeated with growing pauses, and then succeeds', async () => {
    fixture.failure = new TransientError('LOADING')
    const startedAt = fixture.clock.now()
    const waiting = fixture.start('me')
    await fixture.clock.advance(10_000)
    const times = fixture.attemptsSince(startedAt)
    const pauses = times.slice(1).map((at, index) => at - (times[index] ?? 0))
    assert(pauses.length >= 10 && pauses.length <= 25, `pauses of ${pauses.join(', ')} ms`)
    for (const [index, pause] of pauses.entries()) {
      assert(pause >= (pauses[index - 1] ?? 25) && pause <= 1_000, `pauses of ${pauses.join(', ')} ms`)
    }
    fixture.failure = undefined
    await fixture.clock.advance(1_000)
    assert.equal(waiting.value, 'me')
  })

  it('a failed attempt is given up after 15 s, with the last error', async () => {
    const startedAt = fixture.clock.now()
    fixture.failure = new TransientError('first')
    const waiting = fixture.start('me')
    await fixture.clock.advance(10_000)
    fixture.failure = new TransientError('last')
    await assert.rejects(fixture.clock.until(waiting.promise), { message: 'last' })
    const waitedMs = fixture.clock.now() - startedAt
    assert(waitedMs >= MAX_OUTAGE_MS && waitedMs <= MAX_OUTAGE_MS + 1_000, `${waitedMs} ms`)
  })

  it('a failed attempt has another 15 s after each reply', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const waiting = fixture.start('me')
    for (let outage = 0; outage < 4; outage++) {
      fixture.failure = new TransientError('LOADING')
      await fixture.clock.advance(14_000)
      assert.equal(waiting.at, undefined)
      fixture.failure = undefined
      await fixture.clock.advance(6_000)
    }
    fixture.release()
    await fixture.clock.until(waiting.promise)
  })

  it('a failed attempt ends with its error, not with a refusal, when the wait time ends first', async () => {
    fixture.failure = new TransientError('no reply')
    const startedAt = fixture.clock.now()
    const waiting = fixture.start('me', { waitTimeMs: 1_000 })
    await assert.rejects(fixture.clock.until(waiting.promise), fixture.failure)
    assert.equal(fixture.clock.now() - startedAt, 1_000)
    assert(
      fixture.attempts.every(({ at }) => at < startedAt + 1_000),
      'none at the deadline',
    )
  })

  it('a failed attempt does not cost the caller what it is handed during the pause that follows', async () => {
    fixture.failure = new TransientError('no reply')
    const wait = fixture.waitOf('me', { waitTimeMs: 20_000 })
    const waiting = waitFor({ ...wait, takeOver: (offered) => `${offered}` }, fixture.tools)
    await fixture.clock.advance(10)
    assert.equal(fixture.tools.waitQueues.at('a')?.offer('what was released'), true)
    fixture.clock.block(60_000)
    assert.equal(await waiting, 'what was released')
  })
})

describe('a single try', () => {
  it('a single try makes one attempt, outside the wait queue', async () => {
    assert.equal(await tryOnce(fixture.waitOf('me'), fixture.tools), 'me')
    assert.equal(await tryOnce(fixture.waitOf('you'), fixture.tools), undefined)
    fixture.failure = new TransientError('no reply')
    await assert.rejects(tryOnce(fixture.waitOf('me'), fixture.tools), fixture.failure)
    assert.equal(fixture.attempts.length, 3)
    assert.equal(fixture.port.count(), 0)
  })

  it('a single try undoes a grant that arrives after an abort', async () => {
    fixture.attemptMs = 1_000
    const controller = new AbortController()
    const trying = tryOnce(fixture.waitOf('me', { signal: controller.signal }), fixture.tools)
    await turn()
    controller.abort('enough')
    await assert.rejects(trying, (reason) => reason === 'enough')
    await fixture.clock.advance(1_000)
    assert.deepEqual(fixture.undone, ['me'])
  })
})

describe('an attempt that may not be sent yet', () => {
  /** A wait whose attempts may be sent after 1 s. */
  function waitSoon(waitTimeMs: number): Wait<string> {
    const wait = fixture.waitOf('me', { waitTimeMs })
    let isReady = false
    const prepare = async (): Promise<void> => {
      await fixture.travel(1_000)
      isReady = true
    }
    return { ...wait, attempt: { ...wait.attempt, untilReady: () => (isReady ? undefined : prepare()) } }
  }

  it('an attempt that may not be sent yet is sent as soon as it may be', async () => {
    const startedAt = fixture.clock.now()
    assert.equal(await fixture.clock.until(waitFor(waitSoon(2_000), fixture.tools)), 'me')
    assert.deepEqual(fixture.attemptsSince(startedAt), [1_000])
  })

  it('an attempt that may not be sent yet is not sent when the wait time ends first', async () => {
    assert.equal(await fixture.clock.until(waitFor(waitSoon(500), fixture.tools)), undefined)
    assert.deepEqual(fixture.attempts, [])
  })

  it('an attempt that may not be sent yet waits for that once', async () => {
    const { attempt, ...wait } = fixture.waitOf('me')
    const untilReady = (): Promise<void> => fixture.travel(1_000)
    const startedAt = fixture.clock.now()
    assert.equal(
      await fixture.clock.until(waitFor({ ...wait, attempt: { ...attempt, untilReady } }, fixture.tools)),
      'me',
    )
    assert.deepEqual(fixture.attemptsSince(startedAt), [1_000])
  })

  it('an attempt that may not be sent yet is sent by a single try however long that takes', async () => {
    assert.equal(await fixture.clock.until(tryOnce(waitSoon(0), fixture.tools)), 'me')
    assert.equal(fixture.attempts.length, 1)
  })
})

describe('a single try that is refused because of a sibling', () => {
  function trying(signal?: AbortSignal): Promise<string | undefined> {
    const wait = fixture.waitOf('me', signal ? { signal } : {})
    const siblingUntil = fixture.clock.now() + 100
    const run: Attempt<string>['run'] = async (caller) => {
      if (fixture.clock.now() < siblingUntil)
        return { is: 'refused', heldForMs: 20, retryUntil: fixture.clock.now() + 1_000 }
      return await wait.attempt.run(caller)
    }
    return tryOnce({ ...wait, attempt: { ...wait.attempt, run } }, fixture.tools)
  }

  it('a single try refused by a sibling makes another attempt soon', async () => {
    const startedAt = fixture.clock.now()
    assert.equal(await fixture.clock.until(trying()), 'me')
    assert.equal(fixture.clock.now() - startedAt, 100)
  })

  it('a single try refused by a sibling ends at once when it is aborted', async () => {
    const controller = new AbortController()
    const waiting = trying(controller.signal)
    await turn()
    controller.abort('enough')
    await assert.rejects(waiting, (reason) => reason === 'enough')
    assert.deepEqual(fixture.attempts, [])
  })
})
