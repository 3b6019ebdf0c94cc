/** `checkLockFsynced`: when a grant counts, and what happens where the server cannot confirm it. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { GlideClient, Logger } from '@valkey/valkey-glide'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { valkeyGlide } from '../../src/adapters/valkey-glide/port.js'
import { type Client, type ClientOptions, type ConnectOptions, connect, NotDurableError } from '../../src/index.js'
import { DRIVERS, openClient } from '../support/failover.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import { startSentinels } from '../support/servers/redis-sentinel.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import {
  BALLAST,
  fsyncsRequestedOf,
  hasWaitAof,
  resumeFsyncs,
  stopFsyncs,
  waitsForFsync,
} from '../support/servers/waitaof.js'
import { COUNTERS, TAKES } from '../support/takes.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

// Glide prints what takes longer than a second.
Logger.setLoggerConfig('off')

const AOF = ['--appendonly', 'yes', '--appendfsync', 'always']
const NO_WAITAOF = 'this server has no WAITAOF'

/** The server has two thirds of this to confirm. */
const COMMAND_MS = 900
const FSYNC_MS = 600

type UserClient = NonNullable<ConnectOptions['client']>
type Library = 'ioredis' | 'node-redis' | 'valkey-glide'

describe('checkLockFsynced', () => {
  let server: RedisServer
  let ends: (() => unknown)[] = []

  const open = async (library: Library = 'ioredis', options: ClientOptions = {}, user?: string): Promise<Client> => {
    const opened = await openLibrary(server, library, user)
    const client = await connect({ client: opened.user, checkLockFsynced: true, ...options })
    ends.push(async () => {
      await client.close()
      opened.end()
    })
    return client
  }
  const setPermits = async (client: Client): Promise<void> => {
    await client.getSemaphore('t:semaphore').trySetPermits(1)
    await client.getPermitExpirableSemaphore('t:permits').trySetPermits(1)
  }
  const takeEach = async (client: Client): Promise<void> => {
    for (const [name, take] of Object.entries(TAKES)) {
      const taken = await take(client, 10_000)
      assert(taken, name)
      await taken.free()
    }
  }
  const refuseEach = async (client: Client, reason: NotDurableError['reason'], waitTimeMs: number): Promise<void> => {
    const outcomes = await Promise.all(
      Object.values(TAKES).map((take) => settlesWithin(take(client, waitTimeMs), 10_000)),
    )
    for (const [at, outcome] of outcomes.entries()) {
      assert(outcome.status === 'rejected', Object.keys(TAKES)[at])
      assert(outcome.reason instanceof NotDurableError, String(outcome.reason))
      assert.equal(outcome.reason.code, 'LOCK_NOT_DURABLE')
      assert.equal(outcome.reason.reason, reason, String(outcome.reason))
    }
  }
  const nothingIsTaken = async (client: Client): Promise<void> => {
    const permits = [client.getSemaphore('t:semaphore'), client.getPermitExpirableSemaphore('t:permits')]
    let found = ''
    await waitUntil(
      async () => {
        const keys = (await server.admin.keys('*')).filter((key) => key !== BALLAST && !COUNTERS.test(key))
        const free = await Promise.all(permits.map((semaphore) => semaphore.availablePermits()))
        found = `keys ${keys.join()}, free permits ${free.join()}`
        return found === 'keys , free permits 1,1'
      },
      { message: () => found },
    )
  }
  const set = (appendfsync: string) => server.admin.config('SET', 'appendfsync', appendfsync)

  afterEach(async () => {
    for (const end of ends) await end()
    ends = []
    await server.admin.flushall()
  })

  describe('a server without an AOF, or without WAITAOF', () => {
    before(async () => {
      server = await startRedis()
    })
    after(() => server.stop())

    it('checkLockFsynced must be true or false', async () => {
      const options = { url: server.url, checkLockFsynced: 'yes' as unknown as boolean }
      await assert.rejects(connect(options), { code: 'LOCK_CONFIG', path: 'checkLockFsynced' })
    })

    it('without WAITAOF every acquire is refused at once with what the server needs, and nothing stays acquired', async () => {
      const client = await open()
      await setPermits(client)
      await refuseEach(client, 'refused', 60_000)
      await nothingIsTaken(client)
      const needs = (await hasWaitAof(server)) ? /appendonly is disabled/ : /unknown command/
      await assert.rejects(client.getLock('t:lock').lock(), (error: Error) => {
        assert.match(error.message, needs)
        assert.match(error.message, /needs appendonly yes, and Redis 8\.0 or later, or Redis 7\.2 or Valkey with/)
        return true
      })
    })
  })

  describe('a server with an AOF', { concurrency: 1 }, () => {
    before(async () => {
      server = await startRedis({ args: AOF })
    })
    after(() => server.stop())
    afterEach(async () => {
      await resumeFsyncs(server)
      await set('always')
    })

    for (const library of ['ioredis', 'node-redis', 'valkey-glide'] as const) {
      it(`a grant that is fsynced passes for every kind, through ${library}`, async (t) => {
        if (!(await hasWaitAof(server))) return t.skip(NO_WAITAOF)
        const client = await open(library)
        await setPermits(client)
        const before = await fsyncsRequestedOf(server)
        await takeEach(client)
        assert((await fsyncsRequestedOf(server)) >= before + Object.keys(TAKES).length)
        await set('everysec')
        if (await waitsForFsync(server)) {
          await Promise.all(Object.values(TAKES).map(async (take) => await (await take(client, 10_000))?.free()))
          return
        }
        await refuseEach(client, 'refused', 60_000)
        await assert.rejects(client.getLock('t:lock').lock(), /only right with appendfsync always/)
        await nothingIsTaken(client)
      })
    }

    for (const library of ['ioredis', 'node-redis'] as const) {
      it(`a grant that is not fsynced in time is refused and released, or the wait continues, through ${library}`, async (t) => {
        if (!(await hasWaitAof(server))) return t.skip(NO_WAITAOF)
        const client = await open(library, { commandTimeoutMs: COMMAND_MS })
        await setPermits(client)
        await stopFsyncs(server)
        const startedAt = performance.now()
        await refuseEach(client, 'late', 0)
        assert(performance.now() - startedAt >= FSYNC_MS * 0.9)
        await nothingIsTaken(client)
        await refuseEach(client, 'late', 3 * FSYNC_MS)
        await nothingIsTaken(client)
        const patient = settlesWithin(client.getLock('t:patient').lock(), 15_000)
        await sleep(2 * FSYNC_MS)
        await resumeFsyncs(server)
        const outcome = await patient
        assert(outcome.status === 'fulfilled', String((outcome as PromiseRejectedResult).reason))
        await outcome.value.unlock()
        await takeEach(client)
      })

      it(`a WAITAOF on another connection than that of the grant does not count, through ${library}`, async (t) => {
        if (!(await hasWaitAof(server))) return t.skip(NO_WAITAOF)
        const client = await open(library)
        await client.getLock('t:before').withLock(() => {})
        await stopFsyncs(server)
        const trying = settlesWithin(client.getLock('t:lock').tryLock(), 10_000)
        const waiting = await waitUntil(async () => {
          const list = (await server.connections()).find((line) => line.includes(' cmd=waitaof '))
          return /\bid=(\d+)/.exec(list ?? '')?.[1]
        })
        // A client that repeats WAITAOF on a connection that wrote nothing is confirmed at once.
        await server.admin.client('KILL', 'ID', Number(waiting))
        const outcome = await trying
        assert(outcome.status === 'rejected', 'it is granted')
        assert.match(outcome.reason.code, /^LOCK_(NOT_DURABLE|OUTCOME_UNKNOWN)$/)
      })
    }

    it('one WAITAOF covers all calls of the same turn', async (t) => {
      if (!(await hasWaitAof(server))) return t.skip(NO_WAITAOF)
      if (await waitsForFsync(server)) await set('everysec')
      const client = await open()
      await client.getLock('t:before').withLock(() => {})
      const before = await fsyncsRequestedOf(server)
      const holds = await Promise.all(Array.from({ length: 100 }, (_, at) => client.getLock(`t:${at}`).lock()))
      assert((await fsyncsRequestedOf(server)) - before <= 4, 'calls of WAITAOF for 100 locks')
      await Promise.all(holds.map((hold) => hold.unlock()))
    })

    it('renewals get through although WAITAOF keeps the connection busy', async (t) => {
      if (!(await hasWaitAof(server))) return t.skip(NO_WAITAOF)
      const client = await open('ioredis', { commandTimeoutMs: COMMAND_MS, lockWatchdogTimeoutMs: 5 * FSYNC_MS })
      const hold = await client.getLock('t:held').lock()
      await stopFsyncs(server)
      const endsAt = performance.now() + 12 * FSYNC_MS
      while (performance.now() < endsAt) {
        await assert.rejects(client.getLock('t:other').tryLock(), { code: 'LOCK_NOT_DURABLE' })
      }
      hold.assertHeld()
      await resumeFsyncs(server)
      assert.equal(await hold.isHeld(), true)
      await hold.unlock()
    })

    it('an acquire is refused where the user may not run WAITAOF', async (t) => {
      if (!(await hasWaitAof(server))) return t.skip(NO_WAITAOF)
      await server.admin.call('ACL', 'SETUSER', 'app', 'reset', 'on', '>secret', '~*', '&*', '+@all', '-waitaof')
      const client = await open('ioredis', {}, 'app')
      await assert.rejects(client.getLock('t:lock').lock(), (error: NotDurableError) => {
        assert.match(error.message, /NOPERM/)
        return error.reason === 'refused'
      })
    })
  })
})

