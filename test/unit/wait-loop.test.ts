import assert from 'node:assert/strict'
import { getEventListeners } from 'node:events'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Random } from '../../src/util/random.js'
import {
  type Attempt,
  OUTAGE_PATIENCE_MS,
  type Outcome,
  tryOnce,
  type Wait,
  type WaitTools,
  waitFor,
} from '../../src/waiting/wait-loop.js'
import { WaitQueues } from '../../src/waiting/wait-queue.js'
import { Wakeups } from '../../src/waiting/wakeups.js'
import { FakeClock, turn } from '../support/fake-clock.js'
import { FakePort } from '../support/fake-port.js'

const CHANNEL = 'redisson_lock__channel:{a}'
const LEASE_MS = 30_000

class Passing extends Error {}

let clock: FakeClock
let port: FakePort
let tools: WaitTools
/** What random pauses come out as, in [0, 1). */
let fraction: number
/** Which channels Redis was said to refuse. */
let refused: string[]
let signals: AbortSignal[]

/** What is waited for: who asks gets it, or is told for how long it is taken; Infinity: without end. */
let takenUntil: number
/** How long an attempt takes, ms: half of it until Redis looks, half until the answer is here. */
let attemptMs: number
let failure: Error | undefined
/** Who asked, and when. */
let attempts: { who: string; at: number }[]
/** What came too late for its caller. */
let givenBack: string[]

beforeEach(() => {
  clock = new FakeClock()
  port = new FakePort(clock)
  refused = []
  signals = []
  fraction = 0.5
  const wakeups = new Wakeups(port, (channel) => refused.push(channel))
  port.listen({
    reconnected: () => {},
    subscriptionLost: (name) => wakeups.subscriptionLost(name),
    resubscribed: (name, refusal) => wakeups.resubscribed(name, refusal),
  })
  const random: Random = { uuid: () => 'id', fraction: () => fraction }
  tools = { clock, random, waitQueues: new WaitQueues(clock, wakeups, 'id') }
  takenUntil = 0
  attemptMs = 0
  failure = undefined
  attempts = []
  givenBack = []
})

afterEach(() => {
  assert.equal(tools.waitQueues.size, 0, 'nobody is left in line')
  assert.equal(clock.pending, 0, 'no timer is left')
  assert.deepEqual(port.channels, [], 'no subscription is left')
  assert.equal(port.count('SUBSCRIBE'), port.count('UNSUBSCRIBE'))
  for (const signal of signals) assert.deepEqual(getEventListeners(signal, 'abort'), [], 'no listener is left')
})

function waitOf(who: string, options: { waitTimeMs?: number; signal?: AbortSignal } = {}): Wait<string> {
  const { waitTimeMs = Number.POSITIVE_INFINITY, signal } = options
  if (signal) signals.push(signal)
  return {
    lockName: 'a',
    queue: 'a',
    channel: CHANNEL,
    deadlineAt: clock.now() + waitTimeMs,
    signal,
    isTransient: (error) => error instanceof Passing,
    attempt: attemptOf(who),
  }
}

function attemptOf(who: string): Attempt<string> {
  return {
    run: async () => {
      attempts.push({ who, at: clock.now() })
      await travel(attemptMs / 2)
      const leftMs = takenUntil - clock.now()
      if (leftMs <= 0 && !failure) takenUntil = clock.now() + LEASE_MS
      await travel(attemptMs / 2)
      if (failure) throw failure
      if (leftMs <= 0) return { is: 'granted', value: who, leaseMs: LEASE_MS }
      return { is: 'refused', heldForMs: leftMs === Number.POSITIVE_INFINITY ? -1 : leftMs }
    },
    undo: (left) => {
      for (const outcome of left) {
        if (outcome.is !== 'granted') continue
        givenBack.push(outcome.value)
        takenUntil = 0
      }
    },
  }
}

async function travel(ms: number): Promise<void> {
  if (ms > 0) await new Promise<void>((resolve) => void clock.after(ms, resolve))
}

/** Starts to wait; the answer is what it came to, once it did. */
function start(who: string, options: { waitTimeMs?: number; signal?: AbortSignal } = {}): Waiting {
  const outcome: Waiting = { promise: waitFor(waitOf(who, options), tools), at: undefined, value: undefined }
  const settled = (value: unknown): void => {
    outcome.at = clock.now()
    outcome.value = value
  }
  outcome.promise.then(settled, settled)
  return outcome
}

interface Waiting {
  readonly promise: Promise<string | undefined>
  at: number | undefined
  value: unknown
}

