// connect(): a Client from a URL, a configuration or an open Redis client.
import { pathToFileURL } from 'node:url'
import type { RedisPort } from './adapters/port.js'
import { Client } from './client.js'
import { CLIENT_OPTIONS, type ClientOptions, checkClientOptions } from './client-options.js'
import { refuseMisusedTarget } from './config/misuse.js'
import { type AnyClient, portOf } from './config/ports.js'
import type { CredentialsResolver, RedissonConfig } from './config/schema.js'
import type { TlsFiles } from './config/tls.js'
import { ConfigError } from './errors.js'
import { callerOf, countOpen, redisOfClient, redisOfDeployment, redisOfUrl } from './open-clients.js'
import { within } from './util/timeout.js'
import { checkDuration, checkOptionalBoolean, ownOptions } from './util/validate.js'
import { keysIgnored } from './warnings.js'

export interface ConnectOptions extends ClientOptions {
  /** Where Redis is: `redis://[user:password@]host:port[/database]`, `rediss://` for TLS. Opens ioredis. */
  url?: string | undefined
  /** A live client of yours, instead of `url`: of ioredis, node-redis, valkey-glide, Bun or @upstash/redis. Never closed. */
  client?: AnyClient | undefined
  /** A Redisson configuration, instead of `url`: the path of its YAML or JSON file, or an object of the same shape. */
  config?: string | URL | RedissonConfig | undefined
  /** With `config`: called for user and password before each connection is opened. */
  credentialsResolver?: CredentialsResolver | undefined
  /**
   * With `config`: certificates as Node takes them, in place of the Java trust store and key store of the file. Only for
   * addresses with `rediss://`.
   */
  tls?: TlsFiles | undefined
  /**
   * With `url` or `config`: whether to resolve at once, also while Redis is unreachable, and connect with the first command.
   * Default false. Redisson's `lazyInitialization`.
   */
  lazy?: boolean | undefined
  /** How to renew what is held while the event loop is blocked. Default: it is not renewed. */
  watchdog?: WatchdogOptions | undefined
}

export interface WatchdogOptions {
  /**
   * Whether a thread with its own connection renews what this client holds while the event loop is blocked; default false.
   * All clients of a process share one. In a bundle: the file of `holdfast/watchdog-thread`.
   */
  thread?: boolean | string | URL | undefined
  /** How long the event loop may be blocked before renewal stops, ms. Default: four times `lockWatchdogTimeoutMs`. */
  maxBlockMs?: number | undefined
  /**
   * How the thread connects to the same Redis: a URL or a Redisson configuration. Default: like the client. Required with
   * `client`, or with functions in `config`.
   */
  connection?: string | RedissonConfig | undefined
}

const WATCHDOG_OPTIONS = { thread: 1, maxBlockMs: 1, connection: 1 }
const DEFAULT_BLOCK_LEASES = 4
/** How long to wait for a connection beside that of the user's client, ms. */
const OPEN_MS = 1_000
const DEFAULT_URL = 'redis://127.0.0.1:6379'
const CONNECT_OPTIONS = {
  ...CLIENT_OPTIONS,
  url: 1,
  client: 1,
  config: 1,
  credentialsResolver: 1,
  tls: 1,
  lazy: 1,
  watchdog: 1,
}

/**
 * Open a client: `connect('redis://127.0.0.1:6379')`, `connect({ config: 'redisson.yaml' })`, or `connect({ client })` with
 * a client of ioredis, node-redis, valkey-glide, Bun or @upstash/redis that you own. Without arguments it uses the
 * environment variable `HOLDFAST_CONFIG`, the path of a configuration, else the URL in `REDIS_URL`, else
 * redis://127.0.0.1:6379.
 *
 * Options take precedence over those in `config`. Keys of `config` that Holdfast ignores are reported in one `warning` of
 * the client.
 * @returns the client, once Redis has replied (with `url` or `config`; with `lazy` at once) or a second connection is open
 *   (with `client`, after a second at the latest)
 * @throws {ConfigError} an option or a key of the configuration cannot work, or the watchdog thread cannot be started
 * @throws the Redis client's error if Redis is unreachable, does not reply within 10 s (`connectTimeout`), rejects the
 *   password or does not have the database
 * @example `const client = await connect('redis://127.0.0.1:6379')`
 * @see Redisson `Redisson.create`
 */
export async function connect(target?: string | ConnectOptions): Promise<Client>
export async function connect(target: string | ConnectOptions = ofEnvironment(), second?: unknown): Promise<Client> {
  const caller = callerOf(connect)
  // An object: `urls.map(connect)` passes a number.
  if (typeof second === 'object' && second !== null) {
    throw new ConfigError('connect', undefined, 'one argument: write connect({ url, ...options })')
  }
  refuseMisusedTarget(target)
  const options = typeof target === 'string' ? { url: target } : target
  const own = ownOptions(options, CONNECT_OPTIONS)
  const { url, client, config, credentialsResolver, tls, lazy, watchdog, ...rest } = own
  if ([url, client, config].filter((one) => one !== undefined).length !== 1) {
    throw new ConfigError('connect', undefined, 'one of url, client and config')
  }
  if (credentialsResolver !== undefined && config === undefined) {
    throw new ConfigError('credentialsResolver', undefined, 'config, and not url or client')
  }
  if (tls !== undefined && config === undefined) {
    throw new ConfigError(
      'tls',
      undefined,
      'config: a client of your own, or a URL with rediss://, has its own settings',
    )
  }
  const isLazy = checkOptionalBoolean('lazy', lazy) ?? false
  if (isLazy && client !== undefined)
    throw new ConfigError('lazy', undefined, 'url or config: your own client connects')
  const { lockWatchdogTimeoutMs } = checkClientOptions(rest) // before a connection is opened
  if (config !== undefined) return await openConfig(config, own, rest, caller)
  const href = url === undefined ? undefined : await checkUrl(url, 'url')
  const thread = await threadOf(watchdog, href, lockWatchdogTimeoutMs)
  if (isLazy && thread) {
    throw new ConfigError('lazy', undefined, 'config: the watchdog thread connects to a url at once')
  }
  const port =
    href === undefined ? await openPort(client) : await (await import('./config/open.js')).openUrl(href, isLazy)
  const opened = new Client(port, rest)
  if (thread) await opened.protect(await import('./watchdog/thread-client.js'), thread)
  countOpen(opened, caller, href === undefined ? redisOfClient(client, port) : redisOfUrl(href))
  return opened
}

