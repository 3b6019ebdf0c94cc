// Says what the endpoint is, and what a failover will look like.
import type { Check } from '../check.js'
import { description, endpointOf, failoverOf, type Observation } from '../endpoint.js'
import { isDenied, isReply, type Server } from '../server.js'
import type { DeploymentUnderTest } from '../target.js'

export const endpointChecks: readonly Check[] = [
  {
    id: 'endpoint',
    group: 'Connection',
    title: 'Endpoint',
    why:
      'What replies decides what a lock guarantees. Behind a proxy, WAIT means nothing on another connection than the ' +
      'write, and a shared connection receives no messages.',
    isOnce: true,
    async run(server, deployment) {
      const observation = await observe(server, deployment)
      return description(endpointOf(observation), observation)
    },
  },
  {
    id: 'failover',
    group: 'Replication',
    title: 'At a failover',
    why: 'Until a client has found the new master it gets no lock, and its leases are not renewed.',
    isOnce: true,
    async run(server, deployment) {
      const observation = await observe(server, deployment)
      return failoverOf(endpointOf(observation), observation, deployment.isAcknowledged)
    },
  },
]

async function observe(server: Server, { deployment, isCluster, servers }: DeploymentUnderTest): Promise<Observation> {
  const refusals: string[] = []
  const replyOr = async <T>(query: () => Promise<T>, ifRefused: T): Promise<T> => {
    try {
      return await query()
    } catch (error) {
      if (!isReply(error)) throw error
      if (!isDenied(error)) refusals.push((error as Error).message)
      return ifRefused
    }
  }
  const idOf = (): Promise<string> => replyOr(() => server.textOf('CLIENT', 'ID'), '')
  const clientIds = [await idOf(), await idOf()] as const
  const connection = await replyOr(() => server.textOf('CLIENT', 'INFO'), '')
  const info = await server.info().catch((error) => {
    // Redis denies the command; a proxy does not know it.
    if (isDenied(error) || !isReply(error)) throw error
    refusals.push(error.message)
    return new Map<string, string>()
  })
  const { host } = server.redis.options
  const replicas = await Promise.all((isCluster ? servers : []).map((one) => one.infoNumber('connected_slaves')))
  return {
    mode: deployment?.mode,
    hosts: deployment?.addresses.map((address) => address.host) ?? (host === undefined ? [] : [host]),
    info,
    refusals,
    clientIds,
    connectedTo: server.address,
    arrivedAt: arrivalOf(server, connection, info),
    masters: replicas.length,
    replicas: replicas.reduce((sum, count) => sum + (count || 0), 0),
  }
}

/** Where the server accepted this connection, by CLIENT INFO; before Redis 6.2 its port, by INFO. */
function arrivalOf(server: Server, connection: string, info: ReadonlyMap<string, string>): string | undefined {
  const { path, tls } = server.redis.options
  if (path !== undefined) return undefined
  const [, address] = /\bladdr=(\S*\d:\d+)/.exec(connection) ?? []
  return address ?? (tls ? undefined : info.get('tcp_port') || undefined)
}