function release(): void {
  takenUntil = 0
  port.redis.publish(CHANNEL, '0')
}

/** When the attempts were made, ms after `since`. */
function attemptsSince(since: number): number[] {
  return attempts.map(({ at }) => at - since)
}

/** Ends a wait that the test is done with. */
async function end(...outcomes: Waiting[]): Promise<void> {
  tools.waitQueues.dismissAll(() => new Error('the test is over'))
  await Promise.allSettled(outcomes.map(({ promise }) => promise))
}

describe('a wait', () => {
  it('ends with the first attempt when that is granted, without listening', async () => {
    assert.equal(await clock.until(start('me').promise), 'me')
    assert.equal(attempts.length, 1)
    assert.equal(port.count(), 0)
  })

  it('listens after a refusal, and asks again when the channel is heard', async () => {
    takenUntil = clock.now() + 10_000
    port.once('SUBSCRIBE', { replyMs: 100 })
    const startedAt = clock.now()
    const waiting = start('me')
    await clock.advance(99)
    assert.deepEqual(attemptsSince(startedAt), [0])
    takenUntil = 0 // the message of this release is heard by nobody
    await clock.advance(1)
    assert.equal(waiting.value, 'me')
    assert.deepEqual(attemptsSince(startedAt), [0, 100])
  })

  it('asks when it is woken', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const waiting = start('me')
    await clock.advance(1_000)
    assert.equal(waiting.at, undefined)
    const before = attempts.length
    release()
    await turn()
    assert.equal(waiting.value, 'me')
    assert.equal(attempts.length, before + 1)
  })

  it('takes a wake-up for a hint: refused again, it waits on', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const waiting = start('me')
    await turn()
    for (let forged = 0; forged < 10; forged++) {
      await clock.advance(10)
      const before = attempts.length
      port.redis.publish(CHANNEL, '0')
      await turn()
      assert.equal(attempts.length, before + 1)
    }
    assert.equal(waiting.at, undefined)
    await end(waiting)
  })

  it('answers any number of wake-ups during one attempt with one attempt', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const waiting = start('me')
    await turn()
    attemptMs = 100
    const before = attempts.length
    for (let forged = 0; forged < 1_000; forged++) {
      port.redis.publish(CHANNEL, '0')
      await turn()
    }
    await clock.advance(150)
    assert.equal(attempts.length, before + 2)
    await clock.advance(50)
    await end(waiting)
  })

  it('does not lose a wake-up that comes during an attempt', async () => {
    takenUntil = clock.now() + 10_000
    const waiting = start('me')
    await turn()
    attemptMs = 100
    port.redis.publish(CHANNEL, '0')
    await clock.advance(75)
    release() // after Redis has looked, before the refusal is here
    await clock.advance(25)
    assert.equal(waiting.at, undefined)
    assert.equal(attempts.at(-1)?.at, clock.now(), 'it asks again at once')
    await clock.advance(100)
    assert.equal(waiting.value, 'me')
  })

  it('asks again after a re-subscription, as messages may have been missed', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const waiting = start('me')
    await clock.advance(100)
    port.isDeaf = true
    release()
    await clock.advance(100)
    assert.equal(waiting.at, undefined)
    port.resubscribe()
    await turn()
    assert.equal(waiting.value, 'me')
  })

  it('asks at once when the subscription is lost, then every 250 ms until it is back', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const waiting = start('me')
    await clock.advance(100)
    const before = attempts.length
    port.loseSubscriber()
    await turn()
    assert.equal(attempts.length - before, 1)
    await clock.advance(2_000)
    const whileLost = attempts.length - before
    assert(whileLost >= 8 && whileLost <= 10, `${whileLost} attempts in 2 s`)
    port.loseSubscriber() // as a port may say with each failed reconnect
    await turn()
    assert.equal(attempts.length - before, whileLost)
    port.resubscribe()
    await clock.advance(2_000)
    assert.equal(attempts.length - before, whileLost + 1)
    await end(waiting)
  })

  it('polls after a re-subscription that was refused', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const waiting = start('me')
    await turn()
    port.resubscribe(CHANNEL)
    assert.deepEqual(refused, [CHANNEL])
    const before = attempts.length
    await clock.advance(10_000)
    assert(attempts.length - before >= 40)
    await end(waiting)
  })

  it('sleeps until the lease of the holder has ended', async () => {
    takenUntil = clock.now() + 1_000
    const startedAt = clock.now()
    const waiting = start('me')
    await clock.advance(1_000)
    assert.equal(waiting.at, undefined)
    await clock.advance(1)
    assert.equal(waiting.value, 'me')
    assert.deepEqual(attemptsSince(startedAt), [0, 0, 1_001])
  })

  for (const random of [0, 0.999]) {
    it(`asks again after a poll of at most 5 s when the lease is longer (random ${random})`, async () => {
      fraction = random
      takenUntil = clock.now() + 60_000
      const startedAt = clock.now()
      const waiting = start('me')
      await clock.advance(1)
      port.isDeaf = true
      takenUntil = 0
      await clock.advance(5_000)
      const waitedMs = (waiting.at ?? 0) - startedAt
      assert(waitedMs >= 4_500 && waitedMs <= 5_000, `${waitedMs} ms`)
    })
  }

  it('polls every 250 ms while the channel is not heard, and is told once that it is refused', async () => {
    port.once('SUBSCRIBE', { errorReply: 'NOPERM No permissions to access a channel' })
    takenUntil = Number.POSITIVE_INFINITY
    const waiting = start('me')
    await clock.advance(10_000)
    assert(attempts.length >= 40 && attempts.length <= 46, `${attempts.length} attempts in 10 s`)
    assert.deepEqual(refused, [CHANNEL])
    release()
    await clock.advance(250)
    assert.equal(waiting.value, 'me')
  })

  it('polls while a subscription has failed, and goes on with messages when it works again', async () => {
    port.once('SUBSCRIBE', { lost: 'request', failsWith: 'Connection is closed' })
    takenUntil = Number.POSITIVE_INFINITY
    const waiting = start('me')
    await clock.advance(1_000)
    assert.deepEqual(refused, [])
    port.resubscribe()
    await turn()
    const before = attempts.length
    await clock.advance(4_000)
    assert.equal(attempts.length, before)
    release()
    await turn()
    assert.equal(waiting.value, 'me')
  })

  for (const [title, isHeard, perMinute] of [
    ['that is heard', true, 15],
    ['that is not heard', false, 300],
  ] as const) {
    it(`asks at most ${perMinute} times a minute about a key without expiry, on a channel ${title}`, async () => {
      fraction = 0
      if (!isHeard) port.once('SUBSCRIBE', { lost: 'reply' })
      takenUntil = Number.POSITIVE_INFINITY
      const waiting = start('me')
      await clock.advance(60_000)
      assert(attempts.length <= perMinute, `${attempts.length} attempts`)
      await end(waiting)
    })
  }

  it('asks at most 50 times a second when the lease is said to end right now, for ever', async () => {
    let asked = 0
    const run = async (): Promise<Outcome<string>> => {
      asked++
      return { is: 'refused', heldForMs: 0 }
    }
    const waiting = waitFor({ ...waitOf('me'), attempt: { ...attemptOf('me'), run } }, tools)
    await clock.advance(10_000)
    assert(asked <= 505, `${asked} attempts in 10 s`)
    tools.waitQueues.dismissAll(() => new Error('the test is over'))
    await Promise.allSettled([waiting])
  })
})

