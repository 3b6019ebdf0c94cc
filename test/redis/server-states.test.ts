/** What a client makes of replies that come late, of refusals that pass, and of leases that are too long. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdirSync } from 'node:fs'
import { type AddressInfo, createConnection, createServer, type Socket } from 'node:net'
import { beforeEach, describe, it } from 'node:test'
import { Cluster, Redis } from 'ioredis'
import { createCluster } from 'redis'
import { NodeRedisClusterPort } from '../../src/adapters/node-redis/cluster.js'
import type { RedisPort } from '../../src/adapters/port.js'
import { type Client, type ConnectOptions, connect, getMultiLock, type Hold, type Lock } from '../../src/index.js'
import { block } from '../support/block.js'
import { type Driver, drivers, setUpFixture } from '../support/fixture.js'
import { IS_BEFORE_7 } from '../support/servers/engine.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import type { RedisServer } from '../support/servers/redis-server.js'
import { sleep, waitUntil } from '../support/wait-until.js'

/** Those that write when the microtasks are over, or in an immediate. */
const isLazy = ({ name }: Driver): boolean => /node-redis|Bun/.test(name)

/** Resolves when the commands of this turn are sent and no reply is read. */
const sent = (driver: Driver): Promise<void> =>
  new Promise((resolve) => process.nextTick(() => (isLazy(driver) ? setImmediate(resolve) : process.nextTick(resolve))))

for (const driver of drivers) {
  describe(`a reply that arrives while the event loop is blocked, through ${driver.name}`, () => {
    const fixture = setUpFixture(driver)

    it('a reply that arrived in time counts, although its command timeout expired during a block of the event loop', async () => {
      const client = await fixture.connect({ commandTimeoutMs: 500 })
      const lock = client.getLock('a')
      await (await lock.lock()).unlock() // Redis knows the scripts from here on
      const taking = lock.tryLock()
      await sent(driver)
      block(700)
      const hold = await taking
      assert(hold)
      const releasing = hold.unlock()
      await sent(driver)
      block(700)
      await releasing
      assert.equal(await fixture.server.admin.exists('a'), 0)
    })
  })
}

describe('Redis that refuses writes for a while (MISCONF)', () => {
  const fixture = setUpFixture(undefined, ['--enable-protected-configs', 'yes'])

  /** Until `fix` is called, as while the disk of Redis is full. */
  async function refuseWrites(): Promise<{ fix(): Promise<void> }> {
    const { admin } = fixture.server
    const [, dir] = (await admin.config('GET', 'dir')) as [string, string]
    mkdirSync(`${dir}/a-folder`, { recursive: true })
    await admin.config('SET', 'dbfilename', 'a-folder')
    await admin.set('unsaved', '1')
    await admin.config('SET', 'save', '3600 1')
    await admin.bgsave()
    await waitUntil(async () => /rdb_last_bgsave_status:err/.test(String(await admin.info('persistence'))))
    return {
      fix: async () => {
        await admin.config('SET', 'save', '')
        await admin.config('SET', 'dbfilename', 'dump.rdb')
        await admin.del('unsaved')
      },
    }
  }

  it('while Redis refuses writes, waiters keep waiting and releases are repeated until they succeed', async () => {
    const client = await fixture.connect()
    const hold = await client.getLock('a').lock()
    const { fix } = await refuseWrites()
    const releasing = hold.unlock()
    const waiting = client.getLock('b').lock({ waitTimeMs: 60_000 })
    await sleep(300)
    await fix()
    await releasing
    assert.equal(await fixture.server.admin.exists('a'), 0)
    await (await waiting)?.unlock()
  })

  it('a release refused for longer than unlock() waits continues in the background', async () => {
    const client = await fixture.connect({ commandTimeoutMs: 300 })
    const hold = await client.getLock('a').lock()
    const { fix } = await refuseWrites()
    await assert.rejects(hold.unlock(), { message: /MISCONF/ })
    await fix()
    await waitUntil(async () => (await fixture.server.admin.exists('a')) === 0)
  })
})

