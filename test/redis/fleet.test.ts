/** What `client.fleet` finds on a real server, against what the holders and waiters know themselves. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { before, describe, it } from 'node:test'
import type { Redis } from 'ioredis'
import type { Client, LockInfo } from '../../src/index.js'
import { KIND_IDS, KINDS, type KindId } from '../../src/locks/kinds/table.js'
import { markedId } from '../../src/wire/client-id.js'
import { clientRecordKey, INBOX_PREFIX, lockChannel } from '../../src/wire/keys.js'
import { setUpFixture } from '../support/fixture.js'
import { kinds } from '../support/kinds.js'
import { plainClient } from '../support/plain-client.js'
import { waitUntil } from '../support/wait-until.js'

/** As what each kind shows while nobody waits; others by their titles. */
const LOOKS: Partial<Record<KindId, string>> = {
  fair: 'lock',
  nonReentrant: 'lock',
  nonReentrantFair: 'lock',
  spin: 'lock',
  read: 'read-write lock',
  write: 'read-write lock',
}
/** Long enough for a busy machine: it ends as soon as all clients have replied. Not for polls: clients limit their replies. */
const timeoutMs = 5_000

/** The fixture's clients say nothing of themselves by default. */
const asked = { inspection: true }

/** Clients that list locks need more rights than those that take them. */
async function allowAll(admin: Redis): Promise<void> {
  await admin.call('ACL', 'SETUSER', 'default', 'allcommands', 'allkeys', 'allchannels')
}

