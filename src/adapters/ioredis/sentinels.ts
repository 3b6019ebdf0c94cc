// The Sentinels that an ioredis client uses, and what they say of its master.
import { type SentinelAddress, type SentinelConnection, SentinelMasterStatus } from '../sentinel-master-status.js'
import { end, type IoredisLike } from './client.js'

/** The Sentinel options of ioredis. */
interface SentinelOptions {
  readonly sentinels?: readonly Partial<SentinelAddress>[] | null
  readonly name?: string
  readonly role?: string
  readonly sentinelUsername?: string | null
  readonly sentinelPassword?: string | null
  readonly sentinelTLS?: object
  readonly updateSentinels?: boolean
  readonly natMap?: unknown
  readonly family?: number
}

const CONNECT_MS = 1_000

/** Asks the Sentinels that an ioredis client uses; undefined: it uses none. */
export function sentinelsOf(client: IoredisLike): SentinelMasterStatus | undefined {
  const options = client.options as SentinelOptions
  const { sentinels, name, updateSentinels = true, natMap } = options
  if (!sentinels || name === undefined) return undefined
  const addresses = sentinels.map(({ host = '127.0.0.1', port = 26_379 }) => ({ host, port: Number(port) }))
  const open = (address: SentinelAddress): SentinelConnection => {
    // A duplicate comes from the user's own copy of ioredis, so ioredis need not be found or installed.
    const redis = client.duplicate({
      ...address,
      sentinels: null,
      Connector: undefined,
      failoverDetector: false,
      db: 0,
      connectionName: undefined,
      commandTimeout: undefined,
      socketTimeout: undefined,
      lazyConnect: false,
      enableOfflineQueue: true,
      username: options.sentinelUsername || undefined,
      password: options.sentinelPassword || undefined,
      tls: options.sentinelTLS,
      family: options.family,
      protocol: 2,
      replyMapping: 'legacy',
      connectTimeout: CONNECT_MS,
      disconnectTimeout: CONNECT_MS,
      enableReadyCheck: false,
      maxRetriesPerRequest: 0,
      retryStrategy: null,
    })
    redis.on('error', () => {})
    // It must not keep the process alive.
    redis.on('connect', () => streamOf(redis)?.unref?.())
    return {
      get isOpen() {
        return redis.status !== 'end'
      },
      call: (command, ...args) => redis.call(command, ...args),
      end: () => end(redis),
    }
  }
  return new SentinelMasterStatus(name, addresses, open, updateSentinels && !natMap)
}

interface Stream {
  readonly remoteAddress?: string
  readonly remotePort?: number
  unref?(): unknown
}

function streamOf(client: IoredisLike): Stream | undefined {
  return (client as { stream?: Stream }).stream
}

/** The address of the server that a client is connected to. */
export function addressOf(client: IoredisLike): string | undefined {
  const { remoteAddress, remotePort } = streamOf(client) ?? {}
  return remoteAddress === undefined ? undefined : `${remoteAddress.replace(/^::ffff:/, '')}:${remotePort}`
}
