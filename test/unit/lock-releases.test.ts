/** What a release tells the other clients, and what it keeps for its own. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type Client, lockOfKind } from '../../src/client.js'
import type { Hold, Lock } from '../../src/index.js'
import { KINDS, NAMED_KIND_IDS } from '../../src/locks/kinds/table.js'
import { fencingTokenKey, turnQueueKey } from '../../src/wire/keys.js'
import { CHANNEL, ClientFixture, handOffsOf } from '../support/fakes/client-fixture.js'
import { FakeReplyError } from '../support/fakes/fake-redis.js'

let fixture: ClientFixture

beforeEach(() => {
  fixture = new ClientFixture({})
})

afterEach(() => fixture.close())

describe('a release', () => {
  /** How often `action` waits until the event loop has polled once more. */
  async function pollsDuring(action: () => Promise<unknown>): Promise<number> {
    let count = 0
    fixture.clock.afterPoll = (poll) => {
      count++
      poll()
    }
    await action()
    return count
  }

  it('a release that gives the turn to another client waits one poll, so no next call here is faster', async () => {
    const hold = await fixture.lock.lock()
    const waiting = fixture.other.getLock('a').lock()
    await fixture.clock.advance(100)
    assert.equal(await pollsDuring(() => hold.unlock()), 1)
    await (await fixture.clock.until(waiting)).unlock()
    assert.deepEqual(fixture.warnings, [])
  })

  it('a release that nobody waits for resolves at once', async () => {
    const hold = await fixture.lock.lock()
    assert.equal(await pollsDuring(() => hold.unlock()), 0)
  })

  it('a release that wakes only another caller of this client resolves at once', async () => {
    const hold = await fixture.lock.lock()
    const waiting = fixture.lock.lock({ leaseTimeMs: 5_000 }) // which is not handed off
    await fixture.clock.advance(3_000)
    assert(fixture.port.channels.includes(CHANNEL), 'it listens for releases by others')
    assert.equal(await pollsDuring(() => hold.unlock()), 0)
    await (await fixture.clock.until(waiting)).unlock()
  })

  it('a release of a kind without turns resolves at once, although others wait', async () => {
    const kinds: ((client: Client) => Lock)[] = [
      (client) => client.getStringLock('s'),
      (client) => client.getReadWriteLock('rw').writeLock(),
    ]
    for (const lockOf of kinds) {
      const hold = await lockOf(fixture.client).lock()
      const waiting = lockOf(fixture.other).lock()
      await fixture.clock.advance(40)
      assert.equal(await pollsDuring(() => hold.unlock()), 0)
      await (await fixture.clock.until(waiting)).unlock()
    }
  })

  for (const isRepeated of [false, true]) {
    const which = isRepeated ? 'a repeated release' : 'a release'
    it(`${which} that Redis refuses to publish frees the lock, with a warning that names it`, async () => {
      const hold = await fixture.lock.lock()
      const { keyspace } = fixture.redis
      const execute = keyspace.execute.bind(keyspace)
      keyspace.execute = (name, args) => {
        if (/publish/i.test(name)) throw new FakeReplyError('NOPERM No permissions to access a channel')
        return execute(name, args)
      }
      if (isRepeated) fixture.port.once('lock/release-queued', { errorReply: 'LOADING Redis is loading the dataset' })
      await fixture.clock.until(hold.unlock())
      assert.deepEqual(fixture.redis.keys, [])
      assert.deepEqual(
        fixture.warnings.map(({ code }) => code),
        ['PUBLISH_REFUSED'],
      )
      assert.match(fixture.warnings[0]?.message ?? '', /^Redis released "a" but refused/)
    })
  }
})

describe('the place of a client in the turn queue', () => {
  /** A hold of this client, granted by Redis in its turn, while another client waits behind it. */
  async function holdBetweenOthers(): Promise<[Hold, Promise<Hold>]> {
    const { client: third } = fixture.connect({})
    const first = await fixture.lock.lock()
    const waiting = []
    for (const client of [fixture.other, fixture.client, third]) {
      waiting.push(client.getLock('a').lock())
      await fixture.clock.advance(30)
    }
    const [second, own, behind] = waiting as [Promise<Hold>, Promise<Hold>, Promise<Hold>]
    await first.unlock()
    await (await fixture.clock.until(second)).unlock()
    return [await fixture.clock.until(own), behind]
  }

  const ownTickets = (): string[] =>
    fixture.redis.tickets(turnQueueKey('a')).filter((ticket) => ticket.startsWith(fixture.client.id))

  it('the place of a client in the turn queue ends with its release if it was granted once', async () => {
    const [hold, behind] = await holdBetweenOthers()
    await hold.unlock()
    assert.deepEqual(ownTickets(), [])
    await (await fixture.clock.until(behind)).unlock()
  })

  it('the place of a client in the turn queue is kept by the release after a run of hand-offs', async () => {
    const [hold, behind] = await holdBetweenOthers()
    const next = fixture.lock.lock()
    await fixture.clock.advance(5)
    await hold.unlock()
    const handedOff = await next
    assert.equal(handOffsOf(handedOff), 1)
    await handedOff.unlock()
    assert.equal(ownTickets().length, 1)
    await (await fixture.clock.until(behind)).unlock()
  })
})

