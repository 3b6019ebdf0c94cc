/** Hand-offs, and releases without one, while other clients want the lock as well. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Client } from '../../src/client.js'
import type { Hold, Lock } from '../../src/index.js'
import { INBOX_PREFIX, turnQueueKey } from '../../src/wire/keys.js'
import { CHANNEL, ClientFixture, handOffsOf } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'
import type { FakePort } from '../support/fakes/fake-port.js'

let fixture: ClientFixture

beforeEach(() => {
  fixture = new ClientFixture({ lockWatchdogTimeoutMs: 30_000, maxHandOffMs: 60_000 })
})

afterEach(() => fixture.close())

describe('the waiters behind a hand-off', () => {
  it('the waiters behind a hand-off ask at once without a subscription, as a release could be missed', async () => {
    fixture.port.once('SUBSCRIBE', { replyMs: 100 })
    const [hold, waiting] = await fixture.heldAndWaitedFor(2)
    assert.deepEqual(await fixture.commandsOf(() => hold.unlock()), ['lock/acquire'])
    await fixture.clock.advance(100)
    await (await waiting[0])?.unlock()
  })

  it('the waiters behind a hand-off ask at once if the new holder made no attempt, so has no place', async () => {
    const elsewhere = await fixture.other.getLock('b').lock()
    const waitingForB = fixture.client.getLock('b').tryLock({ waitTimeMs: 1_000 }) // the inbox is subscribed
    await turn()
    const hold = await fixture.lock.lock()
    fixture.port.once('lock/acquire', { errorReply: 'BUSY Redis is busy running a script' })
    const waiting = [fixture.lock.lock(), fixture.lock.lock()]
    await turn()
    assert.deepEqual(await fixture.commandsOf(() => hold.unlock()), ['lock/acquire', 'lock/acquire'])
    await (await waiting[0])?.unlock()
    await (await waiting[1])?.unlock()
    assert.equal(await fixture.clock.until(waitingForB), null)
    await elsewhere.unlock()
  })

  it('the waiters behind a hand-off ask within 5 s even if no message ever comes', async () => {
    const [hold, waiting] = await fixture.heldAndWaitedFor(2)
    await fixture.clock.advance(1_500) // the client is subscribed to the channel of the lock by now
    await hold.unlock()
    fixture.redis.flush()
    const asked = await fixture.commandsOf(() => fixture.clock.advance(4_999))
    assert.deepEqual(asked, [])
    await fixture.clock.advance(1)
    await (await waiting[1])?.unlock()
  })

  it('the waiters behind a hand-off ask a second after the message that their client is next', async () => {
    const [hold] = await fixture.heldAndWaitedFor(2)
    await fixture.clock.advance(1_500)
    await hold.unlock()
    fixture.redis.publish(INBOX_PREFIX + fixture.client.id, 'next 1')
    const asks = (): number => fixture.port.count('lock/acquire-queued')
    const before = asks()
    await fixture.clock.advance(999)
    assert.equal(asks(), before)
    await fixture.clock.advance(1)
    assert.equal(asks(), before + 1)
  })

  it('the waiters behind a hand-off need one timer, and their client leaves its channels soon', async () => {
    const [hold, waiting] = await fixture.heldAndWaitedFor(100)
    const after = fixture.clock.after.bind(fixture.clock)
    let polls = 0
    fixture.clock.after = (ms, ...rest) => {
      if (ms === 1_000) polls++
      return after(ms, ...rest)
    }
    await hold.unlock()
    for (const waiter of waiting) await (await waiter).unlock()
    assert.equal(polls, 0, 'the timer of the first refusal')
    await fixture.clock.advance(499)
    assert.equal(fixture.port.channels.length, 1)
    await fixture.clock.advance(1)
    assert.deepEqual(fixture.port.channels, [])
  })
})

describe('a release for other clients', () => {
  const tickets = (): readonly string[] => fixture.redis.tickets(turnQueueKey('a'))

  /** A client whose callers take the lock and pass it on once. */
  async function handOffOnce(lock: Lock): Promise<Hold> {
    const first = lock.lock()
    const second = lock.lock()
    await turn()
    await (await first).unlock()
    const hold = await second
    assert.equal(handOffsOf(hold), 1)
    return hold
  }

  it('a release for other clients keeps the place of a client whose callers wait', async () => {
    const own = await fixture.lock.lock({ leaseTimeMs: 1_000 })
    const first = fixture.lock.lock()
    await turn()
    const second = fixture.other.getLock('a').lock()
    await turn()
    await own.unlock()
    await (await first).unlock()
    await (await second).unlock()
  })

  it('a release for others gives up the place of a client that is alone, which asks at once', async () => {
    for (let round = 0; round < 2; round++) {
      const hold = await handOffOnce(fixture.lock)
      assert.deepEqual(await fixture.commandsOf(() => hold.unlock()), ['lock/release'])
      assert.deepEqual(tickets(), [])
    }
    const sent = await fixture.commandsOf(async () => await (await fixture.lock.lock()).unlock())
    assert.deepEqual(sent, ['lock/acquire', 'lock/release'])
    assert.deepEqual(await fixture.commandsOf(() => fixture.clock.advance(1_000)), [])
  })

  /** A client that has passed the lock on twice, and lets another one have it. @returns that one's hold */
  async function busyAmongOthers(): Promise<Hold> {
    const [second, third, fourth] = [fixture.other, fixture.connect({}).client, fixture.connect({}).client]
    const held = fixture.lock.lock()
    const busy = fixture.lock.lock()
    await turn()
    const secondWaits = await wait(second)
    await (await held).unlock()
    await (await busy).unlock() // until now it knew of no others
    assert.deepEqual(tickets(), [])
    const thirdWaits = await wait(third)
    const again = [fixture.lock.lock(), fixture.lock.lock()]
    await turn()
    const fourthWaits = await wait(fourth)
    await (await secondWaits.hold).unlock()
    await (await thirdWaits.hold).unlock()
    for (const next of again) await (await next).unlock()
    assert.equal(tickets().length, 1)
    assert(tickets()[0]?.startsWith(fixture.client.id))
    return await fourthWaits.hold
  }

  async function wait(client: Client): Promise<{ hold: Promise<Hold> }> {
    const hold = client.getLock('a').lock()
    await turn()
    return { hold }
  }

  it('a release for others keeps the place of a busy client, whose next caller waits for its turn', async () => {
    const hold = await busyAmongOthers()
    let next: Promise<Hold> | undefined
    assert.deepEqual(
      await fixture.commandsOf(() => {
        next = fixture.lock.lock()
      }),
      [],
    )
    await hold.unlock()
    await (await next)?.unlock()
  })

  it("a release for others keeps a busy client's place until its turn, then passes it on if unused", async () => {
    const hold = await busyAmongOthers()
    const behind = await wait(fixture.other)
    await fixture.clock.advance(400)
    fixture.port.resubscribe() // nobody waits who could have missed a message
    await turn()
    assert.equal(tickets().length, 2)
    await hold.unlock()
    await (await behind.hold).unlock()
    assert.deepEqual(tickets(), [])
  })
})

