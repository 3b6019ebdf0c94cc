/** Clients that queue in Redis for one lock: when each of them asks, subscribes, and gives up its place. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Client, Hold, Lock, LockOptions } from '../../src/index.js'
import { INBOX_PREFIX, turnQueueKey } from '../../src/wire/keys.js'
import { CHANNEL, ClientFixture } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'
import type { FakePort } from '../support/fakes/fake-port.js'

const LEASE_MS = 30_000
/** A holder that is a thread of Redisson: it does not know the turn queue. */
const THREAD = 'thread:7'
/** How long a waiter sleeps that is not woken, and one that is not subscribed, ms. */
const [POLL_MS, UNSUBSCRIBED_POLL_MS] = [4_750, 238]

let fixture: ClientFixture
let startedAt: number

beforeEach(() => {
  fixture = new ClientFixture({ lockWatchdogTimeoutMs: LEASE_MS })
  startedAt = fixture.clock.now()
})

afterEach(() => fixture.close())

/** A caller that waits for the lock, and may be left waiting. */
async function wait(lock: Lock = fixture.lock, options: LockOptions = {}): Promise<{ hold: Promise<Hold> }> {
  const hold = lock.lock(options)
  hold.catch(() => {})
  await turn()
  return { hold }
}

/** Who has the lock by now, without letting time pass. */
async function isServed({ hold }: { hold: Promise<Hold> }): Promise<boolean> {
  await turn()
  return (await Promise.race([hold, undefined])) !== undefined
}

/** When a client has asked for the lock, ms since the start. */
function asked(port: FakePort = fixture.port): number[] {
  return port.sent.filter(({ name }) => name.startsWith('lock/acquire')).map(({ at }) => at - startedAt)
}

/** Which of the requests of a client that are queued were polls. */
function polls(port: FakePort = fixture.port): boolean[] {
  return port.sent.filter(({ name }) => name === 'lock/acquire-queued').map(({ args }) => args[5] === '1')
}

function tickets(name = 'a'): readonly string[] {
  return fixture.redis.tickets(turnQueueKey(name))
}

const ticketOf = (client: Client, number = 1): string => `${client.id}:${number}`
const inboxOf = (client: Client): string => INBOX_PREFIX + client.id

function thirdClient(): { port: FakePort; client: Client; lock: Lock } {
  const { port, client } = fixture.connect({})
  return { port, client, lock: client.getLock('a') }
}

describe('the first client in a turn queue', () => {
  it("the first client in a turn queue listens for its turn, and after 1 s to the lock's channel, too", async () => {
    await fixture.other.getLock('a').lock()
    await wait()
    assert.deepEqual(tickets(), [ticketOf(fixture.client)])
    assert.deepEqual(asked(), [0, 0])
    await fixture.clock.advance(999)
    assert.deepEqual(fixture.port.channels, [inboxOf(fixture.client)])
    assert.deepEqual(asked(), [0, 0])
    await fixture.clock.advance(1)
    assert.deepEqual(fixture.port.channels, [inboxOf(fixture.client), CHANNEL])
    assert.deepEqual(asked(), [0, 0, 1_000, 1_000])
    await fixture.clock.advance(POLL_MS - 1)
    assert.equal(asked().length, 4)
    await fixture.clock.advance(1)
    assert.equal(asked().length, 5)
    assert.deepEqual(polls(), [false, true, false, true])
  })

  it('the first client in a turn queue gets the lock at its release, and asks once', async () => {
    const held = await fixture.other.getLock('a').lock()
    const waiting = await wait()
    await fixture.clock.advance(500)
    await held.unlock()
    assert.equal(await isServed(waiting), true)
    assert.deepEqual(asked(), [0, 0, 500])
  })

  it('the first client in a turn queue asks at once when its inbox is back, lest it missed its turn', async () => {
    const held = await fixture.other.getLock('a').lock()
    const waiting = await wait()
    fixture.port.isDeaf = true
    await held.unlock()
    assert.equal(await isServed(waiting), false)
    fixture.port.resubscribe()
    assert.equal(await isServed(waiting), true)
  })

  it('the first client in a turn queue asks every 250 ms without it until its inbox is confirmed', async () => {
    await fixture.other.getLock('a').lock()
    fixture.port.once('SUBSCRIBE', { replyMs: 1_000 })
    await wait()
    await fixture.clock.advance(999)
    assert.deepEqual(
      asked(),
      [0, 1, 2, 3, 4].map((times) => times * UNSUBSCRIBED_POLL_MS),
    )
    assert.deepEqual(tickets(), [])
    await fixture.clock.advance(1)
    assert.deepEqual(tickets(), [ticketOf(fixture.client)])
    assert.equal(asked().at(-1), 1_000)
  })
})

