/** One caller's wait: its pauses, what it takes from other callers, and the subscriptions whose messages wake it. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { SeededRandom } from '../../src/testing/seeded-random.js'
import { Waiter } from '../../src/waiting/waiter.js'
import { type Subscription, Wakeups } from '../../src/waiting/wakeups.js'
import { FakeClock, turn } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'

const CHANNEL = 'channel'

let clock: FakeClock
let port: FakePort
let wakeups: Wakeups
/** The channels that were reported as denied. */
let refused: string[]

beforeEach(() => {
  clock = new FakeClock()
  port = new FakePort(clock)
  refused = []
  wakeups = newWakeups(port)
})

afterEach(() => assert.equal(clock.pending, 0, 'no timer is left'))

interface WaiterOptions {
  readonly waitTimeMs?: number
  readonly takeOver?: (offered: unknown) => string | undefined
}

function newWaiter({ waitTimeMs = Number.POSITIVE_INFINITY, takeOver }: WaiterOptions = {}): Waiter<string> {
  return new Waiter(clock, 'a', clock.now() + waitTimeMs, undefined, { takeOver })
}

/** How long the pause lasts, ms; undefined: it is not over after `limitMs`. */
async function lengthOf(pause: Promise<void>, limitMs: number): Promise<number | undefined> {
  const startedAt = clock.now()
  let endedAt: number | undefined
  void pause.then(() => {
    endedAt = clock.now()
  })
  await clock.advance(limitMs)
  return endedAt === undefined ? undefined : endedAt - startedAt
}

describe('a pause', () => {
  it('a pause lasts as long as it was asked to', async () => {
    assert.equal(await lengthOf(newWaiter().pause(100), 1_000), 100)
  })

  it('a pause ends at the deadline of its caller', async () => {
    assert.equal(await lengthOf(newWaiter({ waitTimeMs: 60 }).pause(100), 1_000), 60)
  })

  it('a pause without a limit needs no timer, and ends with a wake-up', async () => {
    const waiter = newWaiter()
    const pause = waiter.pause(Number.POSITIVE_INFINITY)
    assert.equal(clock.pending, 0)
    clock.block(1_000_000)
    waiter.wake()
    await pause
  })

  it('a pause of no length needs no timer', async () => {
    for (const ms of [0, -5]) {
      const pause = newWaiter().pause(ms)
      assert.equal(clock.pending, 0)
      await pause
    }
  })

  it('a pause ends at once with a wake-up', async () => {
    const waiter = newWaiter()
    const pause = waiter.pause(100)
    waiter.wake()
    assert.equal(clock.pending, 0)
    await pause
  })

  it('a pause does not begin after a wake-up, unless that was forgotten', async () => {
    const waiter = newWaiter()
    waiter.wake()
    assert.equal(await lengthOf(waiter.pause(100), 0), 0)
    waiter.clearWakeUp()
    assert.equal(await lengthOf(waiter.pause(100), 1_000), 100)
  })

  it('a pause is not shortened by a wake-up that came after the last one was over', async () => {
    const waiter = newWaiter()
    await clock.until(waiter.pause(10))
    waiter.wake()
    assert.equal(clock.pending, 0)
    waiter.clearWakeUp()
    assert.equal(await lengthOf(waiter.pause(100), 1_000), 100)
  })
})

describe('a pause that may not end too soon', () => {
  it('a pause that may not end too soon lasts until then after an earlier wake-up', async () => {
    const waiter = newWaiter()
    waiter.wake()
    assert.equal(await lengthOf(waiter.pause(100, clock.now() + 20), 1_000), 20)
  })

  it('a pause that may not end too soon ends with the first wake-up, but not before', async () => {
    for (const [wokenAfterMs, length] of [
      [5, 20],
      [20, 20],
      [30, 30],
    ]) {
      const waiter = newWaiter()
      clock.after(wokenAfterMs as number, () => waiter.wake())
      assert.equal(await lengthOf(waiter.pause(100, clock.now() + 20), 1_000), length)
    }
  })

  it('a pause that may not end too soon needs one more timer for any number of wake-ups', async () => {
    const waiter = newWaiter()
    const pause = waiter.pause(100, clock.now() + 20)
    const after = clock.after.bind(clock)
    let timers = 0
    clock.after = (...args) => {
      timers++
      return after(...args)
    }
    for (let woken = 0; woken < 1_000; woken++) waiter.wake()
    assert.equal(timers, 1)
    assert.equal(await lengthOf(pause, 1_000), 20)
  })

  it('a pause that may not end too soon is not prolonged by a wake-up if it ends before that', async () => {
    const waiter = newWaiter()
    clock.after(5, () => waiter.wake())
    assert.equal(await lengthOf(waiter.pause(10, clock.now() + 50), 1_000), 10)
  })
})