describe('a release that Redis refuses for good', () => {
  const fixture = setUpFixture()

  it('a release that Redis refuses for good is tried once more in the background', async () => {
    const { admin } = fixture.server
    await admin.acl('SETUSER', 'app', 'reset', 'on', '>hunter2', '+@all', '~*', '&*')
    fixture.onEnd(() => admin.acl('DELUSER', 'app'))
    const client = await fixture.connect({}, fixture.server.url.replace('redis://', 'redis://app:hunter2@'))
    const hold = await client.getLock('a').lock()
    await admin.acl('SETUSER', 'app', '-evalsha')
    const refused = hold.unlock()
    await assert.rejects(refused, { message: /NOPERM|permission/i })
    // With and without the turn queue, and once more.
    await waitUntil(async () => {
      const stats = String(await admin.info('commandstats'))
      return Number(/cmdstat_evalsha:.*rejected_calls=(\d+)/.exec(stats)?.[1]) >= 3
    })
    await admin.del('a')
  })
})

describe('a node of a cluster that is used as a single server', () => {
  it('a cluster node used as a single server serves and renews many locks, and one warning names the fix', async () => {
    const cluster = await startCluster({ masters: 1, replicasEach: 0 })
    const client = await connect({ url: cluster.nodes[0]?.url ?? '', lockWatchdogTimeoutMs: 3_000 })
    try {
      const warnings: (string | undefined)[] = []
      const lost: string[] = []
      client.on('warning', (warning) => warnings.push((warning as Error & { code?: string }).code))
      client.on('lost', ({ hold }) => lost.push(hold.lockName))
      const alone: Hold[] = []
      for (const name of ['x', 'y']) alone.push(await client.getLock(name).lock())
      await waitUntil(() => warnings.length > 0, { timeoutMs: 10_000, message: 'a renewal was refused' })
      const together = await Promise.all(['a', 'b', 'c'].map((name) => client.getLock(name).lock()))
      await sleep(4_000)
      for (const hold of [...alone, ...together]) hold.assertHeld()
      await Promise.all([...alone, ...together].map((hold) => hold.unlock()))
      assert.deepEqual([warnings, lost], [['CROSSSLOT_REFUSED'], []])
    } finally {
      await client.close()
      await cluster.stop()
    }
  })

  it('a cluster node used as a single server serves several locks as one, also without waiting', async () => {
    const cluster = await startCluster({ masters: 1, replicasEach: 0 })
    const client = await connect(cluster.nodes[0]?.url ?? '')
    try {
      const lock = getMultiLock(client.getLock('a'), client.getLock('b'), client.getLock('c'))
      for (const take of [() => lock.tryLock(), () => lock.tryLock({ waitTimeMs: 1_000 }), () => lock.lock()]) {
        const hold = await take()
        assert(hold)
        await hold.unlock()
      }
      const taken = await client.getLock('c').lock()
      assert.equal(await lock.tryLock(), null)
      await taken.unlock()
    } finally {
      await client.close()
      await cluster.stop()
    }
  })

  it('a cluster node used as a single server serves locks requested in one turn', async () => {
    const cluster = await startCluster({ masters: 1, replicasEach: 0 })
    const client = await connect(cluster.nodes[0]?.url ?? '')
    try {
      const warnings: (string | undefined)[] = []
      client.on('warning', (warning) => warnings.push((warning as Error & { code?: string }).code))
      for (let round = 0; round < 2; round++) {
        const holds = await Promise.all(['a', 'b', 'c'].map((name) => client.getLock(name).lock()))
        await Promise.all(holds.map((hold) => hold.unlock()))
      }
      assert.deepEqual(warnings, ['CROSSSLOT_REFUSED'])
    } finally {
      await client.close()
      await cluster.stop()
    }
  })
})

