import type { IoredisLike } from '../adapters/ioredis.js'
import type { NodeRedisLike } from '../adapters/node-redis.js'
import type { RedisPort } from '../adapters/port.js'
import { CLIENT_OPTIONS, Client, type ClientOptions, checkClientOptions } from '../client.js'
import { ConfigError } from '../errors.js'
import { ownOptions } from '../validate.js'

export interface ConnectOptions extends ClientOptions {
  /** Where Redis is: `redis://[user:password@]host:port[/database]`, `rediss://` for TLS. Opens ioredis. */
  url?: string | undefined
  /** A live client that you own, instead of `url`: an ioredis or a node-redis client. It is never closed by Holdfast. */
  client?: IoredisLike | NodeRedisLike | RedisPort | undefined
}

/** Redisson's `connectTimeout`. */
const CONNECT_TIMEOUT_MS = 10_000

/**
 * Open a client: `connect('redis://127.0.0.1:6379')`, or `connect({ client })` with an ioredis or node-redis client that
 * you own.
 * @returns the client, when Redis has answered (with `url`) or at once (with `client`)
 * @throws {ConfigError} an option cannot work
 * @throws the Redis client's error if Redis at `url` cannot be reached, does not answer within 10 s, refuses the
 *   password or does not have the database
 * @see Redisson `Redisson.create`
 */
export async function connect(target: string | ConnectOptions): Promise<Client> {
  const options = typeof target === 'string' ? { url: target } : target
  const { url, client, ...rest } = ownOptions<ConnectOptions>(options, [...CLIENT_OPTIONS, 'url', 'client'])
  if ((url === undefined) === (client === undefined))
    throw new ConfigError('connect', undefined, 'either url or client')
  checkClientOptions(rest) // a mistake there must not cost a connection
  return new Client(url === undefined ? await portOf(client) : await openUrl(url), rest)
}

async function portOf(client: ConnectOptions['client']): Promise<RedisPort> {
  if (isPort(client)) return client
  const ioredis = await import('../adapters/ioredis.js')
  if (ioredis.isIoredis(client)) return ioredis.ioredis(client)
  const nodeRedis = await import('../adapters/node-redis.js')
  if (nodeRedis.isNodeRedis(client)) return nodeRedis.nodeRedis(client)
  throw new ConfigError('client', client, 'an ioredis or node-redis client')
}

function isPort(client: unknown): client is RedisPort {
  return typeof (client as Partial<RedisPort> | null)?.isErrorReply === 'function'
}

/** Opens an ioredis client of our own, which ends with the Holdfast client. */
async function openUrl(url: string): Promise<RedisPort> {
  const [{ Redis }, { DISCONNECT_TIMEOUT_MS, ownedIoredis }] = await Promise.all([
    importIoredis(),
    import('../adapters/ioredis.js'),
  ])
  let isConnected = false
  const redis = new Redis(checkUrl(url), {
    lazyConnect: true,
    // Fail at once when Redis cannot be reached at the start; come back by ourselves ever after.
    retryStrategy: (attempt) => (isConnected ? Math.min(attempt * 50, 1_000) : null),
    // Commands end by our own time-out; this only bounds what piles up while Redis is away.
    maxRetriesPerRequest: 2,
    disconnectTimeout: DISCONNECT_TIMEOUT_MS,
  })
  let cause: unknown
  redis.on('error', (error) => {
    if (!isConnected) cause ??= error
  })
  // A server that accepts connections and says nothing keeps ioredis waiting for ever.
  const timer = setTimeout(() => {
    cause ??= new Error(`no answer within ${CONNECT_TIMEOUT_MS} ms`)
    redis.disconnect()
  }, CONNECT_TIMEOUT_MS)
  try {
    await redis.connect()
    // It says only "Connection is closed"; what happened (refused, WRONGPASS, a certificate) is in its error event. And it
    // goes on after a database that does not exist, with another one.
    if (cause) throw cause
    isConnected = true
    return ownedIoredis(redis)
  } catch (error) {
    // Ended twice, ioredis would leave a timer that keeps the process for 2 s.
    if (redis.status !== 'close' && redis.status !== 'end') redis.disconnect()
    throw withoutSecrets(cause ?? error)
  } finally {
    clearTimeout(timer)
  }
}

/** An error reply of ioredis carries the command it answers: of HELLO and AUTH that is the password. */
function withoutSecrets(error: unknown): unknown {
  if (typeof error === 'object' && error !== null && 'command' in error) delete error.command
  return error
}

async function importIoredis() {
  try {
    return await import('ioredis')
  } catch (cause) {
    throw new ConfigError('url', undefined, 'the package ioredis to be installed (npm install ioredis)', { cause })
  }
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
