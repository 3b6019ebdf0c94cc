import type { IoredisLike } from '../adapters/ioredis.js'
import type { AnyNodeRedis } from '../adapters/node-redis.js'
import type { RedisPort } from '../adapters/port.js'
import type { GlideLike } from '../adapters/valkey-glide.js'
import { CLIENT_OPTIONS, Client, type ClientOptions, checkClientOptions } from '../client.js'
import { ConfigError, impediment } from '../errors.js'
import { ownOptions } from '../validate.js'
import { describe, overridden } from './deployment.js'
import type { CredentialsResolver, IgnoredKey, RedissonConfig } from './schema.js'

export interface ConnectOptions extends ClientOptions {
  /** Where Redis is: `redis://[user:password@]host:port[/database]`, `rediss://` for TLS. Opens ioredis. */
  url?: string | undefined
  /** A live client that you own, instead of `url`: an ioredis, node-redis or valkey-glide client. It is never closed. */
  client?: IoredisLike | AnyNodeRedis | GlideLike | RedisPort | undefined
  /** A configuration of Redisson, instead of `url`: the path of its YAML or JSON file, or an object of the same shape. */
  config?: string | URL | RedissonConfig | undefined
  /** With `config`: asked for user and password before each connection is opened. */
  credentialsResolver?: CredentialsResolver | undefined
}

const DEFAULT_URL = 'redis://127.0.0.1:6379'
const CONNECT_OPTIONS = [...CLIENT_OPTIONS, 'url', 'client', 'config', 'credentialsResolver']

/**
 * Open a client: `connect('redis://127.0.0.1:6379')`, `connect({ config: 'redisson.yaml' })`, or `connect({ client })` with
 * an ioredis, node-redis or valkey-glide client that you own. Without arguments the environment says where Redis is:
 * `HOLDFAST_CONFIG` is the path of a configuration, else `REDIS_URL` a URL, else it is redis://127.0.0.1:6379.
 *
 * Options that are given here go before those of `config`. Keys of `config` that mean nothing here are told in one
 * `warning` of the client.
 * @returns the client, when Redis has answered (with `url` or `config`) or at once (with `client`)
 * @throws {ConfigError} an option or a key of the configuration cannot work
 * @throws the Redis client's error if Redis cannot be reached, does not answer within 10 s (`connectTimeout`), refuses the
 *   password or does not have the database
 * @see Redisson `Redisson.create`
 */
export async function connect(target: string | ConnectOptions = ofEnvironment()): Promise<Client> {
  const options = typeof target === 'string' ? { url: target } : target
  const own = ownOptions<ConnectOptions>(options, CONNECT_OPTIONS)
  const { url, client, config, credentialsResolver, ...rest } = own
  if ([url, client, config].filter((one) => one !== undefined).length !== 1) {
    throw new ConfigError('connect', undefined, 'one of url, client and config')
  }
  if (credentialsResolver !== undefined && config === undefined) {
    throw new ConfigError('credentialsResolver', undefined, 'config, and not url or client')
  }
  checkClientOptions(rest) // a mistake there must not cost a connection
  if (config !== undefined) return await openConfig(config, own, rest)
  return new Client(url === undefined ? await portOf(client) : await openUrl(checkUrl(url)), rest)
}

function ofEnvironment(): ConnectOptions {
  const { HOLDFAST_CONFIG, REDIS_URL } = process.env
  return HOLDFAST_CONFIG ? { config: HOLDFAST_CONFIG } : { url: REDIS_URL || DEFAULT_URL }
}

async function openConfig(
  config: string | URL | RedissonConfig,
  { nameMapper, credentialsResolver }: ConnectOptions,
  rest: ClientOptions,
): Promise<Client> {
  const overrides = { nameMapper, credentialsResolver }
  const isFile = typeof config === 'string' || config instanceof URL
  const loaded = isFile
    ? await (await import('./load.js')).loadConfig(config, overrides)
    : overridden(config, overrides)
  const deployment = describe(loaded)
  const given = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined))
  const options = { ...deployment.options, ...given }
  checkClientOptions(options)
  const [servers, { DISCONNECT_TIMEOUT_MS, ownedIoredis }] = await openers()
  const client = new Client(ownedIoredis(await servers.openDeployment(deployment, DISCONNECT_TIMEOUT_MS)), options)
  if (deployment.ignored.length > 0) client.warnSoon(keysIgnored(deployment.ignored))
  return client
}

function keysIgnored(ignored: readonly IgnoredKey[]): Error {
  const lines = ignored.map(({ path, reason }) => `  ${path}: ${reason}`)
  const message = `These keys of the configuration mean nothing here:\n${lines.join('\n')}`
  return Object.assign(impediment('CONFIG_KEYS_IGNORED', message), { keys: ignored })
}

async function openUrl(url: string): Promise<RedisPort> {
  const [servers, { DISCONNECT_TIMEOUT_MS, ownedIoredis }] = await openers()
  return ownedIoredis(await servers.openUrl(url, DISCONNECT_TIMEOUT_MS))
}

async function openers() {
  return await Promise.all([import('./servers.js'), import('../adapters/ioredis.js')])
}

async function portOf(client: ConnectOptions['client']): Promise<RedisPort> {
  if (isPort(client)) return client
  const ioredis = await import('../adapters/ioredis.js')
  if (ioredis.isIoredis(client)) return ioredis.ioredis(client)
  const nodeRedis = await import('../adapters/node-redis.js')
  if (nodeRedis.isNodeRedis(client)) return nodeRedis.nodeRedis(client)
  const glide = await import('../adapters/valkey-glide.js')
  if (glide.isValkeyGlide(client)) return glide.valkeyGlide(client)
  throw new ConfigError('client', client, 'an ioredis, node-redis or valkey-glide client')
}

function isPort(client: unknown): client is RedisPort {
  return typeof (client as Partial<RedisPort> | null)?.isErrorReply === 'function'
}

/** @throws {ConfigError} without the URL, which may contain a password */
function checkUrl(url: unknown): string {
  const allowed = 'a Redis URL like redis://127.0.0.1:6379, or rediss:// for TLS'
  const parsed = typeof url === 'string' && URL.canParse(url) ? new URL(url) : undefined
  if (!parsed || !/^(redis|rediss|valkey|valkeys):$/.test(parsed.protocol) || parsed.hostname === '') {
    throw new ConfigError('url', undefined, allowed)
  }
  if (!/^(\/\d*)?$/.test(parsed.pathname))
    throw new ConfigError('url', undefined, `${allowed}, with a number as database`)
  if (parsed.search !== '' || parsed.hash !== '') {
    // ioredis would take them for options, keyPrefix included.
    throw new ConfigError('url', undefined, `${allowed}, without parameters: for options pass a client of your own`)
  }
  try {
    decodeURIComponent(parsed.username)
    decodeURIComponent(parsed.password)
  } catch {
    throw new ConfigError('url', undefined, `${allowed}, with % in user name and password written as %25`)
  }
  return parsed.href.replace(/^valkey/, 'redis')
}