describe('a client behind others in a turn queue', () => {
  beforeEach(async () => {
    await fixture.other.getLock('a').lock()
    await wait(thirdClient().lock)
  })

  it("a client behind others asks every 5 s at most, and does not listen to the lock's channel", async () => {
    await wait()
    assert.equal(tickets().indexOf(ticketOf(fixture.client)), 1)
    await fixture.clock.advance(2 * POLL_MS)
    assert.deepEqual(asked(), [0, 0, POLL_MS, 2 * POLL_MS])
    assert.deepEqual(polls(), [false, true, true])
    assert.deepEqual(fixture.port.channels, [inboxOf(fixture.client)])
  })

  it('a client behind others asks a second after the last message that it is next', async () => {
    await wait()
    const next = (): unknown => fixture.redis.publish(inboxOf(fixture.client), 'next 1')
    next()
    await fixture.clock.advance(500)
    next()
    await fixture.clock.advance(999)
    assert.deepEqual(asked(), [0, 0])
    await fixture.clock.advance(1)
    assert.deepEqual(asked(), [0, 0, 1_500])
    assert.deepEqual(polls(), [false, true])
  })

  it('a client behind others does not poll when its turn comes while it waits for a second to pass', async () => {
    await wait()
    fixture.redis.publish(inboxOf(fixture.client), 'next 1')
    await fixture.clock.advance(500)
    fixture.redis.publish(inboxOf(fixture.client), 'next 1')
    await fixture.clock.advance(600)
    fixture.redis.publish(inboxOf(fixture.client), 'turn 1')
    await turn()
    assert.deepEqual(asked(), [0, 0, 1_100])
    assert.deepEqual(polls(), [false, false])
  })

  it('a client behind others ignores messages that it does not know, and those about other tickets', async () => {
    await wait()
    for (const message of ['', 'turn', 'turn 2', 'next 2', 'later 1']) {
      fixture.redis.publish(inboxOf(fixture.client), message)
    }
    await fixture.clock.advance(2_000)
    assert.deepEqual(asked(), [0, 0])
  })

  it('a client behind others makes one attempt when its first caller leaves, and keeps its place', async () => {
    const first = fixture.lock.tryLock({ waitTimeMs: 100 })
    await wait()
    await fixture.clock.advance(4_000)
    assert.equal(await first, null)
    assert.deepEqual(asked(), [0, 0, 100, 100]) // one of the caller that leaves
    assert.equal(tickets().indexOf(ticketOf(fixture.client)), 1)
  })

  it('a client behind others makes no attempt when another caller leaves, and keeps its place', async () => {
    await wait()
    const second = fixture.lock.tryLock({ waitTimeMs: 100 })
    await fixture.clock.advance(4_000)
    assert.equal(await second, null)
    assert.deepEqual(asked(), [0, 0])
    assert.equal(tickets().indexOf(ticketOf(fixture.client)), 1)
  })
})

describe('a client next to one that has died in its turn', () => {
  it('a client behind a dead one gets the lock a second after the release', async () => {
    const held = await fixture.other.getLock('a').lock()
    const dead = await wait()
    fixture.port.fault = () => ({ lost: 'request' })
    const waiting = await wait(thirdClient().lock)
    await held.unlock()
    await fixture.clock.advance(999)
    assert.deepEqual([await isServed(dead), await isServed(waiting)], [false, false])
    await fixture.clock.advance(1)
    assert.equal(await isServed(waiting), true)
    fixture.port.fault = () => undefined
  })
})

