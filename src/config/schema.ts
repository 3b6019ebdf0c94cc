// Every key of Redisson's configuration. What each does is in deployment.ts.
import { ConfigError } from '../errors.js'
import { MIN_LEASE_MS, ownOf } from '../util/validate.js'
import type { NameMapper } from '../wire/names.js'
import { parseAddress } from './address.js'
import {
  anything,
  type Check,
  flag,
  inCode,
  int,
  isJava,
  javaInt,
  listOf,
  object,
  oneOf,
  optionalText,
  secret,
  text,
  wordOf,
} from './checks.js'
import { delayStrategy } from './delay.js'
import { type TlsFiles, tlsFiles } from './tls.js'
import { adviceOn, frameworkKeyAmong, isRemoved } from './unknown-key.js'

/** A Redis user with its password, or only the password of the default user. */
export interface Credentials {
  readonly username?: string | undefined
  readonly password?: string | undefined
}

/** Called before each connection is opened. */
export type CredentialsResolver = (server: {
  readonly host: string
  readonly port: number
}) => Credentials | PromiseLike<Credentials>

/** One key of a configuration. */
interface Key<T> {
  readonly check: Check<T>
  /** Its effect here; for an ignored key, why it has none. */
  readonly effect: string
  readonly isUsed: boolean
  /** Redisson's default: not worth a word in a file that has every key. */
  readonly standard?: string | undefined
  /** 0 and -1 mean nothing here: the default applies. */
  readonly isPositive?: boolean
}

type Keys = Readonly<Record<string, Key<unknown>>>
type Values<K> = { [Name in keyof K]?: K[Name] extends Key<infer T> ? T | undefined : never }

function used<T>(check: Check<T>, effect: string): Key<T> {
  return { check, effect, isUsed: true }
}

/** The same; 0 and -1 stand for the default. */
function positive(effect: string): Key<number> {
  return { check: int(1), effect, isUsed: true, isPositive: true }
}

/**
 * Accepted, so that the file can be shared with Java, and reported once.
 * @param standard  its default in Redisson; of a Java object the simple name of its class
 */
function unused<T>(check: Check<T>, effect: string, standard?: string): Key<T> {
  return { check, effect, isUsed: false, standard }
}

/** Java also takes a list of one, as in files of Redisson 2, and spaces around it. */
const address: Check<string> = (value, path) => {
  const url = text(Array.isArray(value) && value.length === 1 ? value[0] : value, path).trim()
  parseAddress(url, path)
  return url
}

const never = (): boolean => false
const isFunction = (value: unknown): boolean => typeof value === 'function'

const nameMapper = used(
  inCode<NameMapper>(
    (value) => isFunction((value as NameMapper | null)?.map) && isFunction((value as NameMapper).unmap),
    'an object with the functions map and unmap, given in code: connect({ config, nameMapper: { map, unmap } })',
    'DefaultNameMapper',
  ),
  'maps the names of locks and other objects',
)
const credentialsResolver = used(
  inCode<CredentialsResolver>(
    isFunction,
    'a function, given in code: connect({ config, credentialsResolver: async () => ({ username, password }) })',
    'DefaultCredentialsResolver',
  ),
  'called for user and password before each connection is opened',
)
const commandMapper = used(
  inCode<never>(never, 'no value: renamed commands are not supported', 'DefaultCommandMapper'),
  'only the default',
)
const natMapper = used<Readonly<Record<string, unknown>>>((value, path) => {
  if (['DefaultNatMapper', 'HostNatMapper', 'HostPortNatMapper'].some((name) => isJava(value, name))) {
    return object(value, path)
  }
  const allowed =
    '!<org.redisson.config.HostNatMapper> {hostsMap: …} or !<org.redisson.config.HostPortNatMapper> {hostsPortMap: …}, ' +
    'in org.redisson.api before Redisson 4'
  throw new ConfigError(path, (value as { class?: unknown } | null)?.class, allowed)
}, 'maps the addresses by which the servers name each other')

const POOL = 'a single connection carries all commands'
const CHANNELS = 'a single connection carries all channels, in a cluster one per master'
const JAVA = 'it concerns the Java process'
const OTHER_OBJECTS = 'it concerns objects other than locks'
const MASTER_ONLY = 'all commands go to the master'
const SCAN = 'longest delay between searches for the master while there is none, ms'
const DNS = 'host names are resolved whenever a connection is opened'

