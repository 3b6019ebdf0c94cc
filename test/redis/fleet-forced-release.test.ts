/** `client.fleet.forceUnlock` finds out what kind of lock a name is. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { type Client, ConfigError, connect } from '../../src/index.js'
import { INBOX_PREFIX, orderedClients, orderedQueue } from '../../src/wire/keys.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { waitUntil } from '../support/wait-until.js'

describe('client.fleet.forceUnlock', () => {
  let redis: RedisServer
  let holding: Client
  let operator: Client
  before(async () => {
    redis = await startRedis()
    ;[holding, operator] = await Promise.all([connect(redis.url), connect(redis.url)])
  })
  after(async () => {
    await Promise.all([holding.close(), operator.close()])
    await redis.stop()
  })

  const lockOf = {
    plain: (name: string) => holding.getLock(name),
    fair: (name: string) => holding.getFairLock(name),
    fenced: (name: string) => holding.getFencedLock(name),
    string: (name: string) => holding.getStringLock(name),
    read: (name: string) => holding.getReadWriteLock(name).readLock(),
    write: (name: string) => holding.getReadWriteLock(name).writeLock(),
  }
  for (const [kind, open] of Object.entries(lockOf)) {
    it(`client.fleet.forceUnlock releases a ${kind} lock by its name and holder, and records it`, async () => {
      const lock = open(`lock:${kind}`)
      const hold = await lock.lock()
      const { holders } = await operator.fleet.inspect(lock.name)
      const [{ holder } = { holder: '' }] = holders
      const { outcome } = await operator.fleet.forceUnlock(lock.name, {
        holder,
        reason: kind,
        by: 'alice',
        anyway: true,
        graceMs: 0,
      })
      assert.match(outcome, /^(released|freed)$/)
      assert.equal(await lock.isLocked(), false)
      await hold.unlock().catch(() => {}) // it is lost, and its client may know
      const [entry] = await operator.fleet.audit()
      assert.deepEqual([entry?.lock, entry?.holder, entry?.by, entry?.reason], [lock.name, holder, 'alice', kind])
    })
  }

  for (const [title, fields, suffix] of [
    ['a lock', [], ''],
    ['a write lock', ['mode', 'write'], ':write'],
  ] as const) {
    it(`client.fleet.forceUnlock gives ${title} to the first who waits for it in order`, async () => {
      const key = `lock:ordered${suffix}`
      const { admin } = redis
      const inbox = admin.duplicate()
      const received: string[] = []
      inbox.on('message', (_, message: string) => received.push(message))
      await inbox.subscribe(`${INBOX_PREFIX}waiting`)
      await admin.hset(key, ...fields, `dead:1${suffix}`, 1)
      await admin.pexpire(key, 60_000)
      await admin.zadd(orderedQueue(key), 1, `waiting:2${suffix}`)
      await admin.zadd(orderedClients(key), Date.now() + 60_000, 'waiting')
      const options = { holder: `dead:1${suffix}`, anyway: true, graceMs: 0 }
      assert.equal((await operator.fleet.forceUnlock(key, options)).outcome, 'freed')
      await waitUntil(() => received.includes(`turn :2${suffix}`))
      inbox.disconnect()
    })
  }

  it('client.fleet.forceUnlock reaches a holder whose subscriber connection has just been lost', async () => {
    const elsewhere = await operator.getLock('lock:elsewhere').lock()
    assert.equal(await holding.getLock('lock:elsewhere').tryLock({ waitTimeMs: 100 }), null) // it has an inbox
    await elsewhere.unlock()
    for (let round = 0; round < 5; round++) {
      const hold = await holding.getLock('lock:cut').lock()
      await redis.admin.client('KILL', 'TYPE', 'PUBSUB')
      const { outcome } = await operator.fleet.forceUnlock('lock:cut', { holder: hold.holder })
      assert.equal(outcome, 'released', `round ${round}`)
      assert(hold.signal.aborted)
    }
  })

  it('client.fleet.forceUnlock leaves a free lock and another holder alone', async () => {
    const holder = `${holding.id}:1`
    assert.deepEqual(await operator.fleet.forceUnlock('lock:free', { holder }), { outcome: 'not-held' })
    const lock = holding.getLock('lock:other')
    const hold = await lock.lock()
    const { outcome, holder: other } = await operator.fleet.forceUnlock('lock:other', {
      holder: `${holding.id}:999999`,
    })
    assert.deepEqual([outcome, other?.holder], ['not-held', (await lock.getHolders())[0]?.holder])
    await hold.unlock()
  })

  it('client.fleet.forceUnlock rejects a semaphore', async () => {
    await holding.getSemaphore('semaphore').trySetPermits(1)
    await assert.rejects(operator.fleet.forceUnlock('semaphore', { holder: 'a:1' }), ConfigError)
  })
})