describe('the deadline of a wait', () => {
  it('ends it without the lock, and without an attempt more', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const startedAt = clock.now()
    const waiting = start('me', { waitTimeMs: 1_000 })
    await clock.advance(999)
    assert.equal(waiting.at, undefined)
    await clock.until(waiting.promise)
    assert.equal(waiting.value, undefined)
    assert.equal((waiting.at ?? 0) - startedAt, 1_000)
  })

  it('is one point in time, however the wait is spent', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const startedAt = clock.now()
    const waiting = start('me', { waitTimeMs: 10_000 })
    for (let second = 0; second < 9; second++) {
      attemptMs = second * 100
      port.redis.publish(CHANNEL, '0')
      await clock.advance(1_000)
    }
    attemptMs = 0
    await clock.until(waiting.promise)
    assert.equal((waiting.at ?? 0) - startedAt, 10_000)
  })

  it('lets the last attempt be made when the lease of the holder ends right then', async () => {
    takenUntil = clock.now() + 1_000
    const waiting = start('me', { waitTimeMs: 1_000 })
    await clock.until(waiting.promise)
    assert.equal(waiting.value, 'me')
  })

  it('waits for the attempt in flight, and answers its late success', async () => {
    attemptMs = 2_000
    const startedAt = clock.now()
    const waiting = start('me', { waitTimeMs: 1_000 })
    await clock.until(waiting.promise)
    assert.equal(waiting.value, 'me')
    assert.equal((waiting.at ?? 0) - startedAt, 2_000)
    assert.deepEqual(givenBack, [])
  })

  it('waits for the attempt in flight, and ends with its late refusal or error', async () => {
    attemptMs = 2_000
    takenUntil = Number.POSITIVE_INFINITY
    assert.equal(await clock.until(start('me', { waitTimeMs: 1_000 }).promise), undefined)
    failure = new Passing('no reply')
    await assert.rejects(clock.until(start('me', { waitTimeMs: 1_000 }).promise), failure)
    assert.equal(attempts.length, 2)
  })

  it('is looked at first after a pause of the process', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const waiting = start('me', { waitTimeMs: 1_000 })
    await turn()
    const before = attempts.length
    clock.block(10_000)
    await clock.advance(0)
    assert.equal(waiting.value, undefined)
    assert(attempts.length <= before + 1)
  })

  it('ends a wait in the middle of the line, which never asked', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const head = start('head')
    const waiting = start('me', { waitTimeMs: 1_000 })
    assert.equal(await clock.until(waiting.promise), undefined)
    assert(attempts.every(({ who }) => who === 'head'))
    await end(head)
  })
})