/** Allowed at the top level (4.x) or in the server section (3.x); the top level takes precedence. */
const SHARED = {
  username: used(optionalText, 'user of Redis'),
  password: used(secret, 'password of Redis'),
  credentialsResolver,
  nameMapper,
  commandMapper,
  sslVerificationMode: used(
    oneOf('STRICT', 'CA_ONLY', 'NONE'),
    'STRICT verifies certificate and host name, CA_ONLY the certificate, NONE nothing',
  ),
  sslTruststore: used(text, 'file with the trusted certificates, PEM'),
  sslTruststorePassword: unused(secret, 'a PEM file of certificates has no password'),
  sslKeystore: used(text, 'file with the client certificate and key, PKCS12 or PEM'),
  sslKeystorePassword: used(secret, 'password of sslKeystore'),
  sslKeystoreType: unused(text, 'the type is detected from the contents of the file'),
  sslProtocols: used(
    listOf(oneOf('TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3'), 1),
    'the lowest and the highest of these versions',
  ),
  sslCiphers: used(listOf(text, 1), 'names as in Java or OpenSSL'),
  sslProvider: unused(text, 'Node provides TLS', 'JDK'),
  sslTrustManagerFactory: used(inCode<never>(never, 'no value: set sslTruststore or tls.ca instead', ''), 'refused'),
  sslKeyManagerFactory: used(inCode<never>(never, 'no value: set sslKeystore or tls.key instead', ''), 'refused'),
  tcpKeepAlive: used(flag, 'SO_KEEPALIVE'),
  tcpKeepAliveIdle: used(int(0), 'seconds without traffic before the first probe'),
  tcpKeepAliveCount: unused(javaInt, 'Node cannot set it', '0'),
  tcpKeepAliveInterval: unused(javaInt, 'Node cannot set it', '0'),
  tcpUserTimeout: unused(javaInt, 'Node cannot set it', '0'),
  tcpNoDelay: used(flag, 'TCP_NODELAY'),
}

const TOP = {
  ...SHARED,
  lockWatchdogTimeout: used(int(MIN_LEASE_MS), 'lockWatchdogTimeoutMs of the client'),
  lockWatchdogBatchSize: used(int(1, 10_000), 'holds renewed by one script call'),
  fairLockWaitTimeout: used(int(1), 'fairLockWaitTimeoutMs of the client'),
  checkLockSyncedSlaves: used(flag, 'option of the same name of the client'),
  slavesSyncTimeout: used(int(1), 'slavesSyncTimeoutMs of the client'),
  protocol: used(oneOf('RESP2', 'RESP3'), 'protocol of ioredis 6'),
  lazyInitialization: used(flag, 'connect() resolves at once, and the first command connects'),
  tls: used<TlsFiles>(tlsFiles, 'Holdfast only: certificates in the form that Node takes'),
  useScriptCache: unused(flag, 'scripts are always sent by their hash', 'true'),
  keepPubSubOrder: unused(flag, 'messages are always handled in order', 'true'),
  valkeyCapabilities: unused(anything, 'no capability of Valkey is needed'),
  codec: unused(
    anything,
    'locks store text; the values of a FasterMultiLock are hashed as with StringCodec',
    'Kryo5Codec',
  ),
  addressResolverGroupFactory: unused(
    anything,
    'host names are resolved by Node',
    'SequentialDnsAddressResolverFactory',
  ),
  threads: unused(javaInt, JAVA, '16'),
  nettyThreads: unused(javaInt, JAVA, '32'),
  transportMode: unused(oneOf('NIO', 'EPOLL', 'KQUEUE', 'IO_URING'), JAVA, 'NIO'),
  executor: unused(anything, JAVA),
  nettyExecutor: unused(anything, JAVA),
  eventLoopGroup: unused(anything, JAVA),
  nettyHook: unused(anything, JAVA, 'DefaultNettyHook'),
  connectionListener: unused(anything, JAVA),
  useThreadClassLoader: unused(flag, JAVA, 'true'),
  referenceEnabled: unused(flag, OTHER_OBJECTS, 'true'),
  reliableTopicWatchdogTimeout: unused(javaInt, OTHER_OBJECTS, '600000'),
  minCleanUpDelay: unused(javaInt, OTHER_OBJECTS, '5'),
  maxCleanUpDelay: unused(javaInt, OTHER_OBJECTS, '1800'),
  cleanUpKeysAmount: unused(javaInt, OTHER_OBJECTS, '100'),
}