describe('a lock that is kept for atLeastMs', () => {
  const kinds: Readonly<Record<string, (client: Client) => Lock>> = {
    ...Object.fromEntries(
      NAMED_KIND_IDS.filter((id) => !KINDS[id].isShared).map((id) => [
        KINDS[id].title,
        (client: Client) => lockOfKind(client, id, 'a'),
      ]),
    ),
    [KINDS.fasterMulti.title]: (client) => client.getFasterMultiLock('a', ['one', 'two']),
  }

  /** @param begin  from when the lock has to stay taken for `ms`; a clock of Redis that is 1 % slower is allowed for */
  async function isFreeAfter(lock: Lock, begin: number, ms: number): Promise<void> {
    while (await lock.isLocked()) await fixture.clock.advance(10)
    const freeMs = fixture.clock.now() - begin
    assert(freeMs >= ms && freeMs <= ms * 1.01 + 20, `free after ${freeMs} ms instead of ${ms} ms`)
  }

  const expire = (): Promise<void> => fixture.clock.advance(60_000) // what else is left: a group, a counter

  for (const [title, lockOf] of Object.entries(kinds)) {
    it(`a lock kept for atLeastMs is free at the end of that time although it was renewed: ${title}`, async () => {
      const begin = fixture.clock.now()
      const lock = lockOf(fixture.client)
      // Renewals after 10 and 20 s make the lease end after 50 s.
      await fixture.clock.until(lock.withLock({ atLeastMs: 32_000 }, () => fixture.pause(25_000)))
      await isFreeAfter(lockOf(fixture.other), begin, 32_000)
      await expire()
      fixture.redis.delete(fencingTokenKey('a'))
    })

    it(`a lock kept for atLeastMs counts from the grant, however late the request arrived: ${title}`, async () => {
      const begin = fixture.clock.now()
      fixture.port.fault = ({ name }) => (/acquire/.test(name) ? { requestMs: 2_000 } : undefined)
      const lock = lockOf(fixture.client)
      await fixture.clock.until(lock.withLock({ atLeastMs: 32_000 }, () => fixture.pause(23_000)))
      await isFreeAfter(lockOf(fixture.other), begin, 34_000)
      await expire()
      fixture.redis.delete(fencingTokenKey('a'))
    })
  }

  it('atLeastMs of a writer that reads on lasts as long as it reads', async () => {
    const { clock, client, redis } = fixture
    const both = client.getReadWriteLock('a')
    let reading: Hold | undefined
    await clock.until(
      both.writeLock().withLock({ atLeastMs: 2_000 }, async () => {
        reading = await both.readLock().lock()
      }),
    )
    await clock.advance(5_000)
    assert(redis.isHeldBy('a', (reading as Hold).holder), 'its reads would end with the lock')
    await reading?.unlock()
    await expire()
  })

  it('a lock kept for atLeastMs is free at its end although Redis is silent when it is to be cut', async () => {
    const begin = fixture.clock.now()
    fixture.port.once('lock/shorten', { lost: 'request' })
    fixture.port.once('lock/shorten', { lost: 'request', failsWith: 'Connection is closed' })
    await fixture.clock.until(fixture.lock.withLock({ atLeastMs: 15_000 }, () => fixture.pause(1_000)))
    await isFreeAfter(fixture.other.getLock('a'), begin, 15_000)
  })

  it('a lock kept for atLeastMs is free at its end although the run was lost before', async () => {
    const begin = fixture.clock.now()
    const run = fixture.lock.withLock({ atLeastMs: 2_000, maxHoldMs: 500 }, () => fixture.pause(1_000))
    await assert.rejects(fixture.clock.until(run), { reason: 'maxHold' })
    await isFreeAfter(fixture.other.getLock('a'), begin, 2_000)
  })

  it('a lock kept for atLeastMs keeps its time when the clock of Redis is set back', async () => {
    const begin = fixture.clock.now()
    const run = fixture.lock.withLock({ atLeastMs: 120_000 }, async () => {
      fixture.redis.execute(['PEXPIRE', 'a', '900000']) // what Redis makes of it
      await fixture.pause(45_000)
    })
    await fixture.clock.until(run)
    assert(fixture.port.count('lock/renew-capped') > 0)
    await isFreeAfter(fixture.other.getLock('a'), begin, 120_000)
  })

  it('a lock kept for atLeastMs is left to its lease without a command, if that ends then', async () => {
    const commands = await fixture.commandsOf(() => fixture.lock.withLock({ atLeastMs: 60_000 }, () => {}))
    assert.deepEqual(commands, ['lock/acquire'])
    assert.equal(fixture.redis.pttl('a'), 60_000)
    fixture.redis.delete('a')
  })

  it('a lock kept for atLeastMs is released if that time is over', async () => {
    await fixture.clock.until(fixture.lock.withLock({ atLeastMs: 500 }, () => fixture.pause(500)))
    assert.deepEqual(fixture.redis.keys, [])
    const lost = fixture.lock.withLock({ atLeastMs: 500, maxHoldMs: 600 }, () => fixture.pause(700))
    await assert.rejects(fixture.clock.until(lost), { reason: 'maxHold' })
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('a lock kept for atLeastMs is released at its end if the Redis client may take it once more, unless the process ends', async () => {
    fixture.port.once('lock/acquire', { resentMs: 10 })
    const { keepingAlive } = fixture.clock
    await fixture.clock.until(fixture.lock.withLock({ atLeastMs: 700 }, () => {}))
    assert.equal(fixture.clock.keepingAlive, keepingAlive)
    const before = fixture.port.count()
    await fixture.clock.advance(5_000)
    assert(fixture.port.count() > before)
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('a lock kept for atLeastMs has its lease cut to the rest of that time, if it is longer', async () => {
    await fixture.clock.until(fixture.lock.withLock({ atLeastMs: 700 }, () => fixture.pause(200)))
    assert.equal(fixture.redis.pttl('a'), 502, 'and 1 % of the time that the client counted: its clock may be faster')
    await fixture.clock.advance(503)
    assert.deepEqual(fixture.redis.keys, [])
  })
})