/** A client that is connected is used on a connection of our own, which opens before anything waits for it. */
async function openPort(client: AnyClient | undefined): Promise<RedisPort> {
  const port = await portOf(client)
  if (port.open) {
    await within(OPEN_MS, port.open()).catch((error: unknown) => {
      if (error instanceof ConfigError) throw error // otherwise the first command tries again
    })
  }
  return port
}

function ofEnvironment(): ConnectOptions {
  const { HOLDFAST_CONFIG, REDIS_URL } = process.env
  return HOLDFAST_CONFIG ? { config: HOLDFAST_CONFIG } : { url: REDIS_URL || DEFAULT_URL }
}

async function openConfig(
  config: string | URL | RedissonConfig,
  { nameMapper, credentialsResolver, tls, lazy, watchdog }: ConnectOptions,
  rest: ClientOptions,
  caller: string | undefined,
): Promise<Client> {
  const { describe, overridden } = await import('./config/deployment.js')
  const overrides = { nameMapper, credentialsResolver, tls }
  const isFile = typeof config === 'string' || config instanceof URL
  const found = isFile
    ? await (await import('./config/load.js')).loadConfig(config, overrides)
    : overridden(config, overrides)
  const loaded = lazy === undefined ? found : { ...found, lazyInitialization: lazy }
  const deployment = describe(loaded)
  const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined))
  const options = { ...deployment.options, ...given }
  const { lockWatchdogTimeoutMs } = checkClientOptions(options)
  const thread = await threadOf(watchdog, loaded, lockWatchdogTimeoutMs)
  const { openDeployment } = await import('./config/open.js')
  const client = new Client(await openDeployment(deployment), options)
  if (thread) await client.protect(await import('./watchdog/thread-client.js'), thread)
  countOpen(client, caller, redisOfDeployment(deployment))
  if (deployment.ignored.length > 0) client.warnSoon(keysIgnored(deployment.ignored))
  return client
}

/**
 * The terms of the watchdog thread, if there is to be one.
 * @param connection  how the client connects; undefined: through an object that a thread cannot use
 */
async function threadOf(
  options: WatchdogOptions | undefined,
  connection: string | RedissonConfig | undefined,
  watchdogTimeoutMs: number,
): Promise<Parameters<Client['protect']>[1] | undefined> {
  if (options === undefined) return undefined
  const own = ownOptions(options, WATCHDOG_OPTIONS)
  const { thread = false, maxBlockMs = DEFAULT_BLOCK_LEASES * watchdogTimeoutMs } = own
  checkDuration('watchdog.maxBlockMs', maxBlockMs, watchdogTimeoutMs)
  if (own.connection === undefined && thread === false) return undefined
  const ours = await checkConnection(own.connection ?? connection)
  return thread === false ? undefined : { connection: ours, maxBlockMs, file: await fileOf(thread) }
}

/** Loads the check when it is needed: programs that do not need it start faster. */
async function checkUrl(url: string, path: string): Promise<string> {
  const { checkRedisUrl } = await import('./config/redis-url.js')
  return checkRedisUrl(url, path)
}

/** A connection that can be sent to a thread. */
async function checkConnection(connection: unknown): Promise<string | object> {
  const path = 'watchdog.connection'
  if (connection === undefined) {
    const allowed = 'a URL or a configuration: the thread cannot use the client, and needs its own connection'
    throw new ConfigError(path, undefined, allowed)
  }
  if (typeof connection === 'string') return await checkUrl(connection, path)
  const { describe, overridden } = await import('./config/deployment.js')
  // The thread receives mapped names.
  const config = overridden(connection as RedissonConfig, { nameMapper: null })
  describe(config)
  try {
    return structuredClone(config)
  } catch (cause) {
    const allowed =
      'a URL, or a configuration without functions such as a credentialsResolver, which cannot be sent to a thread'
    throw new ConfigError(path, undefined, allowed, { cause })
  }
}

/** The file of the thread: by default next to this module, or to the bundle that contains it. */
async function fileOf(thread: unknown): Promise<string> {
  if (thread === true) {
    const { threadFileNextTo } = await import('./watchdog/thread-client.js')
    return threadFileNextTo(import.meta.url)
  }
  if (thread instanceof URL) return thread.href
  if (typeof thread !== 'string' || thread === '') {
    throw new ConfigError('watchdog.thread', thread, 'true, false, or the file of holdfast/watchdog-thread')
  }
  return /^file:/.test(thread) ? thread : pathToFileURL(thread).href
}