const BASE = {
  ...SHARED,
  keepAlive: used(flag, 'tcpKeepAlive'),
  sslEnableEndpointIdentification: used(flag, 'sslVerificationMode: true is STRICT, false is NONE'),
  connectTimeout: positive('ms until an attempt to connect fails, and connect() itself'),
  timeout: positive('commandTimeoutMs of the client'),
  clientName: used(optionalText, 'CLIENT SETNAME'),
  retryAttempts: used(int(-1), 'reconnects that a command waits for, within timeout'),
  retryDelay: used(delayStrategy, 'in a cluster the delay after CLUSTERDOWN and a failover'),
  retryInterval: used(int(0), 'retryDelay as a constant, ms'),
  reconnectionDelay: used(delayStrategy, 'delay before a reconnect'),
  idleConnectionTimeout: unused(javaInt, POOL, '10000'),
  pingConnectionInterval: used(int(-1), 'ms without traffic before a connection is checked with PING; 0: never'),
  subscriptionTimeout: unused(javaInt, 'a waiter polls until it is subscribed', '7500'),
  subscriptionsPerConnection: unused(javaInt, CHANNELS, '5'),
  subscriptionConnectionMinimumIdleSize: unused(javaInt, CHANNELS, '1'),
  subscriptionConnectionPoolSize: unused(javaInt, CHANNELS, '50'),
  dnsMonitoringInterval: unused(javaInt, DNS, '5000'),
  dnsMonitoringTimes: unused(javaInt, DNS, '1'),
}

const REPLICATED = {
  readMode: unused(oneOf('SLAVE', 'MASTER', 'MASTER_SLAVE'), MASTER_ONLY, 'SLAVE'),
  subscriptionMode: unused(oneOf('SLAVE', 'MASTER'), 'channels are subscribed to at the master', 'MASTER'),
  loadBalancer: unused(anything, MASTER_ONLY, 'RoundRobinLoadBalancer'),
  masterConnectionMinimumIdleSize: unused(javaInt, POOL, '24'),
  masterConnectionPoolSize: unused(javaInt, POOL, '64'),
  slaveConnectionMinimumIdleSize: unused(javaInt, MASTER_ONLY, '24'),
  slaveConnectionPoolSize: unused(javaInt, MASTER_ONLY, '64'),
  failedSlaveReconnectionInterval: unused(javaInt, MASTER_ONLY, '3000'),
  failedSlaveNodeDetector: unused(anything, MASTER_ONLY, 'FailedConnectionDetector'),
  failedSlaveCheckInterval: unused(javaInt, MASTER_ONLY, '180000'),
  fallbackLoadingToMaster: unused(flag, MASTER_ONLY, 'true'),
}

const database = used(int(0), 'SELECT')

/** The server sections, in the order of their precedence. */
const SECTIONS = {
  masterSlaveServersConfig: {
    ...BASE,
    ...REPLICATED,
    database,
    masterAddress: used(address, 'one of the servers: the master is the one whose role is master'),
    slaveAddresses: used(listOf(address, 0), 'the other servers'),
  },
  singleServerConfig: {
    ...BASE,
    database,
    address: used(address, 'the server'),
    connectionMinimumIdleSize: unused(javaInt, POOL, '24'),
    connectionPoolSize: unused(javaInt, POOL, '64'),
  },
  sentinelServersConfig: {
    ...BASE,
    ...REPLICATED,
    database,
    natMapper,
    sentinelAddresses: used(listOf(address, 1), 'the Sentinels to ask'),
    masterName: used(text, 'the name of the master'),
    sentinelUsername: used(optionalText, 'user of the Sentinels, if different'),
    sentinelPassword: used(secret, 'password of the Sentinels, if different'),
    scanInterval: used(int(1), SCAN),
    sentinelsDiscovery: used(flag, 'whether to ask further Sentinels that others name'),
    checkSentinelsList: unused(flag, 'one Sentinel that replies is enough', 'true'),
    checkSlaveStatusWithSyncing: unused(flag, MASTER_ONLY, 'true'),
  },
  clusterServersConfig: {
    ...BASE,
    ...REPLICATED,
    database,
    natMapper,
    nodeAddresses: used(listOf(address, 1), 'the seed nodes'),
    scanInterval: used(int(1), 'ms between refreshes of the slot map'),
    checkSlotsCoverage: used(flag, 'connect() fails if a slot is not served'),
    checkMasterLinkStatus: unused(flag, MASTER_ONLY, 'false'),
    shardedSubscriptionMode: unused(
      oneOf('AUTO', 'ON', 'OFF', 'AUTO'),
      'both kinds of channels are subscribed to and published on',
    ),
  },
  replicatedServersConfig: {
    ...BASE,
    ...REPLICATED,
    database,
    natMapper: unused(anything, 'addresses are used as they are in the file'),
    nodeAddresses: used(listOf(address, 1), 'all servers: the master is the one whose role is master'),
    scanInterval: used(int(1), SCAN),
    monitorIPChanges: unused(flag, DNS, 'false'),
  },
}

export type Section = keyof typeof SECTIONS

/** The contents of a configuration file of Redisson. Only one server section is required. */
export type RedissonConfig = Values<typeof TOP> & { [S in Section]?: Values<(typeof SECTIONS)[S]> | undefined }

