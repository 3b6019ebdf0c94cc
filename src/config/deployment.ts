// The meaning of a configuration: servers, and options of the client such as lockWatchdogTimeoutMs.
import type { ConnectionOptions } from 'node:tls'
import type { ClientOptions } from '../client-options.js'
import { ConfigError } from '../errors.js'
import type { NameMapper } from '../wire/names.js'
import { type Address, parseAddress, parseHostPort } from './address.js'
import { isJava, text } from './checks.js'
import { clientOptionsOf } from './client-options.js'
import { constantDelay, type Delay, delayOf, equalJitter } from './delay.js'
import {
  type CheckedConfig,
  type CredentialsResolver,
  checkConfig,
  type IgnoredKey,
  KEYS,
  type RedissonConfig,
  type Section,
} from './schema.js'
import { type TlsFiles, tlsOptions } from './tls.js'

export type Mode = 'single' | 'masterSlave' | 'sentinel' | 'cluster' | 'replicated'

/** A checked configuration, in our terms and with all defaults: what to open, and how. */
export interface Deployment {
  readonly mode: Mode
  /** At least one: the server, all servers, the Sentinels, or the seed nodes of a cluster. */
  readonly addresses: readonly Address[]
  readonly credentials: CredentialsResolver | undefined
  readonly username: string | undefined
  readonly password: string | undefined
  readonly database: number
  /** undefined: no TLS. */
  readonly tls: ConnectionOptions | undefined
  readonly clientName: string | undefined
  readonly protocol: 2 | 3 | undefined
  readonly connectTimeoutMs: number
  readonly isLazy: boolean
  readonly retryAttempts: number
  readonly retryDelay: Delay
  readonly reconnectionDelay: Delay
  /** ms without traffic before the first TCP keep-alive probe; undefined: no probes. */
  readonly keepAliveMs: number | undefined
  readonly isNoDelay: boolean
  /** ms without traffic before a connection is checked with PING; 0: never. */
  readonly pingIntervalMs: number
  /** In a cluster ms between refreshes of its slots, elsewhere the longest delay between searches for the master. */
  readonly scanIntervalMs: number
  readonly natMap: ((hostPort: string) => { host: string; port: number } | null) | undefined
  readonly sentinel: {
    readonly masterName: string
    readonly username: string | undefined
    readonly password: string | undefined
    readonly isDiscovering: boolean
  }
  readonly checksSlotsCoverage: boolean
  /** The options of the client rather than of the connection. */
  readonly options: ClientOptions
  readonly ignored: readonly IgnoredKey[]
}

/** Values that can only be given in code; in a file they are Java classes. */
export interface ConfigOverrides {
  nameMapper?: NameMapper | undefined
  credentialsResolver?: CredentialsResolver | undefined
  /** Certificates as Node takes them, in place of a Java trust store or key store in the file. */
  tls?: TlsFiles | undefined
}

const MODES: Record<Section, Mode> = {
  masterSlaveServersConfig: 'masterSlave',
  singleServerConfig: 'single',
  sentinelServersConfig: 'sentinel',
  clusterServersConfig: 'cluster',
  replicatedServersConfig: 'replicated',
}

/**
 * Replaces Java classes in a configuration by values given in code; null: by none.
 * @returns a copy
 * @internal
 */
export function overridden(
  config: RedissonConfig,
  { nameMapper, credentialsResolver, tls }: { readonly [Name in keyof ConfigOverrides]: ConfigOverrides[Name] | null },
): RedissonConfig {
  const overrides = Object.entries({ nameMapper, credentialsResolver, tls }).filter(([, value]) => value !== undefined)
  if (overrides.length === 0 || typeof config !== 'object' || config === null) return config
  const result: Record<string, unknown> = { ...config }
  for (const section of Object.keys(MODES)) {
    const server = result[section]
    if (typeof server !== 'object' || server === null) continue
    result[section] = Object.fromEntries(
      Object.entries(server).filter(([key]) => !overrides.some(([name]) => name === key)),
    )
  }
  return { ...result, ...Object.fromEntries(overrides) } as RedissonConfig
}

/**
 * Checks a configuration and translates it into our terms.
 * @throws {ConfigError} the first error, with its path as in the file
 */
export function describe(config: RedissonConfig): Deployment {
  const checked = checkConfig(config)
  const { section, top, server } = checked
  const mode = MODES[section]
  const get = sharedValuesOf(checked)
  const addresses = addressesOf(checked)
  const ofUrl = addresses.find(({ password }) => password !== undefined)
  // Credentials in a URL belong to that server. A cluster and Sentinel name further servers, which have no URL.
  const own = mode === 'cluster' ? ofUrl : undefined
  const isKeptAlive = top.tcpKeepAlive ?? server.tcpKeepAlive ?? server.keepAlive ?? true
  return {
    mode,
    addresses,
    credentials: get('credentialsResolver') ?? undefined,
    username: own?.username ?? get('username'),
    password: own?.password ?? get('password'),
    database: server.database ?? 0,
    tls: tlsOf(checked, addresses),
    clientName: server.clientName,
    protocol: top.protocol === undefined ? undefined : top.protocol === 'RESP3' ? 3 : 2,
    connectTimeoutMs: server.connectTimeout ?? 10_000,
    isLazy: top.lazyInitialization ?? false,
    retryAttempts: attemptsOf(server.retryAttempts),
    retryDelay: retryDelayOf(checked),
    reconnectionDelay: server.reconnectionDelay
      ? delayOf(server.reconnectionDelay, `${section}.reconnectionDelay`)
      : // At most 10 s in Redisson, which meanwhile opens other connections of its pool.
        equalJitter(100, 2_000),
    keepAliveMs: isKeptAlive ? (get('tcpKeepAliveIdle') ?? 0) * 1000 : undefined,
    isNoDelay: get('tcpNoDelay') ?? true,
    pingIntervalMs: Math.max(0, server.pingConnectionInterval ?? 30_000),
    scanIntervalMs: server.scanInterval ?? (mode === 'cluster' ? 5_000 : 1_000),
    natMap: natMapOf(server.natMapper, `${section}.natMapper`),
    sentinel: {
      masterName: mode === 'sentinel' ? text(server.masterName, `${section}.masterName`) : '',
      username: server.sentinelUsername ?? ofUrl?.username,
      password: server.sentinelPassword ?? ofUrl?.password,
      isDiscovering: server.sentinelsDiscovery ?? true,
    },
    checksSlotsCoverage: server.checkSlotsCoverage ?? true,
    options: clientOptionsOf(checked, mode === 'single', sharedValuesOf(checked)('nameMapper') ?? undefined),
    ignored: checked.ignored,
  }
}

