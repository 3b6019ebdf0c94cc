import { ConfigError } from '../errors.js'
import { type PortEvents, type RedisPort, subscribeEach } from './port.js'

/** What Holdfast uses of an ioredis client (5.4 or later). Declared by hand, so that no type needs ioredis installed. */
export interface IoredisLike {
  readonly status: string
  readonly isCluster?: boolean
  readonly options: { readonly keyPrefix?: string | undefined }
  call(command: string, ...args: string[]): Promise<unknown>
  duplicate(override?: object): IoredisLike
  subscribe(...channels: string[]): Promise<unknown>
  unsubscribe(...channels: string[]): Promise<unknown>
  disconnect(): void
  // biome-ignore lint/suspicious/noExplicitAny: each event of the real client has listeners of its own
  on(event: string, listener: (...args: any[]) => void): unknown
  // biome-ignore lint/suspicious/noExplicitAny: as above
  off(event: string, listener: (...args: any[]) => void): unknown
}

export function isIoredis(client: unknown): client is IoredisLike {
  const candidate = client as Partial<IoredisLike> | null
  return typeof candidate?.call === 'function' && typeof candidate.duplicate === 'function' && 'status' in candidate
}

/**
 * Use a live ioredis client that you own: Holdfast sends its commands on it, and never closes it. Wake-ups need a
 * connection of their own, a duplicate of the client that is opened when somebody first waits.
 *
 * `connect({ client })` calls this by itself; it is for bundlers that cannot follow a dynamic import.
 * @throws {ConfigError} the client has a `keyPrefix`, or was closed
 */
export function ioredis(client: IoredisLike): RedisPort {
  return new IoredisPort(client, () => {})
}

/** @internal Like `ioredis`, but `close()` ends the client, too. */
export function ownedIoredis(client: IoredisLike): RedisPort {
  return new IoredisPort(client, () => client.disconnect())
}

/**
 * How long ioredis waits for a connection that we end, ms. It waits for one that is down already, too, and keeps the process
 * for as long; its default is 2 s.
 */
export const DISCONNECT_TIMEOUT_MS = 500

/**
 * For the duplicate that listens: it must come back by itself whatever the user's own client does about reconnects, and
 * be left alone while nothing is said on its channels.
 */
const SUBSCRIBER_OPTIONS = {
  lazyConnect: false,
  enableOfflineQueue: true,
  autoResubscribe: false, // we do it, to know when it is done
  maxRetriesPerRequest: null,
  retryStrategy: (attempt: number) => Math.min(attempt * 50, 1_000),
  disconnectTimeout: DISCONNECT_TIMEOUT_MS,
  commandTimeout: undefined,
  socketTimeout: undefined,
}

class IoredisPort implements RedisPort {
  readonly #client: IoredisLike
  readonly #disconnect: () => void
  readonly #channels = new Map<string, (message: string) => void>()
  readonly #onReady = (): void => {
    if (this.#wasReady) this.#events?.reconnected()
    this.#wasReady = true
  }
  /** The first time it is ready is no reconnect: what waited for that is sent once. */
  #wasReady: boolean
  #subscriber: IoredisLike | undefined
  #events: PortEvents | undefined

  constructor(client: IoredisLike, disconnect: () => void) {
    if (client.options.keyPrefix) {
      throw new ConfigError(
        'client',
        undefined,
        'an ioredis client without keyPrefix: it would prefix the keys but not the channels, so no waiter would ever be ' +
          'woken, and Redisson would use other keys. Put the prefix into the lock names',
      )
    }
    if (client.isCluster) {
      throw new ConfigError('client', undefined, 'an ioredis client of one server; Cluster is not supported yet')
    }
    if (client.status === 'end')
      throw new ConfigError('client', undefined, 'an open ioredis client; this one was closed')
    this.#client = client
    this.#disconnect = disconnect
    this.#wasReady = client.status === 'ready'
  }

  async send(command: readonly string[]): Promise<unknown> {
    const [name, ...args] = command as [string, ...string[]]
    return await this.#client.call(name, ...args)
  }

  isErrorReply(error: unknown): boolean {
    return error instanceof Error && error.name === 'ReplyError'
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
