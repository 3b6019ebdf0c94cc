import type { Cluster, ClusterOptions, Redis, RedisOptions } from 'ioredis'
import { ConfigError } from '../errors.js'
import { withoutSecrets } from '../util/secrets.js'
import type { Address } from './address.js'
import { type Connecting, listConnector, nodeConnector, sentinelConnector, singleConnector } from './connectors.js'
import type { Deployment } from './deployment.js'
import { Sentinels } from './sentinels.js'
import { serverName, tlsOfUrl } from './tls.js'

type Ioredis = Omit<typeof import('ioredis'), 'default'>
type Opened = Redis | Cluster
type Options = Omit<RedisOptions, 'replyMapping'>

/** Commands end by our own time-out; this only bounds what piles up while Redis is away. */
const COMMAND_RETRIES = 2
/** Of ioredis' reconnects, ms. */
const URL_RETRY_MS = { step: 50, most: 1_000 }
const CONNECT_TIMEOUT_MS = 10_000
const SLOTS = 16_384
/** Of one server of a cluster that is asked for its slots, at most. */
const SLOTS_TIMEOUT_MS = 2_000

/** Opens a client for a URL that was checked. @throws as `openDeployment` */
export async function openUrl(url: string, disconnectTimeout: number): Promise<Opened> {
  const { Redis } = await importIoredis('url')
  const shared = { isUp: false }
  const redis = new Redis(url, {
    ...tlsOfUrl(url),
    lazyConnect: true,
    // Fail at once when Redis cannot be reached at the start; come back by ourselves ever after.
    retryStrategy: (attempt) => (shared.isUp ? Math.min(attempt * URL_RETRY_MS.step, URL_RETRY_MS.most) : null),
    maxRetriesPerRequest: COMMAND_RETRIES,
    disconnectTimeout,
    reconnectOnError,
  })
  return await started(redis, shared, CONNECT_TIMEOUT_MS)
}

/**
 * Opens an ioredis client of our own for a configuration; ready when it is answered, unless that is to come later.
 * @throws what the Redis client says, without secrets: it cannot be reached, refuses the password, is no master …
 */
export async function openDeployment(deployment: Deployment, disconnectTimeout: number): Promise<Opened> {
  const ioredis = await importIoredis('config')
  const shared: Connecting = { deployment, isUp: deployment.isLazy }
  const client =
    deployment.mode === 'cluster'
      ? cluster(ioredis, shared, disconnectTimeout)
      : new ioredis.Redis(redisOptions(ioredis, shared, disconnectTimeout))
  if (deployment.isLazy) {
    client.on('error', () => {})
    return client
  }
  const opened = await started(client, shared, deployment.connectTimeoutMs, nobodyOf(deployment))
  if (deployment.mode === 'cluster' && deployment.checksSlotsCoverage) checkCoverage(opened as Cluster)
  return opened
}

/** A server that was demoted says so when it is written to: the next connection finds its successor. */
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
    // Null, as undefined would be its default.
    keepAlive: (keepAliveMs ?? null) as number,
    ...(clientName === undefined ? {} : { connectionName: clientName }),
    ...(protocol === undefined ? {} : { protocol }),
    ...(tls ? { tls } : {}),
  }
}

