/** A configuration that names a database of a cluster: servers that have it, and all others, which refuse it. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { connect } from '../../src/index.js'
import { HAS_CLUSTER_DATABASES } from '../support/servers/engine.js'
import { type Cluster, startCluster } from '../support/servers/redis-cluster.js'
import { waitUntil } from '../support/wait-until.js'

const ARGS = HAS_CLUSTER_DATABASES ? ['--cluster-databases', '3'] : []
const NAMES = ['a', 'b', 'c', 'd', 'e', 'f']

describe('a database of a cluster', { concurrency: 1 }, () => {
  let cluster: Cluster
  before(async () => {
    cluster = await startCluster({ replicasEach: 0, args: ARGS })
  })
  after(() => cluster.stop())

  const open = (database: number) =>
    connect({ config: { clusterServersConfig: { nodeAddresses: [...cluster.urls], database } } })

  it('a database that the servers of a cluster lack is refused by connect(), which says who has one', async () => {
    await assert.rejects(open(7), {
      message:
        /^clusterServersConfig\.database: 127\.0\.0\.1:\d+ does not have database 7 \(.*only Valkey 9 or later.*cluster-databases/,
    })
    await cluster.settled()
    assert.deepEqual(await cluster.connections(), [])
  })

  it('a database of a cluster keeps all locks, wakes waiters, and is selected again after a reconnect', async () => {
    if (!HAS_CLUSTER_DATABASES) return await assert.rejects(open(2), /does not have database 2/)
    await using client = await open(2)
    await using waiter = await open(2)
    await using other = await open(0)
    const databases = async (): Promise<string> =>
      (await Promise.all(cluster.admins.map((admin) => admin.info('keyspace')))).join().match(/db\d+/g)?.join() ?? ''
    for (let round = 0; round < 2; round++) {
      const holds = await Promise.all(NAMES.map((name) => client.getLock(name).lock()))
      assert.match(await databases(), /^db2(,db2)*$/)
      for (const name of NAMES) assert.equal(await other.getLock(name).isLocked(), false)
      const waiting = NAMES.map((name) => waiter.getLock(name).lock())
      for (const hold of holds) await hold.unlock()
      for (const hold of await Promise.all(waiting)) await hold.unlock()
      await Promise.all(cluster.admins.map((admin) => admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')))
      await waitUntil(
        () =>
          client
            .getLock('a')
            .isLocked()
            .then(
              () => true,
              () => false,
            ),
        { timeoutMs: 10_000 },
      )
    }
  })
})
