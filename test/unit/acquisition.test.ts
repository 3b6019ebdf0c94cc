/** One acquire of a lock: when another attempt is worth it, what it leaves, and reads inside a write. */
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { NoReplyError } from '../../src/delivery/replies.js'
import { LeaseLostError, NotDurableError, NotReplicatedError } from '../../src/errors.js'
import type { Lock } from '../../src/index.js'
import { isTransient } from '../../src/locks/acquisition.js'
import { ClientFixture } from '../support/fakes/client-fixture.js'
import { turn } from '../support/fakes/fake-clock.js'
import { SCRIPT_NAMES } from '../support/script-names.js'

/** As short as this, a quarter of it in ms is how many requests may be in flight. */
const LEASE_MS = 1_000

let fixture: ClientFixture

beforeEach(() => {
  fixture = new ClientFixture({ lockWatchdogTimeoutMs: LEASE_MS, commandTimeoutMs: 3_000 })
})

afterEach(() => fixture.close())

describe('another attempt is worth it', () => {
  for (const [title, error, expected] of [
    ['without a reply', new NoReplyError('gone'), true],
    ['while Redis loads its data', new Error('LOADING Redis is loading the dataset in memory'), true],
    ['if no replica has acknowledged the grant', new NotReplicatedError('a', 1, 1_000, {}), true],
    ['if the grant was not fsynced in time', new NotDurableError('a', 'late', 'not in time'), true],
    ['if the lease ended before the grant arrived', new LeaseLostError('a', 'me:1', 'expired'), true],
    ['if the server cannot confirm an fsync', new NotDurableError('a', 'refused', 'no WAITAOF'), false],
    ['if another owner has the lock since', new LeaseLostError('a', 'me:1', 'gone'), false],
    ['after an error reply that stays', new Error('NOPERM this user has no permissions'), false],
    ['if Redis is full', new Error('OOM command not allowed'), false],
    ['after any other error reply', new Error('ERR upstream failure'), true],
    ['after anything else', undefined, false],
  ] as const) {
    it(`another attempt is ${expected ? '' : 'not '}worth it ${title}`, () =>
      assert.equal(isTransient(error), expected))
  }
})

describe('an acquire whose grant replicas must confirm', () => {
  it('an acquire that replicas must confirm is sent once it is known which server grants it', async () => {
    const { port, client } = fixture.connect({ checkLockSyncedSlaves: true })
    let isLocated = false
    port.fault = ({ name }) => {
      isLocated ||= name === 'time/read'
      return undefined
    }
    Object.assign(port, {
      serverOf: () => (isLocated ? 'one' : undefined),
      acknowledge: async () => ({ replicas: 1, acknowledged: 1 }),
    })
    const hold = await fixture.clock.until(client.getLock('a').tryLock())
    hold?.assertHeld()
    assert.deepEqual(
      port.sent.map(({ name }) => name),
      ['time/read', 'lock/acquire'],
    )
    await hold?.unlock()
  })
})