describe('a cluster that does not say where its nodes are', { skip: IS_BEFORE_7 && 'they always say it' }, () => {
  it('a cluster that does not say where its nodes are is named as the cause, with what to do', async () => {
    await using cluster = await startCluster({ masters: 1, replicasEach: 0 })
    const [node] = cluster.nodes as [RedisServer]
    await node.admin.config('SET', 'cluster-preferred-endpoint-type', 'unknown-endpoint')
    const why = /does not say where its nodes are: set cluster-preferred-endpoint-type/
    const config = { clusterServersConfig: { nodeAddresses: [node.url] } }
    await assert.rejects(connect({ config }), why)
    const redis = new Cluster([node.url])
    try {
      for (const target of [
        { client: redis },
        { config: { clusterServersConfig: { ...config.clusterServersConfig, checkSlotsCoverage: false } } },
      ]) {
        await using client = await connect({ ...target, commandTimeoutMs: 500 })
        await assert.rejects(client.getLock('a').tryLock(), why)
      }
    } finally {
      redis.disconnect()
    }
  })

  it('a cluster without addresses works at localhost, as node-redis assumes, else is the cause', async () => {
    await using cluster = await startCluster({ masters: 1, replicasEach: 0 })
    const [node] = cluster.nodes as [RedisServer]
    await node.admin.config('SET', 'cluster-preferred-endpoint-type', 'unknown-endpoint')
    const redis = createCluster({ rootNodes: [{ url: node.url }] })
    redis.on('error', () => {})
    await redis.connect()
    try {
      await using client = await connect({ client: redis })
      await client.withLock('a', () => {})
    } finally {
      redis.destroy()
    }
    const portAt = (...masters: object[]): RedisPort => {
      const elsewhere = { isOpen: true, slots: [], masters }
      return new NodeRedisClusterPort(elsewhere as never, async () => {})
    }
    assert.match(String(portAt({ address: 'null:7000' }).connectionError), /does not say where its nodes are/)
    assert.equal(portAt({ address: '::1:7000' }, { address: '10.0.0.1:7000' }).connectionError, undefined)
  })
})

describe('a server without INFO, as at some hosts', () => {
  const fixture = setUpFixture()
  let url: string

  /** In front of a server that has it, because the fixture needs it. */
  beforeEach(async () => {
    const relay = createServer((client) => {
      const server = createConnection(fixture.server.port, '127.0.0.1')
      const pass = (from: Socket, to: Socket, change: (text: string) => string): void => {
        from.on('data', (data) => to.write(change(data.toString('latin1')), 'latin1'))
        from.on('error', () => {}).on('close', () => to.destroy())
      }
      pass(client, server, (text) => text.replace(/\r\ninfo\r\n/gi, '\r\nNONE\r\n'))
      pass(server, client, (text) => text.replace("command 'NONE'", "command 'info'"))
    })
    await once(relay.listen(0, '127.0.0.1'), 'listening')
    url = `redis://127.0.0.1:${(relay.address() as AddressInfo).port}`
    fixture.onEnd(() => relay.close())
  })

  const ways: Record<string, (url: string) => ConnectOptions> = {
    'a URL': (url) => ({ url }),
    'a configuration': (address) => ({ config: { singleServerConfig: { address } } }),
    'a configuration that connects lazily': (address) => ({
      config: { singleServerConfig: { address }, lazyInitialization: true },
    }),
    'a URL, lazily,': (url) => ({ url, lazy: true }),
    'an ioredis client': (url) => {
      const client = new Redis(url)
      client.on('error', () => {})
      fixture.onEnd(() => client.disconnect())
      return { client }
    },
  }
  for (const [way, options] of Object.entries(ways)) {
    it(`a server without INFO works through ${way}, also for waiters and after a reconnect`, async () => {
      const client = await connect(options(url))
      fixture.onEnd(() => client.close())
      await waitUntil(() => client.withLock('a', () => true).catch(() => false))
      const hold = await client.getLock('a').lock()
      const waiting = client.getLock('a').lock()
      await sleep(50)
      await fixture.server.admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      await hold.unlock()
      await (await waiting).unlock()
    })
  }

  it('a server without INFO is no server of a list, whose master only INFO tells: the error says so', async () => {
    const config = { masterSlaveServersConfig: { masterAddress: url } }
    await assert.rejects(
      connect({ config }),
      /^ReplyError: ERR unknown command.*allow it \(\+info\).*singleServerConfig/,
    )
  })
})