describe('an inspection', () => {
  const fixture = setUpFixture(undefined, [], { keysThatStay: /^(redisson_lock_token|holdfast_generation):/ })
  before(async () => await allowAll(fixture.server.admin))

  /** A client that others can ask: one that has waited. */
  async function listed(): Promise<Client> {
    const client = await fixture.connect(asked)
    const gate = await client.getLock('gate').lock()
    const name = `gate of ${client.id}`
    const busy = await (await fixture.connect(asked)).getLock(name).lock()
    const waiting = client.getLock(name).lock()
    await waitUntil(async () => (await fixture.server.admin.exists(clientRecordKey(client.id))) === 1)
    await busy.unlock()
    await (await waiting).unlock()
    await gate.unlock()
    return client
  }

  async function raw(): Promise<Redis> {
    const redis = await plainClient(fixture.server.url)
    fixture.onEnd(() => redis.disconnect())
    return redis
  }

  for (const id of KIND_IDS) {
    const { title } = KINDS[id]
    it(`an inspection finds the holder of a ${title}, its label and its waiters`, async () => {
      const observer = await fixture.connect(asked)
      const [holder, waiter] = [await listed(), await listed()]
      const kind = kinds.find((one) => one.name === title)
      assert(kind)
      const hold = await kind.rival(holder, 'a').lock({ label: 'refund' })
      const free = await observer.fleet.inspect('b', { timeoutMs })
      assert.deepEqual([free.holders, free.waiters, free.remainingLeaseMs], [[], [], 0])

      const held = await observer.fleet.inspect('a', { timeoutMs })
      assert.equal(held.name, 'a')
      assert.equal(held.kind, LOOKS[id] ?? title)
      assert(held.remainingLeaseMs > 0 && held.remainingLeaseMs <= 30_000, String(held.remainingLeaseMs))
      const [first, ...others] = held.holders
      assert.deepEqual(others, [])
      assert.equal(first?.holder, hold.holder)
      assert.equal(first.holdCount, 1)
      assert.equal(first.status, 'responding')
      assert.equal(first.label, 'refund')
      assert(first.heldMs !== undefined && first.heldMs < 60_000)
      assert.equal(first.client?.pid, process.pid)
      assert.equal(first.client.id, holder.id)
      assert.deepEqual(held.waiters, [])

      const waiting = kind.lock(waiter, 'a').lock({ label: 'order', waitTimeMs: 60_000 })
      const withWaiter = await waitUntil(async () => {
        const info = await observer.fleet.inspect('a')
        return info.waiters.length > 0 && info.doubts.length === 0 && info
      })
      const [wait, ...more] = withWaiter.waiters
      assert.deepEqual(more, [])
      assert.equal(wait?.status, 'responding')
      assert.equal(wait.client?.id, waiter.id)
      assert.equal(wait.label, 'order')
      assert(wait.waitedMs !== undefined && wait.givesUpInMs !== undefined && wait.givesUpInMs <= 60_000)
      assert.equal(withWaiter.otherListeners, 0)
      assert.deepEqual(withWaiter.doubts, [])
      await hold.unlock()
      await (await waiting).unlock()
    })
  }

  it('an inspection finds readers and their hold counts', async () => {
    const [observer, one, other] = [
      await fixture.connect(asked),
      await fixture.connect(asked),
      await fixture.connect(asked),
    ]
    const first = await one.getReadWriteLock('a').readLock().lock()
    const again = await one.getReadWriteLock('a').readLock().lock({ within: first })
    const second = await other.getReadWriteLock('a').readLock().lock()
    const { holders } = await observer.fleet.inspect('a', { timeoutMs })
    const found = holders.map(({ holder, holdCount, mode }) => ({ holder, holdCount, mode }))
    assert.deepEqual(
      found.sort((a, b) => b.holdCount - a.holdCount),
      [
        { holder: first.holder, holdCount: 2, mode: 'read' },
        { holder: second.holder, holdCount: 1, mode: 'read' },
      ],
    )
    for (const hold of [again, first, second]) await hold.unlock()
  })

  it('an inspection finds permits, the clients that hold them, and those that wait for one', async () => {
    const [observer, holder, waiter] = [await fixture.connect(asked), await listed(), await listed()]
    const semaphore = holder.getPermitExpirableSemaphore('a')
    await semaphore.trySetPermits(1)
    const permit = await semaphore.acquire({ leaseTimeMs: 60_000, label: 'export' })
    const waiting = waiter.getPermitExpirableSemaphore('a').acquire({ waitTimeMs: 60_000 })
    const info = await waitUntil(async () => {
      const found = await observer.fleet.inspect('a')
      return found.waiters.length > 0 && found.doubts.length === 0 && found
    })
    assert.equal(info.kind, 'permit expirable semaphore')
    assert.equal(info.holders.length, 1)
    assert.equal(info.holders[0]?.label, 'export')
    assert.equal(info.holders[0].client?.id, holder.id)
    assert(info.remainingLeaseMs > 30_000)
    assert.equal(info.waiters[0]?.client?.id, waiter.id)
    await semaphore.release(permit.permitIds[0] as string)
    await semaphore.release((await waiting).permitIds[0] as string)
    await semaphore.delete()
  })

  it('an inspection says in which order clients wait for their turns', async () => {
    const [observer, holder, first, second] = [
      await fixture.connect(asked),
      await fixture.connect(asked),
      await listed(),
      await listed(),
    ]
    const hold = await holder.getLock('a').lock()
    const waits: Promise<{ unlock(): Promise<unknown> }>[] = []
    const info: LockInfo[] = []
    for (const [at, client] of [first, second].entries()) {
      waits.push(client.getLock('a').lock())
      info[0] = await waitUntil(async () => {
        const found = await observer.fleet.inspect('a')
        return (
          found.doubts.length === 0 &&
          found.waiters.filter(({ position }) => position !== undefined).length === at + 1 &&
          found
        )
      })
    }
    assert.deepEqual(
      info[0]?.waiters.map(({ client, position }) => [client?.id, position]),
      [
        [first.id, 1],
        [second.id, 2],
      ],
    )
    await hold.unlock()
    for (const wait of waits) await (await wait).unlock()
  })

  it('an inspection finds what the waiting call chain holds', async () => {
    const [observer, holder, waiter] = [await fixture.connect(asked), await listed(), await listed()]
    const hold = await holder.getLock('a').lock()
    const nested = waiter.getLock('b').withLock(async (outer) => {
      await waiter.getLock('a').withLock(() => {})
      return outer.holder
    })
    const info = await waitUntil(async () => {
      const found = await observer.fleet.inspect('a')
      return found.waiters.length > 0 && found.doubts.length === 0 && found
    })
    await hold.unlock()
    assert.deepEqual(info.waiters[0]?.chain, [{ lock: 'b', holder: await nested }])
  })

  it('an inspection names the task that is inside after a hand-off within its client', async () => {
    const [observer, client] = [await fixture.connect(asked), await listed()]
    const lock = client.getLock('a')
    const first = await lock.lock({ label: 'first' })
    const waiting = lock.lock({ label: 'second' })
    await first.unlock()
    const second = await waiting
    const { holders } = await observer.fleet.inspect('a', { timeoutMs })
    assert.deepEqual(
      holders.map(({ holder, label }) => [holder, label]),
      [[second.holder, 'second']],
    )
    await second.unlock()
  })

  it('an inspection shows a holder of Redisson as unlisted, and its listeners as others', async () => {
    const [observer, redis] = [await fixture.connect(asked), await raw()]
    const holder = `${randomUUID()}:41`
    await fixture.server.admin.hset('a', holder, 1)
    await fixture.server.admin.pexpire('a', 30_000)
    await redis.subscribe(lockChannel('a'))
    const info = await observer.fleet.inspect('a', { timeoutMs })
    assert.deepEqual(info.holders, [{ holder, holdCount: 1, status: 'unlisted' }])
    assert.equal(info.otherListeners, 1)
    for await (const lock of observer.fleet.locks({ contended: true, timeoutMs })) {
      assert.deepEqual([lock.name, lock.otherListeners], ['a', 1], 'the same in a list')
    }
    await redis.unsubscribe()
    await fixture.server.admin.del('a')
  })

  for (const { title } of [KINDS.lock, KINDS.fenced, KINDS.read, KINDS.write, KINDS.fasterMulti]) {
    it(`an inspection hears the release of a ${title}, and its listener is not taken for a waiter`, async () => {
      const [observer, other, holder] = [
        await fixture.connect(asked),
        await fixture.connect(asked),
        await fixture.connect(asked),
      ]
      const kind = kinds.find(({ name }) => name === title)
      assert(kind)
      const hold = await kind.lock(holder, 'a').lock()
      let heard = 0
      const hearing = observer.fleet.subscribeToLock('a', () => heard++)
      const states = kind.parts(observer, 'a')[0]?.watch()
      assert.equal((await states?.next())?.value.state, 'held')
      await waitUntil(() => hearing.isLive)
      for (const client of [observer, other]) {
        assert.equal((await client.fleet.inspect('a', { timeoutMs })).otherListeners, 0)
        for await (const { name } of client.fleet.locks({ contended: true, timeoutMs }))
          assert.fail(`${name} is contended`)
      }
      const before = heard
      await hold.unlock()
      await waitUntil(() => heard > before)
      assert.equal((await states?.next())?.value.state, 'free')
      await states?.return?.()
      hearing.leave()
    })
  }

  it('an inspection leaves all channels of a lock if Redis denies one, and says so', async () => {
    const { admin } = fixture.server
    await admin.call('ACL', 'SETUSER', 'default', 'resetchannels', '&redisson_lock__channel:*', '&holdfast_reply:*')
    const observer = await fixture.connect()
    const warnings: string[] = []
    observer.on('warning', ({ message }) => warnings.push(message))
    const hearing = observer.fleet.subscribeToLock('a', () => {})
    await waitUntil(async () => warnings.length === 1 && (await admin.pubsub('CHANNELS', '*')).length === 0)
    assert.equal(hearing.isLive, false)
    await allowAll(admin)
  })

  it('an inspection finds the waiters of a fair lock in their order, those of Redisson too', async () => {
    const observer = await fixture.connect(asked)
    const { admin } = fixture.server
    const [holder, first, second] = [1, 2, 3].map((thread) => `${randomUUID()}:${thread}`) as [string, string, string]
    await admin.hset('a', holder, 1)
    await admin.rpush('redisson_lock_queue:{a}', first, second)
    const { kind, waiters } = await observer.fleet.inspect('a', { timeoutMs })
    assert.equal(kind, 'fair lock')
    assert.deepEqual(
      waiters.map((waiter) => [waiter.holder, waiter.position, waiter.status]),
      [
        [first, 1, 'unlisted'],
        [second, 2, 'unlisted'],
      ],
    )
    await admin.del('a', 'redisson_lock_queue:{a}')
  })

  it('an inspection tells a silent client from a gone one, and takes label and age from its record', async () => {
    const [observer, redis] = [await fixture.connect(asked), await raw()]
    const { admin } = fixture.server
    const id = markedId(randomUUID())
    const holds = [{ lock: 'a', holder: `${id}:1`, count: 1, heldMs: 20_000, label: 'report' }]
    const record = { v: 1, client: id, name: 'reports', host: 'rep-1', pid: 7, version: '1.2.3', holds, waits: [] }
    await admin.set(clientRecordKey(id), JSON.stringify(record), 'PX', 3_540_000)
    await admin.hset('a', `${id}:1`, 1)

    const gone = (await observer.fleet.inspect('a', { timeoutMs })).holders[0]
    assert.equal(gone?.status, 'disconnected')
    const listed = []
    for await (const lock of observer.fleet.locks({ timeoutMs })) listed.push(lock.holders[0]?.status)
    assert.deepEqual(listed, ['disconnected'], 'the same in a list')
    assert.deepEqual(gone.client, { id, name: 'reports', host: 'rep-1', pid: 7, version: '1.2.3' })
    assert.equal(gone.label, 'report')
    assert((gone.heldMs ?? 0) >= 80_000, 'a minute has passed since the record was written')

    await redis.subscribe(INBOX_PREFIX + id)
    const frozen = await observer.fleet.inspect('a', { timeoutMs: 50 })
    assert.equal(frozen.holders[0]?.status, 'silent')
    assert.deepEqual(
      frozen.doubts.map(({ about, clients = [] }) => [about, clients.map(({ name }) => name)]),
      [['silent-clients', ['reports']]],
    )
    await redis.unsubscribe()
    await admin.del('a', clientRecordKey(id))
  })

  it('an inspection drops and counts what a client claims and no key confirms', async () => {
    const [observer, redis] = [await fixture.connect(asked), await raw()]
    const { admin } = fixture.server
    const [liar, honest] = [randomUUID(), randomUUID()]
    await admin.hset('a', `${honest}:1`, 1)
    redis.on('message', (_channel, text: string) => {
      const { reply, nonce } = JSON.parse(text) as { reply: string; nonce: string }
      const claim = { lock: 'a', count: 1, heldMs: 1, label: 'forged' }
      const holds = [`${liar}:1`, `${honest}:1`].map((holder) => ({ ...claim, holder }))
      void admin.publish(reply, 'no JSON')
      void admin.publish(reply, JSON.stringify({ v: 1, client: honest, nonce, holds, waits: [], more: 0 })) // was not asked
      void admin.publish(reply, JSON.stringify({ v: 1, client: liar, nonce, holds, waits: [], more: 0 }))
    })
    await redis.subscribe(INBOX_PREFIX + liar)
    const { holders } = await observer.fleet.inspect('a', { timeoutMs })
    assert.deepEqual(holders, [{ holder: `${honest}:1`, holdCount: 1, status: 'unlisted' }])
    assert.equal(observer.fleet.unconfirmedClaims, 1)
    await redis.unsubscribe()
    await admin.del('a')
  })

  it('an inspection believes no client that replies for another one', async () => {
    const [observer, redis] = [await fixture.connect(asked), await raw()]
    const { admin } = fixture.server
    const [liar, honest] = [randomUUID(), randomUUID()]
    await admin.hset('a', `${honest}:1`, 1)
    redis.on('message', (channel, text: string) => {
      const { reply, nonce } = JSON.parse(text) as { reply: string; nonce: string }
      const isLiar = channel === INBOX_PREFIX + liar
      const hold = { lock: 'a', holder: `${honest}:1`, count: 1, heldMs: 1, label: isLiar ? 'forged' : 'true' }
      const message = { v: 1, client: honest, nonce, holds: [hold], waits: [], more: 0 }
      // The liar is always first: it also knows that nobody has to repeat anything.
      if (!isLiar) setTimeout(() => void admin.publish(reply, JSON.stringify(message)), 100)
      else
        for (const forged of [message, { ...message, nonce: undefined }])
          void admin.publish(reply, JSON.stringify(forged))
    })
    await redis.subscribe(INBOX_PREFIX + liar, INBOX_PREFIX + honest)
    const { holders } = await observer.fleet.inspect('a', { timeoutMs })
    assert.deepEqual(
      holders.map(({ label }) => label),
      ['true'],
    )
    await redis.unsubscribe()
    await admin.del('a')
  })

  it('an inspection calls data of other programs unknown, and finds no holder in it', async () => {
    const observer = await fixture.connect(asked)
    const { admin } = fixture.server
    await admin.hset('hash', { name: 'Ada', visits: 12 })
    await admin.set('text', 'some text')
    await admin.set('number', '12')
    await admin.rpush('list', 'x')
    for (const name of ['hash', 'text', 'number', 'list', 'nothing']) {
      const { kind, holders } = await observer.fleet.inspect(name, { timeoutMs })
      assert.deepEqual([kind, holders], ['unknown', []], name)
    }
    await admin.del('hash', 'text', 'number', 'list')
  })
})

