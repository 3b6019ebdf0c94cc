/** A wait for a lock: what makes it try again, and when. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type Attempt, type Outcome, type Wait, waitFor } from '../../src/waiting/wait-loop.js'
import { Wakeups } from '../../src/waiting/wakeups.js'
import { turn } from '../support/fakes/fake-clock.js'
import { CHANNEL, WaitFixture, type WaitOptions } from '../support/fakes/wait-fixture.js'

let fixture: WaitFixture

beforeEach(() => {
  fixture = new WaitFixture()
})

afterEach(() => fixture.expectNothingLeft())

describe('a wait', () => {
  it('a wait ends with the first attempt when that is granted, without a subscription', async () => {
    assert.equal(await fixture.clock.until(fixture.start('me').promise), 'me')
    assert.equal(fixture.attempts.length, 1)
    assert.equal(fixture.port.count(), 0)
  })

  it('a wait subscribes after a refusal, and makes another attempt once it is subscribed', async () => {
    fixture.takenUntil = fixture.clock.now() + 10_000
    fixture.port.once('SUBSCRIBE', { replyMs: 100 })
    const startedAt = fixture.clock.now()
    const waiting = fixture.start('me')
    await fixture.clock.advance(99)
    assert.deepEqual(fixture.attemptsSince(startedAt), [0])
    fixture.takenUntil = 0 // nobody receives the message of this release
    await fixture.clock.advance(1)
    assert.equal(waiting.value, 'me')
    assert.deepEqual(fixture.attemptsSince(startedAt), [0, 100])
  })

  it('a wait makes an attempt when it is woken', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const waiting = fixture.start('me')
    await fixture.clock.advance(1_000)
    assert.equal(waiting.at, undefined)
    const before = fixture.attempts.length
    fixture.release()
    await turn()
    assert.equal(waiting.value, 'me')
    assert.equal(fixture.attempts.length, before + 1)
  })

  it('a wait treats a wake-up as a hint: refused again, it continues to wait', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const waiting = fixture.start('me')
    await turn()
    for (let forged = 0; forged < 10; forged++) {
      await fixture.clock.advance(10)
      const before = fixture.attempts.length
      fixture.port.redis.publish(CHANNEL, '0')
      await turn()
      assert.equal(fixture.attempts.length, before + 1)
    }
    assert.equal(waiting.at, undefined)
    await fixture.end(waiting)
  })

  it('a wait makes one attempt for any number of wake-ups during an attempt', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const waiting = fixture.start('me')
    await turn()
    fixture.attemptMs = 100
    const before = fixture.attempts.length
    for (let forged = 0; forged < 1_000; forged++) {
      fixture.port.redis.publish(CHANNEL, '0')
      await turn()
    }
    await fixture.clock.advance(150)
    assert.equal(fixture.attempts.length, before + 2)
    await fixture.clock.advance(50)
    await fixture.end(waiting)
  })

  it('a wait does not lose a wake-up that comes during an attempt', async () => {
    fixture.takenUntil = fixture.clock.now() + 10_000
    const waiting = fixture.start('me')
    await turn()
    fixture.attemptMs = 100
    fixture.port.redis.publish(CHANNEL, '0')
    await fixture.clock.advance(75)
    fixture.release() // after Redis executed the attempt, before the refusal arrives
    await fixture.clock.advance(25)
    assert.equal(waiting.at, undefined)
    assert.equal(fixture.attempts.at(-1)?.at, fixture.clock.now(), 'it makes another attempt at once')
    await fixture.clock.advance(100)
    assert.equal(waiting.value, 'me')
  })

  it('a wait makes five attempts at once and then one every 10 ms, however many messages arrive', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const startedAt = fixture.clock.now()
    const waiting = fixture.start('me')
    for (let ms = 0; ms <= 50; ms++) {
      for (let forged = 0; forged < 10; forged++) {
        fixture.port.redis.publish(CHANNEL, '0')
        await turn()
      }
      if (ms < 50) await fixture.clock.advance(1)
    }
    assert.deepEqual(fixture.attemptsSince(startedAt), [0, 0, 0, 0, 0, 10, 20, 30, 40, 50])
    await fixture.end(waiting)
  })

  it('a wait makes an attempt after a re-subscription, as messages may have been missed', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const waiting = fixture.start('me')
    await fixture.clock.advance(100)
    fixture.port.isDeaf = true
    fixture.release()
    await fixture.clock.advance(100)
    assert.equal(waiting.at, undefined)
    fixture.port.resubscribe()
    await turn()
    assert.equal(waiting.value, 'me')
  })

  it('a wait makes an attempt when the subscription is lost, then every 250 ms until it is back', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const waiting = fixture.start('me')
    await fixture.clock.advance(100)
    const before = fixture.attempts.length
    fixture.port.loseSubscriber()
    await turn()
    assert.equal(fixture.attempts.length - before, 1)
    await fixture.clock.advance(2_000)
    const whileLost = fixture.attempts.length - before
    assert(whileLost >= 8 && whileLost <= 10, `${whileLost} attempts in 2 s`)
    fixture.port.loseSubscriber() // as a port may report after each failed reconnect
    await turn()
    assert.equal(fixture.attempts.length - before, whileLost)
    fixture.port.resubscribe()
    await fixture.clock.advance(2_000)
    assert.equal(fixture.attempts.length - before, whileLost + 1)
    await fixture.end(waiting)
  })

  it('a wait polls after a re-subscription that was refused', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const waiting = fixture.start('me')
    await turn()
    fixture.port.resubscribe(CHANNEL)
    assert.deepEqual(fixture.refused, [CHANNEL])
    const before = fixture.attempts.length
    await fixture.clock.advance(10_000)
    assert(fixture.attempts.length - before >= 40)
    await fixture.end(waiting)
  })

  it('a wait sleeps until the lease of the holder has ended', async () => {
    fixture.takenUntil = fixture.clock.now() + 1_000
    const startedAt = fixture.clock.now()
    const waiting = fixture.start('me')
    await fixture.clock.advance(1_000)
    assert.equal(waiting.at, undefined)
    await fixture.clock.advance(1)
    assert.equal(waiting.value, 'me')
    assert.deepEqual(fixture.attemptsSince(startedAt), [0, 0, 1_001])
  })

  for (const random of [0, 0.999]) {
    it(`a wait makes an attempt after at most 5 s when the lease is longer (random ${random})`, async () => {
      fixture.fraction = random
      fixture.takenUntil = fixture.clock.now() + 60_000
      const startedAt = fixture.clock.now()
      const waiting = fixture.start('me')
      await fixture.clock.advance(1)
      fixture.port.isDeaf = true
      fixture.takenUntil = 0
      await fixture.clock.advance(5_000)
      const waitedMs = (waiting.at ?? 0) - startedAt
      assert(waitedMs >= 4_500 && waitedMs <= 5_000, `${waitedMs} ms`)
    })
  }

  it('a wait polls every 250 ms without a subscription, and reports a refused channel once', async () => {
    fixture.port.once('SUBSCRIBE', { errorReply: 'NOPERM No permissions to access a channel' })
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const waiting = fixture.start('me')
    await fixture.clock.advance(10_000)
    assert(
      fixture.attempts.length >= 40 && fixture.attempts.length <= 46,
      `${fixture.attempts.length} attempts in 10 s`,
    )
    assert.deepEqual(fixture.refused, [CHANNEL])
    fixture.release()
    await fixture.clock.advance(250)
    assert.equal(waiting.value, 'me')
  })

  it('a wait polls while a subscription has failed, and relies on messages when it works again', async () => {
    fixture.port.once('SUBSCRIBE', { lost: 'request', failsWith: 'Connection is closed' })
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const waiting = fixture.start('me')
    await fixture.clock.advance(1_000)
    assert.deepEqual(fixture.refused, [])
    fixture.port.resubscribe()
    await turn()
    const before = fixture.attempts.length
    await fixture.clock.advance(4_000)
    assert.equal(fixture.attempts.length, before)
    fixture.release()
    await turn()
    assert.equal(waiting.value, 'me')
  })

  for (const [title, isSubscribed, perMinute] of [
    ['it is subscribed to', true, 15],
    ['it is not subscribed to', false, 300],
  ] as const) {
    it(`a wait makes at most ${perMinute} attempts a minute for a key without expiry, on a channel ${title}`, async () => {
      fixture.fraction = 0
      if (!isSubscribed) fixture.port.once('SUBSCRIBE', { lost: 'reply' })
      fixture.takenUntil = Number.POSITIVE_INFINITY
      const waiting = fixture.start('me')
      await fixture.clock.advance(60_000)
      assert(fixture.attempts.length <= perMinute, `${fixture.attempts.length} attempts`)
      await fixture.end(waiting)
    })
  }

  it('a wait makes 50 attempts a second while every refusal says that the lease ends now', async () => {
    let count = 0
    const run = async (): Promise<Outcome<string>> => {
      count++
      return { is: 'refused', heldForMs: 0 }
    }
    const waiting = waitFor({ ...fixture.waitOf('me'), attempt: { ...fixture.attemptOf('me'), run } }, fixture.tools)
    await fixture.clock.advance(10_000)
    assert(count >= 495 && count <= 505, `${count} attempts in 10 s`)
    fixture.tools.waitQueues.dismissAll(() => new Error('the test is over'))
    await Promise.allSettled([waiting])
  })
})

describe('onRefused', () => {
  /** How often a wait has called it. */
  function counting(caller: string): { promise: Promise<unknown>; calls: number } {
    const counted = { promise: Promise.resolve<unknown>(undefined), calls: 0 }
    counted.promise = waitFor({ ...fixture.waitOf(caller), onRefused: () => counted.calls++ }, fixture.tools)
    return counted
  }

  it('onRefused is not called by a wait that ends with its first attempt', async () => {
    const wait = counting('me')
    assert.equal(await fixture.clock.until(wait.promise), 'me')
    assert.equal(wait.calls, 0)
  })

  it('onRefused is called after each refusal, and at once by a wait behind another', async () => {
    fixture.takenUntil = Number.POSITIVE_INFINITY
    const [first, second] = [counting('first'), counting('second')]
    await turn()
    assert.deepEqual([first.calls, second.calls], [2, 1])
    fixture.release()
    await fixture.clock.until(first.promise)
    fixture.release()
    await fixture.clock.until(second.promise)
    assert.deepEqual([first.calls, second.calls], [2, 1])
  })
})

