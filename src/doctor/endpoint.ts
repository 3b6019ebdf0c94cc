// Recognizes topologies, services and proxies, and says what a failover will look like.
import type { Mode } from '../config/deployment.js'
import { type Finding, note, ok, problem, warning } from './finding.js'
import { productOf } from './products.js'

/** The facts about the address that a client was given. */
export interface Observation {
  /** The mode of the configuration; undefined: a URL. */
  readonly mode: Mode | undefined
  /** The names of the servers, as they were given. */
  readonly hosts: readonly string[]
  /** The fields of INFO; empty if it was refused. */
  readonly info: ReadonlyMap<string, string>
  /** Error replies to commands that every server has. */
  readonly refusals: readonly string[]
  /** Two replies to CLIENT ID; empty if it was refused. */
  readonly clientIds: readonly [string, string]
  /** The address that the client connected to, and the one where the server sees it arrive, which may be its port only. */
  readonly connectedTo: string
  readonly arrivedAt: string | undefined
  /** In a cluster. */
  readonly masters: number
  readonly replicas: number
}

export type Topology =
  | 'single'
  | 'replicated'
  | 'replica'
  /** A master that Sentinels name. */
  | 'sentinel'
  | 'sentinel-itself'
  | 'cluster'
  | 'cluster-node'
  | 'unknown'

/** The kind of endpoint, as far as it can be told; null if nothing shows it. */
export interface Endpoint {
  readonly topology: Topology
  /** The program that replies; null if it does not say. */
  readonly engine: string | null
  /** The service that runs it, by its name or INFO. */
  readonly service: string | null
  /** A proxy that chooses a server for each command. */
  readonly proxy: string | null
  /** A relay that passes the connection on to one server. */
  readonly relay: string | null
}

/** Managed services, by the end of a host name. */
const SERVICES: readonly [suffix: RegExp, name: string][] = [
  [/\.memorydb\.[\w-]+\.amazonaws\.com(\.cn)?$/i, 'Amazon MemoryDB'],
  [/\.cache\.amazonaws\.com(\.cn)?$/i, 'Amazon ElastiCache'],
  [/\.redis(enterprise)?\.cache\.(windows\.net|azure\.net|chinacloudapi\.cn|usgovcloudapi\.net)$/i, 'Azure Cache'],
  [/\.redis\.azure\.net$/i, 'Azure Managed Redis'],
  [/\.upstash\.io$/i, 'Upstash'],
  [/\.(redislabs|redis-cloud)\.com$/i, 'Redis Cloud'],
  [/\.aliyuncs\.com$/i, 'Alibaba Cloud'],
  [/\.tencentcdb\.com$/i, 'Tencent Cloud'],
]

