/** What a release tells the other clients, and what it keeps for its own. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { type Client, lockOfKind } from '../../src/client.js'
import type { Hold, Lock } from '../../src/index.js'
import { KINDS, NAMED_KIND_IDS } from '../../src/locks/kinds/table.js'
import { fencingTokenKey, turnQueueKey } from '../../src/wire/keys.js'
import { CHANNEL, ClientBench, handOffsOf } from '../support/fakes/client-bench.js'
import { FakeReplyError } from '../support/fakes/fake-redis.js'

let bench: ClientBench

beforeEach(() => {
  bench = new ClientBench({})
})

afterEach(() => bench.close())

describe('a release', () => {
  /** How often `action` waits until the event loop has polled once more. */
  async function pollsDuring(action: () => Promise<unknown>): Promise<number> {
    let count = 0
    bench.clock.afterPoll = (poll) => {
      count++
      poll()
    }
    await action()
    return count
  }

  it('that gives the turn to another client waits for one poll, so that a next call here is no faster than that client', async () => {
    const hold = await bench.lock.lock()
    const waiting = bench.other.getLock('a').lock()
    await bench.clock.advance(100)
    assert.equal(await pollsDuring(() => hold.unlock()), 1)
    await (await bench.clock.until(waiting)).unlock()
    assert.deepEqual(bench.warnings, [])
  })

  it('that nobody waits for resolves at once', async () => {
    const hold = await bench.lock.lock()
    assert.equal(await pollsDuring(() => hold.unlock()), 0)
  })

  it('that wakes only another caller of this client resolves at once', async () => {
    const hold = await bench.lock.lock()
    const waiting = bench.lock.lock({ leaseTimeMs: 5_000 }) // which is not handed off
    await bench.clock.advance(3_000)
    assert(bench.port.channels.includes(CHANNEL), 'it listens for releases by others')
    assert.equal(await pollsDuring(() => hold.unlock()), 0)
    await (await bench.clock.until(waiting)).unlock()
  })

  it('of a kind whose waiters have no turns resolves at once, although others wait', async () => {
    const kinds: ((client: Client) => Lock)[] = [
      (client) => client.getStringLock('s'),
      (client) => client.getReadWriteLock('rw').writeLock(),
    ]
    for (const lockOf of kinds) {
      const hold = await lockOf(bench.client).lock()
      const waiting = lockOf(bench.other).lock()
      await bench.clock.advance(40)
      assert.equal(await pollsDuring(() => hold.unlock()), 0)
      await (await bench.clock.until(waiting)).unlock()
    }
  })

  it('that Redis refuses to publish frees the lock, with a warning that names it', async () => {
    const hold = await bench.lock.lock()
    const { keyspace } = bench.redis
    const execute = keyspace.execute.bind(keyspace)
    keyspace.execute = (name, args) => {
      if (/publish/i.test(name)) throw new FakeReplyError('NOPERM No permissions to access a channel')
      return execute(name, args)
    }
    await hold.unlock()
    assert.deepEqual(bench.redis.keys, [])
    assert.deepEqual(
      bench.warnings.map(({ code }) => code),
      ['PUBLISH_REFUSED'],
    )
    assert.match(bench.warnings[0]?.message ?? '', /^Redis released "a" but refused/)
  })
})