describe('an attempt in the turn queue', () => {
  /** Whether each attempt was a poll; undefined: it did not use the turn queue. */
  let polls: (boolean | undefined)[]

  beforeEach(() => {
    polls = []
  })

  // The queue leaves its inbox a little later.
  afterEach(() => fixture.clock.advance(1_000))

  function start(caller: string, { takeOver, ...options }: WaitOptions & Pick<Wait<string>, 'takeOver'> = {}) {
    const wait = fixture.waitOf(caller, options)
    const run: Attempt<string>['run'] = (caller, turn) => {
      polls.push(turn?.isPoll)
      return wait.attempt.run(caller, turn)
    }
    const attempt = { ...wait.attempt, run }
    return waitFor({ ...wait, attempt, takeOver, leaveTurnQueue: () => {} }, fixture.tools)
  }

  for (const [title, leaseTimeMs] of [
    ['a long lease', 60_000],
    ['a lease without end', Number.POSITIVE_INFINITY],
  ] as const) {
    it(`an attempt in the turn queue is a poll after 5 s, during ${title}, not after a message`, async () => {
      fixture.takenUntil = fixture.clock.now() + leaseTimeMs
      const waiting = start('me')
      await fixture.clock.advance(4_000)
      const before = polls.length
      assert(!polls.includes(true))
      await fixture.clock.advance(1_000)
      assert.deepEqual(polls.slice(before), [true])
      fixture.release()
      await fixture.clock.until(waiting)
      assert.deepEqual(polls.slice(before), [true, false])
    })
  }

  it('an attempt in the turn queue is no poll when the lease has ended, even after a pause', async () => {
    fixture.takenUntil = fixture.clock.now() + 1_000
    const waiting = start('me')
    await fixture.clock.advance(500)
    fixture.clock.block(10_000)
    await fixture.clock.until(waiting)
    assert.equal(polls.at(-1), false)
  })

  it('an attempt in the turn queue is no poll when a message has arrived during a pause', async () => {
    fixture.takenUntil = fixture.clock.now() + 60_000
    const waiting = start('me')
    await fixture.clock.advance(500)
    const before = polls.length
    fixture.clock.block(10_000)
    fixture.release()
    await fixture.clock.until(waiting)
    assert.deepEqual(polls.slice(before), [false])
  })

  it('an attempt in the turn queue is no poll at the deadline of the wait', async () => {
    fixture.takenUntil = fixture.clock.now() + 60_000
    assert.equal(await fixture.clock.until(start('me', { waitTimeMs: 1_000 })), undefined)
    assert.equal(polls.at(-1), false)
  })

  it('an attempt in the turn queue is no poll when the caller ahead has just left', async () => {
    fixture.takenUntil = fixture.clock.now() + 60_000
    const controller = new AbortController()
    const first = assert.rejects(start('first', { signal: controller.signal }), { name: 'AbortError' })
    const second = start('second')
    await fixture.clock.advance(1_000)
    const before = polls.length
    controller.abort()
    await first
    await turn()
    assert.deepEqual(polls.slice(before), [false])
    fixture.release()
    await fixture.clock.until(second)
  })

  it('an attempt in the turn queue is made only at its turn after the client let others go first', async () => {
    fixture.takenUntil = fixture.clock.now() + 60_000
    const first = start('first')
    await fixture.clock.advance(100)
    fixture.release()
    await fixture.clock.until(first)
    const queue = fixture.tools.waitQueues.at('a')
    queue?.released(2)
    assert.equal(queue?.ticketForRelease(true)?.staysQueued, true)
    fixture.takenUntil = 0
    const before = polls.length
    const next = start('next')
    await fixture.clock.advance(999)
    assert.equal(polls.length, before)
    assert.equal(await fixture.clock.until(next), 'next')
  })

  it('an attempt in the turn queue is no poll when the caller ahead was handed the lock', async () => {
    fixture.takenUntil = fixture.clock.now() + 60_000
    const first = start('first', { takeOver: (offered) => `${offered}` })
    const second = start('second')
    await fixture.clock.advance(1_000)
    const before = polls.length
    fixture.tools.waitQueues.at('a')?.offer('what was released')
    assert.equal(await first, 'what was released')
    fixture.release()
    await fixture.clock.until(second)
    assert.deepEqual(polls.slice(before), [false])
  })
})

describe('a channel that is subscribed to already', () => {
  it('a subscribed channel wakes a new listener at once: earlier messages went to others only', async () => {
    const wakeups = new Wakeups(fixture.port, fixture.clock, fixture.tools.random, { onRefused: () => {} })
    const received: string[] = []
    const first = wakeups.listen(CHANNEL, () => received.push('first'))
    await turn()
    await fixture.clock.advance(10)
    assert.equal(first.isLive, true)
    received.length = 0
    const second = wakeups.listen(CHANNEL, () => received.push('second'))
    assert.deepEqual(received, ['second'])
    first.leave()
    second.leave()
    await turn()
  })
})
