// Checks replicas and their acknowledgements.
import type { Check } from '../check.js'
import { note, ok, problem, warning } from '../finding.js'
import { isDenied, type Server } from '../server.js'
import { TRIAL_TTL_MS } from './locks.js'

/** How far behind a replica may be, s. It reports once a second. */
const LAG_S = 5
const WAIT_MS = 1_000
/** Like a lock, with commands that every user of locks may run. */
const WRITE = "redis.call('hset', KEYS[1], 'doctor', 1) return redis.call('pexpire', KEYS[1], ARGV[1])"

export const replicationChecks: readonly Check[] = [
  {
    id: 'role',
    group: 'Replication',
    title: 'Role',
    why: 'Only a master accepts writes. A replica replies READONLY, and its data may be out of date.',
    async run(server, { isCluster }) {
      if (await server.isReplica()) {
        const [host, port] = await Promise.all([server.infoField('master_host'), server.infoField('master_port')])
        const fix = `connect to its master ${host}:${port}, or use a configuration with Sentinel or all servers (--config)`
        return problem(`${server.address} is a replica`, fix)
      }
      if (!isCluster && (await server.infoField('cluster_enabled')) === '1') {
        const fix = 'use a configuration with clusterServersConfig (--config)'
        return problem(`${server.address} belongs to a cluster, but was opened as a single server`, fix)
      }
      return ok((await server.infoField('role')) || 'not reported by the server')
    },
  },
  {
    id: 'replicas',
    group: 'Replication',
    title: 'Replicas',
    why: 'If a master is lost, so are its locks, unless an up-to-date replica takes over.',
    async run(server, { isCluster }) {
      if (await server.isReplica()) return undefined
      const replicas = await replicasOf(server)
      if (replicas.length === 0) {
        return isCluster
          ? warning('none', 'add a replica for each master')
          : note('none', 'use Sentinel, or a managed service with failover')
      }
      const late = replicas.filter(({ state, lag }) => state !== 'online' || Number(lag) > LAG_S)
      if (late.length === 0) return ok(`${replicas.length} up to date`)
      const list = late.map(({ ip, port, state, lag }) => `${ip}:${port} is ${state}, ${lag} s behind`)
      return warning(list.join(', '), 'check the network between them, and the logs of the replicas')
    },
  },
  {
    id: 'wait',
    group: 'Replication',
    title: 'WAIT',
    why:
      'Replication is asynchronous. A lock that a replica has acknowledged survives a failover; with checkLockSyncedSlaves ' +
      '(the default with Sentinel and in a cluster), only such locks count as acquired.',
    async run(server, deployment) {
      if (deployment.role === 'viewer' || (await server.isReplica())) return undefined
      if ((await replicasOf(server)).length === 0) return undefined
      const name = deployment.trialName
      const fix =
        'allow it: ACL SETUSER <user> +wait +info; or set checkLockSyncedSlaves: false and accept that a failover may ' +
        'grant a lock twice'
      const startedAt = performance.now()
      try {
        // In a cluster, one master gets the write, but WAIT is tried on all.
        if (deployment.ownerOf(name) === server) await server.command('EVAL', WRITE, '1', name, String(TRIAL_TTL_MS))
        const count = Number(await server.command('WAIT', '1', String(WAIT_MS)))
        const took = Math.round(performance.now() - startedAt)
        if (count > 0) return ok(`${count} acknowledged a write within ${took} ms`)
        return problem(
          `no replica acknowledged a write within ${WAIT_MS} ms: no lock will count as acquired`,
          'check that the replicas are connected and not lagging; if they are just far away, raise slavesSyncTimeout',
        )
      } catch (error) {
        if (!isDenied(error) && !/unknown command/i.test(String(error))) throw error
        const message = `denied: ${(error as Error).message}`
        return deployment.isAcknowledged ? warning(message, fix) : note(message, fix)
      } finally {
        if (deployment.ownerOf(name) === server) await server.command('DEL', name).catch(() => {})
      }
    },
  },
  {
    id: 'min-replicas',
    group: 'Replication',
    title: 'Isolated master',
    why:
      'A master that is cut off from its replicas keeps granting locks while a replica takes over, unless it needs a replica ' +
      'to accept writes.',
    async run(server) {
      if (await server.isReplica()) return undefined
      const count = (await replicasOf(server)).filter(({ state }) => state === 'online').length
      const needed = Number(
        (await server.setting('min-replicas-to-write')) ?? (await server.setting('min-slaves-to-write')),
      )
      const lag = await server.setting('min-replicas-max-lag').catch(() => undefined)
      if (needed > count) {
        const fix = `bring the replicas back, or CONFIG SET min-replicas-to-write ${count}`
        return problem(`refuses writes (NOREPLICAS): it needs ${needed} replicas and has ${count}`, fix)
      }
      if (count === 0) return undefined
      if (needed > 0) return ok(`refuses writes without ${needed} replicas at most ${lag} s behind`)
      return note(
        'accepts writes without any replica',
        'CONFIG SET min-replicas-to-write 1 and CONFIG SET min-replicas-max-lag 10, on all servers',
      )
    },
  },
]

/** The ip, port, state, lag … of each replica from INFO. */
async function replicasOf(server: Server): Promise<Record<string, string>[]> {
  const info = await server.info()
  return [...info]
    .filter(([name]) => /^slave\d+$/.test(name))
    .map(([, value]) => Object.fromEntries(value.split(',').map((pair) => pair.split('='))))
}