describe('a waiter that was sent away', () => {
  it('a waiter that was sent away keeps the first reason', async () => {
    const waiter = newWaiter()
    waiter.dismiss(new Error('the first'))
    waiter.dismiss(new Error('the second'))
    assert.throws(() => waiter.throwIfDismissed(), { message: 'the first' })
  })

  it('a waiter that was sent away does not pause', async () => {
    const waiter = newWaiter()
    waiter.dismiss(new Error('go'))
    const pause = waiter.pause(100)
    assert.equal(clock.pending, 0)
    await pause
  })

  it('a waiter that was sent away ends its pause at once', async () => {
    const waiter = newWaiter()
    const pause = waiter.pause(100)
    waiter.dismiss(new Error('go'))
    assert.equal(clock.pending, 0)
    await pause
    assert.equal(waiter.hasLeft, true)
  })
})

describe('what another caller offers', () => {
  const takeOver = (offered: unknown): string | undefined => (offered === 'fits' ? 'taken over' : undefined)

  it('what another caller offers ends the wait, whatever happens later', async () => {
    const waiter = newWaiter({ takeOver })
    const pause = waiter.pause(100)
    assert.equal(waiter.offer('fits'), true)
    assert.equal(clock.pending, 0)
    await pause
    assert.deepEqual(waiter.taken, { granted: 'taken over' })
    waiter.dismiss(new Error('too late'))
    waiter.throwIfDismissed()
    const next = waiter.pause(100)
    assert.equal(clock.pending, 0)
    await next
  })

  it('what another caller offers ends the wait even if taking it over has woken the waiter', async () => {
    const waiter: Waiter<string> = newWaiter({
      takeOver: () => {
        waiter.wake()
        return 'taken over'
      },
    })
    const pause = waiter.pause(100)
    assert.equal(waiter.offer('fits'), true)
    await pause
    assert.deepEqual(waiter.taken, { granted: 'taken over' })
  })

  it('what another caller offers is taken during a pause only, as an attempt may bring a second grant', async () => {
    const waiter = newWaiter({ takeOver: () => assert.fail('it takes nothing over') })
    assert.equal(waiter.offer('fits'), false)
    await clock.until(waiter.pause(10))
    assert.equal(waiter.offer('fits'), false)
    assert.equal(waiter.taken, undefined)
  })

  it('what another caller offers is not taken after the deadline, even if the timer is late', async () => {
    const waiter = newWaiter({ waitTimeMs: 50, takeOver })
    const pause = waiter.pause(100)
    clock.block(50)
    assert.equal(waiter.offer('fits'), false)
    await clock.until(pause)
    assert.equal(waiter.taken, undefined)
  })

  it('what another caller offers is left if it does not fit, and the pause goes on', async () => {
    for (const waiter of [newWaiter({ takeOver }), newWaiter()]) {
      const pause = waiter.pause(100)
      assert.equal(waiter.offer('does not fit'), false)
      await turn()
      assert.equal(waiter.taken, undefined)
      assert.equal(await lengthOf(pause, 1_000), 100)
    }
  })
})

function newWakeups(on: FakePort): Wakeups {
  const made = new Wakeups(on, clock, new SeededRandom(1), { onRefused: (channel) => refused.push(channel) })
  on.listen({
    reconnected: () => {},
    subscriptionLost: (name) => made.subscriptionLost(name),
    resubscribed: (name, refusal) => made.resubscribed(name, refusal),
  })
  return made
}

/** A listener that ignores its messages. */
function listen(on = wakeups): Subscription {
  return on.listen(CHANNEL, () => {})
}

describe('a channel with several listeners', () => {
  it('a channel with several listeners is subscribed to once, until the last of them has left', async () => {
    const received: string[] = []
    const [first, second] = [
      wakeups.listen(CHANNEL, (message) => received.push(`first ${message}`)),
      wakeups.listen(CHANNEL, (message) => received.push(`second ${message}`)),
    ]
    await turn()
    first.leave()
    received.length = 0
    port.redis.publish(CHANNEL, '0')
    await turn()
    assert.deepEqual(received, ['second 0'])
    second.leave()
    assert.deepEqual([port.count('SUBSCRIBE'), port.count('UNSUBSCRIBE')], [1, 1])
  })

  it('a channel with several listeners calls another of them first each time', async () => {
    const received: string[] = []
    const listeners = ['a', 'b', 'c'].map((name) => wakeups.listen(CHANNEL, () => received.push(name)))
    await turn()
    received.length = 0
    for (let message = 0; message < 3; message++) {
      port.redis.publish(CHANNEL, '0')
      await turn()
    }
    const orders = [0, 3, 6].map((from) => received.slice(from, from + 3))
    assert.deepEqual(new Set(orders.map(([first]) => first)), new Set(['a', 'b', 'c']))
    for (const order of orders) assert.deepEqual(order.toSorted(), ['a', 'b', 'c'])
    for (const listener of listeners) listener.leave()
  })

  it('a channel is left once by a listener that leaves twice, even if another has come', async () => {
    const gone = listen()
    await turn()
    gone.leave()
    gone.leave()
    assert.equal(port.count('UNSUBSCRIBE'), 1)
    const stays = listen()
    await turn()
    gone.leave()
    assert.equal(port.count('UNSUBSCRIBE'), 1)
    assert.equal(stays.isLive, true)
    stays.leave()
  })
})

