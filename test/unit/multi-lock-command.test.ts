/** Several plain locks in one command: when that is sent, and what becomes of what it grants. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { getMultiLock, type Hold, type Lock, type MultiLock } from '../../src/index.js'
import { canBeTakenTogether } from '../../src/locks/all-or-none.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { fakeClient } from '../support/fakes/fake-client.js'
import { turn } from '../support/fakes/fake-clock.js'
import { FakePort, type Sent } from '../support/fakes/fake-port.js'

class ClusterPort extends FakePort {
  readonly isCluster = true
}

let fixture: ClientFixture
let x: Lock
let y: Lock
let both: MultiLock

beforeEach(() => {
  fixture = new ClientFixture({})
  x = fixture.client.getLock('x')
  y = fixture.client.getLock('y')
  both = getMultiLock(x, y)
})

afterEach(() => fixture.close())

describe('a multi-lock sends one command', () => {
  it('a multi-lock sends one command for plain locks, re-entrant or not, with and without a lease', async () => {
    const mixed = getMultiLock(x, fixture.client.getNonReentrantLock('z'))
    for (const leaseTimeMs of [undefined, 10_000]) {
      const holds: Hold[] = []
      const commands = await fixture.commandsOf(async () => holds.push(await mixed.lock({ leaseTimeMs })))
      assert.deepEqual(commands, ['lock/acquire-all'])
      const releases = await fixture.commandsOf(async () => await holds[0]?.unlock())
      assert.deepEqual(releases, ['lock/release', 'lock/release'])
    }
  })

  it('a multi-lock sends one command for at most 1,000 locks, since Redis serves nobody else meanwhile', () => {
    const locks = Array.from({ length: 1_001 }, (_, index) => fixture.client.getLock(`many:${index}`))
    assert.equal(canBeTakenTogether(locks.slice(1)), true)
    assert.equal(canBeTakenTogether(locks), false)
    assert.equal(canBeTakenTogether(locks.slice(0, 1)), false)
  })

  it('a multi-lock sends one command if it is only tried, or its wait time is over at the refusal', async () => {
    const other = await fixture.other.getLock('y').lock()
    for (const waitTimeMs of [0, 50]) {
      fixture.port.once('lock/acquire-all', { replyMs: 100 })
      const startedAt = fixture.clock.now()
      const commands = await fixture.commandsOf(async () => {
        assert.equal(await fixture.clock.until(both.tryLock({ waitTimeMs })), null)
      })
      assert.deepEqual(commands, ['lock/acquire-all'])
      assert.equal(fixture.clock.now() - startedAt, 100)
    }
    await other.unlock()
  })

  it('a multi-lock sends one command before it waits, and takes a single lock that is left by itself', async () => {
    const other = await fixture.other.getLock('y').lock()
    const holds: Hold[] = []
    const commands = await fixture.commandsOf(async () => {
      const taking = both.lock()
      await fixture.clock.advance(10)
      await other.unlock()
      holds.push(await fixture.clock.until(taking))
    })
    assert.deepEqual([...new Set(commands)], ['lock/acquire-all', 'lock/acquire'])
    assert.equal(commands[0], 'lock/acquire-all')
    assert.equal(fixture.port.count('lock/acquire-all'), 1)
    await fixture.releaseSafe(holds[0] as Hold)
  })

  it('a multi-lock sends no joint command while a caller of its client waits for one of its locks', async () => {
    const other = await fixture.other.getLock('y').lock()
    const before = y.lock()
    await turn()
    let joint: Promise<Hold> | undefined
    const commands = await fixture.commandsOf(() => {
      joint = both.lock()
    })
    assert.deepEqual(commands, [])
    await other.unlock()
    await (await fixture.clock.until(before)).unlock()
    await fixture.releaseSafe(await fixture.clock.until(joint as Promise<Hold>))
  })

  it('a multi-lock sends no joint command for a lock that it re-enters', async () => {
    await x.withLock(async () => {
      const commands = await fixture.commandsOf(async () => await (await both.lock()).unlock())
      assert.deepEqual(commands.slice(0, 2), ['lock/reenter', 'lock/acquire'])
    })
  })

  it('a multi-lock sends no joint command for locks of several clients', async () => {
    const there = fakeClient(fixture.clock, new FakePort(fixture.clock))
    const hold = await fixture.clock.until(getMultiLock(x, there.getLock('y')).lock())
    assert.deepEqual(fixture.redis.keys, ['x'])
    assert.equal(await there.getLock('y').isLocked(), true)
    await hold.unlock()
    await fixture.clock.until(there.close())
  })

  it('a multi-lock sends no joint command for locks of several slots of a cluster', async () => {
    const port = new ClusterPort(fixture.clock, fixture.redis)
    const client = fakeClient(fixture.clock, port)
    for (const [names, isTogether] of [
      [['x', 'y'], false],
      [['{x}:1', '{x}:2'], true],
    ] as const) {
      await (await fixture.clock.until(getMultiLock(...names.map((name) => client.getLock(name))).lock())).unlock()
      assert.equal(port.count('lock/acquire-all') > 0, isTogether)
    }
    await fixture.clock.until(client.close())
  })

  it('a multi-lock sends one command to what looks like one server only if all locks turn out to be there', async () => {
    for (const [servers, isTogether] of [
      [['one'], true],
      [['one', 'two'], false],
    ] as const) {
      const port = Object.assign(new FakePort(fixture.clock, fixture.redis), { isOneServer: false })
      const send = port.send.bind(port)
      let asked = 0
      port.send = async (command, key) =>
        command[1]?.includes('run_id') ? servers[asked++ % servers.length] : await send(command, key)
      const client = fakeClient(fixture.clock, port as FakePort)
      await (await fixture.clock.until(getMultiLock(client.getLock('x')).lock())).unlock()
      assert.equal(asked, 0, 'one lock may be anywhere')
      await (await fixture.clock.until(getMultiLock(client.getLock('x'), client.getLock('y')).lock())).unlock()
      assert.equal(port.count('lock/acquire-all'), isTogether ? 1 : 0)
      assert(asked > 0)
      await fixture.clock.until(client.close())
    }
  })
})

describe('the command for several locks', () => {
  for (const [why, errorReply] of [
    ['of their slots', "CROSSSLOT Keys in request don't hash to the same slot"],
    ['of their slots by a proxy', 'ERR eval/evalsha command keys must be in same slot'],
    ['of its script', 'ERR bad lua script for redis cluster, and KEYS should not be in expression'],
  ] as const) {
    it(`locks of a multi-lock are taken one by one if the command for several is refused because ${why}`, async () => {
      fixture.port.once('lock/acquire-all', { errorReply })
      const hold = await fixture.clock.until(both.tryLock())
      assert(hold)
      await fixture.releaseSafe(hold)
    })
  }

  it("a multi-lock's error says which of its locks is something else", async () => {
    fixture.redis.execute(['SET', 'y', 'text'])
    await assert.rejects(fixture.clock.until(both.lock()), { code: 'LOCK_WRONG_TYPE', lockName: 'y' })
    assert.deepEqual(fixture.redis.keys, [])
    fixture.redis.delete('y')
  })

  it('any other error of the command for several locks is the result, and nothing was taken', async () => {
    fixture.port.once('lock/acquire-all', { errorReply: 'NOPERM no permissions' })
    const commands = await fixture.commandsOf(async () => await assert.rejects(both.lock(), /NOPERM/))
    assert.deepEqual(commands, ['lock/acquire-all'])
  })

  it('a wait repeats a command for several locks without a reply as the same owners', async () => {
    fixture.port.once('lock/acquire-all', { requestMs: 5_000, failsWith: 'the connection was lost' })
    const hold = await fixture.clock.until(both.lock())
    assert.equal(fixture.port.count('lock/acquire-all'), 2)
    const [first, second] = fixture.port.sent.filter(({ name }) => name === 'lock/acquire-all')
    assert.deepEqual(first?.args, second?.args)
    await fixture.clock.advance(1_000)
    await fixture.releaseSafe(hold)
    assert.deepEqual(fixture.redis.keys, [])
    await fixture.clock.advance(20_000)
    assert(fixture.clock.now() > (first?.at ?? 0) + 5_000)
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('a single try of several locks without a reply rejects, and what it may have taken is released', async () => {
    fixture.port.once('lock/acquire-all', { lost: 'reply' })
    fixture.port.once('lock/release-queued', { lost: 'request' })
    fixture.port.once('lock/release-queued', { lost: 'request' })
    await assert.rejects(fixture.clock.until(both.tryLock()), { code: 'LOCK_OUTCOME_UNKNOWN' })
    assert.deepEqual(fixture.redis.keys.sort(), ['x', 'y'])
    await fixture.clock.advance(10_000)
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('what a single try of several locks may have taken is released however late that is noticed', async () => {
    fixture.port.once('lock/acquire-all', { lost: 'reply' })
    const taking = both.tryLock({ leaseTimeMs: 600_000 })
    await turn()
    fixture.clock.block(120_000)
    await assert.rejects(fixture.clock.until(taking), { code: 'LOCK_OUTCOME_UNKNOWN' })
    await fixture.clock.advance(1_000)
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('a late reply to a command for several locks releases what it granted to a caller who left', async () => {
    for (const other of [undefined, fixture.other.getLock('y')]) {
      const holder = await other?.lock()
      const abort = new AbortController()
      fixture.port.once('lock/acquire-all', { replyMs: 1_000 })
      const commands = await fixture.commandsOf(async () => {
        const taking = both.tryLock({ signal: abort.signal })
        await turn()
        abort.abort('enough')
        await assert.rejects(taking, (reason) => reason === 'enough')
        await fixture.clock.advance(1_000)
      })
      assert.deepEqual(fixture.redis.keys, holder ? ['y'] : [])
      assert.deepEqual(commands.slice(1), holder ? [] : ['lock/release', 'lock/release'])
      await holder?.unlock()
    }
  })

  it('what a command for several locks takes when the Redis client sends it again is released', async () => {
    const other = await fixture.other.getLock('y').lock()
    fixture.port.once('lock/acquire-all', { replyMs: 100 })
    const taking = both.tryLock()
    await turn()
    fixture.port.reconnect()
    assert.equal(await fixture.clock.until(taking), null)
    await other.unlock()
    const [{ keys, args }] = fixture.port.sent.filter(({ name }) => name === 'lock/acquire-all') as [Sent]
    for (const [index, key] of keys.entries()) fixture.redis.set(key, args[index + 1] as string, 1, 30_000)
    await fixture.clock.advance(2_000)
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('what a reply for several locks grants after the lease is over is released', async () => {
    fixture.port.once('lock/acquire-all', { requestMs: 900, replyMs: 200 })
    const taking = both.tryLock({ leaseTimeMs: 1_000 })
    await assert.rejects(fixture.clock.until(taking), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('a multi-lock releases the others and waits if one was lost and granted to another since', async () => {
    fixture.port.once('lock/acquire-all', { replyMs: 500 })
    const taking = both.lock()
    await fixture.clock.advance(100)
    fixture.redis.delete('y')
    const rival = await fixture.clock.until(y.lock())
    await fixture.clock.advance(500)
    fixture.assertSafe(rival)
    assert.deepEqual(fixture.redis.keys, ['y'])
    await rival.unlock()
    await fixture.releaseSafe(await fixture.clock.until(taking))
  })

  const REASONS = {
    'as a listener of an earlier loss outlasts the lease': async () => {
      await x.lock()
      fixture.redis.delete('x')
      fixture.client.once('lost', () => fixture.clock.block(10_000))
      return both.lock({ leaseTimeMs: 10_000 })
    },
    'as one of the locks has been force-unlocked': async () => {
      fixture.port.once('lock/acquire-all', { replyMs: 500 })
      const taking = both.lock({ leaseTimeMs: 10_000 })
      await turn()
      await fixture.clock.until(y.forceUnlock())
      return taking
    },
  }
  for (const [why, begin] of Object.entries(REASONS)) {
    it(`the release of a grant that cannot be kept, ${why}, does not free what the next attempt takes`, async () => {
      let isLate = true
      fixture.port.fault = ({ name }) => {
        if (!isLate || !name.startsWith('lock/release')) return undefined
        void turn().then(() => (isLate = false))
        return { requestMs: 5_000, failsWith: 'Connection is closed' }
      }
      const hold = await fixture.clock.until(begin())
      assert.equal(isLate, false, 'it was released')
      await fixture.clock.advance(5_000)
      await fixture.releaseSafe(hold)
    })
  }

  it("a multi-lock's attempt is remembered only until its outcome is known", async () => {
    await (await both.lock()).unlock()
    assert.equal(x.context.attempts.size, 0)
  })
})

describe('a forced release of one of several locks while one command takes them', () => {
  beforeEach(() => fixture.port.once('lock/acquire-all', { replyMs: 500 }))

  it('a forced release of one of several locks refuses a single try, and leaves none of the others', async () => {
    const taking = both.tryLock()
    await turn()
    assert.equal(await fixture.clock.until(y.forceUnlock()), true)
    assert.equal(await fixture.clock.until(taking), null)
    await turn()
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('a forced release of one of several locks lets a wait ask for all of them again', async () => {
    const taking = both.lock()
    await turn()
    assert.equal(await fixture.clock.until(y.forceUnlock()), true)
    await fixture.releaseSafe(await fixture.clock.until(taking))
  })

  it('a forced release of one of several locks ends the hold if the grant arrives first', async () => {
    fixture.port.fault = ({ name }) => (name.startsWith('lock/release') ? { replyMs: 1_000 } : undefined)
    const taking = both.lock()
    await turn()
    const forced = y.forceUnlock()
    const hold = await fixture.clock.until(taking)
    assert.equal(await fixture.clock.until(forced), true)
    assert.throws(() => hold.assertHeld(), { reason: 'forced' })
    await assert.rejects(fixture.clock.until(hold.unlock()), { reason: 'forced' })
  })
})

it('a forced release does not end what several locks were granted by a later command than the one that it met', async () => {
  const { port } = fixture
  port.once('lock/acquire-all', { lost: 'reply' })
  port.fault = ({ name }) => (name.startsWith('lock/release') ? { replyMs: 2_000 } : undefined)
  const taking = both.lock()
  await fixture.clock.advance(2_000)
  const forced = y.forceUnlock()
  const hold = await fixture.clock.until(taking)
  assert.equal(port.count('lock/acquire-all'), 2)
  assert.equal(await fixture.clock.until(forced), true)
  port.fault = () => undefined
  await fixture.releaseSafe(hold)
})