describe('a client that waits for a thread of Redisson', () => {
  beforeEach(() => fixture.redis.set('a', THREAD, 1, LEASE_MS))

  function release(): void {
    fixture.redis.delete('a')
    fixture.redis.publish(CHANNEL, '0')
  }

  it("a client behind a Redisson thread listens to the lock's channel, and gets it at its release", async () => {
    const waiting = await wait()
    assert.deepEqual(fixture.port.channels, [inboxOf(fixture.client), CHANNEL])
    await fixture.clock.advance(4_000)
    assert.deepEqual(asked(), [0, 0, 0])
    release()
    assert.equal(await isServed(waiting), true)
  })

  it('a client behind a Redisson thread asks every 250 ms while that channel is not confirmed', async () => {
    fixture.port.fault = ({ name, keys }) =>
      name === 'SUBSCRIBE' && keys[0] === CHANNEL ? { lost: 'reply' } : undefined
    await wait()
    await fixture.clock.advance(1_000)
    assert.deepEqual(
      asked(),
      [0, 0, 1, 2, 3, 4].map((times) => times * UNSUBSCRIBED_POLL_MS),
    )
    fixture.redis.delete('a')
  })

  it('a client behind a Redisson thread leaves the channel when the turn queue has had it for long', async () => {
    const { port, client, lock } = thirdClient()
    const granted = await wait()
    await wait(fixture.other.getLock('a'))
    await wait(lock)
    await fixture.clock.advance(300)
    release()
    assert.equal(await isServed(granted), true)
    assert.deepEqual(port.channels, [inboxOf(client), CHANNEL])
    await fixture.clock.advance(POLL_MS)
    assert.deepEqual(port.channels, [inboxOf(client)])
    // The first one stays: it would learn of a forced release.
    assert.deepEqual(fixture.otherPort.channels, [inboxOf(fixture.other), CHANNEL])
  })
})