describe('a list of locks', () => {
  const fixture = setUpFixture(undefined, [], { keysThatStay: /^(redisson_lock_token|holdfast_generation):/ })
  before(async () => await allowAll(fixture.server.admin))

  async function names(found: AsyncIterable<LockInfo>): Promise<string[]> {
    const list: string[] = []
    for await (const { name } of found) list.push(name)
    return list.sort()
  }

  it('a list of locks has every lock once, string locks that clients report, and no other data', async () => {
    const [client, observer] = [await fixture.connect(), await fixture.connect(asked)]
    const { admin } = fixture.server
    const holds = await Promise.all(
      kinds.filter(({ isJoint }) => !isJoint).map((kind) => kind.lock(client, kind.name).lock()),
    )
    const reported = await observer.getStringLock('reported').lock()
    const many = Array.from({ length: 1_200 }, (_, at) => `data:${at}`)
    for (const key of many) void admin.hset(key, 'name', 'Ada')
    await client.getSemaphore('seats').trySetPermits(3)
    await client.getPermitExpirableSemaphore('permits').trySetPermits(1)
    const permit = await client.getPermitExpirableSemaphore('permits').acquire()
    assert.deepEqual(
      await names(observer.fleet.locks({ timeoutMs })),
      [
        ...holds.map(({ lockName }) => lockName).filter((name) => name !== 'string lock'),
        'seats',
        'permits',
        'reported',
      ].sort(),
    )
    assert.deepEqual(await names(observer.fleet.locks({ match: 's*', timeoutMs })), [
      'seats',
      'spin lock',
      'string lock',
    ])
    assert.equal((await names(observer.fleet.locks({ limit: 2, timeoutMs }))).length, 2)
    for (const hold of [...holds, reported]) await hold.unlock()
    await client.getSemaphore('seats').delete()
    await permit.unlock()
    await client.getPermitExpirableSemaphore('permits').delete()
    await admin.del(...many)
  })

  it('a list of locks ends with the reason of a signal', async () => {
    const [client, observer] = [await fixture.connect(asked), await fixture.connect(asked)]
    const holds = await Promise.all(Array.from({ length: 200 }, (_, at) => client.getLock(`l${at}`).lock()))
    const stop = new AbortController()
    const found: string[] = []
    const list = async (): Promise<void> => {
      for await (const { name } of observer.fleet.locks({ timeoutMs, signal: stop.signal })) {
        found.push(name)
        stop.abort(new Error('enough'))
      }
    }
    await assert.rejects(list(), /^Error: enough$/)
    assert(found.length > 0 && found.length < holds.length, String(found.length))
    await assert.rejects(list(), /^Error: enough$/)
    for (const hold of holds) await hold.unlock()
  })

  it('a list of contended locks has only those with waiters', async () => {
    const [observer, holder, waiter] = [
      await fixture.connect(asked),
      await fixture.connect(asked),
      await fixture.connect(asked),
    ]
    const held = ['a', 'b', '{c}', 'd'].map((name) => holder.getLock(name))
    const holds = [...(await Promise.all(held.map((lock) => lock.lock()))), await holder.getFairLock('e').lock()]
    const waiting = [...['b', '{c}'].map((name) => waiter.getLock(name).lock()), waiter.getFairLock('e').lock()]
    const latches = ['f', 'g{h}'].map((name) => waiter.getCountDownLatch(name))
    for (const latch of latches) await latch.trySetCount(1)
    const opened = latches.map((latch) => latch.await())
    await waitUntil(async () => (await names(observer.fleet.locks({ contended: true }))).join() === 'b,e,f,g{h},{c}')
    await waitUntil(async () => (await names(observer.fleet.locks({ contended: true, match: '[a-d]' }))).join() === 'b')
    for (const hold of holds) await hold.unlock()
    for (const wait of waiting) await (await wait).unlock()
    for (const latch of latches) await latch.countDown()
    await Promise.all(opened)
  })

  it('a list of locks has the clients that can be asked, with what they say of themselves', async () => {
    const [observer, holder, waiter] = [
      await fixture.connect(asked),
      await fixture.connect(asked),
      await fixture.connect(asked),
    ]
    const hold = await holder.getLock('a').lock()
    const waiting = waiter.getLock('a').lock()
    const clients = await waitUntil(async () => {
      const found = await observer.fleet.clients()
      return found.some(({ id, pid }) => id === waiter.id && pid > 0) && found
    })
    const found = clients.find(({ id }) => id === waiter.id)
    assert.equal(found?.status, 'responding')
    assert.equal(found.pid, process.pid)
    await waiter.getLock('lost').lock()
    await waiter.getLock('lost').forceUnlock()
    const after = await observer.fleet.clients({ timeoutMs })
    assert.deepEqual(
      [waiter, observer].map((one) => after.find(({ id }) => id === one.id)?.lossesLastHour),
      [1, 0],
    )
    await hold.unlock()
    await (await waiting).unlock()
  })
})