describe('a channel that is left while its connection dies, through node-redis', () => {
  const fixture = setUpFixture(drivers.find(({ name }) => name.startsWith('a node-redis')))

  it('a channel that was left while its connection died is not subscribed to after the reconnect', async () => {
    const owner = await fixture.connect()
    const client = await fixture.connect()
    const { admin } = fixture.server
    // Of a kind whose waiters listen on a channel of each lock.
    const lockOf = (from: Client, name: string): Lock => from.getReadWriteLock(name).writeLock()
    const kept = await lockOf(owner, 'kept').lock()
    const waiting = lockOf(client, 'kept').lock()
    for (let round = 0; round < 20; round++) {
      const names = Array.from({ length: 10 }, (_, n) => `left:${round}:${n}`)
      const holds = await Promise.all(names.map((name) => lockOf(owner, name).lock()))
      const waits = names.map((name) => lockOf(client, name).tryLock({ waitTimeMs: 300 }))
      await waitUntil(async () => (await admin.pubsub('CHANNELS', '*left*')).length > 0, { timeoutMs: 5_000 }).catch(
        () => {},
      )
      await Promise.all(waits.slice(0, 1 + (round % 10))) // the others are about to leave their channels
      await admin.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
      for (const hold of await Promise.all(waits)) assert.equal(hold, null)
      await Promise.all(holds.map((hold) => hold.unlock()))
    }
    await waitUntil(async () => (await admin.pubsub('CHANNELS')).length === 1, { timeoutMs: 10_000 })
    await kept.unlock()
    await (await waiting).unlock()
  })
})

describe('a server whose clock is set back', () => {
  const fixture = setUpFixture()

  /** What that does to a key: all that is left of its time, and how far the clock went back. */
  const JUMP_MS = 119_000

  it('a renewed lock on a server whose clock was set back lasts no longer than its lease from the second renewal on', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 3_000 })
    const hold = await client.getLock('a').lock()
    await fixture.server.admin.pexpire('a', JUMP_MS)
    await waitUntil(async () => (await fixture.server.admin.pttl('a')) <= 3_000, { timeoutMs: 10_000 })
    hold.assertHeld()
    await hold.unlock()
  })

  it('a renewal on a server whose clock was set back does not shorten a longer lease of a re-entry', async () => {
    const client = await fixture.connect({ lockWatchdogTimeoutMs: 1_500 })
    const hold = await client.getLock('a').lock()
    const inner = await client.getLock('a').lock({ within: hold, leaseTimeMs: 60_000 })
    await sleep(2_500)
    assert((await fixture.server.admin.pttl('a')) > 50_000)
    await fixture.server.admin.pexpire('a', JUMP_MS)
    await waitUntil(async () => (await fixture.server.admin.pttl('a')) <= 60_000, { timeoutMs: 10_000 })
    assert((await fixture.server.admin.pttl('a')) > 40_000)
    inner.assertHeld()
    await inner.unlock()
    await hold.unlock()
  })

  it('a waiter on a server whose clock was set back is served within seconds when the lock is freed without a message', async () => {
    const client = await fixture.connect()
    await fixture.server.admin.hset('a', 'somebody:1', '1')
    await fixture.server.admin.pexpire('a', JUMP_MS)
    const waiting = client.getLock('a').lock()
    await sleep(1_000)
    await fixture.server.admin.del('a')
    const freedAt = performance.now()
    await (await waiting).unlock()
    assert(performance.now() - freedAt < 10_000)
  })
})
