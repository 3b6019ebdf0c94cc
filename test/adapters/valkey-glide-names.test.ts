/** Clusters that name their nodes otherwise than by the addresses that these listen on. */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { GlideClusterClient } from '@valkey/valkey-glide'
import { type Client, connect } from '../../src/index.js'
import { type Cluster, startCluster } from '../support/servers/redis-cluster.js'
import type { RedisServer } from '../support/servers/redis-server.js'
import '../support/valkey-glide.js' // silences glide
import { sleep } from '../support/wait-until.js'

const CLUSTERS: Readonly<Record<string, readonly string[]>> = {
  'host names': ['--cluster-announce-hostname', 'localhost', '--cluster-preferred-endpoint-type', 'hostname'],
  'ports alone': ['--cluster-preferred-endpoint-type', 'unknown-endpoint'],
}
/** A master that was trusted is checked again, ms. */
const TRUST_MS = 1_000
const CHECKS = 6

for (const [names, args] of Object.entries(CLUSTERS)) {
  describe(`valkey-glide and a cluster that names its nodes by ${names}`, { concurrency: 1 }, () => {
    let cluster: Cluster
    let glide: GlideClusterClient
    let client: Client

    before(async () => {
      cluster = await startCluster({ masters: 3, replicasEach: 0, args })
      const { host, port } = cluster.nodes[0] as RedisServer
      glide = await GlideClusterClient.createClient({ addresses: [{ host, port }], requestTimeout: 5_000 })
      client = await connect({ client: glide })
    })
    after(async () => {
      await client?.close()
      glide?.close()
      await cluster?.stop()
    })

    it('valkey-glide takes locks at every master of a cluster, each of which the others confirm', async () => {
      for (const name of ['a', 'b', 'c', 'd', 'e', 'f']) await client.withLock(name, async () => {})
    })

    it('valkey-glide asks all masters of a cluster about their locks', async () => {
      const taken = ['a', 'b', 'c', 'd', 'e', 'f']
      const holds = await Promise.all(taken.map((name) => client.getLock(name).lock()))
      const found: string[] = []
      for await (const { name } of client.fleet.locks()) found.push(name)
      assert.deepEqual(found.sort(), taken)
      for (const hold of holds) await hold.unlock()
    })

    it('valkey-glide never asks a master whether it still is one as if it were another', async () => {
      const owner = await cluster.nodeOf('a')
      const others = cluster.nodes.filter((node) => node !== owner)
      const asked = async ({ admin }: RedisServer): Promise<number> =>
        Number(/cmdstat_cluster\|slots:calls=(\d+)/.exec(await admin.info('commandstats'))?.[1] ?? 0)
      for (const { admin } of cluster.nodes) await admin.config('RESETSTAT')
      for (let check = 0; check < CHECKS; check++) {
        await client.withLock('a', async () => {})
        await sleep(TRUST_MS + 50)
      }
      const [byItself, ...byOthers] = await Promise.all([owner, ...others].map(asked))
      assert.ok(byItself === CHECKS, `${byItself} at its owner, ${byOthers} at the others`)
      assert.deepEqual(byOthers, [CHECKS, CHECKS])
    })
  })
}