/** More than these never end within a timeout, nor do -1 in Redisson. */
const MAX_ATTEMPTS = 1_000

function attemptsOf(attempts = 4): number {
  return attempts < 0 ? MAX_ATTEMPTS : Math.min(attempts, MAX_ATTEMPTS)
}

/** Reads keys that are allowed at the top level and in the server section. */
function sharedValuesOf({ top, server }: CheckedConfig) {
  return <K extends keyof typeof server & keyof typeof top>(key: K) => top[key] ?? server[key]
}

function tlsOf(checked: CheckedConfig, addresses: readonly Address[]): ConnectionOptions | undefined {
  const { section, top, server } = checked
  const isTls = addresses.some((address) => address.isTls)
  if (!addresses.every((address) => address.isTls === isTls)) {
    throw new ConfigError(section, undefined, 'either rediss:// in all addresses or redis:// in all')
  }
  if (!isTls) {
    if (top.tls) throw new ConfigError('tls', undefined, 'rediss:// in the addresses: without it, nothing is encrypted')
    return undefined
  }
  const get = sharedValuesOf(checked)
  const settings = {
    tls: top.tls,
    sslVerificationMode: get('sslVerificationMode') ?? legacyVerification(server),
    sslTruststore: top.tls?.ca === undefined ? get('sslTruststore') : undefined,
    sslKeystore: hasOwnKey(top.tls) ? undefined : get('sslKeystore'),
    sslKeystorePassword: get('sslKeystorePassword'),
    sslProtocols: get('sslProtocols'),
    sslCiphers: get('sslCiphers'),
  }
  return tlsOptions(settings, (key) => (Object.hasOwn(top, key) ? key : `${section}.${key}`))
}

/** Certificates in the form that Node takes are in place of stores in that of Java. */
function hasOwnKey({ cert, key, pfx }: TlsFiles = {}): boolean {
  return cert !== undefined || key !== undefined || pfx !== undefined
}

function addressesOf({ section, server }: CheckedConfig): Address[] {
  const at = (key: string, urls: readonly string[] | string | undefined): Address[] => {
    const path = `${section}.${key}`
    if (urls === undefined) throw new ConfigError(path, undefined, KEYS[section]?.[key]?.effect ?? 'an address')
    const isList = typeof urls !== 'string'
    return (isList ? urls : [urls]).map((url, index) => {
      const where = isList ? `${path}[${index}]` : path
      const address = parseAddress(url, where)
      if (address.socket !== undefined && section !== 'singleServerConfig') {
        throw new ConfigError(where, undefined, 'host and port: a socket is possible only in singleServerConfig')
      }
      return address
    })
  }
  switch (section) {
    case 'singleServerConfig':
      return at('address', server.address)
    case 'masterSlaveServersConfig':
      return [...at('masterAddress', server.masterAddress), ...at('slaveAddresses', server.slaveAddresses ?? [])]
    case 'sentinelServersConfig':
      return at('sentinelAddresses', server.sentinelAddresses)
    default:
      return at('nodeAddresses', server.nodeAddresses)
  }
}

function legacyVerification({
  sslEnableEndpointIdentification,
}: CheckedConfig['server']): 'STRICT' | 'NONE' | undefined {
  if (sslEnableEndpointIdentification === undefined) return undefined
  return sslEnableEndpointIdentification ? 'STRICT' : 'NONE'
}

function retryDelayOf({ section, server }: CheckedConfig): Delay {
  if (server.retryDelay) return delayOf(server.retryDelay, `${section}.retryDelay`)
  return server.retryInterval === undefined ? equalJitter(1_000, 2_000) : constantDelay(server.retryInterval)
}

function natMapOf(mapper: CheckedConfig['server']['natMapper'], path: string): Deployment['natMap'] {
  const isByHost = isJava(mapper, 'HostNatMapper')
  if (!isByHost && !isJava(mapper, 'HostPortNatMapper')) return undefined
  const key = isByHost ? 'hostsMap' : 'hostsPortMap'
  const entries = Object.entries((mapper[key] ?? {}) as Record<string, unknown>)
  if (isByHost) {
    const hosts = new Map(entries.map(([from, to]) => [from, text(to, `${path}.${key}.${from}`)]))
    return (hostPort) => {
      const colon = hostPort.lastIndexOf(':')
      const host = hosts.get(hostPort.slice(0, colon))
      return host === undefined ? null : { host, port: Number(hostPort.slice(colon + 1)) }
    }
  }
  const servers = new Map(
    entries.map(([from, to]) => [from, parseHostPort(text(to, `${path}.${key}.${from}`), `${path}.${key}.${from}`)]),
  )
  return (hostPort) => servers.get(hostPort) ?? null
}
