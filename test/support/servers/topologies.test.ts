import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { after, afterEach, before, describe, it } from 'node:test'
import type { ConnectionOptions } from 'node:tls'
import { Cluster as ClusterClient, Redis } from 'ioredis'
import { waitUntil } from '../wait-until.js'
import type { SlotMove } from './cluster-nodes.js'
import { type Cluster, startCluster } from './redis-cluster.js'
import { type SentinelGroup, startSentinels } from './redis-sentinel.js'
import type { RedisServer } from './redis-server.js'
import { type Certificates, makeCertificates, startTlsRedis, type TlsRedis } from './tls.js'

async function dirsOf(servers: readonly RedisServer[]): Promise<string[]> {
  return Promise.all(
    servers.map(async ({ admin }) => {
      const [, dir = ''] = (await admin.config('GET', 'dir')) as string[]
      return dir
    }),
  )
}

/** Neither a process nor its directory may be left. */
function assertGone(servers: readonly RedisServer[], dirs: readonly string[]): void {
  for (const { pid } of servers) assert.throws(() => process.kill(pid, 0), /ESRCH/)
  for (const dir of dirs) assert.ok(!existsSync(dir), dir)
}

const ms = (time: number) => `${Math.round(time)} ms`

// Side by side: most of the time is spent waiting for servers that wait for each other.
describe('topologies', { concurrency: true }, () => {
  describe('redis-cluster', { concurrency: 1 }, () => {
    let cluster: Cluster
    let readyMs: number
    let client: ClusterClient
    let dirs: string[]

    before(async () => {
      const startedAt = performance.now()
      cluster = await startCluster()
      readyMs = performance.now() - startedAt
      dirs = await dirsOf(cluster.nodes)
      // By itself it gives up after 16 redirections, and of a dead master there are more.
      const patience = { maxRedirections: 10_000, retryDelayOnMoved: 20 }
      client = new ClusterClient([...cluster.urls], patience)
      client.on('error', () => {})
    })
    after(async () => {
      client.disconnect()
      await waitUntil(async () => (await cluster.connections()).length === 0, { message: 'no connection is left' })
      await cluster.stop()
      await cluster.stop()
      assertGone(cluster.nodes, dirs)
    })

    afterEach(() => cluster.heal())

    it('the cluster forms, with all slots taken and a replica in step behind each master', async (t) => {
      t.diagnostic(`cluster ready: ${ms(readyMs)}`)
      assert.equal(cluster.nodes.length, 6)
      const masters = await cluster.masters()
      assert.equal(masters.length, 3)
      for (const master of masters) {
        const replicas = await cluster.replicasOf(master)
        assert.equal(replicas.length, 1)
        assert.ok(await replicas[0]?.follows(master))
      }
      for (const admin of cluster.admins) {
        assert.match(String(await admin.call('CLUSTER', 'INFO')), /cluster_slots_ok:16384/)
      }
    })

    it('the cluster finds the owner of a key, and what all nodes hold', async () => {
      const keys = ['a', 'b', 'c', 'd']
      for (const key of keys) {
        const { admin } = await cluster.nodeOf(key)
        assert.equal(await admin.set(key, '1'), 'OK')
      }
      assert.deepEqual(await cluster.keys(), keys)
      assert.equal(await cluster.slotOf('{a}:x'), await cluster.slotOf('a'))
      await cluster.flush()
      assert.deepEqual(await cluster.keys(), [])
    })

    it('the cluster lists channels, plain and sharded, of all nodes', async () => {
      const owner = await cluster.nodeOf('news')
      const subscriber = new Redis(owner.url)
      await subscriber.subscribe('plain news')
      await subscriber.ssubscribe('news')
      assert.deepEqual([await cluster.channels(), await cluster.shardChannels()], [['plain news'], ['news']])
      subscriber.disconnect()
      await waitUntil(async () => (await cluster.shardChannels()).length === 0)
      assert.deepEqual(await cluster.channels(), [])
    })

    it('the cluster moves a slot with its keys step by step, with time to act between the steps', async () => {
      await client.set('{slot}:1', 'one', 'PX', 60_000)
      await client.set('{slot}:2', 'two')
      const steps: string[] = []
      let reply: unknown
      const onStep = async (step: string, { from, keys }: SlotMove) => {
        steps.push(step)
        if (step !== 'key moved' || keys.length !== 1) return
        // One key is here and one is there: the hard part of every move.
        reply = await from.admin.mget('{slot}:1', '{slot}:2').catch(String)
        assert.equal(await client.get('{slot}:1'), 'one')
        assert.equal(await client.get('{slot}:2'), 'two')
      }
      const before = await cluster.nodeOf('{slot}')
      const move = await cluster.moveSlot('{slot}', { onStep })
      assert.match(String(reply), /TRYAGAIN/)
      assert.deepEqual(steps, ['importing', 'migrating', 'key moved', 'key moved', 'keys moved', 'moved'])
      assert.equal(move.from, before)
      assert.equal(await cluster.nodeOf('{slot}'), move.to)
      assert.deepEqual([...move.keys].sort(), ['{slot}:1', '{slot}:2'])
      await assert.rejects(before.admin.get('{slot}:1'), /MOVED/)
      assert.ok((await move.to.admin.pttl('{slot}:1')) > 50_000)
      const back = await cluster.moveSlot('{slot}', { to: before, pauseMs: 1 })
      assert.equal(back.to, before)
      assert.equal(await client.get('{slot}:2'), 'two')
      await cluster.flush()
    })

    it('the cluster fails over by command, there and back', async (t) => {
      const key = 'by command'
      await client.set(key, 'kept')
      const there = await cluster.failover(key)
      assert.equal(await cluster.nodeOf(key), there.to)
      const back = await cluster.failover(key, { mode: 'TAKEOVER' })
      assert.deepEqual([back.from, back.to], [there.to, there.from])
      t.diagnostic(`cluster, CLUSTER FAILOVER: ${ms(there.ms)}; TAKEOVER: ${ms(back.ms)}`)
      assert.equal(await client.get(key), 'kept')
      await cluster.flush()
    })

    it('the cluster fails over by itself when a master is killed, and takes it back as a replica', async (t) => {
      const key = 'by kill'
      const master = await cluster.nodeOf(key)
      const [replica] = await cluster.replicasOf(master)
      await cluster.kill(master)
      const written = client.set(key, 'written')
      const { from, to, ms: took } = await cluster.waitForFailover(master)
      t.diagnostic(`cluster, master killed: ${ms(took)}`)
      assert.deepEqual([from, to], [master, replica])
      assert.equal(await written, 'OK')
      await cluster.restart(master)
      assert.ok(await master.follows(to))
      assert.equal(await cluster.nodeOf(key), to)
      await cluster.flush()
    })

    it('the cluster fails over by itself when a master is frozen, and heals', async (t) => {
      const key = 'by freeze'
      const master = await cluster.nodeOf(key)
      await cluster.freeze(master)
      const { to, ms: took } = await cluster.waitForFailover(master)
      t.diagnostic(`cluster, master frozen: ${ms(took)}`)
      assert.ok(!master.isUp)
      await cluster.heal()
      assert.ok(master.isUp && (await master.follows(to)))
    })
  })

  describe('redis-sentinel', { concurrency: 1 }, () => {
    let group: SentinelGroup
    let readyMs: number
    let client: Redis
    let dirs: string[]

    before(async () => {
      const startedAt = performance.now()
      group = await startSentinels()
      readyMs = performance.now() - startedAt
      dirs = await dirsOf(group.servers) // a sentinel does not report its own
      client = new Redis({
        sentinels: group.sentinels.map(({ host, port }) => ({ host, port })),
        name: group.masterName,
        maxRetriesPerRequest: null,
        sentinelRetryStrategy: () => 50,
        retryStrategy: () => 50,
      })
      client.on('error', () => {})
    })
    after(async () => {
      client.disconnect()
      await waitUntil(async () => (await group.connections()).length === 0, { message: 'no connection is left' })
      const servers = [...group.servers, ...group.sentinels]
      await group.stop()
      await group.stop()
      assertGone(servers, dirs)
    })

    afterEach(() => group.heal())

    it('the Sentinel topology starts with a master, replicas in step, and sentinels that know everybody', async (t) => {
      t.diagnostic(`sentinels ready: ${ms(readyMs)}`)
      assert.deepEqual([group.servers.length, group.sentinels.length], [3, 3])
      const master = await group.master()
      assert.equal(master, group.servers[0])
      assert.deepEqual(await group.replicas(), group.servers.slice(1))
      for (const { admin } of group.sentinels) {
        assert.match(String(await admin.call('SENTINEL', 'CKQUORUM', group.masterName)), /^OK 3 usable/)
      }
      await client.set('key', 'kept')
      assert.equal(await client.wait(2, 1_000), 2)
      assert.equal(await master.admin.get('key'), 'kept')
    })

    it('the Sentinel topology fails over by command, twice in a row', async (t) => {
      const first = await group.failover()
      assert.equal(await group.master(), first.to)
      const second = await group.failover()
      assert.equal(second.from, first.to)
      t.diagnostic(`sentinel, SENTINEL FAILOVER: ${ms(first.ms)}, ${ms(second.ms)}`)
      assert.equal(await client.get('key'), 'kept')
    })

    it('the Sentinel topology fails over when the master is killed, and takes it back as a replica', async (t) => {
      const killed = await group.killMaster()
      const written = client.set('key', 'written')
      const { from, to, ms: took } = await group.waitForFailover()
      t.diagnostic(`sentinel, master killed: ${ms(took)}`)
      assert.equal(from, killed)
      assert.equal(await written, 'OK')
      await group.restart(killed)
      assert.equal(await group.master(), to)
      assert.ok(await killed.follows(to))
      assert.equal((await group.replicas()).length, 2)
    })

    it('the Sentinel topology fails over when the master is frozen and a sentinel killed, and heals', async (t) => {
      const [sentinel] = group.sentinels
      await sentinel?.kill()
      const frozen = await group.freezeMaster()
      const { to, ms: took } = await group.waitForFailover()
      t.diagnostic(`sentinel, master frozen: ${ms(took)}`)
      await group.heal()
      assert.ok(sentinel?.isUp && (await frozen.follows(to)))
      await group.flush()
      assert.equal(await client.get('key'), null)
    })
  })

  describe('tls', { concurrency: 1 }, () => {
    let certificates: Certificates
    let strange: Certificates
    let redis: TlsRedis
    const ping = async (target: TlsRedis, tls: ConnectionOptions) => {
      const client = new Redis({
        host: '127.0.0.1',
        port: target.port,
        tls,
        lazyConnect: true,
        retryStrategy: () => null,
      })
      const failed = new Promise<never>((_, reject) => client.once('error', reject))
      try {
        return await Promise.race([client.connect().then(() => client.ping()), failed])
      } finally {
        client.disconnect()
      }
    }

    before(async () => {
      ;[certificates, strange] = await Promise.all([makeCertificates(), makeCertificates({ names: ['DNS:elsewhere'] })])
      redis = await startTlsRedis(certificates)
    })
    after(async () => {
      await redis.stop()
      for (const { caFile, remove } of [certificates, strange]) {
        remove()
        assert.ok(!existsSync(caFile))
      }
    })

    it('TLS shakes hands with a client that knows the authority, and not without', async () => {
      assert.equal(await ping(redis, { ca: certificates.ca }), 'PONG')
      await assert.rejects(ping(redis, {}), /unable to verify the first certificate|self.signed/)
      await assert.rejects(
        ping(redis, { ca: strange.ca }),
        /unable to verify|self.signed|certificate signature failure/,
      )
      assert.equal(await redis.server.admin.ping(), 'PONG')
    })

    it('TLS requires a certificate of the client where configured', async () => {
      await using strict = await startTlsRedis(certificates, { clientCertificates: 'yes' })
      const { ca, client } = certificates
      assert.equal(await ping(strict, { ca, cert: client.cert, key: client.key }), 'PONG')
      await assert.rejects(ping(strict, { ca }))
      await assert.rejects(ping(strict, { ca, cert: strange.client.cert, key: strange.client.key }))
    })

    it('TLS makes a certificate for another host, which a client that looks refuses', async () => {
      await using elsewhere = await startTlsRedis(strange)
      await assert.rejects(ping(elsewhere, { ca: strange.ca }), /altnames/)
      assert.equal(await ping(elsewhere, { ca: strange.ca, checkServerIdentity: () => undefined }), 'PONG')
    })
  })
})