/** A key that is accepted but has no effect. */
export interface IgnoredKey {
  /** As in the file: `singleServerConfig.connectionPoolSize`. */
  readonly path: string
  readonly reason: string
}

type AnySection = (typeof SECTIONS)[Section]
type UnionToIntersection<U> = (U extends unknown ? (one: U) => void : never) extends (all: infer I) => void ? I : never

export interface CheckedConfig {
  readonly section: Section
  readonly top: Values<typeof TOP>
  /** The keys of the server section. */
  readonly server: Values<UnionToIntersection<AnySection>>
  readonly ignored: readonly IgnoredKey[]
}

/** @internal Every known key, by section; '' is the top level. */
export const KEYS: Readonly<Record<string, Keys>> = { '': TOP, ...SECTIONS }

/** Whether the value at a path, such as `singleServerConfig.address`, has an effect. */
export function isUsed(path: string): boolean {
  const [first = '', second = ''] = path.split(/[.[]/)
  const [section, name] = Object.hasOwn(SECTIONS, first) ? [first, second] : ['', first]
  const keys = KEYS[section] ?? {}
  return Object.hasOwn(keys, name) && keys[name]?.isUsed === true
}

const POOLS = [
  ['connectionMinimumIdleSize', 'connectionPoolSize', 24, 64],
  ['masterConnectionMinimumIdleSize', 'masterConnectionPoolSize', 24, 64],
  ['slaveConnectionMinimumIdleSize', 'slaveConnectionPoolSize', 24, 64],
  ['subscriptionConnectionMinimumIdleSize', 'subscriptionConnectionPoolSize', 1, 50],
] as const

const SECTION_NAMES = Object.keys(SECTIONS) as Section[]

/** @throws {ConfigError} the first error, with its path as in the file */
export function checkConfig(config: unknown): CheckedConfig {
  const whole = ownOf(object(config, 'config'))
  const present = SECTION_NAMES.filter((name) => whole[name] !== undefined && whole[name] !== null)
  const [section, ...losers] = present
  const rest = Object.fromEntries(Object.entries(whole).filter(([key]) => !SECTION_NAMES.includes(key as Section)))
  const framework = frameworkKeyAmong(Object.keys(rest))
  if (framework !== undefined) {
    throw new ConfigError(framework, undefined, adviceOn(framework, '', rest[framework], KEYS))
  }
  const ignored: IgnoredKey[] = []
  const top = checkKeys(TOP, rest, '', ignored) as CheckedConfig['top']
  if (section === undefined)
    throw new ConfigError('config', undefined, `one of the sections ${SECTION_NAMES.join(', ')}`)
  const server = checkKeys(
    SECTIONS[section],
    object(whole[section], section),
    section,
    ignored,
  ) as CheckedConfig['server']
  for (const loser of losers) ignored.push({ path: loser, reason: `${section} takes precedence` })
  checkPools(server as Readonly<Record<string, unknown>>, section)
  return { section, top, server, ignored }
}

function checkKeys(keys: Keys, values: Readonly<Record<string, unknown>>, at: string, ignored: IgnoredKey[]): object {
  const checked = ownOf<Record<string, unknown>>({})
  for (const [name, value] of Object.entries(values)) {
    const path = at === '' ? name : `${at}.${name}`
    const key = Object.hasOwn(keys, name) ? keys[name] : undefined
    if (!key && isRemoved(name)) ignored.push({ path, reason: 'Redisson removed it before 3.12' })
    else if (!key) throw new ConfigError(path, undefined, adviceOn(name, at, value, KEYS))
    else if (key.isPositive && /^(0|-1)$/.test(wordOf(value))) ignored.push({ path, reason: 'the default applies' })
    else if (value !== null && value !== undefined) {
      checked[name] = key.check(value, path)
      if (!key.isUsed && !isStandard(value, key.standard)) ignored.push({ path, reason: key.effect })
    }
  }
  return checked
}

function isStandard(value: unknown, standard: string | undefined): boolean {
  return standard !== undefined && (isJava(value, standard) || wordOf(value).toLowerCase() === standard.toLowerCase())
}

/** An error as in Redisson, although pool sizes have no effect here. */
function checkPools(server: Readonly<Record<string, unknown>>, section: Section): void {
  for (const [idle, pool, defaultIdle, defaultPool] of POOLS) {
    const least = (server[idle] as number | undefined) ?? defaultIdle
    const most = (server[pool] as number | undefined) ?? defaultPool
    if (server[idle] === undefined && server[pool] === undefined) continue
    if (most < least) throw new ConfigError(`${section}.${pool}`, most, `at least ${idle} (${least})`)
  }
}