describe('an abort', () => {
  const reason = new Error('the user went away')

  it('ends a wait before it began', async () => {
    await assert.rejects(start('me', { signal: AbortSignal.abort(reason) }).promise, reason)
    await assert.rejects(tryOnce(waitOf('me', { signal: AbortSignal.abort(reason) }), tools), reason)
    assert.equal(attempts.length, 0)
  })

  it('ends a sleep at once, with its reason', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const controller = new AbortController()
    const waiting = start('me', { signal: controller.signal })
    await clock.advance(1_000)
    controller.abort(reason)
    await turn()
    assert.equal(waiting.value, reason)
  })

  it('without a reason ends a wait with the AbortError of the platform', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const controller = new AbortController()
    const waiting = start('me', { signal: controller.signal })
    await turn()
    controller.abort()
    await assert.rejects(waiting.promise, { name: 'AbortError' })
  })

  it('does not wait for an attempt in flight, and gives back what that still brings', async () => {
    attemptMs = 1_000
    const controller = new AbortController()
    const waiting = start('me', { signal: controller.signal })
    await clock.advance(500)
    controller.abort(reason)
    await turn()
    assert.equal(waiting.value, reason)
    assert.deepEqual(givenBack, [])
    await clock.advance(500)
    assert.deepEqual(givenBack, ['me'])
  })

  it('ignores how an attempt in flight fails', async () => {
    attemptMs = 1_000
    failure = new Error('WRONGTYPE')
    const controller = new AbortController()
    const waiting = start('me', { signal: controller.signal })
    await turn()
    controller.abort(reason)
    await clock.advance(1_000)
    assert.equal(waiting.value, reason)
  })

  it('ends a back-off at once', async () => {
    failure = new Passing('no reply')
    const controller = new AbortController()
    const waiting = start('me', { signal: controller.signal })
    await clock.advance(3_000)
    controller.abort(reason)
    await turn()
    assert.equal(waiting.value, reason)
  })

  it('has no say once the lock is granted', async () => {
    const controller = new AbortController()
    const waiting = start('me', { signal: controller.signal })
    assert.equal(await clock.until(waiting.promise), 'me')
    controller.abort(reason)
    await turn()
    assert.deepEqual(givenBack, [])
  })

  it('of one signal ends a thousand waits, by one listener', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const controller = new AbortController()
    const waits = Array.from({ length: 1_000 }, (_, n) => start(`${n}`, { signal: controller.signal }))
    assert.equal(getEventListeners(controller.signal, 'abort').length, 1)
    await turn()
    controller.abort(reason)
    await turn()
    assert(waits.every(({ value }) => value === reason))
  })
})

