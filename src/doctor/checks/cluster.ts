// Checks the slots and nodes of a cluster.
import { checkClientOptions } from '../../client-options.js'
import { serverName } from '../../config/tls.js'
import { within } from '../../util/timeout.js'
import { SLOT_COUNT } from '../../wire/slots.js'
import type { Check } from '../check.js'
import { type Finding, note, ok, problem, warning } from '../finding.js'
import { fieldsOf } from '../server.js'
import type { DeploymentUnderTest } from '../target.js'

/** For the vote, the promotion and the reconnects of clients, after the failure was detected, ms. */
const PROMOTION_MS = 5_000
/** A node of a cluster is asked whenever it was silent for half of the timeout. */
const CLUSTER_DETECTION = 1.5
/** What to set, ms, unless a shorter lease demands less. */
const USUAL_PERIOD_MS = 5_000
const SHORTEST_PERIOD_MS = 1_000
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
    async run(server, deployment) {
      if (!deployment.isCluster) return undefined
      const timeout = Number(await server.setting('cluster-node-timeout'))
      const factor = await server.setting('cluster-replica-validity-factor').catch(() => undefined)
      const detection = `a failed master is detected after ${timeout} ms`
      if (factor === '0') {
        const message = `${detection}; a replica takes over however old its data is`
        return note(message, 'CONFIG SET cluster-replica-validity-factor 10')
      }
      const message = `${detection}; a replica takes over if its data is at most ${factor} times as old`
      const fixOf = (ms: number): string => `CONFIG SET cluster-node-timeout ${ms}, on all nodes`
      return failoverFinding(deployment, message, timeout, CLUSTER_DETECTION, fixOf)
    },
  },
  {
    id: 'sentinels',
    group: 'Cluster',
    title: 'Sentinels',
    why:
      'Sentinels vote: without a majority, no replica takes over from a failed master, and until one does, no lease is ' +
      'renewed. A majority needs at least three.',
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
      const down = Math.max(...views.map((view) => Number(view.get('down-after-milliseconds'))))
      const message = `${all} watch ${masterName}; ${first.get('quorum')} must agree that it is down, after ${down} ms`
      if (silent > 0) return warning(`${silent} of ${replies.length} do not reply; ${message}`, fix)
      if (all < 3) return warning(message, 'run three Sentinels on three machines')
      const fixOf = (ms: number): string => `SENTINEL SET ${masterName} down-after-milliseconds ${ms}, on each`
      return failoverFinding(deployment, message, down, 1, fixOf)
    },
  },
]

/**
 * Whether what was renewed on time outlives a failover.
 * @param periodMs  after which a master counts as failed
 * @param detection  how many periods it takes to detect that, at most
 * @param fixOf  how to set another period
 */
function failoverFinding(
  { deployment }: DeploymentUnderTest,
  message: string,
  periodMs: number,
  detection: number,
  fixOf: (ms: number) => string,
): Finding {
  const { lockWatchdogTimeoutMs } = checkClientOptions(deployment?.options ?? {})
  // A lease is renewed every third of it: two thirds are left at least when a master fails.
  const longestMs = Math.floor(((lockWatchdogTimeoutMs * 2) / 3 - PROMOTION_MS) / detection)
  if (!(periodMs > longestMs)) return ok(message)
  const leaseMs = ((USUAL_PERIOD_MS * detection + PROMOTION_MS) * 3) / 2
  return warning(
    `${message}: a failover may outlast leases of ${lockWatchdogTimeoutMs} ms`,
    longestMs < SHORTEST_PERIOD_MS
      ? `lockWatchdogTimeout: ${leaseMs} or more, and ${fixOf(USUAL_PERIOD_MS)}`
      : fixOf(Math.min(USUAL_PERIOD_MS, longestMs)),
  )
}

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
