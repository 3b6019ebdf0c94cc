/** Several plain locks in one command: when that is sent, and what becomes of what it grants. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { getMultiLock, type Hold, type Lock, type MultiLock } from '../../src/index.js'
import { ClientBench } from '../support/fakes/client-bench.js'
import { fakeClient } from '../support/fakes/fake-client.js'
import { turn } from '../support/fakes/fake-clock.js'
import { FakePort } from '../support/fakes/fake-port.js'

class ClusterPort extends FakePort {
  readonly isCluster = true
}

let bench: ClientBench
let x: Lock
let y: Lock
let both: MultiLock

beforeEach(() => {
  bench = new ClientBench({})
  x = bench.client.getLock('x')
  y = bench.client.getLock('y')
  both = getMultiLock(x, y)
})

afterEach(() => bench.close())

describe('a multi-lock sends one command', () => {
  it('for plain locks, re-entrant or not, with and without a lease of their own', async () => {
    const mixed = getMultiLock(x, bench.client.getNonReentrantLock('z'))
    for (const leaseTimeMs of [undefined, 10_000]) {
      const holds: Hold[] = []
      const commands = await bench.commandsOf(async () => holds.push(await mixed.lock({ leaseTimeMs })))
      assert.deepEqual(commands, ['lock/acquire-all'])
      const releases = await bench.commandsOf(async () => await holds[0]?.unlock())
      assert.deepEqual(releases, ['lock/release', 'lock/release'])
    }
  })

  it('if it is only tried, or its wait time is over when it is refused', async () => {
    const other = await bench.other.getLock('y').lock()
    for (const waitTimeMs of [0, 50]) {
      bench.port.once('lock/acquire-all', { replyMs: 100 })
      const startedAt = bench.clock.now()
      const commands = await bench.commandsOf(async () => {
        assert.equal(await bench.clock.until(both.tryLock({ waitTimeMs })), null)
      })
      assert.deepEqual(commands, ['lock/acquire-all'])
      assert.equal(bench.clock.now() - startedAt, 100)
    }
    await other.unlock()
  })

  it('before it waits in the queue of the one that is held, and takes a single one that is left by itself', async () => {
    const other = await bench.other.getLock('y').lock()
    const holds: Hold[] = []
    const commands = await bench.commandsOf(async () => {
      const taking = both.lock()
      await bench.clock.advance(10)
      await other.unlock()
      holds.push(await bench.clock.until(taking))
    })
    assert.deepEqual([...new Set(commands)], ['lock/acquire-all', 'lock/acquire'])
    assert.equal(commands[0], 'lock/acquire-all')
    assert.equal(bench.port.count('lock/acquire-all'), 1)
    await bench.releaseSafe(holds[0] as Hold)
  })

  it('and none while another caller of its client waits for one of them, behind which it waits', async () => {
    const other = await bench.other.getLock('y').lock()
    const before = y.lock()
    await turn()
    let joint: Promise<Hold> | undefined
    const commands = await bench.commandsOf(() => {
      joint = both.lock()
    })
    assert.deepEqual(commands, [])
    await other.unlock()
    await (await bench.clock.until(before)).unlock()
    await bench.releaseSafe(await bench.clock.until(joint as Promise<Hold>))
  })

  it('and none for a lock that it re-enters', async () => {
    await x.withLock(async () => {
      const commands = await bench.commandsOf(async () => await (await both.lock()).unlock())
      assert.deepEqual(commands.slice(0, 2), ['lock/reenter', 'lock/acquire'])
    })
  })

  it('and none for locks of several clients', async () => {
    const there = fakeClient(bench.clock, new FakePort(bench.clock))
    const hold = await bench.clock.until(getMultiLock(x, there.getLock('y')).lock())
    assert.deepEqual(bench.redis.keys, ['x'])
    assert.equal(await there.getLock('y').isLocked(), true)
    await hold.unlock()
    await bench.clock.until(there.close())
  })

  it('and none for locks of several slots of a cluster', async () => {
    const port = new ClusterPort(bench.clock, bench.redis)
    const client = fakeClient(bench.clock, port)
    for (const [names, isTogether] of [
      [['x', 'y'], false],
      [['{x}:1', '{x}:2'], true],
    ] as const) {
      await (await bench.clock.until(getMultiLock(...names.map((name) => client.getLock(name))).lock())).unlock()
      assert.equal(port.count('lock/acquire-all') > 0, isTogether)
    }
    await bench.clock.until(client.close())
  })
})

describe('if the command for several locks', () => {
  for (const [why, errorReply] of [
    ['of their slots', "CROSSSLOT Keys in request don't hash to the same slot"],
    ['of their slots by a proxy', 'ERR eval/evalsha command keys must be in same slot'],
    ['of its script', 'ERR bad lua script for redis cluster, and KEYS should not be in expression'],
  ] as const) {
    it(`is refused because ${why}, they are taken one by one`, async () => {
      bench.port.once('lock/acquire-all', { errorReply })
      const hold = await bench.clock.until(both.tryLock())
      assert(hold)
      await bench.releaseSafe(hold)
    })
  }

  it('finds that one of them is something else, the error says which', async () => {
    bench.redis.execute(['SET', 'y', 'text'])
    await assert.rejects(bench.clock.until(both.lock()), { code: 'LOCK_WRONG_TYPE', lockName: 'y' })
    assert.deepEqual(bench.redis.keys, [])
    bench.redis.delete('y')
  })

  it('gets any other error, that is the result, and nothing was taken', async () => {
    bench.port.once('lock/acquire-all', { errorReply: 'NOPERM no permissions' })
    const commands = await bench.commandsOf(async () => await assert.rejects(both.lock(), /NOPERM/))
    assert.deepEqual(commands, ['lock/acquire-all'])
  })

  it('gets no reply, a wait repeats it as the same owners, and a late copy of it takes nothing for long', async () => {
    bench.port.once('lock/acquire-all', { requestMs: 5_000, failsWith: 'the connection was lost' })
    const hold = await bench.clock.until(both.lock())
    assert.equal(bench.port.count('lock/acquire-all'), 2)
    const [first, second] = bench.port.sent.filter(({ name }) => name === 'lock/acquire-all')
    assert.deepEqual(first?.args, second?.args)
    await bench.clock.advance(1_000)
    await bench.releaseSafe(hold)
    assert.deepEqual(bench.redis.keys, [])
    await bench.clock.advance(20_000)
    assert(bench.clock.now() > (first?.at ?? 0) + 5_000)
    assert.deepEqual(bench.redis.keys, [])
  })

  it('gets no reply, a single try rejects, and what it may have taken is released, however many requests are lost', async () => {
    bench.port.once('lock/acquire-all', { lost: 'reply' })
    bench.port.once('lock/release-queued', { lost: 'request' })
    bench.port.once('lock/release-queued', { lost: 'request' })
    await assert.rejects(bench.clock.until(both.tryLock()), { code: 'LOCK_OUTCOME_UNKNOWN' })
    assert.deepEqual(bench.redis.keys.sort(), ['x', 'y'])
    await bench.clock.advance(10_000)
    assert.deepEqual(bench.redis.keys, [])
  })

  it('gets a reply after the caller has left, what it granted is released', async () => {
    for (const other of [undefined, bench.other.getLock('y')]) {
      const holder = await other?.lock()
      const abort = new AbortController()
      bench.port.once('lock/acquire-all', { replyMs: 1_000 })
      const commands = await bench.commandsOf(async () => {
        const taking = both.tryLock({ signal: abort.signal })
        await turn()
        abort.abort('enough')
        await assert.rejects(taking, (reason) => reason === 'enough')
        await bench.clock.advance(1_000)
      })
      assert.deepEqual(bench.redis.keys, holder ? ['y'] : [])
      assert.deepEqual(commands.slice(1), holder ? [] : ['lock/release', 'lock/release'])
      await holder?.unlock()
    }
  })

  it('gets a reply when the lease is over, what Redis still has of it is released', async () => {
    bench.port.once('lock/acquire-all', { requestMs: 900, replyMs: 200 })
    const taking = both.tryLock({ leaseTimeMs: 1_000 })
    await assert.rejects(bench.clock.until(taking), { code: 'LOCK_LEASE_LOST', reason: 'expired' })
    assert.deepEqual(bench.redis.keys, [])
  })

  it('grants a lock that Redis has lost and granted to another since, the others are released, and it waits', async () => {
    bench.port.once('lock/acquire-all', { replyMs: 500 })
    const taking = both.lock()
    await bench.clock.advance(100)
    bench.redis.delete('y')
    const rival = await bench.clock.until(y.lock())
    await bench.clock.advance(500)
    bench.assertSafe(rival)
    assert.deepEqual(bench.redis.keys, ['y'])
    await rival.unlock()
    await bench.releaseSafe(await bench.clock.until(taking))
  })

  const REASONS = {
    'as a listener of an earlier loss outlasts the lease': async () => {
      await x.lock()
      bench.redis.delete('x')
      bench.client.once('lost', () => bench.clock.block(10_000))
      return both.lock({ leaseTimeMs: 10_000 })
    },
    'as one of the locks has been force-unlocked': async () => {
      bench.port.once('lock/acquire-all', { replyMs: 500 })
      const taking = both.lock({ leaseTimeMs: 10_000 })
      await turn()
      await bench.clock.until(y.forceUnlock())
      return taking
    },
  }
  for (const [why, begin] of Object.entries(REASONS)) {
    it(`grants what cannot be kept, ${why}, the release does not free what the next attempt takes, however late`, async () => {
      let isLate = true
      bench.port.fault = ({ name }) => {
        if (!isLate || !name.startsWith('lock/release')) return undefined
        void turn().then(() => (isLate = false))
        return { requestMs: 5_000, failsWith: 'Connection is closed' }
      }
      const hold = await bench.clock.until(begin())
      assert.equal(isLate, false, 'it was released')
      await bench.clock.advance(5_000)
      await bench.releaseSafe(hold)
    })
  }

  it('has been sent, the client remembers the attempt only until it knows the outcome', async () => {
    await (await both.lock()).unlock()
    assert.equal(x.context.attempts.size, 0)
  })
})

describe('a forced release of one of several locks while one command takes them', () => {
  beforeEach(() => bench.port.once('lock/acquire-all', { replyMs: 500 }))

  it('refuses a single try, and leaves none of the others', async () => {
    const taking = both.tryLock()
    await turn()
    assert.equal(await bench.clock.until(y.forceUnlock()), true)
    assert.equal(await bench.clock.until(taking), null)
    await turn()
    assert.deepEqual(bench.redis.keys, [])
  })

  it('lets a wait ask for all of them again', async () => {
    const taking = both.lock()
    await turn()
    assert.equal(await bench.clock.until(y.forceUnlock()), true)
    await bench.releaseSafe(await bench.clock.until(taking))
  })

  it('ends the hold if the grant arrives first', async () => {
    bench.port.fault = ({ name }) => (name.startsWith('lock/release') ? { replyMs: 1_000 } : undefined)
    const taking = both.lock()
    await turn()
    const forced = y.forceUnlock()
    const hold = await bench.clock.until(taking)
    assert.equal(await bench.clock.until(forced), true)
    assert.throws(() => hold.assertHeld(), { reason: 'forced' })
    await assert.rejects(bench.clock.until(hold.unlock()), { reason: 'forced' })
  })
})

it('a forced release does not end what several locks were granted by a later command than the one that it met', async () => {
  const { port } = bench
  port.once('lock/acquire-all', { lost: 'reply' })
  port.fault = ({ name }) => (name.startsWith('lock/release') ? { replyMs: 2_000 } : undefined)
  const taking = both.lock()
  await bench.clock.advance(2_000)
  const forced = y.forceUnlock()
  const hold = await bench.clock.until(taking)
  assert.equal(port.count('lock/acquire-all'), 2)
  assert.equal(await bench.clock.until(forced), true)
  port.fault = () => undefined
  await bench.releaseSafe(hold)
})