describe('the receivers of a message that are one listener', () => {
  it('a listener is one receiver of a message once Redis has confirmed the subscription', async () => {
    const listener = listen()
    assert.equal(listener.ownReceivers, 0)
    await turn()
    assert.equal(listener.ownReceivers, 1)
    listener.leave()
  })

  it('a listener in a cluster is two receivers, for both kinds of channels', async () => {
    const listener = listen(newWakeups(Object.assign(port, { isCluster: true })))
    await turn()
    assert.equal(listener.ownReceivers, 2)
    listener.leave()
  })

  it('a listener counts no receivers of its own while another one needs the subscription, too', async () => {
    const [first, second] = [listen(), listen()]
    await turn()
    assert.deepEqual([first.ownReceivers, second.ownReceivers], [0, 0])
    second.leave()
    assert.equal(first.ownReceivers, 1)
    first.leave()
  })
})

describe('a subscription', () => {
  it('a subscription that Redis denies is reported, and calls its listeners once when it works', async () => {
    let calls = 0
    port.once('SUBSCRIBE', { errorReply: 'NOPERM No permissions to access a channel' })
    const listener = wakeups.listen(CHANNEL, () => calls++)
    assert.deepEqual([listener.isLive, listener.isRefused], [false, false])
    await turn()
    assert.deepEqual([listener.isLive, listener.isRefused, calls], [false, true, 1])
    assert.deepEqual(refused, [CHANNEL])
    port.resubscribe()
    assert.deepEqual([listener.isLive, listener.isRefused, calls], [true, false, 2])
    assert.deepEqual(refused, [CHANNEL])
    listener.leave()
  })

  it('a subscription with an error that passes is tried until it works, and never reported as denied', async () => {
    for (const errorReply of [
      "ERR Can't execute 'info': only (P|S)SUBSCRIBE / PING / QUIT / RESET are allowed in this context",
      'LOADING Redis is loading the dataset in memory',
      'NOAUTH Authentication required.',
      'WRONGPASS invalid username-password pair or user is disabled.',
      'CLUSTERDOWN The cluster is down',
    ]) {
      port.once('SUBSCRIBE', { errorReply })
      port.once('SUBSCRIBE', { errorReply })
      const before = port.count('SUBSCRIBE')
      let calls = 0
      const listener = wakeups.listen(CHANNEL, () => calls++)
      await turn()
      assert.deepEqual([listener.isLive, listener.isRefused, calls, clock.keepingAlive], [false, false, 0, 0])
      await clock.advance(1_000)
      assert.deepEqual([listener.isLive, calls, port.count('SUBSCRIBE') - before], [true, 1, 3])
      listener.leave()
    }
    assert.deepEqual(refused, [])
  })

  it('a subscription refused after a reconnect is tried again, unless its last listener leaves', async () => {
    const listener = listen()
    await turn()
    const before = port.count('SUBSCRIBE')
    for (const isLeft of [false, true]) {
      await port.unsubscribe(CHANNEL)
      wakeups.resubscribed(CHANNEL, new Error('LOADING Redis is loading the dataset in memory'))
      assert.deepEqual([listener.isLive, listener.isRefused, clock.pending], [false, false, 1])
      if (isLeft) listener.leave()
      await clock.advance(1_000)
      assert.deepEqual([listener.isLive, port.count('SUBSCRIBE') - before], [!isLeft, 1])
    }
    assert.deepEqual(refused, [])
  })

  it('a subscription is reported as denied only if Redis denies it, not when it is lost and is back', async () => {
    const listener = listen()
    await turn()
    port.loseSubscriber()
    assert.deepEqual([listener.isLive, listener.isRefused], [false, false])
    port.resubscribe()
    assert.deepEqual([listener.isLive, listener.isRefused], [true, false])
    assert.deepEqual(refused, [])
    port.resubscribe(CHANNEL)
    assert.deepEqual([listener.isLive, listener.isRefused], [false, true])
    assert.deepEqual(refused, [CHANNEL])
    listener.leave()
  })
})