describe('the place of a client in the turn queue', () => {
  /** A hold of this client, granted by Redis in its turn, while another client waits behind it. */
  async function holdBetweenOthers(): Promise<[Hold, Promise<Hold>]> {
    const { client: third } = bench.connect({})
    const first = await bench.lock.lock()
    const waiting = []
    for (const client of [bench.other, bench.client, third]) {
      waiting.push(client.getLock('a').lock())
      await bench.clock.advance(30)
    }
    const [second, own, behind] = waiting as [Promise<Hold>, Promise<Hold>, Promise<Hold>]
    await first.unlock()
    await (await bench.clock.until(second)).unlock()
    return [await bench.clock.until(own), behind]
  }

  const ownTickets = (): string[] =>
    bench.redis.tickets(turnQueueKey('a')).filter((ticket) => ticket.startsWith(bench.client.id))

  it('ends with its release if it was granted once', async () => {
    const [hold, behind] = await holdBetweenOthers()
    await hold.unlock()
    assert.deepEqual(ownTickets(), [])
    await (await bench.clock.until(behind)).unlock()
  })

  it('is kept by the release after a run of hand-offs, whose callers will be back', async () => {
    const [hold, behind] = await holdBetweenOthers()
    const next = bench.lock.lock()
    await bench.clock.advance(5)
    await hold.unlock()
    const handedOff = await next
    assert.equal(handOffsOf(handedOff), 1)
    await handedOff.unlock()
    assert.equal(ownTickets().length, 1)
    await (await bench.clock.until(behind)).unlock()
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
    while (await lock.isLocked()) await bench.clock.advance(10)
    const freeMs = bench.clock.now() - begin
    assert(freeMs >= ms && freeMs <= ms * 1.01 + 20, `free after ${freeMs} ms instead of ${ms} ms`)
  }

  const expire = (): Promise<void> => bench.clock.advance(60_000) // what else is left: a group, a counter

  for (const [title, lockOf] of Object.entries(kinds)) {
    it(`is free at the end of that time although it was renewed: ${title}`, async () => {
      const begin = bench.clock.now()
      const lock = lockOf(bench.client)
      // Renewals after 10 and 20 s make the lease end after 50 s.
      await bench.clock.until(lock.withLock({ atLeastMs: 32_000 }, () => bench.pause(25_000)))
      await isFreeAfter(lockOf(bench.other), begin, 32_000)
      await expire()
      bench.redis.delete(fencingTokenKey('a'))
    })

    it(`counts from the grant, however late the request arrived: ${title}`, async () => {
      const begin = bench.clock.now()
      bench.port.fault = ({ name }) => (/acquire/.test(name) ? { requestMs: 2_000 } : undefined)
      const lock = lockOf(bench.client)
      await bench.clock.until(lock.withLock({ atLeastMs: 32_000 }, () => bench.pause(23_000)))
      await isFreeAfter(lockOf(bench.other), begin, 34_000)
      await expire()
      bench.redis.delete(fencingTokenKey('a'))
    })
  }

  it('of a writer that reads on lasts as long as it reads', async () => {
    const { clock, client, redis } = bench
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

  it('is free at its end although Redis does not reply when the lease is to be cut', async () => {
    const begin = bench.clock.now()
    bench.port.once('lock/shorten', { lost: 'request' })
    bench.port.once('lock/shorten', { lost: 'request', failsWith: 'Connection is closed' })
    await bench.clock.until(bench.lock.withLock({ atLeastMs: 15_000 }, () => bench.pause(1_000)))
    await isFreeAfter(bench.other.getLock('a'), begin, 15_000)
  })

  it('is free at its end although the run was lost before', async () => {
    const begin = bench.clock.now()
    const run = bench.lock.withLock({ atLeastMs: 2_000, maxHoldMs: 500 }, () => bench.pause(1_000))
    await assert.rejects(bench.clock.until(run), { reason: 'maxHold' })
    await isFreeAfter(bench.other.getLock('a'), begin, 2_000)
  })

  it('keeps its time when the clock of Redis was set back, and the watchdog corrects the lease', async () => {
    const begin = bench.clock.now()
    const run = bench.lock.withLock({ atLeastMs: 120_000 }, async () => {
      bench.redis.execute(['PEXPIRE', 'a', '900000']) // what Redis makes of it
      await bench.pause(45_000)
    })
    await bench.clock.until(run)
    assert(bench.port.count('lock/renew-capped') > 0)
    await isFreeAfter(bench.other.getLock('a'), begin, 120_000)
  })

  it('is left to its lease without a command, if that ends then', async () => {
    const commands = await bench.commandsOf(() => bench.lock.withLock({ atLeastMs: 60_000 }, () => {}))
    assert.deepEqual(commands, ['lock/acquire'])
    assert.equal(bench.redis.pttl('a'), 60_000)
    bench.redis.delete('a')
  })

  it('has its lease cut to the rest of that time, if it is longer', async () => {
    await bench.clock.until(bench.lock.withLock({ atLeastMs: 700 }, () => bench.pause(200)))
    assert.equal(bench.redis.pttl('a'), 502, 'and 1 % of the time that the client counted: its clock may be faster')
    await bench.clock.advance(503)
    assert.deepEqual(bench.redis.keys, [])
  })
})
