// Opens ioredis for a configuration.
import type { Cluster, ClusterOptions, Redis, RedisOptions } from 'ioredis'
import { messageOf, notImported } from '../../errors.js'
import { clearTimeout, setTimeout } from '../../util/real-time.js'
import { withoutSecrets } from '../../util/secrets.js'
import { addressesUnknown, lacksInfo } from '../../util/unusual-servers.js'
import { SLOT_COUNT } from '../../wire/slots.js'
import type { Address } from '../address.js'
import type { Deployment } from '../deployment.js'
import { ioredisArguments } from '../redis-url.js'
import { serverName } from '../tls.js'
import { type Connecting, listConnector, nodeConnector, sentinelConnector, singleConnector } from './connectors.js'
import { SentinelDiscovery } from './sentinel-discovery.js'

type Ioredis = Omit<typeof import('ioredis'), 'default'>
type Opened = Redis | Cluster
type Options = Omit<RedisOptions, 'replyMapping'>

/** Commands end by our own timeout; this only limits how many accumulate while Redis is unreachable. */
const COMMAND_RETRIES = 2
/** Delays between reconnects, ms. */
const URL_RETRY_MS = { step: 50, max: 1_000 }
const CONNECT_TIMEOUT_MS = 10_000
/** How long one node of a cluster has to reply to CLUSTER SLOTS at most, ms. */
const SLOTS_TIMEOUT_MS = 2_000

/** Opens a client for a URL that was checked. @throws as `openDeployment` */
export async function openUrl(url: string, disconnectTimeout: number, isLazy = false): Promise<Opened> {
  const { Redis } = await importIoredis('url')
  const shared = { isUp: isLazy }
  const [place, found] = ioredisArguments(url)
  const redis = new Redis(place, {
    ...found,
    lazyConnect: true,
    // Fail at once if Redis cannot be reached at first; after that, reconnect forever.
    retryStrategy: (attempt) => (shared.isUp ? Math.min(attempt * URL_RETRY_MS.step, URL_RETRY_MS.max) : null),
    maxRetriesPerRequest: COMMAND_RETRIES,
    disconnectTimeout,
    reconnectOnError,
  })
  return isLazy ? lazily(redis) : await started(redis, shared, CONNECT_TIMEOUT_MS)
}

/**
 * Opens an ioredis client of our own for a configuration. Resolves when it is ready, with `lazyInitialization` at once.
 * @throws the error of the Redis client, without secrets: Redis cannot be reached, rejects the password, is not a
 *   master …
 */
export async function openDeployment(deployment: Deployment, disconnectTimeout: number): Promise<Opened> {
  const ioredis = await importIoredis('config')
  const shared: Connecting = { deployment, isUp: deployment.isLazy }
  const client =
    deployment.mode === 'cluster'
      ? cluster(ioredis, shared, disconnectTimeout)
      : new ioredis.Redis(redisOptions(ioredis, shared, disconnectTimeout))
  if (deployment.isLazy) return lazily(client)
  const opened = await started(client, shared, deployment.connectTimeoutMs, deployment)
  if (deployment.mode === 'cluster' && deployment.checksSlotsCoverage) checkCoverage(opened as Cluster)
  return opened
}

/** The first command connects, and fails with what fails then: without a listener ioredis prints it as well. */
function lazily(client: Opened): Opened {
  return client.on('error', () => {})
}

/** A demoted server rejects writes with READONLY: the next connection finds its successor. */
function reconnectOnError({ message }: Error): boolean {
  return /\bREADONLY\b/.test(message)
}

function commonOptions(deployment: Deployment, disconnectTimeout: number): Options {
  const { clientName, connectTimeoutMs, keepAliveMs, protocol, tls } = deployment
  return {
    connectTimeout: connectTimeoutMs,
    maxRetriesPerRequest: deployment.retryAttempts,
    disconnectTimeout,
    reconnectOnError,
    noDelay: deployment.isNoDelay,
    // Not undefined, for which ioredis uses its default.
    keepAlive: (keepAliveMs ?? null) as number,
    ...(clientName === undefined ? {} : { connectionName: clientName }),
    ...(protocol === undefined ? {} : { protocol }),
    ...(tls ? { tls } : {}),
  }
}