describe('a reply that makes no sense', () => {
  /** The next reply to this script is not one of it. */
  function garble(script: string): void {
    const { port } = fixture
    const send = port.send.bind(port)
    port.send = async (command, key) => {
      const reply = await send(command, key)
      if (!SCRIPT_NAMES.get(command[1] ?? '')?.startsWith(script)) return reply
      port.send = send
      return 'what?'
    }
  }

  it('a reply to an acquire that makes no sense is no grant, and what it may have taken is released', async () => {
    garble('lock/acquire')
    await assert.rejects(fixture.clock.until(fixture.lock.tryLock()), {
      code: 'LOCK_OUTCOME_UNKNOWN',
      message: /which is not a reply of the script/,
    })
    await fixture.clock.advance(5_000)
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('a reply to a release that makes no sense makes the client release once more', async () => {
    const hold = await fixture.lock.lock()
    garble('lock/release')
    await fixture.clock.until(hold.unlock())
    assert.equal(fixture.port.sent.filter(({ name }) => name.startsWith('lock/release')).length, 2)
    assert.deepEqual([fixture.redis.keys, fixture.lost], [[], []])
  })
})

describe('a caller that ends without the lock', () => {
  it('a caller that ends without the lock leaves nothing taken behind a proxy that has lost the reply', async () => {
    const { keyspace } = fixture.redis
    // The proxy passes the command on, and its connection to Redis breaks before the reply.
    fixture.port.fault = ({ name, keys, args }) => {
      if (!name.startsWith('lock/acquire')) return undefined
      keyspace.execute('HSET', [keys[0] as string, args[1] as string, '1'])
      keyspace.execute('PEXPIRE', [keys[0] as string, args[0] as string])
      return { errorReply: 'ERR upstream failure' }
    }
    await assert.rejects(fixture.lock.tryLock(), /upstream failure/)
    fixture.port.fault = () => undefined
    await fixture.clock.advance(100)
    assert.deepEqual(fixture.redis.keys, [])
  })

  it('a caller that ends without the lock leaves its owner free to take it', async () => {
    const foreign = await fixture.other.getLock('a').lock()
    await fixture.client.runInScope(async () => {
      assert.equal(await fixture.lock.tryLock(), null)
      await foreign.unlock()
      const hold = await fixture.lock.lock()
      assert.equal(hold.ownerId, (await fixture.client.getLock('b').lock()).ownerId)
      await fixture.lock.unlock()
      await fixture.client.getLock('b').unlock()
    })
  })

  it('a caller that ends without the lock is no attempt in flight any more, however the attempt ended', async () => {
    const { attempts } = fixture.lock.context
    const hold = await fixture.lock.lock()
    assert.equal(await fixture.client.getLock('a').tryLock(), null)
    fixture.port.once('lock/acquire', { errorReply: 'NOPERM' })
    await assert.rejects(fixture.client.getLock('b').tryLock(), /NOPERM/)
    assert.equal(attempts.size, 0)
    await hold.unlock()
  })
})

describe('a caller of a fair lock that ends without it', () => {
  let foreign: { unlock(): Promise<void> }
  let fair: Lock

  beforeEach(async () => {
    foreign = await fixture.other.getFairLock('a').lock({ leaseTimeMs: 60_000 })
    fair = fixture.client.getFairLock('a')
  })

  afterEach(() => foreign.unlock())

  it('a fair-lock caller that gives up leaves the queue, and tries for a while without a reply', async () => {
    fixture.port.once('fair-lock/leave', { lost: 'request', failsWith: 'Connection is closed' })
    const controller = new AbortController()
    const waiting = assert.rejects(fair.lock({ signal: controller.signal }), { name: 'AbortError' })
    await fixture.clock.advance(500)
    assert.equal(fixture.port.count('fair-lock/leave'), 0)
    controller.abort()
    await waiting
    await fixture.clock.advance(5_000)
    assert.equal(fixture.port.count('fair-lock/leave'), 2)
  })

  it('a fair-lock caller has no place to give up after a single try or before its first attempt', async () => {
    assert.equal(await fair.tryLock(), null)
    await assert.rejects(fair.lock({ signal: AbortSignal.abort() }), { name: 'AbortError' })
    await turn()
    assert.equal(fixture.port.count('fair-lock/leave'), 0)
    assert.equal(fixture.port.count('fair-lock/acquire'), 1)
  })
})

describe('reads inside one write', () => {
  let write: Lock
  let read: Lock

  beforeEach(() => {
    const lock = fixture.client.getReadWriteLock('rw')
    write = lock.writeLock()
    read = lock.readLock()
  })

  it('reads inside one write, one on its way and one given up, are one owner with one request', async () => {
    await write.withLock(async () => {
      fixture.port.once('read-lock/acquire', { requestMs: 100, replyMs: 100 })
      const first = read.tryLock()
      await turn()
      assert.equal(fixture.port.count('read-lock/acquire'), 1)
      const controller = new AbortController()
      const second = assert.rejects(read.lock({ signal: controller.signal }), { name: 'AbortError' })
      await fixture.clock.advance(50)
      controller.abort()
      await second
      const third = await fixture.clock.until(read.tryLock())
      assert.equal(fixture.port.count('read-lock/acquire'), 1)
      assert.equal((await first)?.count, 2)
      await third?.unlock()
      await (await first)?.unlock()
    })
  })

  it('reads inside one write are not possible any more after one whose release is not settled', async () => {
    await write.withLock(async () => {
      const hold = await read.lock()
      fixture.port.once('read-lock/release', { lost: 'reply' })
      await assert.rejects(fixture.clock.until(hold.unlock()), { code: 'LOCK_OUTCOME_UNKNOWN' })
      await assert.rejects(read.tryLock(), { code: 'LOCK_NOT_HELD', message: /its release is not settled/ })
      await assert.rejects(read.lock(), { code: 'LOCK_NOT_HELD' })
    })
  })

  it('reads inside one write wait for requests in flight, unless they re-enter a read', async () => {
    const { clock, client, port } = fixture
    port.fault = ({ keys }) => (keys[0]?.startsWith('silent') ? { lost: 'request' } : undefined)
    const silent: Promise<unknown>[] = []
    await write.withLock(async () => {
      for (let n = 0; n < LEASE_MS / 4; n++)
        silent.push(
          client
            .getLock(`silent:${n}`)
            .tryLock()
            .catch(() => null),
        )
      await turn()
      const startedAt = clock.now()
      const first = read.lock()
      await turn()
      assert.equal(port.count('read-lock/acquire'), 0)
      await clock.until(first)
      assert(clock.now() > startedAt)
      const grantedAt = clock.now()
      const second = await clock.until(read.lock())
      assert.equal(clock.now(), grantedAt)
      await second.unlock()
      await (await first).unlock()
    })
    port.fault = () => undefined
    await clock.until(Promise.all(silent))
  })
})
