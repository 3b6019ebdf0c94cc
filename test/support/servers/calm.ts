import { IS_BEFORE_7 } from './engine.js'
import type { Cluster } from './redis-cluster.js'
import { SENTINEL_USER, type SentinelGroup } from './redis-sentinel.js'

/** Where nobody fails, and a busy machine must not be taken for a dead master. */
const PATIENCE_MS = 60_000

/** From now on the sentinels replace nobody, and publish nothing: the suites count commands. */
export async function calmSentinels({ sentinels, servers, masterName }: SentinelGroup): Promise<void> {
  for (const { admin } of sentinels) {
    await admin.call('SENTINEL', 'SET', masterName, 'down-after-milliseconds', PATIENCE_MS)
    if (!IS_BEFORE_7) await admin.call('SENTINEL', 'DEBUG', 'publish-period', 3_600_000)
  }
  if (IS_BEFORE_7) for (const { admin } of servers) await admin.call('ACL', 'SETUSER', SENTINEL_USER, '-publish')
}

/** From now on the nodes replace nobody. Not from the start: with it they take their time to find each other. */
export async function calmCluster({ admins }: Cluster): Promise<void> {
  for (const admin of admins) await admin.config('SET', 'cluster-node-timeout', PATIENCE_MS)
}
