/** Several servers that claim to be the master, after one of them was frozen or cut off. */
import assert from 'node:assert/strict'
import { afterEach, describe, it } from 'node:test'
import { type Client, connect, type RedissonConfig } from '../../src/index.js'
import { startSentinels } from '../support/servers/redis-sentinel.js'
import { type RedisServer, startRedis } from '../support/servers/redis-server.js'
import { sleep, waitUntil } from '../support/wait-until.js'

const ARGS = ['--repl-diskless-sync-delay', '0']

const ends: (() => unknown)[] = []
afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

async function open(config: RedissonConfig): Promise<Client> {
  const client = await connect({ config })
  ends.push(() => client.close())
  return client
}

async function startMasterAndReplica(): Promise<[master: RedisServer, replica: RedisServer]> {
  const master = await startRedis({ args: ARGS })
  ends.push(() => master.stop())
  const replica = await startRedis({ args: ARGS, config: `replicaof 127.0.0.1 ${master.port}` })
  ends.push(() => replica.stop())
  await waitUntil(() => replica.follows(master), { timeoutMs: 10_000, message: 'the replica follows' })
  return [master, replica]
}

async function takesLock(client: Client): Promise<boolean> {
  return await client
    .getLock('again')
    .withLock(() => true)
    .catch(() => false)
}

describe('competing masters', { concurrency: 1 }, () => {
  it('of two Sentinels that name different masters, the one with the later failover is trusted', async () => {
    const [early, late] = await Promise.all([1, 1].map((one) => startSentinels({ sentinels: one, replicas: one })))
    assert(early && late)
    ends.push(
      () => early.stop(),
      () => late.stop(),
    )
    await late.failover()
    const urls = [early, late].flatMap(({ sentinels }) => sentinels.map(({ url }) => url))
    for (const sentinelAddresses of [urls, urls.toReversed()]) {
      const client = await open({
        sentinelServersConfig: { sentinelAddresses, masterName: late.masterName, sentinelsDiscovery: false },
      })
      const { admin } = await late.master()
      await client.getLock('a').withLock(async () => assert.equal(await admin.exists('a'), 1))
    }
  })

  it('of two servers that both claim to be the master, the one that took over is used', async () => {
    const [old, next] = await startMasterAndReplica()
    const client = await open({
      masterSlaveServersConfig: { masterAddress: old.url, slaveAddresses: [next.url] },
      checkLockSyncedSlaves: false,
    })
    await client.getLock('before').withLock(async () => assert.equal(await old.admin.exists('before'), 1))
    old.freeze()
    await next.admin.replicaof('NO', 'ONE')
    await sleep(100)
    old.thaw()
    await old.admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await waitUntil(() => takesLock(client), { timeoutMs: 5_000, message: 'locks are taken again' })
    await client.getLock('after').withLock(async () => assert.equal(await next.admin.exists('after'), 1))
    assert.match(await old.admin.info('replication'), /role:master/)
  })

  it('connect, called while the master is frozen, uses the server that replaced it, not the thawed one', async () => {
    const [old, next] = await startMasterAndReplica()
    old.freeze()
    const opening = open({
      masterSlaveServersConfig: { masterAddress: old.url, slaveAddresses: [next.url] },
      checkLockSyncedSlaves: false,
    })
    // By now the replica has replied that it is a replica.
    await sleep(1_500)
    await next.admin.replicaof('NO', 'ONE')
    old.thaw()
    const client = await opening
    await client.getLock('a').withLock(async () => assert.equal(await next.admin.exists('a'), 1))
    assert.match(await old.admin.info('replication'), /role:master/)
  })
})
