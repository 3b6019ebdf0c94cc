/** What an attempt leaves in Redis that its caller does not get. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type Attempt, type Outcome, tryOnce, type Wait, waitFor } from '../../src/waiting/wait-loop.js'
import { turn } from '../support/fakes/fake-clock.js'
import { LEASE_MS, TransientError, WaitFixture } from '../support/fakes/wait-fixture.js'

let fixture: WaitFixture

beforeEach(() => {
  fixture = new WaitFixture()
})

afterEach(() => fixture.expectNothingLeft())

describe('undo, once per wait, gets what did not reach the caller', () => {
  const REFUSED: Outcome<string> = { is: 'refused', heldForMs: -1 }
  const GRANTED: Outcome<string> = { is: 'granted', value: 'it', leaseMs: LEASE_MS }
  const UNKNOWN: Outcome<string> = { is: 'unknown', error: new TransientError('no reply') }
  /** What `undo` got, one entry for each call. */
  let undone: (readonly Outcome<string>[])[]

  beforeEach(() => {
    undone = []
  })

  /** A wait whose attempts have these outcomes, one after the other; the last one repeats. */
  function waitWith(outcomes: readonly (Outcome<string> | Error)[], options: Partial<Wait<string>> = {}): Wait<string> {
    const rest = [...outcomes]
    const attempt: Attempt<string> = {
      run: async () => {
        fixture.attempts.push({ caller: 'me', at: fixture.clock.now() })
        await fixture.travel(fixture.attemptMs)
        const outcome = rest.length > 1 ? rest.shift() : rest[0]
        if (outcome instanceof Error) throw outcome
        return outcome as Outcome<string>
      },
      undo: (left) => undone.push(left),
    }
    return { ...fixture.waitOf('me'), attempt, ...options }
  }

  function aborting(): AbortController {
    const controller = new AbortController()
    fixture.signals.push(controller.signal)
    return controller
  }

  for (const [title, wait] of [
    ['a wait', waitFor],
    ['a single try', tryOnce],
  ] as const) {
    it(`undo gets nothing after ${title} that was granted it`, async () => {
      assert.equal(await fixture.clock.until(wait(waitWith([GRANTED]), fixture.tools)), 'it')
      assert.deepEqual(undone, [[]])
    })

    it(`undo gets nothing after ${title} whose signal had aborted before`, async () => {
      const waiting = wait(waitWith([GRANTED], { signal: AbortSignal.abort('enough') }), fixture.tools)
      await assert.rejects(waiting, (reason) => reason === 'enough')
      assert.deepEqual([undone, fixture.attempts], [[[]], []])
    })

    it(`undo gets nothing after ${title} that failed with an error that left nothing`, async () => {
      const error = new Error('WRONGTYPE')
      await assert.rejects(fixture.clock.until(wait(waitWith([error]), fixture.tools)), error)
      assert.deepEqual(undone, [[]])
    })

    for (const [what, outcome] of [
      ['a grant', GRANTED],
      ['a refusal', REFUSED],
      ['no reply', UNKNOWN],
    ] as const) {
      it(`undo gets ${what} that arrives after the caller of ${title} has aborted, when it arrives`, async () => {
        const controller = aborting()
        fixture.attemptMs = 1_000
        const waiting = wait(waitWith([outcome], { signal: controller.signal }), fixture.tools)
        await fixture.clock.advance(500)
        controller.abort('enough')
        await assert.rejects(waiting, (reason) => reason === 'enough')
        assert.deepEqual(undone, [], 'not while the attempt is in flight')
        await fixture.clock.advance(500)
        assert.deepEqual(undone, [[outcome]])
      })
    }

    it(`undo gets nothing when ${title} was aborted in flight and the attempt fails later`, async () => {
      const controller = aborting()
      fixture.attemptMs = 1_000
      const waiting = wait(waitWith([new Error('WRONGTYPE')], { signal: controller.signal }), fixture.tools)
      await turn()
      controller.abort('enough')
      await assert.rejects(waiting, (reason) => reason === 'enough')
      await fixture.clock.advance(1_000)
      assert.deepEqual(undone, [[]])
    })
  }

  it('undo gets the refusal of a single try', async () => {
    assert.equal(await tryOnce(waitWith([REFUSED]), fixture.tools), undefined)
    assert.deepEqual(undone, [[REFUSED]])
  })

  it('undo gets the unknown outcome of a single try, which fails with its error', async () => {
    await assert.rejects(tryOnce(waitWith([UNKNOWN]), fixture.tools), { message: 'no reply' })
    assert.deepEqual(undone, [[UNKNOWN]])
  })

  it('undo gets an unknown outcome without an error, which is a refusal to the caller', async () => {
    assert.equal(await tryOnce(waitWith([{ is: 'unknown' }]), fixture.tools), undefined)
    assert.deepEqual(undone, [[{ is: 'unknown' }]])
  })

  it('undo gets only the last of many refusals, when the wait time ends', async () => {
    const waiting = waitFor(waitWith([REFUSED], { deadlineAt: fixture.clock.now() + 20_000 }), fixture.tools)
    assert.equal(await fixture.clock.until(waiting), undefined)
    assert(fixture.attempts.length > 3)
    assert.deepEqual(undone, [[REFUSED]])
  })

  it('undo gets the late refusal of an attempt in flight at the deadline', async () => {
    fixture.attemptMs = 2_000
    const waiting = waitFor(waitWith([REFUSED], { deadlineAt: fixture.clock.now() + 1_000 }), fixture.tools)
    assert.equal(await fixture.clock.until(waiting), undefined)
    assert.deepEqual(undone, [[REFUSED]])
  })

  it('undo gets an unknown outcome that a grant follows', async () => {
    assert.equal(await fixture.clock.until(waitFor(waitWith([UNKNOWN, GRANTED]), fixture.tools)), 'it')
    assert.deepEqual(undone, [[UNKNOWN]])
  })

  it('undo gets an unknown outcome and a refusal, when the caller aborts during a pause', async () => {
    const controller = aborting()
    const waiting = waitFor(waitWith([REFUSED, UNKNOWN, REFUSED], { signal: controller.signal }), fixture.tools)
    await fixture.clock.advance(1_000)
    controller.abort('enough')
    await assert.rejects(waiting, (reason) => reason === 'enough')
    assert.deepEqual(undone, [[UNKNOWN, REFUSED]])
  })

  it('undo gets a late grant, when the client closes during the attempt', async () => {
    fixture.attemptMs = 1_000
    const waiting = waitFor(waitWith([GRANTED]), fixture.tools)
    await turn()
    fixture.tools.waitQueues.dismissAll(() => 'closed')
    await assert.rejects(waiting, (reason) => reason === 'closed')
    assert.deepEqual(undone, [])
    await fixture.clock.advance(1_000)
    assert.deepEqual(undone, [[GRANTED]])
  })

  it('undo gets the last refusal, when another caller hands off what it releases', async () => {
    const waiting = waitFor(waitWith([REFUSED], { takeOver: (offered) => `${offered}` }), fixture.tools)
    await fixture.clock.advance(1_000)
    assert.equal(fixture.tools.waitQueues.at('a')?.offer('what was released'), true)
    assert.equal(await waiting, 'what was released')
    assert.deepEqual(undone, [[REFUSED]])
  })

  it('undo gets nothing after a wait that was never first in its queue', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const head = fixture.start('head')
    const waiting = waitFor(waitWith([GRANTED], { deadlineAt: fixture.clock.now() + 1_000 }), fixture.tools)
    assert.equal(await fixture.clock.until(waiting), undefined)
    assert.deepEqual(undone, [[]])
    await fixture.end(head)
  })

  it('undo gets nothing, at once, when the caller aborts before the attempt may be sent; it is not sent later', async () => {
    const controller = aborting()
    const wait = waitWith([GRANTED], { signal: controller.signal })
    const untilReady = (): Promise<void> => fixture.travel(1_000)
    const waiting = waitFor({ ...wait, attempt: { ...wait.attempt, untilReady } }, fixture.tools)
    await fixture.clock.advance(500)
    controller.abort('enough')
    await assert.rejects(waiting, (reason) => reason === 'enough')
    assert.deepEqual(undone, [[]])
    await fixture.clock.advance(1_000)
    assert.deepEqual([undone, fixture.attempts], [[[]], []])
  })
})
