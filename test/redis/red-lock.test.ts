import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { type Client, type ClientOptions, getRedLock, QuorumError, type RedLock } from '../../src/index.js'
import { setUpFixture } from '../support/fixture.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { settlesWithin, waitUntil } from '../support/wait-until.js'

describe('a red lock on three servers', () => {
  const fixture = setUpFixture()

  async function servers(): Promise<[RedisServer, RedisServer, RedisServer]> {
    const started: [RedisServer, RedisServer, RedisServer] = [fixture.server, await startRedis(), await startRedis()]
    for (const server of started.slice(1)) fixture.onEnd(() => server.stop())
    return started
  }

  /** One client for each server, each with the short patience of a test. */
  async function red(at: readonly RedisServer[], options: ClientOptions = {}): Promise<[RedLock, readonly Client[]]> {
    const clients = await Promise.all(at.map(({ url }) => fixture.connect({ commandTimeoutMs: 500, ...options }, url)))
    return [getRedLock(...clients.map((client) => client.getLock('a'))), clients]
  }

  async function keys(at: readonly RedisServer[]): Promise<number[]> {
    return await Promise.all(at.map(({ admin }) => admin.dbsize()))
  }

  it('a red lock is held on all servers, then free on all servers', async () => {
    const at = await servers()
    const [lock] = await red(at)
    const hold = await lock.lock()
    await waitUntil(async () => (await keys(at)).join() === '1,1,1')
    assert.equal(await hold.isHeld(), true)
    await hold.unlock()
    await waitUntil(async () => (await keys(at)).join() === '0,0,0')
  })

  it('a red lock is acquired, awaited, held and released while a minority of servers does not reply', async () => {
    const at = await servers()
    const [[lock], [rival]] = [await red(at), await red(at)]
    await lock.withLock(() => {})
    at[2].freeze()
    try {
      const hold = await lock.lock()
      const waiting = rival.lock()
      assert.equal(await hold.isHeld(), true)
      await hold.unlock()
      const next = await waiting
      next.assertHeld()
      await next.unlock()
    } finally {
      at[2].thaw()
    }
    await waitUntil(async () => (await keys(at)).join() === '0,0,0', { timeoutMs: 35_000 })
  })

  it('a red lock without a reachable majority throws QuorumError with a cause for each server, and leaves nothing', async () => {
    const at = await servers()
    const [lock] = await red(at)
    await lock.withLock(() => {})
    at[1].freeze()
    at[2].freeze()
    try {
      const outcome = await settlesWithin(lock.tryLock(), 10_000)
      assert.equal(outcome.status, 'rejected')
      const error: unknown = outcome.status === 'rejected' ? outcome.reason : undefined
      assert(error instanceof QuorumError)
      assert.equal(error.code, 'LOCK_QUORUM')
      assert.deepEqual(
        error.errors.map(({ index, lockName }) => [index, lockName]),
        [
          [1, 'a'],
          [2, 'a'],
        ],
      )
    } finally {
      at[1].thaw()
      at[2].thaw()
    }
    await waitUntil(async () => (await keys(at)).join() === '0,0,0', { timeoutMs: 35_000 })
  })

  it('a red lock is refused and leaves nothing when others hold a majority, and granted when they hold a minority', async () => {
    const at = await servers()
    const [[lock], [, others]] = [await red(at), await red(at)]
    const [first, second] = await Promise.all(others.slice(1).map((client) => client.getLock('a').lock()))
    assert.equal(await lock.tryLock(), null)
    await waitUntil(async () => (await keys(at)).join() === '0,1,1') // a late grant is released late
    await first?.unlock()
    const hold = await lock.tryLock()
    hold?.assertHeld()
    await hold?.unlock()
    await second?.unlock()
  })

  it('a red lock survives the data loss of one server, and is lost with a second one', async () => {
    const at = await servers()
    const [lock, clients] = await red(at, { lockWatchdogTimeoutMs: 2_400 })
    const losses: string[] = []
    for (const client of clients) client.on('lost', ({ hold }) => losses.push(hold.lockName))
    const hold = await lock.lock()
    await waitUntil(async () => (await keys(at)).join() === '1,1,1')

    await at[0].admin.flushall()
    await waitUntil(() => losses.length === 1)
    hold.assertHeld()
    assert.equal(await hold.isHeld(), true)

    await at[1].admin.flushall()
    await waitUntil(() => hold.signal.aborted)
    assert.throws(() => hold.assertHeld(), { code: 'LOCK_LEASE_LOST' })
    await assert.rejects(hold.unlock(), { code: 'LOCK_LEASE_LOST' })
    assert.deepEqual(await keys(at), [0, 0, 0])
  })

  it('a wait for a red lock ends with the reason of its signal, and a red lock is re-entered along the call chain', async () => {
    const at = await servers()
    const [[lock], [rival]] = [await red(at), await red(at)]
    const abort = new AbortController()
    await lock.withLock(async () => {
      const waiting = rival.lock({ signal: abort.signal })
      assert.equal(await lock.withLock(() => 'inside'), 'inside')
      abort.abort(new Error('enough'))
      await assert.rejects(waiting, /enough/)
    })
    await waitUntil(async () => (await keys(at)).join() === '0,0,0')
  })

  it('a red lock with a majority of closed clients is an error at once', async () => {
    const at = await servers()
    const [lock, [, second, third]] = await red(at)
    await second?.close()
    await third?.close()
    const outcome = await settlesWithin(lock.lock(), 5_000)
    assert(outcome.status === 'rejected' && outcome.reason instanceof QuorumError)
    await waitUntil(async () => (await keys(at)).join() === '0,0,0')
  })
})
