// The Redis that web-platform-tests run on.
import { startRedis } from '../setup/start-redis.mjs'

/** Of the compiled tests. */
const servers = (name) => import(new URL(`../../build/test/support/servers/${name}.js`, import.meta.url))

/** Each starts one. @returns the options of `connect` for it, and how to end it */
export const TOPOLOGIES = {
  async single() {
    const { url, child } = await startRedis()
    return { options: { url }, stop: async () => void child.kill() }
  },

  async sentinel() {
    const { startSentinels } = await servers('redis-sentinel')
    const { calmSentinels } = await servers('calm')
    const group = await startSentinels({ replicas: 1 })
    await calmSentinels(group)
    const { masterName } = group
    const sentinelAddresses = group.sentinels.map(({ url }) => url)
    return {
      options: { config: { sentinelServersConfig: { sentinelAddresses, masterName } } },
      stop: () => group.stop(),
    }
  },

  async cluster() {
    const { startCluster } = await servers('redis-cluster')
    const { calmCluster } = await servers('calm')
    const cluster = await startCluster({ replicasEach: 0 })
    await calmCluster(cluster)
    return {
      options: { config: { clusterServersConfig: { nodeAddresses: cluster.urls } } },
      stop: () => cluster.stop(),
    }
  },
}