function redisOptions(ioredis: Ioredis, shared: Connecting, disconnectTimeout: number): Options {
  const { deployment } = shared
  const { database: db, mode, reconnectionDelay, scanIntervalMs } = deployment
  // Where another server may have become the master, the search is repeated at least this often.
  const longestDelayMs = mode === 'single' ? Number.POSITIVE_INFINITY : scanIntervalMs
  return {
    ...commonOptions(deployment, disconnectTimeout),
    db,
    lazyConnect: true,
    retryStrategy: (attempt) => (shared.isUp ? Math.min(reconnectionDelay(attempt - 1), longestDelayMs) : null),
    ...serverOptions(ioredis, shared, disconnectTimeout),
  }
}

function serverOptions(ioredis: Ioredis, shared: Connecting, disconnectTimeout: number): Options {
  const { addresses, credentials, mode, tls } = shared.deployment
  if (mode === 'sentinel') return sentinelOptions(ioredis, shared, disconnectTimeout)
  if (mode !== 'single') return { Connector: listConnector(ioredis, shared) }
  if (credentials) return { Connector: singleConnector(ioredis, shared) }
  const { host, port, socket } = addresses[0] as Address
  return {
    ...(socket === undefined ? { host, port } : { path: socket }),
    ...(tls ? { tls: { ...serverName(host), ...tls } } : {}),
    ...userOf(shared.deployment),
  }
}

/** The connector does everything; the other options are read by the adapter. */
function sentinelOptions(ioredis: Ioredis, shared: Connecting, disconnectTimeout: number): Options {
  const { deployment } = shared
  const { addresses, natMap, sentinel, tls } = deployment
  const sentinels = new SentinelDiscovery(ioredis, deployment, disconnectTimeout)
  return {
    sentinels: addresses.map(({ host, port }) => ({ host, port })),
    name: sentinel.masterName,
    updateSentinels: sentinel.isDiscovering,
    ...(sentinel.username === undefined ? {} : { sentinelUsername: sentinel.username }),
    ...(sentinel.password === undefined ? {} : { sentinelPassword: sentinel.password }),
    ...(tls ? { enableTLSForSentinelMode: true, sentinelTLS: tls } : {}),
    ...(natMap ? { natMap } : {}),
    Connector: sentinelConnector(ioredis, shared, sentinels),
  }
}

function cluster(ioredis: Ioredis, shared: Connecting, disconnectTimeout: number): Cluster {
  const { deployment } = shared
  const { addresses, credentials, database, natMap, reconnectionDelay, retryDelay, tls } = deployment
  const delay = Math.round(retryDelay(0))
  const options: Omit<ClusterOptions, 'redisOptions'> & { redisOptions: Options } = {
    lazyConnect: true,
    clusterRetryStrategy: (attempt) => (shared.isUp ? reconnectionDelay(attempt - 1) : null),
    // Nodes are asked one after the other: those that are silent must leave time for the others.
    slotsRefreshTimeout: Math.min(deployment.connectTimeoutMs / 4, SLOTS_TIMEOUT_MS),
    // It asks a random node without a time limit: a frozen node would block every command.
    enableReadyCheck: false,
    retryDelayOnFailover: delay,
    retryDelayOnClusterDown: delay,
    redisOptions: {
      ...withoutReconnect(commonOptions(deployment, disconnectTimeout)),
      ...(credentials || database > 0 ? { Connector: nodeConnector(ioredis, shared) } : signIn(deployment)),
    },
    ...(natMap ? { natMap } : {}),
    // ioredis would resolve the names itself, and then check their certificates against IP addresses.
    ...(tls ? { dnsLookup: (host, callback) => callback(null, host) } : {}),
  }
  const opened = new ioredis.Cluster(
    addresses.map(({ host, port }) => ({ host, port })),
    options,
  )
  // Set before the node connects.
  if (tls) opened.on('+node', ({ options }: Redis) => (options.tls = { ...serverName(options.host ?? ''), ...tls }))
  return opened
}

/** A cluster finds the new master by itself. */
function withoutReconnect({ reconnectOnError: _, ...options }: Options): Options {
  return options
}

/** For a single server: the user in its URL takes precedence. */
function userOf(deployment: Deployment): Options {
  const [first] = deployment.addresses
  return signIn(first?.password === undefined ? deployment : first)
}

function signIn({ username, password }: { username?: string | undefined; password?: string | undefined }): Options {
  return {
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
  }
}

