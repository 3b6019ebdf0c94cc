/** `holdfast doctor` on replicas, TLS, clusters and Sentinels. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { configFolder, report, SECRET, withUser } from '../support/doctor.js'
import { startCluster } from '../support/servers/redis-cluster.js'
import { startSentinels } from '../support/servers/redis-sentinel.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { startProxy } from '../support/servers/tcp-proxy.js'
import { makeCertificates, startTlsRedis } from '../support/servers/tls.js'
import { waitUntil } from '../support/wait-until.js'

describe('holdfast doctor', () => {
  const file = configFolder()

  describe('holdfast doctor on a master with replicas', () => {
    let master: RedisServer
    let replica: RedisServer
    before(async () => {
      master = await startRedis({ args: ['--repl-diskless-sync-delay', '0', '--repl-ping-replica-period', '1'] })
      replica = await startRedis({ args: ['--replicaof', master.host, String(master.port)] })
      await waitUntil(() => replica.follows(master), { timeoutMs: 15_000, message: 'the replica follows' })
    })
    after(async () => {
      await replica.stop()
      await master.stop()
    })

    it('holdfast doctor reports a replica, and the address of its master', async () => {
      const run = await report(['--redis', replica.url])
      assert.deepEqual([run.code, run.check('role').status], [1, 'problem'])
      assert.match(run.check('role').fix ?? '', new RegExp(`127\\.0\\.0\\.1:${master.port}`))
      assert.match(run.check('endpoint').message, new RegExp(`^a replica of 127\\.0\\.0\\.1:${master.port}, `))
      assert.equal(run.check('endpoint').details?.['topology'], 'replica')
      assert.match(run.check('failover').message, /^a replica refuses writes/)
    })

    it('holdfast doctor reports that replicas acknowledge, and that a lone master would continue', async () => {
      const run = await report(['--redis', master.url])
      assert.deepEqual([run.code, run.check('replicas').message, run.check('wait').status], [0, '1 up to date', 'ok'])
      assert.match(run.check('min-replicas').fix ?? '', /min-replicas-to-write 1/)
      assert.match(run.check('endpoint').message, /^a master, \w+, replicas: 1; no proxy detected$/)
      assert.match(run.check('failover').message, /^if the address moves to the promoted server, READONLY/)
      assert.match(run.check('failover').fix ?? '', /checkLockSyncedSlaves: true/)
      assert.deepEqual(await master.admin.keys('*'), [])
    })

    it('holdfast doctor reports that WAIT is denied', async () => {
      const { admin } = master
      await admin.call('ACL', 'SETUSER', 'someone', 'on', `>${SECRET}`, '+@all', '-wait', '~*', '&*')
      const run = await report(['--redis', withUser(master, 'someone', SECRET)])
      assert.match(run.check('wait').message, /^denied: NOPERM/)
      assert.match(run.check('wait').fix ?? '', /\+wait/)
    })

    it('holdfast doctor reports that no replica acknowledges', async () => {
      replica.freeze()
      try {
        const run = await report(['--redis', master.url])
        assert.deepEqual([run.code, run.check('wait').status], [1, 'problem'])
        assert.match(run.check('wait').message, /no replica acknowledged/)
      } finally {
        replica.thaw()
      }
    })
  })

  it('holdfast doctor finds a list of servers, and what stands before one', async () => {
    await using server = await startRedis()
    const list = `replicatedServersConfig:\n  nodeAddresses:\n    - "${server.url}"\n`
    const listed = await report(['--config', file('list.yaml', list)])
    assert.equal(listed.check('endpoint').details?.['topology'], 'replicated')
    assert.match(listed.check('failover').message, /^clients look for the promoted server among the addresses/)

    await using proxy = await startProxy(server.port)
    const behind = await report(['--redis', proxy.url])
    const ports = `127\\.0\\.0\\.1:${proxy.port} leads to (127\\.0\\.0\\.1:)?${server.port}`
    assert.match(
      behind.check('endpoint').message,
      new RegExp(`^a single server, \\w+; looks like a TCP proxy .*: ${ports}$`),
    )
    assert.equal(behind.check('endpoint').status, 'ok')
    assert.match(behind.check('failover').message, /^none: if this server fails/)
  })

  it('holdfast doctor checks a server with TLS', async () => {
    using certificates = await makeCertificates()
    await using tls = await startTlsRedis(certificates)
    const env = { NODE_EXTRA_CA_CERTS: certificates.caFile }
    const run = await report(['--redis', tls.url], env)
    assert.deepEqual([run.code, run.check('encrypted').message, run.check('pubsub').status], [0, 'encrypted', 'ok'])
    assert.match(run.check('endpoint').message, /; no proxy detected$/)
    const untrusted = await report(['--redis', tls.url])
    assert.equal(untrusted.code, 69)
  })

  it('holdfast doctor checks the nodes, slots and replicas of a cluster', async () => {
    await using cluster = await startCluster()
    const addresses = cluster.nodes.map(({ url }) => `    - "${url}"`).join('\n')
    const config = file('cluster.yaml', `clusterServersConfig:\n  nodeAddresses:\n${addresses}\n`)
    const healthy = await report(['--config', config])
    assert.equal(healthy.code, 0, JSON.stringify(healthy.checks.filter(({ status }) => status === 'problem')))
    assert.equal(healthy.check('cluster-state').message, 'ok, 3 masters')
    assert.match(healthy.check('endpoint').message, /^a cluster, \w+, masters: 3, replicas: 3; no proxy detected$/)
    assert.match(healthy.check('failover').message, /^clients follow the promoted replica/)
    assert.match(healthy.check('pubsub').message, /plain channels, and in .* on sharded ones/)
    assert.equal(healthy.check('wait').status, 'ok', healthy.check('wait').message)
    assert.equal(healthy.check('trial-lock').status, 'ok', healthy.check('trial-lock').message)
    assert.match(healthy.check('cluster-coverage').fix ?? '', /cluster-require-full-coverage no/)
    assert.equal(healthy.check('cluster-failover').status, 'ok', healthy.check('cluster-failover').message)

    const nodeTimeout = (ms: number) =>
      Promise.all(cluster.nodes.map(({ admin }) => admin.config('SET', 'cluster-node-timeout', ms)))
    await nodeTimeout(10_001)
    const slow = (await report(['--config', config])).check('cluster-failover')
    assert.deepEqual([slow.status, slow.fix], ['warning', 'CONFIG SET cluster-node-timeout 5000, on all nodes'])
    assert.match(slow.message, /^a failed master is detected after 10001 ms; .* may outlast leases of 30000 ms$/)
    await nodeTimeout(10_000)
    assert.equal((await report(['--config', config])).check('cluster-failover').status, 'ok')
    await nodeTimeout(1_000)

    const [first] = cluster.nodes
    assert(first)
    await first.admin.config('SET', 'maxmemory-policy', 'allkeys-lru')
    const uneven = await report(['--config', config])
    assert.equal(
      uneven.check('eviction').message,
      `127.0.0.1:${first.port}: allkeys-lru: locks will be evicted as soon as maxmemory is set`,
    )

    const single = await report(['--redis', first.url])
    assert.deepEqual([single.code, single.check('role').status], [1, 'problem'])
    assert.match(single.check('role').fix ?? '', /clusterServersConfig/)
  })

  it('holdfast doctor checks Sentinels', async () => {
    await using group = await startSentinels()
    const addresses = group.sentinels.map(({ url }) => `    - "${url}"`).join('\n')
    const text = `sentinelServersConfig:\n  masterName: ${group.masterName}\n  sentinelAddresses:\n${addresses}\n`
    const config = file('sentinel.yaml', text)
    const healthy = await report(['--config', config])
    assert.equal(healthy.code, 0)
    assert.equal(healthy.check('sentinels').status, 'ok', healthy.check('sentinels').message)
    assert.match(healthy.check('sentinels').message, /^3 watch holdfast; 2 must agree/)
    assert.match(healthy.check('endpoint').message, /^a master named by Sentinel, \w+, replicas: 2; no proxy detected$/)
    assert.match(healthy.check('failover').message, /^clients follow the master that Sentinel promotes/)
    assert.deepEqual([healthy.check('replicas').message, healthy.check('wait').status], ['2 up to date', 'ok'])

    const downAfter = (ms: number) =>
      group.sentinels[1]?.admin.call('SENTINEL', 'SET', group.masterName, 'down-after-milliseconds', ms)
    await downAfter(15_001)
    const slow = (await report(['--config', config])).check('sentinels')
    const fix = `SENTINEL SET ${group.masterName} down-after-milliseconds 5000, on each`
    assert.deepEqual([slow.status, slow.fix], ['warning', fix])
    assert.match(slow.message, /, after 15001 ms: a failover may outlast leases of 30000 ms$/)
    for (const [lease, status, remedy] of [
      [30_002, 'ok', null],
      [10_000, 'warning', fix.replace('5000', '1666')],
      [6_000, 'warning', `lockWatchdogTimeout: 15000 or more, and ${fix}`],
    ] as const) {
      const other = file('lease.yaml', `${text}lockWatchdogTimeout: ${lease}\n`)
      const check = (await report(['--config', other])).check('sentinels')
      assert.deepEqual([check.status, check.fix], [status, remedy])
    }
    await downAfter(1_000)

    const itself = await report(['--redis', group.sentinels[0]?.url ?? ''])
    assert.deepEqual([itself.code, itself.check('endpoint').status], [1, 'problem'])
    assert.match(itself.check('endpoint').message, /^a Sentinel, which has no locks/)
    assert.match(itself.check('endpoint').fix ?? '', /sentinelServersConfig/)

    await group.sentinels[2]?.kill()
    const run = await report(['--config', config])
    assert.equal(run.check('sentinels').status, 'warning')
    assert.match(run.check('sentinels').message, /^1 of 3 do not reply/)
    const off = await report(['--config', file('off.yaml', `${text}checkLockSyncedSlaves: false\n`)])
    assert.match(off.check('settings').message, /checkLockSyncedSlaves is false/)
  })
})