describe('a line of waiters', () => {
  it('of a thousand is one subscription, and one who asks', async () => {
    takenUntil = clock.now() + 60_000
    const waits = Array.from({ length: 1_000 }, (_, n) => start(`${n}`, { waitTimeMs: 50_000 }))
    await clock.advance(10_000)
    assert.equal(port.count('SUBSCRIBE'), 1)
    assert(
      attempts.every(({ who }) => who === '0'),
      'only the head asks',
    )
    assert(attempts.length <= 5, `${attempts.length} attempts in 10 s`)
    for (const [n, wait] of waits.entries()) {
      release()
      await turn()
      assert.equal(wait.value, `${n}`, 'first come first served')
    }
    assert(attempts.length <= 1_005, `${attempts.length} attempts for 1,000 grants`)
    assert.equal(port.count('SUBSCRIBE'), 1)
  })

  it('lets the next one ask at once when the head is aborted', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const controller = new AbortController()
    const head = start('head', { signal: controller.signal })
    const next = start('next')
    await clock.advance(1_000)
    const at = clock.now()
    controller.abort()
    await turn()
    assert.deepEqual(attempts.at(-1), { who: 'next', at })
    await end(head, next)
  })

  it('lets the next one ask at once when the time of the head is over', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const head = start('head', { waitTimeMs: 1_000 })
    const next = start('next')
    await clock.until(head.promise)
    assert.deepEqual(attempts.at(-1), { who: 'next', at: clock.now() })
    await end(next)
  })

  it('lets the next one ask at once when the head fails', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const head = start('head')
    const next = start('next')
    await turn()
    failure = new Error('NOPERM')
    port.redis.publish(CHANNEL, '0')
    await assert.rejects(clock.until(head.promise), failure)
    await assert.rejects(clock.until(next.promise), failure)
  })

  it('skips those who left', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const controller = new AbortController()
    const head = start('head')
    const middle = start('middle', { signal: controller.signal })
    const last = start('last')
    await turn()
    controller.abort()
    release()
    assert.equal(await clock.until(head.promise), 'head')
    release()
    assert.equal(await clock.until(last.promise), 'last')
    await end(middle)
  })

  it('does not ask after a grant until it is woken', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const head = start('head')
    const next = start('next')
    await clock.advance(1_000)
    release()
    assert.equal(await clock.until(head.promise), 'head')
    await clock.advance(4_000)
    assert.equal(attempts.at(-1)?.who, 'head')
    release()
    assert.equal(await clock.until(next.promise), 'next')
  })

  it('asks after a grant when the lease of that ends, if that is sooner than a poll', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const attempt = attemptOf('head')
    const run: Attempt<string>['run'] = async (caller) => {
      const outcome = await attempt.run(caller)
      if (outcome.is === 'granted') takenUntil = clock.now() + 2_000
      return outcome.is === 'granted' ? { ...outcome, leaseMs: 2_000 } : outcome
    }
    const head = waitFor({ ...waitOf('head'), attempt: { ...attempt, run } }, tools)
    const next = start('next')
    await clock.advance(1_000)
    release()
    assert.equal(await clock.until(head), 'head')
    const grantedAt = clock.now()
    await clock.until(next.promise)
    assert.deepEqual(
      attempts.filter(({ who }) => who === 'next').map(({ at }) => at - grantedAt),
      [2_001],
    )
  })

  it('asks after a grant at once when it heard a message during the attempt that was granted', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const head = start('head')
    const next = start('next')
    await clock.advance(1_000)
    attemptMs = 100
    release()
    await clock.advance(50)
    port.redis.publish(CHANNEL, '0')
    assert.equal(await clock.until(head.promise), 'head')
    await turn()
    assert.deepEqual(attempts.at(-1), { who: 'next', at: clock.now() })
    await end(next)
    await clock.advance(100)
  })

  it('asks after a grant at once when nobody listens yet, as a release could be missed', async () => {
    const head = start('head')
    const next = start('next')
    assert.equal(await clock.until(head.promise), 'head')
    await turn()
    assert.deepEqual(
      attempts.map(({ who }) => who),
      ['head', 'next', 'next'],
    )
    await end(next)
  })

  it('leaves a channel only when its last waiter leaves', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const [first, second] = [start('first', { waitTimeMs: 1_000 }), start('second', { waitTimeMs: 2_000 })]
    await clock.until(first.promise)
    assert.deepEqual(port.channels, [CHANNEL])
    await clock.until(second.promise)
    assert.deepEqual(port.channels, [])
  })

  it('takes the channel again when somebody comes while it was being left', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    port.once('SUBSCRIBE', { replyMs: 500 })
    const first = start('first', { waitTimeMs: 100 })
    await clock.until(first.promise)
    const second = start('second')
    await clock.advance(1_000)
    assert.equal(port.count('SUBSCRIBE'), 2)
    release()
    await turn()
    assert.equal(second.value, 'second')
  })

  it('is sent away as a whole when the client closes', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const waits = Array.from({ length: 10 }, (_, n) => start(`${n}`))
    await clock.advance(1_000)
    const before = attempts.length
    tools.waitQueues.dismissAll((lockName) => `closed, while waiting for ${lockName}`)
    await turn()
    assert(waits.every(({ value }) => value === 'closed, while waiting for a'))
    assert.equal(attempts.length, before)
  })
})