describe('a place in a turn queue', () => {
  it('a place in a turn queue is given up once, by the last caller; the inbox half a second later', async () => {
    await fixture.other.getLock('a').lock()
    await wait(thirdClient().lock)
    const before = fixture.clock.keepingAlive
    const waiting = fixture.lock.tryLock({ waitTimeMs: 100 })
    await fixture.clock.advance(100)
    assert.equal(await waiting, null)
    assert.equal(tickets().includes(ticketOf(fixture.client)), false)
    assert.equal(fixture.clock.keepingAlive, before, 'nothing keeps the process alive')
    await fixture.clock.advance(499)
    assert.deepEqual(fixture.port.channels, [inboxOf(fixture.client)])
    await fixture.clock.advance(1)
    assert.deepEqual(fixture.port.channels, [])
    assert.equal(fixture.port.count('lock/leave-turn-queue'), 1)
  })

  it('a place in a turn queue is taken without a subscription within half a second', async () => {
    await fixture.other.getLock('a').lock()
    assert.equal(await fixture.clock.until(fixture.lock.tryLock({ waitTimeMs: 100 })), null)
    await fixture.clock.advance(400)
    await wait()
    await fixture.clock.advance(400)
    assert.deepEqual(tickets(), [ticketOf(fixture.client)])
    assert.equal(fixture.port.count('SUBSCRIBE'), 1)
  })

  it('a place in a turn queue is not given up by a client that never had one', async () => {
    await fixture.other.getLock('a').lock()
    const controller = new AbortController()
    fixture.port.once('SUBSCRIBE', { replyMs: 300 })
    fixture.port.once('lock/acquire', {})
    fixture.port.once('lock/acquire', { replyMs: 200 })
    const waiting = await wait(fixture.lock, { signal: controller.signal })
    await fixture.clock.advance(310)
    controller.abort(new Error('enough')) // its inbox is confirmed, but the attempt in flight does not use the queue
    await assert.rejects(waiting.hold, { message: 'enough' })
    await fixture.clock.advance(1_000)
    assert.equal(fixture.port.count('lock/leave-turn-queue'), 0)
  })

  it('a place in a turn queue is given up again when its turn comes, if the command was lost', async () => {
    const held = await fixture.other.getLock('a').lock()
    const waiting = fixture.lock.tryLock({ waitTimeMs: 100 })
    await turn()
    const behind = await wait(thirdClient().lock)
    fixture.port.once('lock/leave-turn-queue', { lost: 'request' })
    await fixture.clock.advance(200)
    assert.equal(await waiting, null)
    assert.equal(tickets()[0], ticketOf(fixture.client))
    await held.unlock()
    assert.equal(await isServed(behind), true)
  })

  it('a place in a turn queue is not taken for a lock that is free, and nothing is left of the wait', async () => {
    await (await fixture.lock.lock()).unlock()
    await fixture.clock.advance(10_000)
    assert.equal(fixture.clock.pending, 0)
    assert.equal(fixture.port.count('SUBSCRIBE'), 0)
  })

  it('a place in a turn queue ends with a grant if no more callers wait, without a command', async () => {
    const held = await fixture.other.getLock('a').lock()
    const waiting = await wait()
    const sent = await fixture.commandsOf(() => held.unlock())
    const hold = await waiting.hold
    assert.deepEqual(tickets(), [])
    await fixture.clock.advance(1_000)
    sent.push(...(await fixture.commandsOf(() => hold.unlock())))
    await fixture.clock.advance(1_000)
    assert.deepEqual(sent, ['lock/acquire', 'lock/release'])
    assert.equal(fixture.port.count('lock/leave-turn-queue'), 0)
  })

  it('a place in a turn queue is kept after a grant if more wait; the next asks after a second', async () => {
    const held = await fixture.other.getLock('a').lock()
    const first = await wait()
    const second = await wait()
    await fixture.clock.advance(500)
    await held.unlock()
    assert.equal(await isServed(first), true)
    assert.deepEqual(tickets(), [ticketOf(fixture.client)])
    const before = asked().length
    await fixture.clock.advance(999)
    assert.equal(asked().length, before)
    await fixture.clock.advance(1)
    // As Redisson forces a release: it is announced on the channel of the lock alone.
    fixture.redis.delete('a')
    fixture.redis.publish(CHANNEL, '0')
    assert.equal(await isServed(second), true)
  })

  it('a place in a turn queue is taken again at once for a caller that came during the grant', async () => {
    const held = await fixture.other.getLock('a').lock()
    const first = await wait()
    fixture.port.once('lock/acquire-queued', { replyMs: 50 })
    await held.unlock()
    await fixture.clock.advance(20)
    await wait()
    await fixture.clock.advance(30)
    assert.equal(await isServed(first), true)
    assert.deepEqual(tickets(), [ticketOf(fixture.client)])
  })

  it('a place in a turn queue is given up by a grant without the queue, as the inbox was lost', async () => {
    const held = await fixture.other.getLock('a').lock()
    const waiting = await wait()
    fixture.port.loseSubscriber()
    await turn()
    await held.unlock()
    await fixture.clock.advance(UNSUBSCRIBED_POLL_MS)
    assert.equal(await isServed(waiting), true)
    assert.deepEqual(tickets(), [])
  })
})

describe('the inbox of a client', () => {
  it('the inbox serves all locks: a second one is queued for at once, and stays queued', async () => {
    const [heldA, heldB] = [await fixture.other.getLock('a').lock(), await fixture.other.getLock('b').lock()]
    assert.equal(await fixture.clock.until(fixture.lock.tryLock({ waitTimeMs: 100 })), null)
    const lockB = fixture.client.getLock('b')
    const waiting = await wait(lockB)
    assert.deepEqual(tickets('b'), [ticketOf(fixture.client, 2)])
    await fixture.clock.advance(600)
    assert.deepEqual(fixture.port.channels, [inboxOf(fixture.client)])
    await heldB.unlock()
    assert.equal(await isServed(waiting), true)
    await heldA.unlock()
  })

  it("an inbox that Redis denies is done without: the client listens to the lock's channel", async () => {
    fixture.port.once('SUBSCRIBE', { errorReply: 'NOPERM No permissions to access a channel' })
    const held = await fixture.other.getLock('a').lock()
    const waiting = await wait()
    assert.deepEqual(fixture.port.confirmedChannels, [CHANNEL])
    assert.deepEqual(tickets(), [])
    await fixture.clock.advance(1_000)
    await held.unlock()
    assert.equal(await isServed(waiting), true)
    assert.deepEqual(await fixture.commandsOf(() => wait()), ['lock/acquire'])
    assert.deepEqual(
      fixture.warnings.map(({ code }) => code),
      ['SUBSCRIBE_REFUSED'],
    )
  })
})