/** Proxies that choose a server for each command, by a reply that only they give. */
const PROXIES: readonly [reply: RegExp, name: string][] = [
  [/^(unsupported command '|invalid request$)/, 'Envoy'],
  [/^ERR handle request, command '.*' is not allowed/, 'Codis'],
]

/** Without Sentinels or a cluster that confirm it, a master that has lost its replicas is trusted after 10 s. */
const SOON = 'usually within 2 s, or 12 s if it has no replica'
const UNTIL_IT_IS_BACK = 'no lock is granted until it is back, and without persistence the held ones are lost'

export function endpointOf(observation: Observation): Endpoint {
  const { info, hosts } = observation
  const isNamed = info.size > 0 && !info.has('RedisMode')
  const named = hosts.flatMap((host) => SERVICES.filter(([suffix]) => suffix.test(host)))[0]?.[1]
  const hasAmazonInfo = /ElastiCache/i.test(info.get('os') ?? '')
  return {
    topology: topologyOf(observation),
    engine: isNamed ? productOf(info).name : null,
    service: hasAmazonInfo ? 'Amazon ElastiCache, by INFO' : named === undefined ? null : `${named}, by its name`,
    proxy: proxyOf(observation),
    relay: relayOf(observation),
  }
}

function topologyOf({ mode, info }: Observation): Topology {
  if (info.size === 0 || info.has('RedisMode')) return 'unknown'
  if (mode === 'sentinel' || mode === 'cluster') return mode
  if ((info.get('redis_mode') ?? info.get('server_mode')) === 'sentinel') return 'sentinel-itself' // the latter is Valkey's
  if (info.get('role') === 'slave') return 'replica'
  if (info.get('cluster_enabled') === '1') return 'cluster-node'
  const isList = mode === 'masterSlave' || mode === 'replicated'
  return isList || replicasOf(info) > 0 ? 'replicated' : 'single'
}

function replicasOf(info: ReadonlyMap<string, string>): number {
  return Number(info.get('connected_slaves') ?? 0)
}

function proxyOf({ info, refusals, clientIds: [first, second] }: Observation): string | null {
  if (info.get('RedisMode') === 'proxy') return 'predixy, by INFO'
  const [, name] = PROXIES.find(([reply]) => refusals.some((refusal) => reply.test(refusal))) ?? []
  if (name !== undefined) return `looks like ${name}, by its replies`
  if (first !== second) return 'a proxy that sends the commands of one connection over several, by CLIENT ID'
  return info.size === 0 ? 'looks like a proxy, or a service that hides INFO' : null
}

function relayOf({ connectedTo, arrivedAt }: Observation): string | null {
  if (arrivedAt === undefined || `:${connectedTo}`.endsWith(`:${arrivedAt}`)) return null
  return `looks like a TCP proxy such as HAProxy, a load balancer or a port mapping: ${connectedTo} leads to ${arrivedAt}`
}

/** Describes the endpoint in one line. */
export function description(endpoint: Endpoint, observation: Observation): Finding {
  const { service, proxy, relay } = endpoint
  const parts = [shapeOf(endpoint, observation), service, proxy ?? relay ?? 'no proxy detected']
  const message = parts.filter((part) => part !== null).join('; ')
  return { ...judged(endpoint, message), details: { ...endpoint } }
}

function judged({ topology, proxy }: Endpoint, message: string): Finding {
  if (topology === 'sentinel-itself') {
    return problem(message, 'use a configuration with sentinelServersConfig (--config), which finds the master')
  }
  if (proxy === null) return ok(message)
  return warning(message, 'connect to Redis directly, or make the proxy pin connections')
}

function shapeOf({ topology, engine }: Endpoint, { info, masters, replicas }: Observation): string {
  switch (topology) {
    case 'cluster':
      return `a cluster, ${engine}, masters: ${masters}, replicas: ${replicas}`
    case 'cluster-node':
      return `a node of a cluster, ${engine}`
    case 'replica':
      return `a replica of ${info.get('master_host')}:${info.get('master_port')}, ${engine}`
    case 'sentinel':
      return `a master named by Sentinel, ${engine}, replicas: ${replicasOf(info)}`
    case 'replicated':
      return `a master, ${engine}, replicas: ${replicasOf(info)}`
    case 'sentinel-itself':
      return 'a Sentinel, which has no locks'
    case 'single':
      return `a single server, ${engine}`
    case 'unknown':
      return 'not known'
  }
}

/** Describes a failover as this client sees it. */
export function failoverOf(endpoint: Endpoint, { mode, replicas }: Observation, isAcknowledged: boolean): Finding {
  if (endpoint.proxy !== null) return note('the proxy decides which server takes over, and when')
  switch (endpoint.topology) {
    case 'sentinel':
      return ok('clients follow the master that Sentinel promotes, usually within 3 s of the promotion')
    case 'cluster':
      if (replicas === 0) return note(`none: if a master fails, ${UNTIL_IT_IS_BACK}, in its slots`)
      return ok('clients follow the promoted replica, usually within 3 s of the promotion')
    case 'cluster-node':
      return note('not followed: opened as a single server', 'use a configuration with clusterServersConfig (--config)')
    case 'replica':
      return note('a replica refuses writes: no lock is granted unless it is promoted', 'connect to its master')
    case 'sentinel-itself':
    case 'unknown':
      return note('not known')
    default:
      if (mode === 'masterSlave' || mode === 'replicated') {
        return ok(`clients look for the promoted server among the addresses, ${SOON}`)
      }
      return failoverOfAddress(endpoint, isAcknowledged)
  }
}

function failoverOfAddress({ topology, service }: Endpoint, isAcknowledged: boolean): Finding {
  if (topology === 'single' && service === null) return note(`none: if this server fails, ${UNTIL_IT_IS_BACK}`)
  const message =
    `if the address moves to the promoted server, READONLY or a closed connection leads clients there, ${SOON}; if it ` +
    'does not move, no lock is granted until this server is back'
  return isAcknowledged
    ? ok(message)
    : note(message, 'set checkLockSyncedSlaves: true, or a failover may grant a lock twice')
}
