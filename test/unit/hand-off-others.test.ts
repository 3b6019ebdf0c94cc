/** Hand-offs, and releases without one, while other clients want the lock as well. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import type { Client } from '../../src/client.js'
import type { Hold, Lock } from '../../src/index.js'
import { INBOX_PREFIX, turnQueueKey } from '../../src/wire/keys.js'
import { CHANNEL, ClientBench, handOffsOf } from '../support/fakes/client-bench.js'
import { turn } from '../support/fakes/fake-clock.js'
import type { FakePort } from '../support/fakes/fake-port.js'

let bench: ClientBench

beforeEach(() => {
  bench = new ClientBench({ lockWatchdogTimeoutMs: 30_000, maxHandOffMs: 60_000 })
})

afterEach(() => bench.close())

describe('the waiters behind a hand-off', () => {
  it('ask at once if the client is not subscribed yet, as a release could be missed', async () => {
    bench.port.once('SUBSCRIBE', { replyMs: 100 })
    const [hold, waiting] = await bench.heldAndWaitedFor(2)
    assert.deepEqual(await bench.commandsOf(() => hold.unlock()), ['lock/acquire'])
    await bench.clock.advance(100)
    await (await waiting[0])?.unlock()
  })

  it('ask at once if the new holder had made no attempt that Redis replied to, so that the client is not queued', async () => {
    const elsewhere = await bench.other.getLock('b').lock()
    const waitingForB = bench.client.getLock('b').tryLock({ waitTimeMs: 1_000 }) // the inbox is subscribed
    await turn()
    const hold = await bench.lock.lock()
    bench.port.once('lock/acquire', { errorReply: 'BUSY Redis is busy running a script' })
    const waiting = [bench.lock.lock(), bench.lock.lock()]
    await turn()
    assert.deepEqual(await bench.commandsOf(() => hold.unlock()), ['lock/acquire', 'lock/acquire'])
    await (await waiting[0])?.unlock()
    await (await waiting[1])?.unlock()
    assert.equal(await bench.clock.until(waitingForB), null)
    await elsewhere.unlock()
  })

  it('ask within 5 s even if no message ever comes', async () => {
    const [hold, waiting] = await bench.heldAndWaitedFor(2)
    await bench.clock.advance(1_500) // the client is subscribed to the channel of the lock by now
    await hold.unlock()
    bench.redis.flush()
    const asked = await bench.commandsOf(() => bench.clock.advance(4_999))
    assert.deepEqual(asked, [])
    await bench.clock.advance(1)
    await (await waiting[1])?.unlock()
  })

  it('ask a second after the message that their client is next, although they would ask later anyway', async () => {
    const [hold] = await bench.heldAndWaitedFor(2)
    await bench.clock.advance(1_500)
    await hold.unlock()
    bench.redis.publish(INBOX_PREFIX + bench.client.id, 'next 1')
    const asks = (): number => bench.port.count('lock/acquire-queued')
    const before = asks()
    await bench.clock.advance(999)
    assert.equal(asks(), before)
    await bench.clock.advance(1)
    assert.equal(asks(), before + 1)
  })

  it('need one timer for all hand-offs, and their client leaves its channels soon after the last one', async () => {
    const [hold, waiting] = await bench.heldAndWaitedFor(100)
    const after = bench.clock.after.bind(bench.clock)
    let polls = 0
    bench.clock.after = (ms, ...rest) => {
      if (ms === 1_000) polls++
      return after(ms, ...rest)
    }
    await hold.unlock()
    for (const waiter of waiting) await (await waiter).unlock()
    assert.equal(polls, 0, 'the timer of the first refusal')
    await bench.clock.advance(499)
    assert.equal(bench.port.channels.length, 1)
    await bench.clock.advance(1)
    assert.deepEqual(bench.port.channels, [])
  })
})

describe('a release for other clients', () => {
  const tickets = (): readonly string[] => bench.redis.tickets(turnQueueKey('a'))

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

  it('keeps the place of a client whose callers wait', async () => {
    const own = await bench.lock.lock({ leaseTimeMs: 1_000 })
    const first = bench.lock.lock()
    await turn()
    const second = bench.other.getLock('a').lock()
    await turn()
    await own.unlock()
    await (await first).unlock()
    await (await second).unlock()
  })

  it('gives up the place of a client that is alone, which then asks at once', async () => {
    for (let round = 0; round < 2; round++) {
      const hold = await handOffOnce(bench.lock)
      assert.deepEqual(await bench.commandsOf(() => hold.unlock()), ['lock/release'])
      assert.deepEqual(tickets(), [])
    }
    const sent = await bench.commandsOf(async () => await (await bench.lock.lock()).unlock())
    assert.deepEqual(sent, ['lock/acquire', 'lock/release'])
    assert.deepEqual(await bench.commandsOf(() => bench.clock.advance(1_000)), [])
  })

  /** A client that has passed the lock on twice, and lets another one have it. @returns that one's hold */
  async function busyAmongOthers(): Promise<Hold> {
    const [second, third, fourth] = [bench.other, bench.connect({}).client, bench.connect({}).client]
    const held = bench.lock.lock()
    const busy = bench.lock.lock()
    await turn()
    const secondWaits = await wait(second)
    await (await held).unlock()
    await (await busy).unlock() // until now it knew of no others
    assert.deepEqual(tickets(), [])
    const thirdWaits = await wait(third)
    const again = [bench.lock.lock(), bench.lock.lock()]
    await turn()
    const fourthWaits = await wait(fourth)
    await (await secondWaits.hold).unlock()
    await (await thirdWaits.hold).unlock()
    for (const next of again) await (await next).unlock()
    assert.equal(tickets().length, 1)
    assert(tickets()[0]?.startsWith(bench.client.id))
    return await fourthWaits.hold
  }

  async function wait(client: Client): Promise<{ hold: Promise<Hold> }> {
    const hold = client.getLock('a').lock()
    await turn()
    return { hold }
  }

  it('keeps the place of a busy client among others, whose next caller waits for its turn', async () => {
    const hold = await busyAmongOthers()
    let next: Promise<Hold> | undefined
    assert.deepEqual(
      await bench.commandsOf(() => {
        next = bench.lock.lock()
      }),
      [],
    )
    await hold.unlock()
    await (await next)?.unlock()
  })

  it('keeps the place of a busy client until its turn comes, which passes on if nobody waits there any more', async () => {
    const hold = await busyAmongOthers()
    const behind = await wait(bench.other)
    await bench.clock.advance(400)
    bench.port.resubscribe() // nobody waits who could have missed a message
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
    const { port: ofClient, client } = bench.connect({ maxHandOffs: 0 })
    port = ofClient
    lock = client.getLock('a')
    const hold = await lock.lock()
    release = () => hold.unlock()
    // A client that is subscribed, but never requests the lock.
    await bench.otherPort.subscribe(CHANNEL, () => {})
  })

  afterEach(() => bench.otherPort.unsubscribe(CHANNEL))

  it('asks again 10 ms after its release', async () => {
    const next = lock.lock()
    await turn()
    const before = asks()
    await release()
    await bench.clock.advance(9)
    assert.equal(asks(), before)
    await bench.clock.advance(1)
    assert.equal(asks(), before + 1)
    await (await next).unlock()
  })

  it('asks again 10 ms after the last of several releases', async () => {
    const next = lock.lock()
    await turn()
    await release()
    await bench.clock.advance(5)
    const between = await lock.tryLock()
    await bench.clock.advance(1)
    await between?.unlock()
    const before = asks()
    await bench.clock.advance(9)
    assert.equal(asks(), before)
    await bench.clock.advance(1)
    assert.equal(asks(), before + 1)
    await (await next).unlock()
  })

  it('waits for its turn if it is behind them in the turn queue', async () => {
    const ahead = bench.connect({}).client.getLock('a').lock()
    await turn()
    const next = lock.lock()
    await turn()
    const before = asks()
    await release()
    await bench.clock.advance(900)
    assert.equal(asks(), before)
    await (await ahead).unlock()
    await (await next).unlock()
  })

  it('asks after these 10 ms if it may have missed a message meanwhile', async () => {
    const ahead = bench.connect({}).client.getLock('a').lock()
    await turn()
    const next = lock.lock()
    await turn()
    const before = asks()
    await release()
    await bench.clock.advance(5)
    port.resubscribe()
    await bench.clock.advance(4)
    assert.equal(asks(), before)
    await bench.clock.advance(1)
    assert.equal(asks(), before + 1)
    await (await ahead).unlock()
    await (await next).unlock()
  })

  it('need not do so for a caller that comes later', async () => {
    const next = lock.lock()
    await turn()
    await release()
    const last = await bench.clock.until(next)
    await last.unlock()
    const elsewhere = await bench.client.getLock('a').lock()
    const late = lock.lock()
    await bench.clock.advance(5)
    await elsewhere.unlock()
    await turn()
    assert.equal(await Promise.race([late.then(() => 'served'), turn().then(() => 'waiting')]), 'served')
    await (await late).unlock()
  })
})
