import type { Check } from '../check.js'
import { note, ok, problem, warning } from '../finding.js'
import type { Server } from '../server.js'
import { isRefused, TRIAL_TTL_MS } from './locks.js'

/** How far behind a replica may be, s: it says so once a second. */
const LAG_S = 5
const WAIT_MS = 1_000
/** As a lock is written, by commands that every user of locks has. */
const WRITE = "redis.call('hset', KEYS[1], 'doctor', 1) return redis.call('pexpire', KEYS[1], ARGV[1])"

export const replicationChecks: readonly Check[] = [
  {
    id: 'role',
    group: 'Replication',
    title: 'Role',
    why: 'Only a master takes writes; a replica answers READONLY, and may know an older state.',
    async run(server, { isCluster }) {
      const role = await server.infoField('role')
      if (role === 'slave') {
        const [host, port] = await Promise.all([server.infoField('master_host'), server.infoField('master_port')])
        const fix = `connect to its master ${host}:${port}, or by a configuration with Sentinel or all servers (--config)`
        return problem(`${server.address} is a replica`, fix)
      }
      if (!isCluster && (await server.infoField('cluster_enabled')) === '1') {
        const fix = 'a configuration with clusterServersConfig (--config)'
        return problem(`${server.address} belongs to a cluster, and was opened as a single server`, fix)
      }
      return ok(role || 'the server does not tell')
    },
  },
  {
    id: 'replicas',
    group: 'Replication',
    title: 'Replicas',
    why: 'With the master its locks are gone. A replica that is in step can take over and knows them.',
    async run(server, { isCluster }) {
      if ((await server.infoField('role')) === 'slave') return undefined
      const replicas = await replicasOf(server)
      if (replicas.length === 0) {
        const found = 'none: when this server fails, nobody gets a lock until it is back'
        return isCluster
          ? warning(found, 'a replica for each master')
          : note(found, 'Sentinel, or a managed service with failover')
      }
      const late = replicas.filter(({ state, lag }) => state !== 'online' || Number(lag) > LAG_S)
      if (late.length === 0) return ok(`${replicas.length} in step`)
      const list = late.map(({ ip, port, state, lag }) => `${ip}:${port} is ${state}, ${lag} s behind`)
      return warning(list.join(', '), 'see the network between them, and the logs of the replicas')
    },
  },
  {
    id: 'wait',
    group: 'Replication',
    title: 'WAIT',
    why:
      'Replication is asynchronous. A lock that a replica has acknowledged survives a failover; with checkLockSyncedSlaves, ' +
      'the default with Sentinel and in a cluster, others do not count as taken.',
    async run(server, deployment) {
      if ((await server.infoField('role')) === 'slave') return undefined
      const isAsked = (await replicasOf(server)).length > 0
      if (!isAsked) return undefined
      const name = deployment.trialName
      const fix =
        'allow WAIT: ACL SETUSER <user> +wait +info; else checkLockSyncedSlaves: false, and know what a failover may do'
      const startedAt = performance.now()
      try {
        // In a cluster one master gets the write. WAIT is tried at all.
        if (deployment.ownerOf(name) === server) await server.ask('EVAL', WRITE, '1', name, String(TRIAL_TTL_MS))
        const count = Number(await server.ask('WAIT', '1', String(WAIT_MS)))
        const took = Math.round(performance.now() - startedAt)
        if (count > 0) return ok(`${count} acknowledged a write within ${took} ms`)
        return problem(
          `no replica acknowledged a write within ${WAIT_MS} ms: no lock will count as taken`,
          'see that the replicas are connected and not behind; slavesSyncTimeout, if they are only far away',
        )
      } catch (error) {
        if (!isRefused(error) && !/unknown command/i.test(String(error))) throw error
        const found = `refused: ${(error as Error).message}`
        return deployment.isAcknowledged ? warning(found, fix) : note(found, fix)
      } finally {
        if (deployment.ownerOf(name) === server) await server.ask('DEL', name).catch(() => {})
      }
    },
  },
  {
    id: 'min-replicas',
    group: 'Replication',
    title: 'Isolated master',
    why:
      'A master that is cut off from its replicas goes on granting locks while another one has taken its place, unless it ' +
      'must have a replica in order to write.',
    async run(server) {
      if ((await server.infoField('role')) === 'slave') return undefined
      const count = (await replicasOf(server)).filter(({ state }) => state === 'online').length
      const needed = Number(
        (await server.setting('min-replicas-to-write')) ?? (await server.setting('min-slaves-to-write')),
      )
      const lag = await server.setting('min-replicas-max-lag').catch(() => undefined)
      if (needed > count) {
        const fix = `bring the replicas back, or CONFIG SET min-replicas-to-write ${count}`
        return problem(`it refuses writes (NOREPLICAS) without ${needed} replicas, and has ${count}`, fix)
      }
      if (count === 0) return undefined
      if (needed > 0) return ok(`it stops without ${needed} replicas not more than ${lag} s behind`)
      return note(
        'it goes on writing without any replica',
        'CONFIG SET min-replicas-to-write 1 and CONFIG SET min-replicas-max-lag 10, on all servers',
      )
    },
  },
]

/** Of each replica ip, port, state, lag …, as INFO has them. */
async function replicasOf(server: Server): Promise<Record<string, string>[]> {
  const info = await server.info()
  return [...info]
    .filter(([name]) => /^slave\d+$/.test(name))
    .map(([, value]) => Object.fromEntries(value.split(',').map((pair) => pair.split('='))))
}
