/** Clients that queue in Redis for one lock: when each of them asks, subscribes, and gives up its place. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Client, Hold, Lock, LockOptions } from '../../src/index.js'
import { INBOX_PREFIX, turnQueueKey } from '../../src/wire/keys.js'
import { CHANNEL, ClientBench } from '../support/fakes/client-bench.js'
import { turn } from '../support/fakes/fake-clock.js'
import type { FakePort } from '../support/fakes/fake-port.js'

const LEASE_MS = 30_000
/** A holder that is a thread of Redisson: it does not know the turn queue. */
const THREAD = 'thread:7'
/** How long a waiter sleeps that is not woken, and one that is not subscribed, ms. */
const [POLL_MS, UNSUBSCRIBED_POLL_MS] = [4_750, 238]

let bench: ClientBench
let startedAt: number

beforeEach(() => {
  bench = new ClientBench({ lockWatchdogTimeoutMs: LEASE_MS })
  startedAt = bench.clock.now()
})

afterEach(() => bench.close())

/** A caller that waits for the lock, and may be left waiting. */
async function wait(lock: Lock = bench.lock, options: LockOptions = {}): Promise<{ hold: Promise<Hold> }> {
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
function asked(port: FakePort = bench.port): number[] {
  return port.sent.filter(({ name }) => name.startsWith('lock/acquire')).map(({ at }) => at - startedAt)
}

/** Which of the requests of a client that are queued were polls. */
function polls(port: FakePort = bench.port): boolean[] {
  return port.sent.filter(({ name }) => name === 'lock/acquire-queued').map(({ args }) => args[5] === '1')
}

function tickets(name = 'a'): readonly string[] {
  return bench.redis.tickets(turnQueueKey(name))
}

const ticketOf = (client: Client, number = 1): string => `${client.id}:${number}`
const inboxOf = (client: Client): string => INBOX_PREFIX + client.id

function thirdClient(): { port: FakePort; client: Client; lock: Lock } {
  const { port, client } = bench.connect({})
  return { port, client, lock: client.getLock('a') }
}

describe('the first client in a turn queue', () => {
  it('listens for its turn, and after a second also to the channel of the lock, in case it misses the release', async () => {
    await bench.other.getLock('a').lock()
    await wait()
    assert.deepEqual(tickets(), [ticketOf(bench.client)])
    assert.deepEqual(asked(), [0, 0])
    await bench.clock.advance(999)
    assert.deepEqual(bench.port.channels, [inboxOf(bench.client)])
    assert.deepEqual(asked(), [0, 0])
    await bench.clock.advance(1)
    assert.deepEqual(bench.port.channels, [inboxOf(bench.client), CHANNEL])
    assert.deepEqual(asked(), [0, 0, 1_000, 1_000])
    await bench.clock.advance(POLL_MS - 1)
    assert.equal(asked().length, 4)
    await bench.clock.advance(1)
    assert.equal(asked().length, 5)
    assert.deepEqual(polls(), [false, true, false, true])
  })

  it('gets the lock in the moment of its release, and asks once', async () => {
    const held = await bench.other.getLock('a').lock()
    const waiting = await wait()
    await bench.clock.advance(500)
    await held.unlock()
    assert.equal(await isServed(waiting), true)
    assert.deepEqual(asked(), [0, 0, 500])
  })

  it('asks at once when its inbox is back after a loss, as it may have missed its turn', async () => {
    const held = await bench.other.getLock('a').lock()
    const waiting = await wait()
    bench.port.isDeaf = true
    await held.unlock()
    assert.equal(await isServed(waiting), false)
    bench.port.resubscribe()
    assert.equal(await isServed(waiting), true)
  })

  it('asks every 250 ms without the queue until its inbox is confirmed', async () => {
    await bench.other.getLock('a').lock()
    bench.port.once('SUBSCRIBE', { replyMs: 1_000 })
    await wait()
    await bench.clock.advance(999)
    assert.deepEqual(
      asked(),
      [0, 1, 2, 3, 4].map((times) => times * UNSUBSCRIBED_POLL_MS),
    )
    assert.deepEqual(tickets(), [])
    await bench.clock.advance(1)
    assert.deepEqual(tickets(), [ticketOf(bench.client)])
    assert.equal(asked().at(-1), 1_000)
  })
})

describe('a client behind others in a turn queue', () => {
  beforeEach(async () => {
    await bench.other.getLock('a').lock()
    await wait(thirdClient().lock)
  })

  it('asks every 5 s at most, and does not listen to the channel of the lock', async () => {
    await wait()
    assert.equal(tickets().indexOf(ticketOf(bench.client)), 1)
    await bench.clock.advance(2 * POLL_MS)
    assert.deepEqual(asked(), [0, 0, POLL_MS, 2 * POLL_MS])
    assert.deepEqual(polls(), [false, true, true])
    assert.deepEqual(bench.port.channels, [inboxOf(bench.client)])
  })

  it('asks a second after the last message that it is next', async () => {
    await wait()
    const next = (): unknown => bench.redis.publish(inboxOf(bench.client), 'next 1')
    next()
    await bench.clock.advance(500)
    next()
    await bench.clock.advance(999)
    assert.deepEqual(asked(), [0, 0])
    await bench.clock.advance(1)
    assert.deepEqual(asked(), [0, 0, 1_500])
    assert.deepEqual(polls(), [false, true])
  })

  it('does not poll when its turn comes while it waits for that second to pass', async () => {
    await wait()
    bench.redis.publish(inboxOf(bench.client), 'next 1')
    await bench.clock.advance(500)
    bench.redis.publish(inboxOf(bench.client), 'next 1')
    await bench.clock.advance(600)
    bench.redis.publish(inboxOf(bench.client), 'turn 1')
    await turn()
    assert.deepEqual(asked(), [0, 0, 1_100])
    assert.deepEqual(polls(), [false, false])
  })

  it('ignores messages that it does not know, and those about other tickets', async () => {
    await wait()
    for (const message of ['', 'turn', 'turn 2', 'next 2', 'later 1']) {
      bench.redis.publish(inboxOf(bench.client), message)
    }
    await bench.clock.advance(2_000)
    assert.deepEqual(asked(), [0, 0])
  })

  it('makes one attempt for its next caller when the first one leaves, and keeps its place', async () => {
    const first = bench.lock.tryLock({ waitTimeMs: 100 })
    await wait()
    await bench.clock.advance(4_000)
    assert.equal(await first, null)
    assert.deepEqual(asked(), [0, 0, 100, 100]) // one of the caller that leaves
    assert.equal(tickets().indexOf(ticketOf(bench.client)), 1)
  })

  it('makes no attempt when a caller leaves that was not the next one, and keeps its place', async () => {
    await wait()
    const second = bench.lock.tryLock({ waitTimeMs: 100 })
    await bench.clock.advance(4_000)
    assert.equal(await second, null)
    assert.deepEqual(asked(), [0, 0])
    assert.equal(tickets().indexOf(ticketOf(bench.client)), 1)
  })
})

describe('a client next to one that has died in its turn', () => {
  it('gets the lock a second after the release', async () => {
    const held = await bench.other.getLock('a').lock()
    const dead = await wait()
    bench.port.fault = () => ({ lost: 'request' })
    const waiting = await wait(thirdClient().lock)
    await held.unlock()
    await bench.clock.advance(999)
    assert.deepEqual([await isServed(dead), await isServed(waiting)], [false, false])
    await bench.clock.advance(1)
    assert.equal(await isServed(waiting), true)
    bench.port.fault = () => undefined
  })
})

describe('a client that waits for a thread of Redisson', () => {
  beforeEach(() => bench.redis.set('a', THREAD, 1, LEASE_MS))

  function release(): void {
    bench.redis.delete('a')
    bench.redis.publish(CHANNEL, '0')
  }

  it('listens to the channel of the lock, and gets it in the moment of its release', async () => {
    const waiting = await wait()
    assert.deepEqual(bench.port.channels, [inboxOf(bench.client), CHANNEL])
    await bench.clock.advance(4_000)
    assert.deepEqual(asked(), [0, 0, 0])
    release()
    assert.equal(await isServed(waiting), true)
  })

  it('asks every 250 ms while that channel is not confirmed', async () => {
    bench.port.fault = ({ name, keys }) => (name === 'SUBSCRIBE' && keys[0] === CHANNEL ? { lost: 'reply' } : undefined)
    await wait()
    await bench.clock.advance(1_000)
    assert.deepEqual(
      asked(),
      [0, 0, 1, 2, 3, 4].map((times) => times * UNSUBSCRIBED_POLL_MS),
    )
    bench.redis.delete('a')
  })

  it('leaves the channel of the lock when clients of the turn queue have had it for a while', async () => {
    const { port, client, lock } = thirdClient()
    const granted = await wait()
    await wait(bench.other.getLock('a'))
    await wait(lock)
    await bench.clock.advance(300)
    release()
    assert.equal(await isServed(granted), true)
    assert.deepEqual(port.channels, [inboxOf(client), CHANNEL])
    await bench.clock.advance(POLL_MS)
    assert.deepEqual(port.channels, [inboxOf(client)])
    // The first one stays: it would learn of a forced release.
    assert.deepEqual(bench.otherPort.channels, [inboxOf(bench.other), CHANNEL])
  })
})

describe('a place in a turn queue', () => {
  it('is given up once, with the last caller that leaves, and the inbox half a second later', async () => {
    await bench.other.getLock('a').lock()
    await wait(thirdClient().lock)
    const before = bench.clock.keepingAlive
    const waiting = bench.lock.tryLock({ waitTimeMs: 100 })
    await bench.clock.advance(100)
    assert.equal(await waiting, null)
    assert.equal(tickets().includes(ticketOf(bench.client)), false)
    assert.equal(bench.clock.keepingAlive, before, 'nothing keeps the process alive')
    await bench.clock.advance(499)
    assert.deepEqual(bench.port.channels, [inboxOf(bench.client)])
    await bench.clock.advance(1)
    assert.deepEqual(bench.port.channels, [])
    assert.equal(bench.port.count('lock/leave-turn-queue'), 1)
  })

  it('is taken without another subscription by a caller that comes within half a second', async () => {
    await bench.other.getLock('a').lock()
    assert.equal(await bench.clock.until(bench.lock.tryLock({ waitTimeMs: 100 })), null)
    await bench.clock.advance(400)
    await wait()
    await bench.clock.advance(400)
    assert.deepEqual(tickets(), [ticketOf(bench.client)])
    assert.equal(bench.port.count('SUBSCRIBE'), 1)
  })

  it('is not given up by a client that never had one', async () => {
    await bench.other.getLock('a').lock()
    const controller = new AbortController()
    bench.port.once('SUBSCRIBE', { replyMs: 300 })
    bench.port.once('lock/acquire', {})
    bench.port.once('lock/acquire', { replyMs: 200 })
    const waiting = await wait(bench.lock, { signal: controller.signal })
    await bench.clock.advance(310)
    controller.abort(new Error('enough')) // its inbox is confirmed, but the attempt in flight does not use the queue
    await assert.rejects(waiting.hold, { message: 'enough' })
    await bench.clock.advance(1_000)
    assert.equal(bench.port.count('lock/leave-turn-queue'), 0)
  })

  it('is given up again when its turn comes, if the command was lost', async () => {
    const held = await bench.other.getLock('a').lock()
    const waiting = bench.lock.tryLock({ waitTimeMs: 100 })
    const behind = await wait(thirdClient().lock)
    bench.port.once('lock/leave-turn-queue', { lost: 'request' })
    await bench.clock.advance(200)
    assert.equal(await waiting, null)
    assert.equal(tickets()[0], ticketOf(bench.client))
    await held.unlock()
    assert.equal(await isServed(behind), true)
  })

  it('is not taken for a lock that is free, and nothing is left of the wait', async () => {
    await (await bench.lock.lock()).unlock()
    assert.equal(bench.clock.pending, 0)
    assert.equal(bench.port.count('SUBSCRIBE'), 0)
  })

  it('ends with a grant if no more callers wait, without a command of its own', async () => {
    const held = await bench.other.getLock('a').lock()
    const waiting = await wait()
    const sent = await bench.commandsOf(() => held.unlock())
    const hold = await waiting.hold
    assert.deepEqual(tickets(), [])
    await bench.clock.advance(1_000)
    sent.push(...(await bench.commandsOf(() => hold.unlock())))
    await bench.clock.advance(1_000)
    assert.deepEqual(sent, ['lock/acquire', 'lock/release'])
    assert.equal(bench.port.count('lock/leave-turn-queue'), 0)
  })

  it('is kept after a grant if more callers wait, and the next one asks after a second', async () => {
    const held = await bench.other.getLock('a').lock()
    const first = await wait()
    const second = await wait()
    await bench.clock.advance(500)
    await held.unlock()
    assert.equal(await isServed(first), true)
    assert.deepEqual(tickets(), [ticketOf(bench.client)])
    const before = asked().length
    await bench.clock.advance(999)
    assert.equal(asked().length, before)
    await bench.clock.advance(1)
    // As Redisson forces a release: it is announced on the channel of the lock alone.
    bench.redis.delete('a')
    bench.redis.publish(CHANNEL, '0')
    assert.equal(await isServed(second), true)
  })

  it('is taken again at once for a caller that came while the grant was on its way', async () => {
    const held = await bench.other.getLock('a').lock()
    const first = await wait()
    bench.port.once('lock/acquire-queued', { replyMs: 50 })
    await held.unlock()
    await bench.clock.advance(20)
    await wait()
    await bench.clock.advance(30)
    assert.equal(await isServed(first), true)
    assert.deepEqual(tickets(), [ticketOf(bench.client)])
  })

  it('is given up by a grant that did not use the queue, as the inbox was lost', async () => {
    const held = await bench.other.getLock('a').lock()
    const waiting = await wait()
    bench.port.loseSubscriber()
    await turn()
    await held.unlock()
    await bench.clock.advance(UNSUBSCRIBED_POLL_MS)
    assert.equal(await isServed(waiting), true)
    assert.deepEqual(tickets(), [])
  })
})

describe('the inbox of a client', () => {
  it('serves all locks: a second one is queued for at once, and stays queued when the wait for the first has ended', async () => {
    const [heldA, heldB] = [await bench.other.getLock('a').lock(), await bench.other.getLock('b').lock()]
    assert.equal(await bench.clock.until(bench.lock.tryLock({ waitTimeMs: 100 })), null)
    const lockB = bench.client.getLock('b')
    const waiting = await wait(lockB)
    assert.deepEqual(tickets('b'), [ticketOf(bench.client, 2)])
    await bench.clock.advance(600)
    assert.deepEqual(bench.port.channels, [inboxOf(bench.client)])
    await heldB.unlock()
    assert.equal(await isServed(waiting), true)
    await heldA.unlock()
  })

  it('that Redis denies is done without: the client listens to the channel of the lock, and asks before it waits', async () => {
    bench.port.once('SUBSCRIBE', { errorReply: 'NOPERM No permissions to access a channel' })
    const held = await bench.other.getLock('a').lock()
    const waiting = await wait()
    assert.deepEqual(bench.port.confirmedChannels, [CHANNEL])
    assert.deepEqual(tickets(), [])
    await bench.clock.advance(1_000)
    await held.unlock()
    assert.equal(await isServed(waiting), true)
    assert.deepEqual(await bench.commandsOf(() => wait()), ['lock/acquire'])
    assert.deepEqual(
      bench.warnings.map(({ code }) => code),
      ['SUBSCRIBE_REFUSED'],
    )
  })
})
