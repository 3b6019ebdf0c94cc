import { ConfigError } from '../errors.js'
import { type Acknowledgement, Replicas } from './acknowledgement.js'
import { DISCONNECT_TIMEOUT_MS, type IoredisLike, isReplyError, SUBSCRIBER_OPTIONS } from './ioredis-client.js'
import { type IoredisClusterLike, IoredisClusterPort } from './ioredis-cluster.js'
import { type PortEvents, type RedisPort, subscribeEach } from './port.js'

export { DISCONNECT_TIMEOUT_MS, type IoredisLike }

export function isIoredis(client: unknown): client is IoredisLike {
  const candidate = client as Partial<IoredisLike> | null
  return typeof candidate?.call === 'function' && typeof candidate.duplicate === 'function' && 'status' in candidate
}

/**
 * Use a live ioredis client that you own, of one server, of Sentinel, or a Cluster: Holdfast sends its commands on it, and
 * never closes it. Wake-ups need a connection of their own (in a cluster one to each master that somebody waits at), a
 * duplicate that is opened when somebody first waits.
 *
 * `connect({ client })` calls this by itself; it is for bundlers that cannot follow a dynamic import.
 * @throws {ConfigError} the client has a `keyPrefix`, or was closed
 */
export function ioredis(client: IoredisLike): RedisPort {
  return portOf(client, () => {})
}

/** @internal Like `ioredis`, but `close()` ends the client, too. */
export function ownedIoredis(
  client: IoredisLike,
  _options: { readonly pingIntervalMs?: number; readonly replicas?: number | undefined } = {},
): RedisPort {
  return portOf(client, () => client.disconnect())
}

function portOf(client: IoredisLike, disconnect: () => void): RedisPort {
  if (client.options.keyPrefix) {
    throw new ConfigError(
      'client',
      undefined,
      'an ioredis client without keyPrefix: it would prefix the keys but not the channels, so no waiter would ever be ' +
        'woken, and Redisson would use other keys. Put the prefix into the lock names',
    )
  }
  if (client.status === 'end') throw new ConfigError('client', undefined, 'an open ioredis client; this one was closed')
  return client.isCluster
    ? new IoredisClusterPort(client as IoredisClusterLike, disconnect)
    : new IoredisPort(client, disconnect)
}

class IoredisPort implements RedisPort {
  readonly #client: IoredisLike
  readonly #disconnect: () => void
  readonly #channels = new Map<string, (message: string) => void>()
  readonly #onReady = (): void => {
    if (this.#wasReady) {
      this.#replicas.forget()
      this.#events?.reconnected()
    }
    this.#wasReady = true
  }
  /** The first time it is ready is no reconnect: what waited for that is sent once. */
  #wasReady: boolean
  #subscriber: IoredisLike | undefined
  #events: PortEvents | undefined

  readonly isReplicated: boolean
  readonly #replicas: Replicas

  constructor(client: IoredisLike, disconnect: () => void) {
    this.isReplicated = client.options.sentinels != null
    this.#replicas = new Replicas((name, ...args) => client.call(name, ...args))
    this.#client = client
    this.#disconnect = disconnect
    this.#wasReady = client.status === 'ready'
  }

  send(command: readonly string[]): Promise<unknown> {
    const [name, ...args] = command as [string, ...string[]]
    return this.#client.call(name, ...args)
  }

  acknowledge(_key: string, timeoutMs: number): Promise<Acknowledgement> {
    return this.#replicas.acknowledge(timeoutMs)
  }

  isErrorReply(error: unknown): boolean {
    return isReplyError(error)
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    this.#channels.set(channel, onMessage)
    this.#subscriber ??= this.#openSubscriber()
    await this.#subscriber.subscribe(channel)
  }

  async unsubscribe(channel: string): Promise<void> {
    this.#channels.delete(channel)
    await this.#subscriber?.unsubscribe(channel).catch(() => {})
  }

  listen(events: PortEvents): void {
    this.#events = events
    this.#client.on('ready', this.#onReady)
  }

  async close(): Promise<void> {
    this.#client.off('ready', this.#onReady)
    this.#subscriber?.disconnect()
    this.#disconnect()
  }

  #openSubscriber(): IoredisLike {
    const subscriber = this.#client.duplicate(SUBSCRIBER_OPTIONS)
    subscriber.on('message', (channel: string, message: string) => this.#channels.get(channel)?.(message))
    // Without a listener ioredis prints every failed reconnect to the console.
    subscriber.on('error', () => {})
    let isFirst = true
    subscriber.on('ready', () => {
      const channels = [...this.#channels.keys()]
      const isReconnect = !isFirst
      isFirst = false
      if (!isReconnect || channels.length === 0) return
      void subscribeEach(channels, (channel) => subscriber.subscribe(channel), this.isErrorReply).then((refused) =>
        this.#events?.resubscribed(refused),
      )
    })
    return subscriber
  }
}