describe('checkLockFsynced with a possible failover', { concurrency: 1 }, () => {
  let isThere = false
  before(async () => {
    await using server = await startRedis()
    isThere = await hasWaitAof(server)
  })

  for (const driver of DRIVERS) {
    it(`WAITAOF goes to the master that has the lock, in a cluster, through ${driver}`, async (t) => {
      if (!isThere) return t.skip(NO_WAITAOF)
      await using cluster = await startCluster({ args: AOF })
      const { client, end } = await openClient(driver, { nodes: cluster.urls }, { checkLockFsynced: true })
      try {
        for (const slot of ['{r1}', '{r2}', '{r3}']) await asksOnce(await cluster.nodeOf(slot), client, `${slot}:lock`)
      } finally {
        await end()
      }
    })

    it(`WAITAOF goes to the master, with Sentinel, through ${driver}`, async (t) => {
      if (!isThere) return t.skip(NO_WAITAOF)
      await using group = await startSentinels({ replicas: 1, args: AOF })
      const master = await group.master()
      const sentinels = group.sentinels.map(({ host, port }) => ({ host, port }))
      const { masterName } = group
      const { client, end } = await openClient(driver, { sentinels, masterName }, { checkLockFsynced: true })
      try {
        await asksOnce(master, client, 'lock')
      } finally {
        await end()
      }
    })
  }

  async function asksOnce(master: RedisServer, client: Client, name: string): Promise<void> {
    const before = await fsyncsRequestedOf(master)
    await client.getLock(name).withLock(() => {})
    assert.equal((await fsyncsRequestedOf(master)) - before, 1, name)
  }
})

async function openLibrary(
  server: RedisServer,
  library: Library,
  username?: string,
): Promise<{ user: UserClient; end: () => void }> {
  const login = username === undefined ? {} : { username, password: 'secret' }
  if (library === 'ioredis') {
    const redis = new Redis({ port: server.port, host: server.host, ...login })
    redis.on('error', () => {})
    return { user: redis, end: () => redis.disconnect() }
  }
  if (library === 'node-redis') {
    const redis = createClient({ url: server.url, ...login })
    redis.on('error', () => {})
    await redis.connect()
    return { user: redis, end: () => redis.destroy() }
  }
  const addresses = [{ host: server.host, port: server.port }]
  const glide = await GlideClient.createClient({ addresses, requestTimeout: 2_000 })
  return { user: valkeyGlide(glide), end: () => glide.close() }
}
