/** When the head of a wait queue polls although no message has come. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it, mock } from 'node:test'
import { Listening } from '../../src/waiting/listening.js'
import { FakeClock } from '../support/fakes/fake-clock.js'

let clock: FakeClock
let listening: Listening
/** When the head was woken, ms after the start, and whether its next request is a poll. */
let woken: [afterMs: number, isPoll: boolean][]
let subscriptions: number

beforeEach(() => {
  clock = new FakeClock()
  const startedAt = clock.now()
  woken = []
  subscriptions = 0
  const subscribe = () => {
    subscriptions++
    return { isLive: true, ownReceivers: 1, leave: () => subscriptions-- }
  }
  listening = new Listening(clock, undefined, subscribe, () => {
    woken.push([clock.now() - startedAt, listening.takePoll()])
  })
})

afterEach(() => {
  listening.close()
  assert.deepEqual([clock.pending, subscriptions], [0, 0], 'nothing is left')
})

describe('a queue that polls', () => {
  it('a queue polls once, a second after it is the turn of somebody who may have died', async () => {
    listening.pollSoon()
    await clock.advance(10_000)
    assert.deepEqual([woken, listening.takePoll()], [[[1_000, true]], false])
  })

  it('a queue polls after 5 s if a message would wake it, unless that becomes a second', async () => {
    listening.refused(undefined, undefined)
    assert.deepEqual([listening.isSubscribed, listening.isLive, listening.ownReceivers], [true, true, 1])
    listening.pollLater()
    await clock.advance(6_000)
    assert.deepEqual(woken, [[5_000, true]])
    listening.pollLater()
    await clock.advance(500)
    listening.pollSoon()
    await clock.advance(10_000)
    assert.deepEqual(woken.slice(1), [[7_500, true]])
  })

  it('a queue polls after a second if no message would wake it', async () => {
    assert.deepEqual([listening.isSubscribed, listening.isLive, listening.ownReceivers], [false, false, 0])
    listening.pollLater()
    await clock.advance(10_000)
    assert.deepEqual(woken, [[1_000, true]])
  })

  it('a queue needs one timer at a time, however often its poll is put off', async () => {
    const after = mock.method(clock, 'after')
    for (let n = 0; n < 10; n++) {
      for (const _ of ['once', 'and again']) listening.pollSoon()
      await clock.advance(50)
    }
    assert.deepEqual([after.mock.callCount(), woken], [1, []])
    await clock.advance(10_000)
    assert.deepEqual([after.mock.callCount(), woken], [2, [[1_450, true]]])
  })
})