describe('an attempt that fails', () => {
  it('is not repeated when that is no use', async () => {
    failure = new Error('WRONGTYPE Operation against a key holding the wrong kind of value')
    await assert.rejects(clock.until(start('me').promise), failure)
    assert.equal(attempts.length, 1)
  })

  it('is repeated with growing pauses, and then succeeds', async () => {
    failure = new Passing('LOADING')
    const startedAt = clock.now()
    const waiting = start('me')
    await clock.advance(10_000)
    const times = attemptsSince(startedAt)
    const pauses = times.slice(1).map((at, index) => at - (times[index] ?? 0))
    assert(pauses.length >= 10 && pauses.length <= 25, `pauses of ${pauses.join(', ')} ms`)
    for (const [index, pause] of pauses.entries()) {
      assert(pause >= (pauses[index - 1] ?? 25) && pause <= 1_000, `pauses of ${pauses.join(', ')} ms`)
    }
    failure = undefined
    await clock.advance(1_000)
    assert.equal(waiting.value, 'me')
  })

  it('is given up after 15 s, with the last error', async () => {
    const startedAt = clock.now()
    failure = new Passing('first')
    const waiting = start('me')
    await clock.advance(10_000)
    failure = new Passing('last')
    await assert.rejects(clock.until(waiting.promise), { message: 'last' })
    const waitedMs = clock.now() - startedAt
    assert(waitedMs >= OUTAGE_PATIENCE_MS && waitedMs <= OUTAGE_PATIENCE_MS + 1_000, `${waitedMs} ms`)
  })

  it('gets its 15 s anew after each answer', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const waiting = start('me')
    for (let outage = 0; outage < 4; outage++) {
      failure = new Passing('LOADING')
      await clock.advance(14_000)
      assert.equal(waiting.at, undefined)
      failure = undefined
      await clock.advance(6_000)
    }
    release()
    await clock.until(waiting.promise)
  })

  it('ends with its error, not with a refusal, when the wait time ends first', async () => {
    failure = new Passing('no reply')
    const startedAt = clock.now()
    const waiting = start('me', { waitTimeMs: 1_000 })
    await assert.rejects(clock.until(waiting.promise), failure)
    assert.equal(clock.now() - startedAt, 1_000)
  })
})

describe('a single try', () => {
  it('asks once, outside the line', async () => {
    assert.equal(await tryOnce(waitOf('me'), tools), 'me')
    assert.equal(await tryOnce(waitOf('you'), tools), undefined)
    failure = new Passing('no reply')
    await assert.rejects(tryOnce(waitOf('me'), tools), failure)
    assert.equal(attempts.length, 3)
    assert.equal(port.count(), 0)
  })

  it('gives back what comes after an abort', async () => {
    attemptMs = 1_000
    const controller = new AbortController()
    const trying = tryOnce(waitOf('me', { signal: controller.signal }), tools)
    await turn()
    controller.abort('enough')
    await assert.rejects(trying, (reason) => reason === 'enough')
    await clock.advance(1_000)
    assert.deepEqual(givenBack, ['me'])
  })
})