function redisOptions(ioredis: Ioredis, shared: Connecting, disconnectTimeout: number): Options {
  const { deployment } = shared
  const { database: db, mode, reconnectionDelay, scanIntervalMs } = deployment
  // Where the master may be another one by now, it is looked for at least that often.
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

/** The connector does it all; the rest is what an adapter may look at. */
function sentinelOptions(ioredis: Ioredis, shared: Connecting, disconnectTimeout: number): Options {
  const { deployment } = shared
  const { addresses, natMap, sentinel, tls } = deployment
  const sentinels = new Sentinels(ioredis, deployment, disconnectTimeout)
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
  const { addresses, credentials, natMap, reconnectionDelay, retryDelay, tls } = deployment
  const delay = (attempt: number): number => Math.round(retryDelay(attempt))
  const options: Omit<ClusterOptions, 'redisOptions'> & { redisOptions: Options } = {
    lazyConnect: true,
    clusterRetryStrategy: (attempt) => (shared.isUp ? reconnectionDelay(attempt - 1) : null),
    // One server after the other is asked: those that say nothing must leave time for the others.
    slotsRefreshTimeout: Math.min(deployment.connectTimeoutMs / 4, SLOTS_TIMEOUT_MS),
    // It asks one server at random, without a time limit: a frozen one would hold up every command.
    enableReadyCheck: false,
    retryDelayOnFailover: delay(0),
    retryDelayOnClusterDown: delay(0),
    retryDelayOnTryAgain: delay(0),
    redisOptions: {
      ...withoutReconnect(commonOptions(deployment, disconnectTimeout)),
      ...(credentials ? { Connector: nodeConnector(ioredis, shared) } : signIn(deployment)),
    },
    ...(natMap ? { natMap } : {}),
    // ioredis would look up the addresses itself, and then check the certificates of names against IP addresses.
    ...(tls ? { dnsLookup: (host, callback) => callback(null, host) } : {}),
  }
  const opened = new ioredis.Cluster(
    addresses.map(({ host, port }) => ({ host, port })),
    options,
  )
  // Before it connects.
  if (tls) opened.on('+node', ({ options }: Redis) => (options.tls = { ...serverName(options.host ?? ''), ...tls }))
  return opened
}

/** A cluster finds the new master by itself. */
function withoutReconnect({ reconnectOnError: _, ...options }: Options): Options {
  return options
}

/** Of the one server: what its URL says goes first. */
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

/** Connects, and ends the client if that does not work within `limitMs`. */
async function started(client: Opened, shared: { isUp: boolean }, limitMs: number, nobody?: string): Promise<Opened> {
  let cause: unknown
  let hint: unknown
  // Without a listener ioredis prints every failed reconnect to the console.
  client.on('error', (error) => {
    if (!shared.isUp) cause ??= error
  })
  // One of several: another one may do.
  const onHint = (error: unknown): void => {
    if (!shared.isUp) hint ??= error
  }
  client.on('node error', onHint)
  // A server that accepts connections and says nothing keeps ioredis waiting for ever.
  const timer = setTimeout(() => {
    cause ??= new Error(`no answer within ${limitMs} ms`)
    client.disconnect()
  }, limitMs)
  try {
    await client.connect()
    // It says only "Connection is closed"; what happened (refused, WRONGPASS, a certificate) is in its error event. And it
    // goes on after a database that does not exist, with another one.
    if (cause && !client.isCluster) throw cause
    shared.isUp = true
    return client
  } catch (error) {
    // Ended twice, ioredis would leave a timer that keeps the process for 2 s.
    if (client.status !== 'close' && client.status !== 'end') client.disconnect()
    const told = client.isCluster ? (hint ?? cause ?? error) : (cause ?? hint ?? error)
    const shown = nobody !== undefined && isMere(told) ? new Error(nobody, { cause: told }) : told
    throw withoutSecrets(shown, ...passwordsOf(client))
  } finally {
    clearTimeout(timer)
  }
}

/** What no error may repeat. */
function passwordsOf({ options }: Opened): (string | undefined)[] {
  const { password, sentinelPassword, redisOptions } = options as RedisOptions & ClusterOptions
  return [password, sentinelPassword, redisOptions?.password].map((one) => one ?? undefined)
}

/** Whether ioredis keeps to itself what happened. */
function isMere(error: unknown): boolean {
  return error instanceof Error && error.message === 'Connection is closed.'
}

function nobodyOf({ addresses }: Deployment): string {
  return `cannot reach ${addresses.map(({ host, port, socket }) => socket ?? `${host}:${port}`).join(', ')}`
}

/** By the servers of each slot, which ioredis has just asked for. @throws a slot is served by nobody */
function checkCoverage(client: Cluster): void {
  const { slots } = client as unknown as { slots: readonly (readonly string[] | undefined)[] }
  const served = slots.filter((servers) => servers !== undefined && servers.length > 0).length
  if (served === SLOTS) return
  client.disconnect()
  throw new Error(`only ${served} of ${SLOTS} slots of the cluster are served`)
}

async function importIoredis(path: string): Promise<Ioredis> {
  try {
    return await import('ioredis')
  } catch (cause) {
    throw new ConfigError(path, undefined, 'the package ioredis to be installed (npm install ioredis)', { cause })
  }
}
