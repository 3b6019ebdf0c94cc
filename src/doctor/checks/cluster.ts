// Checks the slots and nodes of a cluster.
import { serverName } from '../../config/tls.js'
import { within } from '../../util/timeout.js'
import { SLOT_COUNT } from '../../wire/slots.js'
import type { Check } from '../check.js'
import { note, ok, problem, warning } from '../finding.js'
import { fieldsOf } from '../server.js'
import type { DeploymentUnderTest } from '../target.js'

/** A failover has to end before a default lease, ms. */
const SLOW_FAILOVER_MS = 15_000
const SENTINEL_MS = 3_000

export const clusterChecks: readonly Check[] = [
  {
    id: 'cluster-state',
    group: 'Cluster',
    title: 'State',
    why: 'A lock lives in one slot. If no master serves it, the lock can neither be acquired nor renewed.',
    async run(server, { isCluster }) {
      if (!isCluster) return undefined
      const info = fieldsOf(await server.textOf('CLUSTER', 'INFO'))
      const infoField = (name: string): string => info.get(name) ?? ''
      const served = infoField('cluster_slots_ok')
      const fix = 'start the nodes that are down; redis-cli --cluster check, then --cluster fix'
      if (infoField('cluster_state') !== 'ok' || Number(served) !== SLOT_COUNT) {
        return problem(`${infoField('cluster_state')}, ${served} of ${SLOT_COUNT} slots are served`, fix)
      }
      const suspected = Number(infoField('cluster_slots_pfail')) + Number(infoField('cluster_slots_fail'))
      if (suspected > 0) return warning(`ok, but ${suspected} slots may have lost their master`, fix)
      return ok(`ok, ${infoField('cluster_size')} masters`)
    },
  },
  {
    id: 'cluster-coverage',
    group: 'Cluster',
    title: 'Coverage',
    why: 'If full coverage is required, losing one master stops all locks, not only those in its slots.',
    async run(server, { isCluster }) {
      if (!isCluster) return undefined
      const required = await server.setting('cluster-require-full-coverage')
      if (required === 'no') return ok('losing a master stops only its own slots')
      return note(
        'losing a master that has no replica stops all slots',
        'CONFIG SET cluster-require-full-coverage no, on all nodes',
      )
    },
  },
  {
    id: 'cluster-failover',
    group: 'Cluster',
    title: 'Failover',
    why: 'Until a replica has taken over, no lease in those slots is renewed, and shorter leases are lost.',
    async run(server, { isCluster }) {
      if (!isCluster) return undefined
      const timeout = Number(await server.setting('cluster-node-timeout'))
      const factor = await server.setting('cluster-replica-validity-factor').catch(() => undefined)
      const detection = `a failed master is detected after ${timeout} ms`
      if (factor === '0') {
        const message = `${detection}; a replica takes over however old its data is`
        return note(message, 'CONFIG SET cluster-replica-validity-factor 10')
      }
      const message = `${detection}; a replica takes over if its data is at most ${factor} times as old`
      const fix = 'CONFIG SET cluster-node-timeout 5000, on all nodes'
      return timeout >= SLOW_FAILOVER_MS ? note(message, fix) : ok(message)
    },
  },
  {
    id: 'sentinels',
    group: 'Cluster',
    title: 'Sentinels',
    why: 'Sentinels vote: without a majority, no replica takes over from a failed master. A majority needs at least three.',
    isOnce: true,
    async run(_server, deployment) {
      if (deployment.deployment?.mode !== 'sentinel') return undefined
      const { masterName } = deployment.deployment.sentinel
      const replies = await Promise.allSettled(deployment.deployment.addresses.map((_, at) => sentinel(deployment, at)))
      const views = replies.flatMap((reply) => (reply.status === 'fulfilled' ? [reply.value] : []))
      const [first] = views
      const fix = `start those that are down; SENTINEL CKQUORUM ${masterName} and SENTINEL MASTER ${masterName} on each`
      if (!first) return problem('no Sentinel replies', fix)
      const all = Number(first.get('num-other-sentinels')) + 1
      const silent = replies.length - views.length
      const down = Number(first.get('down-after-milliseconds'))
      const message = `${all} watch ${masterName}; ${first.get('quorum')} must agree that it is down, after ${down} ms`
      if (silent > 0) return warning(`${silent} of ${replies.length} do not reply; ${message}`, fix)
      if (all < 3) return warning(message, 'run three Sentinels on three machines')
      if (down >= SLOW_FAILOVER_MS)
        return note(message, `SENTINEL SET ${masterName} down-after-milliseconds 5000, on each`)
      return ok(message)
    },
  },
]

/** The fields that a Sentinel reports about the master. */
async function sentinel({ deployment }: DeploymentUnderTest, at: number): Promise<Map<string, string>> {
  if (!deployment) throw new Error('no Sentinel')
  const { host, port } = deployment.addresses[at] ?? {}
  const { username, password, masterName } = deployment.sentinel
  const { Redis } = await import('ioredis')
  const redis = new Redis({
    ...(host === undefined ? {} : { host }),
    ...(port === undefined ? {} : { port }),
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(deployment.tls ? { tls: { ...serverName(host ?? ''), ...deployment.tls } } : {}),
    lazyConnect: true,
    retryStrategy: () => null,
    disconnectTimeout: 100,
  })
  redis.on('error', () => {})
  try {
    await within(SENTINEL_MS, redis.connect())
    const reply = (await within(SENTINEL_MS, redis.call('SENTINEL', 'MASTER', masterName))) as string[] | object
    const words = Array.isArray(reply) ? reply : Object.entries(reply).flat()
    return new Map(words.flatMap((word, index) => (index % 2 === 0 ? [[word, String(words[index + 1])] as const] : [])))
  } finally {
    redis.disconnect()
  }
}
