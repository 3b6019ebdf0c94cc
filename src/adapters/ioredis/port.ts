// holdfast/ioredis: an ioredis client as a port.
import { ConfigError } from '../../errors.js'
import { listenTogether } from '../../util/shared-listener.js'
import { lacksInfo } from '../../util/unusual-servers.js'
import { ConnectionError, warnOfRefusedSignIn } from '../connection-error.js'
import { type Acknowledgement, type Fsync, type PortEvents, type RedisPort, subscribeEach } from '../port.js'
import { replaceWhenUnresponsive } from '../replaceable-port.js'
import { Replicas } from '../replicas.js'
import type { SentinelAddress, SentinelMasterStatus } from '../sentinel-master-status.js'
import {
  call,
  DISCONNECT_TIMEOUT_MS,
  end,
  type IoredisLike,
  isClosing,
  isReplyError,
  type Node,
  ownConnection,
  SUBSCRIBER_OPTIONS,
  shareCredentials,
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
 * Uses a live ioredis client that you own, for one server, for Sentinel, or a Cluster, and never closes it. Holdfast opens
 * connections of its own with the same settings: a duplicate for its commands, and another one for wake-ups when a caller
 * first waits (in a cluster one to each master where a caller waits). They end when you close your client. What you do on
 * yours, such as SELECT, MULTI or a command that blocks, does not concern them; Holdfast stays in the database that is
 * selected now.
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

/** Facts about the deployment of a client that we opened. */
export interface OwnedOptions {
  /** As `pingConnectionInterval` of a configuration. */
  readonly pingIntervalMs?: number | undefined
  /** How often a cluster is asked for its slots, ms. */
  readonly scanIntervalMs?: number | undefined
  /** Whether the configuration lists a master and its replicas. */
  readonly isReplicated?: boolean | undefined
}

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
  const watch = watchForEnd(client)
  /** The connections of ours. */
  const open = new Set<IoredisLike>()
  const portOn = (one: IoredisLike): RedisPort => {
    open.add(one)
    one.on('error', (error) => lacksInfo(error) && Object.assign(one.options, { enableReadyCheck: false }))
    const refreshMs = scanIntervalMs ?? client.options.slotsRefreshInterval
    const disconnect = (): void => {
      if (open.delete(one)) end(one)
    }
    return one.isCluster
      ? new IoredisClusterPort(one as IoredisClusterLike, disconnect, refreshMs)
      : new IoredisPort(one, disconnect, isReplicated, owned ? undefined : client)
  }
  // A client that its owner closed stays closed, and so do its duplicates.
  const isClosed = (): boolean => !owned && (isClosing(client) || (client.status === 'end' && !watch.hasEnded()))
  const onEnd = (): void => {
    if (isClosed()) for (const one of open) end(one)
  }
  const stopListening = owned ? undefined : listenTogether(client, 'end', onEnd)
  const first = owned ? client : ownConnection(client)
  const openFirst = async (): Promise<void> => {
    // Not for one that its owner has not connected yet.
    if (client.status !== 'wait' && first.status === 'wait') await (first as Connectable).connect()
  }
  return replaceWhenUnresponsive(
    portOn(first),
    async (signal, server, port) => {
      const isOwn = !owned && port instanceof IoredisPort
      const nodes = isOwn ? await port.respondingSentinels() : otherNodes(client, server)
      signal.throwIfAborted()
      const next = (owned ? another(client, nodes) : ownConnection(client, nodes)) as Connectable
      signal.addEventListener('abort', () => end(next), { once: true })
      next.on('error', () => {})
      await next.connect()
      return portOn(next)
    },
    {
      pingIntervalMs,
      isClosed,
      open: openFirst,
      onClose() {
        watch.stop()
        stopListening?.()
      },
    },
  )
}

type Connectable = IoredisLike & { connect(): Promise<unknown> }

/**
 * The servers of a cluster, to find the others; not the initial ones, which may be gone.
 * @param except  an unresponsive server, which must not be asked
 */
function otherNodes(client: IoredisLike, except: string): Node[] {
  if (!client.isCluster) return []
  return (client as IoredisClusterLike)
    .nodes()
    .map(({ options: { host, port } }) => ({ host, port }))
    .filter(({ host, port }) => `${host}:${port}` !== except)
}

/** Another client with the same settings as one of ours, for the same deployment. */
function another(client: IoredisLike, nodes: readonly object[]): IoredisLike {
  if (!client.isCluster) return client.duplicate({ lazyConnect: true, failoverDetector: false })
  return (client as IoredisClusterLike).duplicate(nodes, { lazyConnect: true, slotsRefreshInterval: undefined })
}