describe('a client that lets others go first', () => {
  let port: FakePort
  let lock: Lock
  /** Releases the lock, for which another caller of the client waits. */
  let release: () => Promise<void>
  const asks = (): number => port.sent.filter(({ name }) => name.startsWith('lock/acquire')).length

  beforeEach(async () => {
    const { port: ofClient, client } = fixture.connect({ maxHandOffs: 0 })
    port = ofClient
    lock = client.getLock('a')
    const hold = await lock.lock()
    release = () => hold.unlock()
    // A client that is subscribed, but never requests the lock.
    await fixture.otherPort.subscribe(CHANNEL, () => {})
  })

  afterEach(() => fixture.otherPort.unsubscribe(CHANNEL))

  it('a client that lets others go first asks again 10 ms after its release', async () => {
    const next = lock.lock()
    await turn()
    const before = asks()
    await release()
    await fixture.clock.advance(9)
    assert.equal(asks(), before)
    await fixture.clock.advance(1)
    assert.equal(asks(), before + 1)
    await (await next).unlock()
  })

  it('a client that lets others go first asks again 10 ms after the last of several releases', async () => {
    const next = lock.lock()
    await turn()
    await release()
    await fixture.clock.advance(5)
    const between = await lock.tryLock()
    await fixture.clock.advance(1)
    await between?.unlock()
    const before = asks()
    await fixture.clock.advance(9)
    assert.equal(asks(), before)
    await fixture.clock.advance(1)
    assert.equal(asks(), before + 1)
    await (await next).unlock()
  })

  it('a client that lets others go first waits for its turn if it is behind them in the turn queue', async () => {
    const ahead = fixture.connect({}).client.getLock('a').lock()
    await turn()
    const next = lock.lock()
    await turn()
    const before = asks()
    await release()
    await fixture.clock.advance(900)
    assert.equal(asks(), before)
    await (await ahead).unlock()
    await (await next).unlock()
  })

  it('a client that lets others go first asks after 10 ms if it may have missed a message', async () => {
    const ahead = fixture.connect({}).client.getLock('a').lock()
    await turn()
    const next = lock.lock()
    await turn()
    const before = asks()
    await release()
    await fixture.clock.advance(5)
    port.resubscribe()
    await fixture.clock.advance(4)
    assert.equal(asks(), before)
    await fixture.clock.advance(1)
    assert.equal(asks(), before + 1)
    await (await ahead).unlock()
    await (await next).unlock()
  })

  it('a client that let others go first need not do so for a caller that comes later', async () => {
    const next = lock.lock()
    await turn()
    await release()
    const last = await fixture.clock.until(next)
    await last.unlock()
    const elsewhere = await fixture.client.getLock('a').lock()
    const late = lock.lock()
    await fixture.clock.advance(5)
    await elsewhere.unlock()
    await turn()
    assert.equal(await Promise.race([late.then(() => 'served'), turn().then(() => 'waiting')]), 'served')
    await (await late).unlock()
  })
})