describe('undo, once per wait, gets what did not reach the caller', () => {
  const REFUSED: Outcome<string> = { is: 'refused', heldForMs: -1 }
  const GRANTED: Outcome<string> = { is: 'granted', value: 'it', leaseMs: LEASE_MS }
  const UNKNOWN: Outcome<string> = { is: 'unknown', error: new Passing('no reply') }
  /** What `undo` got, one entry for each call. */
  let undone: (readonly Outcome<string>[])[]

  beforeEach(() => {
    undone = []
  })

  /** A wait whose attempts have these outcomes, one after the other; the last one again and again. */
  function waitWith(outcomes: readonly (Outcome<string> | Error)[], options: Partial<Wait<string>> = {}): Wait<string> {
    const rest = [...outcomes]
    const attempt: Attempt<string> = {
      run: async () => {
        attempts.push({ who: 'me', at: clock.now() })
        await travel(attemptMs)
        const outcome = rest.length > 1 ? rest.shift() : rest[0]
        if (outcome instanceof Error) throw outcome
        return outcome as Outcome<string>
      },
      undo: (left) => undone.push(left),
    }
    return { ...waitOf('me'), attempt, ...options }
  }

  function aborting(): AbortController {
    const controller = new AbortController()
    signals.push(controller.signal)
    return controller
  }

  for (const [title, wait] of [
    ['a wait', waitFor],
    ['a single try', tryOnce],
  ] as const) {
    it(`undo gets nothing after ${title} that was granted it`, async () => {
      assert.equal(await clock.until(wait(waitWith([GRANTED]), tools)), 'it')
      assert.deepEqual(undone, [[]])
    })

    it(`undo gets nothing after ${title} whose signal had aborted before`, async () => {
      const waiting = wait(waitWith([GRANTED], { signal: AbortSignal.abort('enough') }), tools)
      await assert.rejects(waiting, (reason) => reason === 'enough')
      assert.deepEqual([undone, attempts], [[[]], []])
    })

    it(`undo gets nothing after ${title} that failed with an error that left nothing`, async () => {
      const failure = new Error('WRONGTYPE')
      await assert.rejects(clock.until(wait(waitWith([failure]), tools)), failure)
      assert.deepEqual(undone, [[]])
    })

    for (const [what, outcome] of [
      ['a grant', GRANTED],
      ['a refusal', REFUSED],
      ['no reply', UNKNOWN],
    ] as const) {
      it(`undo gets ${what} that arrives after the caller of ${title} has aborted, when it arrives`, async () => {
        const controller = aborting()
        attemptMs = 1_000
        const waiting = wait(waitWith([outcome], { signal: controller.signal }), tools)
        await clock.advance(500)
        controller.abort('enough')
        await assert.rejects(waiting, (reason) => reason === 'enough')
        assert.deepEqual(undone, [], 'not while the attempt is in flight')
        await clock.advance(500)
        assert.deepEqual(undone, [[outcome]])
      })
    }

    it(`undo gets nothing when ${title} was aborted in flight and the attempt fails later`, async () => {
      const controller = aborting()
      attemptMs = 1_000
      const waiting = wait(waitWith([new Error('WRONGTYPE')], { signal: controller.signal }), tools)
      await turn()
      controller.abort('enough')
      await assert.rejects(waiting, (reason) => reason === 'enough')
      await clock.advance(1_000)
      assert.deepEqual(undone, [[]])
    })
  }

  it('undo gets the refusal of a single try', async () => {
    assert.equal(await tryOnce(waitWith([REFUSED]), tools), undefined)
    assert.deepEqual(undone, [[REFUSED]])
  })

  it('undo gets the unknown outcome of a single try, which fails with its error', async () => {
    await assert.rejects(tryOnce(waitWith([UNKNOWN]), tools), { message: 'no reply' })
    assert.deepEqual(undone, [[UNKNOWN]])
  })

  it('undo gets an unknown outcome without an error, which is a refusal to the caller', async () => {
    assert.equal(await tryOnce(waitWith([{ is: 'unknown' }]), tools), undefined)
    assert.deepEqual(undone, [[{ is: 'unknown' }]])
  })

  it('undo gets only the last of many refusals, when the wait time ends', async () => {
    const waiting = waitFor(waitWith([REFUSED], { deadlineAt: clock.now() + 20_000 }), tools)
    assert.equal(await clock.until(waiting), undefined)
    assert(attempts.length > 3)
    assert.deepEqual(undone, [[REFUSED]])
  })

  it('undo gets the late refusal of an attempt in flight at the deadline', async () => {
    attemptMs = 2_000
    const waiting = waitFor(waitWith([REFUSED], { deadlineAt: clock.now() + 1_000 }), tools)
    assert.equal(await clock.until(waiting), undefined)
    assert.deepEqual(undone, [[REFUSED]])
  })

  it('undo gets an unknown outcome that a grant follows', async () => {
    assert.equal(await clock.until(waitFor(waitWith([UNKNOWN, GRANTED]), tools)), 'it')
    assert.deepEqual(undone, [[UNKNOWN]])
  })

  it('undo gets an unknown outcome and a refusal, when the caller aborts during a pause', async () => {
    const controller = aborting()
    const waiting = waitFor(waitWith([REFUSED, UNKNOWN, REFUSED], { signal: controller.signal }), tools)
    await clock.advance(1_000)
    controller.abort('enough')
    await assert.rejects(waiting, (reason) => reason === 'enough')
    assert.deepEqual(undone, [[UNKNOWN, REFUSED]])
  })

  it('undo gets a late grant, when the client closes during the attempt', async () => {
    attemptMs = 1_000
    const waiting = waitFor(waitWith([GRANTED]), tools)
    await turn()
    tools.waitQueues.dismissAll(() => 'closed')
    await assert.rejects(waiting, (reason) => reason === 'closed')
    assert.deepEqual(undone, [])
    await clock.advance(1_000)
    assert.deepEqual(undone, [[GRANTED]])
  })

  it('undo gets the last refusal, when another caller hands over what it releases', async () => {
    const waiting = waitFor(waitWith([REFUSED], { takeOver: (offered) => `${offered}` }), tools)
    await clock.advance(1_000)
    assert.equal(tools.waitQueues.at('a')?.offer('what was released'), true)
    assert.equal(await waiting, 'what was released')
    assert.deepEqual(undone, [[REFUSED]])
  })

  it('undo gets nothing after a wait that was never first in its queue', async () => {
    takenUntil = Number.POSITIVE_INFINITY
    const head = start('head')
    const waiting = waitFor(waitWith([GRANTED], { deadlineAt: clock.now() + 1_000 }), tools)
    assert.equal(await clock.until(waiting), undefined)
    assert.deepEqual(undone, [[]])
    await end(head)
  })

  it('undo gets nothing, at once, when the caller aborts before the attempt may be sent; it is not sent later', async () => {
    const controller = aborting()
    const wait = waitWith([GRANTED], { signal: controller.signal })
    const untilReady = (): Promise<void> => travel(1_000)
    const waiting = waitFor({ ...wait, attempt: { ...wait.attempt, untilReady } }, tools)
    await clock.advance(500)
    controller.abort('enough')
    await assert.rejects(waiting, (reason) => reason === 'enough')
    assert.deepEqual(undone, [[]])
    await clock.advance(1_000)
    assert.deepEqual([undone, attempts], [[[]], []])
  })
})