/** Connects, and ends the client if that fails or takes longer than `limitMs`. */
async function started(
  client: Opened,
  shared: { isUp: boolean },
  limitMs: number,
  deployment?: Deployment,
): Promise<Opened> {
  let cause: unknown
  let hint: unknown
  // Without a listener ioredis prints every failed reconnect to the console.
  client.on('error', (error) => {
    if (!shared.isUp) cause ??= error
  })
  // One of several nodes: another one may work.
  const onHint = (error: unknown): void => {
    if (!shared.isUp) hint ??= error
  }
  client.on('node error', onHint)
  // ioredis waits forever for a server that accepts connections but never replies.
  const timer = setTimeout(() => {
    cause ??= new Error(`no reply within ${limitMs} ms`)
    client.disconnect()
  }, limitMs)
  try {
    await client.connect().catch(async (error) => {
      if (!lacksInfo(hint ?? cause ?? error)) throw error
      hint = undefined
      cause = undefined
      Object.assign(client.options, { enableReadyCheck: false })
      await client.connect()
    })
    // ioredis rejects only with "Connection is closed"; the cause (refused, WRONGPASS, a certificate) is in its error
    // event. And if the database does not exist, it continues with another one.
    if (cause && !client.isCluster) throw cause
    shared.isUp = true
    return client
  } catch (error) {
    // If ended twice, ioredis would leave a timer that keeps the process alive for 2 s.
    if (client.status !== 'close' && client.status !== 'end') client.disconnect()
    const found = client.isCluster ? (hint ?? cause ?? error) : (cause ?? hint ?? error)
    throw withoutSecrets(explained(found, client, deployment), ...passwordsOf(client))
  } finally {
    clearTimeout(timer)
  }
}

const CLOSED = /^Connection is closed\.$|ECONNRESET/
/** A node of a cluster that does not reply in time is a `timeout`. */
const SILENT = /^no reply within|^timeout$/
const NO_TLS = /wrong version number|packet length too long|before secure TLS connection was established/

/** An error of ioredis, with what it does not say: the addresses, or that only one side uses TLS. */
function explained(error: unknown, { options }: Opened, deployment: Deployment | undefined): unknown {
  if (!(error instanceof Error)) return error
  const { host, port, path, tls } = options as RedisOptions
  const addresses = deployment?.addresses ?? [{ host, port, socket: path }]
  const where = addresses.map((one) => one.socket ?? `${one.host}:${one.port}`).join(', ')
  const wrapped = (message: string): Error => Object.assign(new Error(message, { cause: error }), codeOf(error))
  const message = messageOf(error)
  const [isClosed, isSilent] = [CLOSED.test(message), SILENT.test(message)]
  if (deployment !== undefined && deployment.mode !== 'single') {
    if (isSilent)
      return wrapped(`cannot connect through ${where}: ${message === 'timeout' ? 'no reply in time' : message}`)
    return isClosed ? wrapped(`cannot reach ${where}`) : error
  }
  if (tls && NO_TLS.test(message)) {
    return wrapped(
      `${where} does not use TLS (${message}): write redis:// instead of rediss://, or connect to its TLS port`,
    )
  }
  if (isSilent) {
    // Redis waits for the rest of what it takes for a command.
    return wrapped(`${where}: ${message}${tls ? '. If it does not use TLS, write redis:// instead of rediss://' : ''}`)
  }
  if (isClosed) {
    const hint = tls ? '' : '. If it uses TLS, write rediss:// instead of redis://'
    return wrapped(`${where} closed the connection before it was ready${hint}`)
  }
  return error.message === '' ? wrapped(message) : error
}

function codeOf(error: Error): object {
  const { code } = error as { code?: unknown }
  return code === undefined ? {} : { code }
}

/** The passwords that no error may contain. */
function passwordsOf({ options }: Opened): (string | undefined)[] {
  const { password, sentinelPassword, redisOptions } = options as RedisOptions & ClusterOptions
  return [password, sentinelPassword, redisOptions?.password].map((one) => one ?? undefined)
}

/** Reads the slots that ioredis has just fetched. @throws {Error} a slot is not served */
function checkCoverage(client: Cluster): void {
  const { slots } = client as unknown as { slots: readonly (readonly string[] | undefined)[] }
  const served = slots.filter((servers) => servers !== undefined && servers.length > 0).length
  if (served === SLOT_COUNT) return
  client.disconnect()
  if (slots.some((servers) => servers?.length === 0)) throw addressesUnknown()
  throw new Error(`only ${served} of ${SLOT_COUNT} slots of the cluster are served`)
}

async function importIoredis(path: string): Promise<Ioredis> {
  try {
    const ioredis = await import('ioredis')
    // Some bundlers have all of it in `default`.
    return ioredis.Redis === undefined ? (ioredis.default as unknown as Ioredis) : ioredis
  } catch (cause) {
    throw notImported(path, 'ioredis', cause)
  }
}
