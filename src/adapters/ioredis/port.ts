import { ConfigError } from '../../errors.js'
import { ConnectionError } from '../connection-error.js'
import { type Acknowledgement, type Fsync, type PortEvents, type RedisPort, subscribeEach } from '../port.js'
import { Replicas } from '../replicas.js'
import type { SentinelMasterStatus } from '../sentinel-master-status.js'
import { replaceWhenUnresponsive } from '../unresponsive-server.js'
import {
  DISCONNECT_TIMEOUT_MS,
  end,
  type IoredisLike,
  isReplyError,
  SUBSCRIBER_OPTIONS,
  watchForEnd,
} from './client.js'
import { type IoredisClusterLike, IoredisClusterPort } from './cluster.js'
import { addressOf, sentinelsOf } from './sentinels.js'

export { DISCONNECT_TIMEOUT_MS, type IoredisLike }

export function isIoredis(client: unknown): client is IoredisLike {
  const candidate = client as Partial<IoredisLike> | null
  return typeof candidate?.call === 'function' && typeof candidate.duplicate === 'function' && 'status' in candidate
}

/**
 * Uses a live ioredis client that you own, for one server, for Sentinel, or a Cluster. Holdfast sends its commands on
 * it and never closes it. Wake-ups need a connection of their own (in a cluster one to each master where a caller
 * waits): a duplicate, opened when a caller first waits.
 *
 * `connect({ client })` calls this itself; call it yourself only if your bundler cannot follow a dynamic import.
 * @throws {ConfigError} the client has a `keyPrefix`, is in subscriber or monitor mode, or was closed
 * @example `const client = await connect({ client: ioredis(new Redis('redis://127.0.0.1:6379')) })`
 */
export function ioredis(client: IoredisLike): RedisPort {
  return portOf(client)
}

/** @internal Like `ioredis`, but `close()` also ends the client. */
export function ownedIoredis(client: IoredisLike, options: OwnedOptions = {}): RedisPort {
  return portOf(client, options)
}

/** What is known about the deployment of a client that we opened. */
export interface OwnedOptions {
  /** As `pingConnectionInterval` of a configuration. */
  readonly pingIntervalMs?: number | undefined
  /** How often a cluster is asked for its slots, ms. */
  readonly scanIntervalMs?: number | undefined
  /** Whether the configuration lists a master and its replicas. */
  readonly isReplicated?: boolean | undefined
}

const ADVICE =
  'give it a `socketTimeout` (ms) longer than any blocking command that you send on it, so that ioredis reconnects by itself'

/** @param owned  undefined: the client belongs to the user and is never ended */
function portOf(client: IoredisLike, owned?: OwnedOptions): RedisPort {
  if (client.options.keyPrefix) {
    throw new ConfigError(
      'client',
      undefined,
      'an ioredis client without keyPrefix: it would prefix keys but not channels, so waiters would never be woken, and ' +
        'Redisson would use different keys. Put the prefix into the lock names',
    )
  }
  if (client.mode !== undefined && client.mode !== 'normal') {
    const allowed = `an ioredis client for commands: this one is in ${client.mode} mode. Pass another, such as redis.duplicate()`
    throw new ConfigError('client', undefined, allowed)
  }
  if (client.status === 'end') throw new ConfigError('client', undefined, 'an open ioredis client; this one is closed')
  const { isReplicated, pingIntervalMs, scanIntervalMs } = owned ?? {}
  const open = (one: IoredisLike, disconnect: () => void, refreshMs = scanIntervalMs): RedisPort =>
    one.isCluster
      ? new IoredisClusterPort(one as IoredisClusterLike, disconnect, refreshMs)
      : new IoredisPort(one, disconnect, isReplicated)
  const watch = watchForEnd(client)
  return replaceWhenUnresponsive(
    open(client, owned ? () => client.disconnect() : () => {}),
    async (signal, server) => {
      // A client that its owner closed stays closed.
      if (client.status === 'end' && !owned && !watch.hasEnded()) throw new Error('the client was closed')
      const next = another(client, server)
      const disconnect = (): void => end(next)
      signal.addEventListener('abort', disconnect, { once: true })
      next.on('error', () => {})
      await next.connect()
      return open(next, disconnect, scanIntervalMs ?? client.options.slotsRefreshInterval)
    },
    { pingIntervalMs, advice: owned ? undefined : ADVICE, onClose: watch.stop },
  )
}

/**
 * Another client with the same settings, for the same deployment.
 * @param except  an unresponsive server of a cluster, which must not be asked for the others
 */
function another(client: IoredisLike, except: string): IoredisLike & { connect(): Promise<unknown> } {
  if (!client.isCluster) return client.duplicate({ lazyConnect: true, failoverDetector: false }) as never
  // Not the initial nodes: they may be gone.
  const cluster = client as IoredisClusterLike
  const known = cluster
    .nodes()
    .map(({ options: { host, port } }) => ({ host, port }))
    .filter(({ host, port }) => `${host}:${port}` !== except)
  return cluster.duplicate(known, { lazyConnect: true, slotsRefreshInterval: undefined }) as never
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
  /** The first `ready` is no reconnect: commands queued before it are sent only once. */
  #wasReady: boolean
  #subscriber: IoredisLike | undefined
  #events: PortEvents | undefined

  readonly #connectionError: ConnectionError

  readonly isReplicated: boolean
  readonly #replicas: Replicas
  readonly #sentinels: SentinelMasterStatus | undefined

  constructor(client: IoredisLike, disconnect: () => void, isReplicated = false) {
    const sentinels = sentinelsOf(client)
    this.#sentinels = sentinels
    this.isReplicated = isReplicated || sentinels !== undefined
    this.#replicas = new Replicas((name, ...args) => client.call(name, ...args), {
      isReplicated: this.isReplicated,
      ...(sentinels ? { masterStatus: (runId) => sentinels.of(runId, addressOf(client)) } : {}),
    })
    this.#client = client
    this.#connectionError = new ConnectionError(client, () => client.stream?.errored)
    this.#disconnect = disconnect
    this.#wasReady = client.status === 'ready'
  }

  send(command: readonly string[]): Promise<unknown> {
    const [name, ...args] = command as [string, ...string[]]
    return this.#client.call(name, ...args)
  }

  acknowledge(key: string, timeoutMs: number): Promise<Acknowledgement> {
    return this.#replicas.acknowledge(key, timeoutMs)
  }

  fsynced(_key: string, timeoutMs: number): Promise<Fsync> {
    return this.#replicas.fsynced(timeoutMs)
  }

  ping(): Promise<unknown> {
    return this.#client.call('PING')
  }

  async pingListener(): Promise<unknown> {
    return await this.#subscriber?.call('PING')
  }

  get connectionError(): unknown {
    return this.#connectionError.last
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
    this.#connectionError.close()
    this.#subscriber?.disconnect()
    this.#sentinels?.close()
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
      const subscribe = (channel: string): Promise<unknown> => subscriber.subscribe(channel)
      subscribeEach(channels, subscribe, this.isErrorReply, (channel, refusal) =>
        this.#events?.resubscribed(channel, refusal),
      )
    })
    subscriber.on('close', () => {
      for (const channel of this.#channels.keys()) this.#events?.subscriptionLost?.(channel)
    })
    return subscriber
  }
}
