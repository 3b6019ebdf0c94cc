/** What `client.fleet` cannot see is counted and named, never left out in silence. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { type Client, type ClientOptions, connect, type Doubt, type LockInfo, type LockList } from '../../src/index.js'
import { INBOX_PREFIX } from '../../src/wire/keys.js'
import { plainClient } from '../support/plain-client.js'
import { spawnChild } from '../support/processes/child.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'

const TAKER = new URL('../support/nested-locks.js', import.meta.url)
/** Long enough for a busy machine: an inspection ends as soon as all clients have replied. */
const timeoutMs = 5_000
const JAVA = '10488e73-5c1a-4f7e-9d53-7a1b2c3d4e5f'

describe('what cannot be seen', () => {
  let redis: RedisServer
  let observer: Client
  const ends: (() => unknown)[] = []
  before(async () => {
    redis = await startRedis()
    observer = await connect(redis.url)
  })
  afterEach(async () => {
    for (const end of ends.splice(0)) await end()
    await redis.admin.flushall()
  })
  after(async () => {
    await observer.close()
    await redis.stop()
  })

  /** A client of a Redis user with these rights. */
  async function limited(...rights: string[]): Promise<Client> {
    await redis.admin.call('ACL', 'SETUSER', 'limited', 'reset', 'on', '>sesame', ...rights)
    const url = new URL(redis.url)
    Object.assign(url, { username: 'limited', password: 'sesame' })
    const client = await connect(url.href)
    client.on('warning', () => {})
    ends.push(() => client.close())
    return client
  }

  async function open(options: ClientOptions = {}): Promise<Client> {
    const client = await connect({ url: redis.url, ...options })
    ends.push(() => client.close())
    return client
  }

  async function listOf(found: LockList): Promise<{ locks: LockInfo[]; doubts: readonly Doubt[] }> {
    const locks: LockInfo[] = []
    for await (const lock of found) locks.push(lock)
    return { locks, doubts: found.doubts }
  }

  const aboutOf = (doubts: readonly Doubt[]): string[] => doubts.map(({ about }) => about)

  it('keys that the Redis user may not read are counted and named, in a list and among deadlocks', async () => {
    for (const lock of ['lock:a', 'lock:b', 'open:c']) {
      await redis.admin.multi().hset(lock, `${JAVA}:41`, 1).pexpire(lock, 60_000).exec()
    }
    const listener = await plainClient(redis.url)
    ends.push(() => listener.disconnect())
    await listener.subscribe('redisson_lock__channel:{lock:a}')
    const client = await limited('+@all', '&*', '~*open:*', '~holdfast_client:*')
    const all = await listOf(client.fleet.locks({ timeoutMs }))
    assert.deepEqual(
      all.locks.map(({ name }) => name),
      ['open:c'],
    )
    const [hidden] = all.doubts
    assert.deepEqual([aboutOf(all.doubts), hidden?.count], [['hidden-locks'], 2])
    assert.deepEqual([...(hidden?.locks ?? [])].sort(), ['lock:a', 'lock:b'])
    const { cycles, suspected, doubts } = await client.fleet.deadlocks({ timeoutMs })
    assert.deepEqual([cycles, suspected], [[], []])
    const waitedFor = doubts.find(({ about }) => about === 'hidden-locks')
    assert.ok(waitedFor?.locks?.includes('lock:a'), 'somebody waits for it')
    assert.deepEqual((await listOf(observer.fleet.locks({ timeoutMs }))).doubts, [], 'for others all is known')
  })

  it('clients and listeners that the Redis user may not see are named as such', async () => {
    const client = await limited('+@all', '-pubsub', '&*', '~*')
    const hold = await (await open()).getLock('lock:a').lock()
    const { holders, doubts } = await client.fleet.inspect('lock:a', { timeoutMs })
    assert.equal(holders[0]?.holder, hold.holder)
    assert.deepEqual(aboutOf(doubts).sort(), ['hidden-clients', 'hidden-listeners'])
    const list = await listOf(client.fleet.locks({ timeoutMs }))
    assert.deepEqual(aboutOf(list.doubts).sort(), ['hidden-clients', 'hidden-listeners'])
    await hold.unlock()
  })

  it('one silent client of several is named, and only its own locks are in doubt', async () => {
    const holding = await open({ inspection: { name: 'healthy' } })
    const hold = await holding.getLock('healthy').lock()
    const child = spawnChild(TAKER, [redis.url, 'a', 'b'])
    ends.push(() => child.stop())
    await child.nextMessage()
    const isShown = async () => (await observer.fleet.inspect('a', { timeoutMs })).holders[0]?.status === 'responding'
    await waitUntil(isShown, { timeoutMs: 30_000 })
    child.freeze()
    const { locks, doubts } = await listOf(observer.fleet.locks({ timeoutMs }))
    const about = (name: string) => aboutOf(locks.find((lock) => lock.name === name)?.doubts ?? [])
    assert.deepEqual([about('a'), about('healthy')], [['silent-clients'], []])
    const [silent] = doubts
    assert.deepEqual([aboutOf(doubts), silent?.count, silent?.clients?.[0]?.pid], [['silent-clients'], 1, child.pid])
    await hold.unlock()
  })

  it('a client on whose inbox somebody else listens is named, since its reply may be forged', async () => {
    const client = await open()
    const hold = await client.getLock('a').lock()
    client.fleet.describe()
    const isAsked = async () => (await observer.fleet.inspect('a', { timeoutMs })).holders[0]?.status === 'responding'
    await waitUntil(isAsked, { timeoutMs: 30_000 })
    assert.deepEqual((await observer.fleet.inspect('a', { timeoutMs })).doubts, [])
    const spy = await plainClient(redis.url)
    ends.push(() => spy.disconnect())
    await spy.subscribe(INBOX_PREFIX + client.id)
    const { doubts } = await observer.fleet.inspect('a', { timeoutMs })
    assert.deepEqual(
      doubts.map(({ about, clients = [] }) => [about, clients.map(({ id }) => id)]),
      [['overheard-clients', [client.id]]],
    )
    await hold.unlock()
  })

  it('a semaphore, permits with a lease each and a latch have words and figures of their own', async () => {
    const client = await open()
    const semaphore = client.getSemaphore('plain')
    await semaphore.trySetPermits(3)
    await semaphore.acquire()
    const expirable = client.getPermitExpirableSemaphore('expirable')
    await expirable.trySetPermits(3)
    await expirable.acquire({ leaseTimeMs: 60_000 })
    await expirable.acquire({ leaseTimeMs: 30_000 })
    const latch = client.getCountDownLatch('latch')
    await latch.trySetCount(2)
    const inspect = async (name: string) => await observer.fleet.inspect(name, { timeoutMs })

    const { kind, freePermits, holders } = await inspect('plain')
    assert.deepEqual([kind, freePermits, holders], ['semaphore', 2, []])
    const permits = await inspect('expirable')
    assert.deepEqual([permits.kind, permits.freePermits], ['permit expirable semaphore', 1])
    const leases = permits.holders.map(({ remainingLeaseMs = 0 }) => Math.ceil(remainingLeaseMs / 30_000)).sort()
    assert.deepEqual(leases, [1, 2])
    assert.deepEqual(aboutOf((await inspect('latch')).doubts), ['unknown-kind'], 'a number says nothing')
    const waiting = latch.await()
    const asLatch = await waitUntil(async () => {
      const found = await inspect('latch')
      return found.kind === 'latch' && found
    })
    assert.deepEqual([asLatch.count, asLatch.doubts], [2, []])
    await latch.countDown()
    await latch.countDown()
    await waiting
  })

  it('a permit whose lease is over counts as free', async () => {
    const expirable = (await open()).getPermitExpirableSemaphore('expirable')
    await expirable.trySetPermits(2)
    await expirable.acquire({ leaseTimeMs: 60_000 })
    await expirable.acquire({ leaseTimeMs: 10 })
    await waitUntil(async () => (await observer.fleet.inspect('expirable', { timeoutMs })).holders.length === 1)
    assert.equal((await observer.fleet.inspect('expirable', { timeoutMs })).freePermits, 1)
  })
})