describe('an attempt that may not be sent yet', () => {
  /** A wait whose attempts may be sent after 1 s. */
  function waitSoon(waitTimeMs: number): Wait<string> {
    const wait = waitOf('me', { waitTimeMs })
    let isReady = false
    const prepare = async (): Promise<void> => {
      await travel(1_000)
      isReady = true
    }
    return { ...wait, attempt: { ...wait.attempt, untilReady: () => (isReady ? undefined : prepare()) } }
  }

  it('is sent as soon as it may be', async () => {
    const startedAt = clock.now()
    assert.equal(await clock.until(waitFor(waitSoon(2_000), tools)), 'me')
    assert.deepEqual(attemptsSince(startedAt), [1_000])
  })

  it('is not sent when the wait time ends first', async () => {
    assert.equal(await clock.until(waitFor(waitSoon(500), tools)), undefined)
    assert.deepEqual(attempts, [])
  })

  it('is sent by a single try however long that takes', async () => {
    assert.equal(await clock.until(tryOnce(waitSoon(0), tools)), 'me')
    assert.equal(attempts.length, 1)
  })
})

describe('a single try that is refused because of a sibling', () => {
  function trying(signal?: AbortSignal): Promise<string | undefined> {
    const wait = waitOf('me', signal ? { signal } : {})
    const siblingUntil = clock.now() + 100
    const run: Attempt<string>['run'] = async (caller) => {
      if (clock.now() < siblingUntil) return { is: 'refused', heldForMs: 20, retryUntil: clock.now() + 1_000 }
      return await wait.attempt.run(caller)
    }
    return tryOnce({ ...wait, attempt: { ...wait.attempt, run } }, tools)
  }

  it('asks again soon', async () => {
    const startedAt = clock.now()
    assert.equal(await clock.until(trying()), 'me')
    assert.equal(clock.now() - startedAt, 100)
  })

  it('ends at once when it is aborted', async () => {
    const controller = new AbortController()
    const waiting = trying(controller.signal)
    await turn()
    controller.abort('enough')
    await assert.rejects(waiting, (reason) => reason === 'enough')
    assert.deepEqual(attempts, [])
  })
})

describe('a channel that is heard already', () => {
  it('wakes who begins to listen at once: what was said before went to the others only', async () => {
    const wakeups = new Wakeups(port, () => {})
    const heard: string[] = []
    const first = wakeups.listen(CHANNEL, () => heard.push('first'))
    await turn()
    await clock.advance(10)
    assert.equal(first.isLive, true)
    heard.length = 0
    const second = wakeups.listen(CHANNEL, () => heard.push('second'))
    assert.deepEqual(heard, ['second'])
    first.leave()
    second.leave()
    await turn()
  })
})