class IoredisPort implements RedisPort {
  readonly #client: IoredisLike
  readonly #user: IoredisLike | undefined
  readonly #disconnect: () => void
  readonly #channels = new Map<string, (message: string) => void>()
  readonly #onReady = (): void => {
    if (this.#wasReady) {
      this.#replicas.reset()
      this.#events?.reconnected()
    }
    this.#wasReady = true
  }
  /** The first `ready` is no reconnect: commands queued before it are sent only once. */
  #wasReady = false
  #subscriber: IoredisLike | undefined
  /** Resolves when the subscriber connection is ready; undefined: nobody waits for that. */
  #subscriberReady: Promise<void> | undefined
  #onSubscriberReady: (() => void) | undefined
  #events: PortEvents | undefined

  readonly #connectionError: ConnectionError

  readonly isReplicated: boolean
  readonly #replicas: Replicas
  readonly #sentinels: SentinelMasterStatus | undefined

  /** @param user  the client that was duplicated; undefined: `client` is no duplicate */
  constructor(client: IoredisLike, disconnect: () => void, isReplicated = false, user?: IoredisLike) {
    const sentinels = sentinelsOf(client)
    this.#sentinels = sentinels
    this.isReplicated = isReplicated || sentinels !== undefined
    this.#replicas = new Replicas((name, ...args) => client.call(name, ...args), {
      isReplicated: this.isReplicated,
      ...(sentinels ? { masterStatus: (runId) => sentinels.of(runId, addressOf(client)) } : {}),
    })
    this.#client = client
    this.#user = user
    this.#connectionError = new ConnectionError(client, () => client.stream?.errored)
    this.#disconnect = disconnect
    this.#warnOfRefusedSignIn(client)
  }

  #warnOfRefusedSignIn(client: IoredisLike): void {
    warnOfRefusedSignIn(client, (warning) => this.#events?.warning?.(warning))
  }

  send(command: readonly string[]): Promise<unknown> {
    return call(this.#client, command)
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
    if (this.#subscriber.status !== 'ready') await this.#untilSubscriberReady()
    // It may have been unsubscribed meanwhile.
    if (this.#channels.get(channel) === onMessage) await this.#subscriber.subscribe(channel)
  }

  async unsubscribe(channel: string): Promise<void> {
    this.#channels.delete(channel)
    if (!this.#subscriber) return
    if (this.#subscriber.status !== 'ready') await this.#untilSubscriberReady()
    // It may have been subscribed again meanwhile.
    if (!this.#channels.has(channel)) await this.#subscriber.unsubscribe(channel).catch(() => {})
  }

  listen(events: PortEvents): void {
    this.#events = events
    this.#wasReady = this.#client.status === 'ready'
    this.#client.on('ready', this.#onReady)
  }

  /** @throws {Error} none knows the successor of a replaced master yet */
  async respondingSentinels(): Promise<SentinelAddress[]> {
    return (await this.#sentinels?.responding()) ?? []
  }

  async close(): Promise<void> {
    this.#client.off('ready', this.#onReady)
    this.#connectionError.close()
    this.#subscriber?.disconnect()
    this.#onSubscriberReady?.() // waiters for it get the error
    this.#sentinels?.close()
    this.#disconnect()
  }

  /**
   * ioredis 5 sends SUBSCRIBE also before the INFO of its ready check, which Redis then refuses, and with it everything
   * that is in flight.
   */
  #untilSubscriberReady(): Promise<void> {
    if (this.#subscriber && isClosing(this.#subscriber)) return Promise.resolve() // it never will be
    this.#subscriberReady ??= new Promise((resolve) => {
      this.#onSubscriberReady = resolve
    })
    return this.#subscriberReady
  }

  #openSubscriber(): IoredisLike {
    const subscriber = this.#client.duplicate(SUBSCRIBER_OPTIONS)
    const user = this.#user
    if (user) shareCredentials(subscriber, () => user.options)
    this.#warnOfRefusedSignIn(subscriber)
    subscriber.on('message', (channel: string, message: string) => this.#channels.get(channel)?.(message))
    // Without a listener ioredis prints every failed reconnect to the console.
    subscriber.on('error', () => {})
    let isFirst = true
    subscriber.on('ready', () => {
      this.#onSubscriberReady?.()
      this.#subscriberReady = undefined
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
