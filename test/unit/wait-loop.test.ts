/** A wait for a lock: what makes it try again, and when. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type Attempt, type Outcome, type Wait, waitFor } from '../../src/waiting/wait-loop.js'
import { Wakeups } from '../../src/waiting/wakeups.js'
import { turn } from '../support/fakes/fake-clock.js'
import { CHANNEL, WaitBench, type WaitOptions } from '../support/fakes/wait-bench.js'

let bench: WaitBench

beforeEach(() => {
  bench = new WaitBench()
})

afterEach(() => bench.expectNothingLeft())

describe('a wait', () => {
  it('ends with the first attempt when that is granted, without a subscription', async () => {
    assert.equal(await bench.clock.until(bench.start('me').promise), 'me')
    assert.equal(bench.attempts.length, 1)
    assert.equal(bench.port.count(), 0)
  })

  it('subscribes after a refusal, and makes another attempt once it is subscribed', async () => {
    bench.takenUntil = bench.clock.now() + 10_000
    bench.port.once('SUBSCRIBE', { replyMs: 100 })
    const startedAt = bench.clock.now()
    const waiting = bench.start('me')
    await bench.clock.advance(99)
    assert.deepEqual(bench.attemptsSince(startedAt), [0])
    bench.takenUntil = 0 // nobody receives the message of this release
    await bench.clock.advance(1)
    assert.equal(waiting.value, 'me')
    assert.deepEqual(bench.attemptsSince(startedAt), [0, 100])
  })

  it('makes an attempt when it is woken', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const waiting = bench.start('me')
    await bench.clock.advance(1_000)
    assert.equal(waiting.at, undefined)
    const before = bench.attempts.length
    bench.release()
    await turn()
    assert.equal(waiting.value, 'me')
    assert.equal(bench.attempts.length, before + 1)
  })

  it('treats a wake-up as a hint: refused again, it continues to wait', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const waiting = bench.start('me')
    await turn()
    for (let forged = 0; forged < 10; forged++) {
      await bench.clock.advance(10)
      const before = bench.attempts.length
      bench.port.redis.publish(CHANNEL, '0')
      await turn()
      assert.equal(bench.attempts.length, before + 1)
    }
    assert.equal(waiting.at, undefined)
    await bench.end(waiting)
  })

  it('makes one attempt for any number of wake-ups during an attempt', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const waiting = bench.start('me')
    await turn()
    bench.attemptMs = 100
    const before = bench.attempts.length
    for (let forged = 0; forged < 1_000; forged++) {
      bench.port.redis.publish(CHANNEL, '0')
      await turn()
    }
    await bench.clock.advance(150)
    assert.equal(bench.attempts.length, before + 2)
    await bench.clock.advance(50)
    await bench.end(waiting)
  })

  it('does not lose a wake-up that comes during an attempt', async () => {
    bench.takenUntil = bench.clock.now() + 10_000
    const waiting = bench.start('me')
    await turn()
    bench.attemptMs = 100
    bench.port.redis.publish(CHANNEL, '0')
    await bench.clock.advance(75)
    bench.release() // after Redis executed the attempt, before the refusal arrives
    await bench.clock.advance(25)
    assert.equal(waiting.at, undefined)
    assert.equal(bench.attempts.at(-1)?.at, bench.clock.now(), 'it makes another attempt at once')
    await bench.clock.advance(100)
    assert.equal(waiting.value, 'me')
  })

  it('makes five attempts at once and then one every 10 ms, however many messages arrive', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const startedAt = bench.clock.now()
    const waiting = bench.start('me')
    for (let ms = 0; ms <= 50; ms++) {
      for (let forged = 0; forged < 10; forged++) {
        bench.port.redis.publish(CHANNEL, '0')
        await turn()
      }
      if (ms < 50) await bench.clock.advance(1)
    }
    assert.deepEqual(bench.attemptsSince(startedAt), [0, 0, 0, 0, 0, 10, 20, 30, 40, 50])
    await bench.end(waiting)
  })

  it('makes an attempt after a re-subscription, as messages may have been missed', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const waiting = bench.start('me')
    await bench.clock.advance(100)
    bench.port.isDeaf = true
    bench.release()
    await bench.clock.advance(100)
    assert.equal(waiting.at, undefined)
    bench.port.resubscribe()
    await turn()
    assert.equal(waiting.value, 'me')
  })

  it('makes an attempt at once when the subscription is lost, then every 250 ms until it is back', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const waiting = bench.start('me')
    await bench.clock.advance(100)
    const before = bench.attempts.length
    bench.port.loseSubscriber()
    await turn()
    assert.equal(bench.attempts.length - before, 1)
    await bench.clock.advance(2_000)
    const whileLost = bench.attempts.length - before
    assert(whileLost >= 8 && whileLost <= 10, `${whileLost} attempts in 2 s`)
    bench.port.loseSubscriber() // as a port may report after each failed reconnect
    await turn()
    assert.equal(bench.attempts.length - before, whileLost)
    bench.port.resubscribe()
    await bench.clock.advance(2_000)
    assert.equal(bench.attempts.length - before, whileLost + 1)
    await bench.end(waiting)
  })

  it('polls after a re-subscription that was refused', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const waiting = bench.start('me')
    await turn()
    bench.port.resubscribe(CHANNEL)
    assert.deepEqual(bench.refused, [CHANNEL])
    const before = bench.attempts.length
    await bench.clock.advance(10_000)
    assert(bench.attempts.length - before >= 40)
    await bench.end(waiting)
  })

  it('sleeps until the lease of the holder has ended', async () => {
    bench.takenUntil = bench.clock.now() + 1_000
    const startedAt = bench.clock.now()
    const waiting = bench.start('me')
    await bench.clock.advance(1_000)
    assert.equal(waiting.at, undefined)
    await bench.clock.advance(1)
    assert.equal(waiting.value, 'me')
    assert.deepEqual(bench.attemptsSince(startedAt), [0, 0, 1_001])
  })

  for (const random of [0, 0.999]) {
    it(`makes an attempt after at most 5 s when the lease is longer (random ${random})`, async () => {
      bench.fraction = random
      bench.takenUntil = bench.clock.now() + 60_000
      const startedAt = bench.clock.now()
      const waiting = bench.start('me')
      await bench.clock.advance(1)
      bench.port.isDeaf = true
      bench.takenUntil = 0
      await bench.clock.advance(5_000)
      const waitedMs = (waiting.at ?? 0) - startedAt
      assert(waitedMs >= 4_500 && waitedMs <= 5_000, `${waitedMs} ms`)
    })
  }

  it('polls every 250 ms while it is not subscribed, and reports once that Redis refused the channel', async () => {
    bench.port.once('SUBSCRIBE', { errorReply: 'NOPERM No permissions to access a channel' })
    bench.takenUntil = Number.POSITIVE_INFINITY
    const waiting = bench.start('me')
    await bench.clock.advance(10_000)
    assert(bench.attempts.length >= 40 && bench.attempts.length <= 46, `${bench.attempts.length} attempts in 10 s`)
    assert.deepEqual(bench.refused, [CHANNEL])
    bench.release()
    await bench.clock.advance(250)
    assert.equal(waiting.value, 'me')
  })

  it('polls while a subscription has failed, and relies on messages when it works again', async () => {
    bench.port.once('SUBSCRIBE', { lost: 'request', failsWith: 'Connection is closed' })
    bench.takenUntil = Number.POSITIVE_INFINITY
    const waiting = bench.start('me')
    await bench.clock.advance(1_000)
    assert.deepEqual(bench.refused, [])
    bench.port.resubscribe()
    await turn()
    const before = bench.attempts.length
    await bench.clock.advance(4_000)
    assert.equal(bench.attempts.length, before)
    bench.release()
    await turn()
    assert.equal(waiting.value, 'me')
  })

  for (const [title, isSubscribed, perMinute] of [
    ['it is subscribed to', true, 15],
    ['it is not subscribed to', false, 300],
  ] as const) {
    it(`makes at most ${perMinute} attempts a minute for a key without expiry, on a channel ${title}`, async () => {
      bench.fraction = 0
      if (!isSubscribed) bench.port.once('SUBSCRIBE', { lost: 'reply' })
      bench.takenUntil = Number.POSITIVE_INFINITY
      const waiting = bench.start('me')
      await bench.clock.advance(60_000)
      assert(bench.attempts.length <= perMinute, `${bench.attempts.length} attempts`)
      await bench.end(waiting)
    })
  }

  it('makes 50 attempts a second while every refusal says that the lease ends now', async () => {
    let count = 0
    const run = async (): Promise<Outcome<string>> => {
      count++
      return { is: 'refused', heldForMs: 0 }
    }
    const waiting = waitFor({ ...bench.waitOf('me'), attempt: { ...bench.attemptOf('me'), run } }, bench.tools)
    await bench.clock.advance(10_000)
    assert(count >= 495 && count <= 505, `${count} attempts in 10 s`)
    bench.tools.waitQueues.dismissAll(() => new Error('the test is over'))
    await Promise.allSettled([waiting])
  })
})

describe('onRefused', () => {
  /** How often a wait has called it. */
  function counting(caller: string): { promise: Promise<unknown>; calls: number } {
    const counted = { promise: Promise.resolve<unknown>(undefined), calls: 0 }
    counted.promise = waitFor({ ...bench.waitOf(caller), onRefused: () => counted.calls++ }, bench.tools)
    return counted
  }

  it('is not called by a wait that ends with its first attempt', async () => {
    const wait = counting('me')
    assert.equal(await bench.clock.until(wait.promise), 'me')
    assert.equal(wait.calls, 0)
  })

  it('is called after each refusal, and at once by a wait behind another', async () => {
    bench.takenUntil = Number.POSITIVE_INFINITY
    const [first, second] = [counting('first'), counting('second')]
    await turn()
    assert.deepEqual([first.calls, second.calls], [2, 1])
    bench.release()
    await bench.clock.until(first.promise)
    bench.release()
    await bench.clock.until(second.promise)
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
  afterEach(() => bench.clock.advance(1_000))

  function start(caller: string, { takeOver, ...options }: WaitOptions & Pick<Wait<string>, 'takeOver'> = {}) {
    const wait = bench.waitOf(caller, options)
    const run: Attempt<string>['run'] = (caller, turn) => {
      polls.push(turn?.isPoll)
      return wait.attempt.run(caller, turn)
    }
    const attempt = { ...wait.attempt, run }
    return waitFor({ ...wait, attempt, takeOver, leaveTurnQueue: () => {} }, bench.tools)
  }

  for (const [title, leaseTimeMs] of [
    ['a long lease', 60_000],
    ['a lease without end', Number.POSITIVE_INFINITY],
  ] as const) {
    it(`is a poll after 5 s without a message, during ${title}, and not after a message`, async () => {
      bench.takenUntil = bench.clock.now() + leaseTimeMs
      const waiting = start('me')
      await bench.clock.advance(4_000)
      const before = polls.length
      assert(!polls.includes(true))
      await bench.clock.advance(1_000)
      assert.deepEqual(polls.slice(before), [true])
      bench.release()
      await bench.clock.until(waiting)
      assert.deepEqual(polls.slice(before), [true, false])
    })
  }

  it('is no poll when the lease has ended, even after a pause of the process', async () => {
    bench.takenUntil = bench.clock.now() + 1_000
    const waiting = start('me')
    await bench.clock.advance(500)
    bench.clock.block(10_000)
    await bench.clock.until(waiting)
    assert.equal(polls.at(-1), false)
  })

  it('is no poll when a message has arrived during a pause of the process', async () => {
    bench.takenUntil = bench.clock.now() + 60_000
    const waiting = start('me')
    await bench.clock.advance(500)
    const before = polls.length
    bench.clock.block(10_000)
    bench.release()
    await bench.clock.until(waiting)
    assert.deepEqual(polls.slice(before), [false])
  })

  it('is no poll at the deadline of the wait', async () => {
    bench.takenUntil = bench.clock.now() + 60_000
    assert.equal(await bench.clock.until(start('me', { waitTimeMs: 1_000 })), undefined)
    assert.equal(polls.at(-1), false)
  })

  it('is no poll when the caller ahead has just left', async () => {
    bench.takenUntil = bench.clock.now() + 60_000
    const controller = new AbortController()
    const first = assert.rejects(start('first', { signal: controller.signal }), { name: 'AbortError' })
    const second = start('second')
    await bench.clock.advance(1_000)
    const before = polls.length
    controller.abort()
    await first
    await turn()
    assert.deepEqual(polls.slice(before), [false])
    bench.release()
    await bench.clock.until(second)
  })

  it('is made only when its turn comes, if this client has just let others go first', async () => {
    bench.takenUntil = bench.clock.now() + 60_000
    const first = start('first')
    await bench.clock.advance(100)
    bench.release()
    await bench.clock.until(first)
    const queue = bench.tools.waitQueues.at('a')
    queue?.released(2)
    assert.equal(queue?.ticketForRelease(true)?.staysQueued, true)
    bench.takenUntil = 0
    const before = polls.length
    const next = start('next')
    await bench.clock.advance(999)
    assert.equal(polls.length, before)
    assert.equal(await bench.clock.until(next), 'next')
  })

  it('is no poll when the caller ahead was handed the lock', async () => {
    bench.takenUntil = bench.clock.now() + 60_000
    const first = start('first', { takeOver: (offered) => `${offered}` })
    const second = start('second')
    await bench.clock.advance(1_000)
    const before = polls.length
    bench.tools.waitQueues.at('a')?.offer('what was released')
    assert.equal(await first, 'what was released')
    bench.release()
    await bench.clock.until(second)
    assert.deepEqual(polls.slice(before), [false])
  })
})

describe('a channel that is subscribed to already', () => {
  it('wakes a new listener at once: earlier messages went to the other listeners only', async () => {
    const wakeups = new Wakeups(bench.port, bench.clock, bench.tools.random, { onRefused: () => {} })
    const received: string[] = []
    const first = wakeups.listen(CHANNEL, () => received.push('first'))
    await turn()
    await bench.clock.advance(10)
    assert.equal(first.isLive, true)
    received.length = 0
    const second = wakeups.listen(CHANNEL, () => received.push('second'))
    assert.deepEqual(received, ['second'])
    first.leave()
    second.leave()
    await turn()
  })
})
