/** What replica acknowledgement promises, and what it costs when replicas are slow, silent or gone. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { Redis, Cluster as RedisCluster } from 'ioredis'
import { createClient } from 'redis'
import { type Client, type ClientOptions, type ConnectOptions, connect, type LeaseLostError } from '../../src/index.js'
import { recordMonitor } from '../support/command-stats.js'
import { DRIVERS, type DriverName, openClient, type Place } from '../support/failover.js'
import { watchWholeProcess } from '../support/fixture.js'
import { type Cluster, startCluster } from '../support/servers/redis-cluster.js'
import { type SentinelGroup, startSentinels } from '../support/servers/redis-sentinel.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { COUNTERS, TAKES } from '../support/takes.js'
import { settlesWithin, sleep, waitUntil } from '../support/wait-until.js'

const SYNC_MS = 400
const ms = (time: number) => `${Math.round(time)} ms`

const SENTINEL_WAYS: Record<string, (group: SentinelGroup) => ReturnType<typeof openClient>> = {
  'an ioredis client': (group) => openClient('ioredis', placeOf(group)),
  'a node-redis sentinel': (group) => openClient('node-redis', placeOf(group)),
  'a node-redis sentinel with a pool': (group) => openClient('node-redis', placeOf(group), {}, { masterPoolSize: 4 }),
  'a node-redis sentinel with a pool and a reserved connection': (group) =>
    openClient('node-redis', placeOf(group), {}, { masterPoolSize: 4, reserveClient: true }),
  'a configuration': async ({ sentinels, masterName }) => {
    const sentinelAddresses = sentinels.map(({ url }) => url)
    const client = await connect({ config: { sentinelServersConfig: { sentinelAddresses, masterName } } })
    return { client, end: () => client.close() }
  },
}

describe('acknowledgement', { concurrency: true }, () => {
  watchWholeProcess()

  for (const driver of DRIVERS) {
    describe(`a master with one replica, through ${driver}`, { concurrency: 1 }, () => masterAndReplica(driver))
  }

  describe('acknowledgement in a cluster', { concurrency: 1 }, () => {
    let cluster: Cluster
    let place: Place
    const ends: (() => Promise<unknown>)[] = []
    before(async () => {
      cluster = await startCluster()
      place = { nodes: cluster.urls }
    })
    after(() => cluster.stop())
    afterEach(async () => {
      await cluster.heal()
      for (const end of ends.splice(0)) await end()
    })

    for (const driver of DRIVERS) {
      it(`the first command to a server, through ${driver}, opens a connection and is granted at once`, async () => {
        const { client, end } = await openClient(driver, place, { commandTimeoutMs: 1_500 })
        ends.push(end)
        const warnings: string[] = []
        client.on('warning', ({ message }) => warnings.push(message))
        // Not one after the other: the connection to one server may open during a command to another one.
        const holds = await Promise.all(
          ['{r1}', '{r2}', '{r3}'].map((slot) => client.getLock(`${slot}:first`).tryLock()),
        )
        for (const hold of holds) {
          assert(hold)
          await hold.unlock()
        }
        assert.deepEqual(warnings, [])
      })
    }

    it('an idle server connection that was closed is no reconnect, and the grant counts', async () => {
      const redis = new RedisCluster(cluster.urls.slice(0, 1))
      const client = await connect({ client: redis })
      ends.push(async () => {
        await client.close()
        redis.disconnect()
      })
      const lock = client.getLock('{r1}:a')
      await lock.withLock(() => {})
      const idle = redis.nodes().find(({ status }) => status === 'wait')
      assert(idle, 'ioredis connects to a server when it is first used')
      const taking = lock.tryLock()
      redis.emit('-node', idle)
      const hold = await taking
      assert(hold)
      await hold.unlock()
    })

    it('a replica that takes over right after a grant has that grant, 21 times', async (t) => {
      const clients = await Promise.all(
        DRIVERS.map(async (driver) => {
          const { client, end } = await openClient(driver, place, { commandTimeoutMs: 1_500 })
          ends.push(end)
          return { driver, client }
        }),
      )
      const waits: number[] = []
      // One name of each master's slots, so that all of them are replaced at once.
      const slots = ['{r1}', '{r2}', '{r3}']
      assert.equal(new Set(await Promise.all(slots.map((slot) => cluster.nodeOf(slot)))).size, 3)
      for (let round = 0; round < 7; round++) {
        await Promise.all(
          slots.map(async (slot) => {
            const startedAt = performance.now()
            const holds = await Promise.all(
              clients.map(({ client, driver }) =>
                client.getLock(`${slot}:${driver}:${round}`).lock({ leaseTimeMs: 60_000, waitTimeMs: 15_000 }),
              ),
            )
            waits.push(performance.now() - startedAt)
            const { to } = await cluster.failover(slot, { mode: 'TAKEOVER' })
            for (const hold of holds) {
              assert.equal(await to.admin.hexists(hold.lockName, hold.holder), 1, `round ${round}: ${hold.lockName}`)
              await hold.unlock()
            }
          }),
        )
      }
      waits.sort((one, other) => one - other)
      t.diagnostic(`cluster: 42 grants, each on the replica that took over; slowest ${ms(waits.at(-1) ?? 0)}`)
    })
  })

  describe('acknowledgement behind Sentinel', { concurrency: 1 }, () => {
    let group: SentinelGroup
    before(async () => {
      group = await startSentinels()
    })
    after(() => group.stop())

    for (const [way, open] of Object.entries(SENTINEL_WAYS)) {
      it(`WAIT and the grants before it use one connection, through ${way}`, async () => {
        const monitor = await recordMonitor(await group.master())
        const { client, end } = await open(group)
        try {
          // From the first one on: later, node-redis may happen to stay with one connection of its pool.
          for (let at = 0; at < 5; at++) await client.getLock(`t:${at}`).withLock(() => {})
          await Promise.all([5, 6, 7, 8].map((at) => client.getLock(`t:${at}`).withLock(() => {})))
        } finally {
          await end()
        }
        const lines = (await monitor.stop()).filter(({ source }) => source !== 'lua')
        const sources = (isWanted: (args: readonly string[]) => boolean): Set<string> =>
          new Set(lines.filter(({ args }) => isWanted(args)).map(({ source }) => source))
        const waits = sources(([command]) => /^wait$/i.test(command ?? ''))
        assert.equal(waits.size, 1)
        assert.deepEqual(
          sources((args) => args.some((arg) => /^t:\d$/.test(arg))),
          waits,
        )
      })
    }
  })
})

function placeOf({ sentinels, masterName }: SentinelGroup): Place {
  return { sentinels: sentinels.map(({ host, port }) => ({ host, port })), masterName }
}

function masterAndReplica(driver: DriverName): void {
  let master: RedisServer
  let replica: RedisServer
  const ends: (() => unknown)[] = []

  before(async () => {
    const args = ['--repl-diskless-sync-delay', '0', '--repl-ping-replica-period', '1']
    ;[master, replica] = await Promise.all([startRedis({ args }), startRedis({ args })])
    await attach()
  })
  after(async () => {
    await Promise.all([master.stop(), replica.stop()])
  })
  afterEach(async () => {
    replica.thaw()
    for (const end of ends.splice(0)) await end()
    await attach()
    await master.admin.flushall()
  })

  async function attach(): Promise<void> {
    await master.admin.call('REPLICAOF', 'NO', 'ONE')
    await master.admin.config('SET', 'min-replicas-to-write', '0')
    await replica.admin.call('REPLICAOF', master.host, master.port)
    await waitUntil(() => replica.follows(master), { message: 'the replica is in step' })
    await waitUntil(async () => (await master.admin.wait(1, 100)) === 1, { message: 'the replica acknowledges' })
  }

  async function open(options: ClientOptions = {}, username?: string): Promise<Client> {
    const login = username === undefined ? {} : { username, password: 'secret' }
    let user: ConnectOptions['client']
    if (driver === 'ioredis') {
      const redis = new Redis({
        port: master.port,
        host: master.host,
        enableReadyCheck: username === undefined,
        ...login,
      })
      redis.on('error', () => {})
      ends.unshift(() => redis.disconnect())
      user = redis as unknown as ConnectOptions['client']
    } else {
      const redis = createClient({ url: master.url, ...login })
      redis.on('error', () => {})
      await redis.connect()
      ends.unshift(() => redis.destroy())
      user = redis as unknown as ConnectOptions['client']
    }
    const client = await connect({
      client: user as NonNullable<typeof user>,
      checkLockSyncedSlaves: true,
      slavesSyncTimeoutMs: SYNC_MS,
      commandTimeoutMs: 3_000,
      ...options,
    })
    ends.unshift(() => client.close())
    return client
  }

  async function permits(client: Client): Promise<void> {
    await client.getSemaphore('t:semaphore').trySetPermits(1)
    await client.getPermitExpirableSemaphore('t:permits').trySetPermits(1)
  }

  async function nothingIsTaken(client: Client): Promise<void> {
    let left = ''
    await waitUntil(
      async () => {
        left = (await master.admin.keys('*')).filter((key) => !COUNTERS.test(key)).join()
        const free = [
          await client.getSemaphore('t:semaphore').availablePermits(),
          await client.getPermitExpirableSemaphore('t:permits').availablePermits(),
        ]
        left += ` ${free.join()} permits`
        return left === ' 1,1 permits'
      },
      { message: () => `nothing stays taken: ${left}` },
    )
  }

  it('a frozen replica: acquires are refused in time, nothing stays acquired, and they work again afterwards', async (t) => {
    const client = await open()
    await permits(client)
    for (const [name, take] of Object.entries(TAKES)) {
      const taken = await take(client, 5_000)
      assert(taken, name)
      await taken.free()
    }
    replica.freeze()
    for (const [waitTimeMs, attempts] of [
      [0, 1],
      [3 * SYNC_MS, 2],
    ] as const) {
      const startedAt = performance.now()
      // One WAIT serves all calls made meanwhile, so together they take no longer than one of them.
      const outcomes = await Promise.all(
        Object.values(TAKES).map((take) => settlesWithin(take(client, waitTimeMs), 10_000)),
      )
      const tookMs = performance.now() - startedAt
      t.diagnostic(
        `${driver}: refused after ${ms(tookMs)}, with a wait time of ${waitTimeMs} ms, and ${SYNC_MS} ms for a WAIT`,
      )
      for (const [at, outcome] of outcomes.entries()) {
        assert(outcome.status === 'rejected', Object.keys(TAKES)[at])
        assert.equal(outcome.reason.code, 'LOCK_NOT_REPLICATED', String(outcome.reason))
      }
      assert(tookMs >= attempts * SYNC_MS * 0.9, `after ${tookMs} ms`)
      await nothingIsTaken(client)
    }
    const patient = client.getLock('t:patient').lock()
    await sleep(2 * SYNC_MS)
    replica.thaw()
    const outcome = await settlesWithin(patient, 5_000)
    assert(outcome.status === 'fulfilled')
    await outcome.value.unlock()
    for (const [name, take] of Object.entries(TAKES)) {
      const taken = await take(client, 5_000)
      assert(taken, name)
      await taken.free()
    }
  })

  it('WAIT keeps the connection busy: renewals get through, and nothing is lost', async (t) => {
    const client = await open({ lockWatchdogTimeoutMs: 5 * SYNC_MS })
    const lost: LeaseLostError[] = []
    client.on('lost', ({ error }) => lost.push(error))
    const hold = await client.getLock('t:held').lock()
    replica.freeze()
    let least = Number.POSITIVE_INFINITY
    let refused = 0
    const endsAt = performance.now() + 12 * SYNC_MS
    await Promise.all(
      Array.from({ length: 4 }, async (_, task) => {
        while (performance.now() < endsAt) {
          await client
            .getLock(`t:other:${task}`)
            .tryLock()
            .catch(() => refused++)
          least = Math.min(least, hold.remainingMs())
        }
      }),
    )
    t.diagnostic(`${driver}: ${refused} refused; of a lease of ${5 * SYNC_MS} ms never less than ${least} ms was left`)
    assert.deepEqual(lost, [])
    assert.equal(await hold.isHeld(), true)
    replica.thaw()
    await hold.unlock()
  })

  it('the replica goes away: nothing is granted while it may be the master, then locks work without it', async (t) => {
    const client = await open()
    await client.getLock('t:before').withLock(() => {})
    await replica.admin.call('REPLICAOF', 'NO', 'ONE')
    await waitUntil(async () => /connected_slaves:0/.test(await master.admin.info('replication')))
    const goneAt = performance.now()
    await assert.rejects(client.getLock('t:wary').tryLock(), { code: 'LOCK_NOT_REPLICATED' })
    // A client that never saw it has no reason for caution.
    await (await open()).getLock('t:new').withLock(() => {})
    const outcome = await settlesWithin(client.getLock('t:wary').lock(), 20_000)
    assert(outcome.status === 'fulfilled')
    t.diagnostic(`${driver}: granted again ${ms(performance.now() - goneAt)} after the only replica left`)
    await outcome.value.unlock()
    const again = performance.now()
    await client.getLock('t:wary').withLock(() => {})
    assert(performance.now() - again < SYNC_MS, 'no WAIT any more')
    // When the replica is back it is required again at once.
    await attach()
    await (await client.getLock('t:back').lock()).unlock()
    replica.freeze()
    await assert.rejects(client.getLock('t:back').tryLock(), { code: 'LOCK_NOT_REPLICATED' })
    replica.thaw()
  })

  it('the master is demoted during a WAIT: the attempt is repeated instead of refused', async () => {
    const client = await open({ slavesSyncTimeoutMs: 20_000 })
    const warnings: string[] = []
    client.on('warning', ({ message }) => warnings.push(message))
    await (await client.getLock('t:demoted').lock({ waitTimeMs: 5_000 })).unlock()
    replica.freeze()
    const trying = settlesWithin(client.getLock('t:demoted').tryLock(), 5_000)
    await waitUntil(async () => String(await master.admin.client('LIST')).includes(' cmd=wait '))
    await master.admin.call('REPLICAOF', replica.host, replica.port)
    const outcome = await trying
    assert(outcome.status === 'rejected')
    assert.equal(outcome.reason.code, 'LOCK_NOT_REPLICATED')
    // It is a replica now, and has closed the connection.
    const again = await client
      .getLock('t:demoted')
      .tryLock()
      .catch((error: Error) => assert.match(error.message, /READONLY|Redis did not reply|replicas acknowledged/))
    assert.equal(again ?? null, null)
    replica.thaw()
    await attach()
    await (await client.getLock('t:demoted').lock({ waitTimeMs: 15_000 })).unlock()
    assert.deepEqual(warnings, [])
  })

  it('the server refuses writes without enough replicas: waiters are served when there are enough', async () => {
    const client = await open()
    await master.admin.config('SET', 'min-replicas-to-write', '2')
    await assert.rejects(client.getLock('t:few').tryLock(), /NOREPLICAS/)
    const waiting = settlesWithin(client.getLock('t:few').lock(), 15_000)
    await sleep(300)
    await master.admin.config('SET', 'min-replicas-to-write', '1')
    const outcome = await waiting
    assert(outcome.status === 'fulfilled', String((outcome as PromiseRejectedResult).reason))
    await outcome.value.unlock()
  })

  for (const command of ['wait', 'info']) {
    it(`${command.toUpperCase()} is forbidden: one warning, and locks work without it`, async () => {
      await master.admin.call('ACL', 'SETUSER', 'app', 'reset', 'on', '>secret', '~*', '&*', '+@all', `-${command}`)
      const client = await open({}, 'app')
      const warnings: string[] = []
      client.on('warning', (warning) => warnings.push((warning as { code?: string }).code ?? warning.message))
      for (let round = 0; round < 3; round++) await client.getLock('t:refused').withLock(() => {})
      assert.deepEqual(warnings, ['WAIT_REFUSED'])
      await client.close()
      await master.admin.call('ACL', 'DELUSER', 'app')
    })
  }
}
