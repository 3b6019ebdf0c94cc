import { ConfigError } from '../../errors.js'
import { ConnectionError } from '../connection-error.js'
import { type Acknowledgement, type Fsync, type PortEvents, type RedisPort, subscribeEach } from '../port.js'
import { Replicas } from '../replicas.js'
import { replaceWhenUnresponsive } from '../unresponsive-server.js'
import { ChannelQueue, end, endWhenConnected, isErrorReply, type NodeRedisLike } from './client.js'
import { type NodeRedisClusterLike, NodeRedisClusterPort } from './cluster.js'
import { type NodeRedisSentinelLike, NodeRedisSentinelPort } from './sentinel.js'

export type { NodeRedisClusterLike, NodeRedisLike, NodeRedisSentinelLike }

/** Any client of node-redis. */
export type AnyNodeRedis = NodeRedisLike | NodeRedisClusterLike | NodeRedisSentinelLike

export function isNodeRedis(client: unknown): client is AnyNodeRedis {
  const candidate = client as Partial<NodeRedisLike> | null
  return (
    typeof candidate?.sendCommand === 'function' && 'isOpen' in candidate && typeof candidate.subscribe === 'function'
  )
}

/**
 * Uses a connected node-redis client, cluster or sentinel that you own. Holdfast sends its commands on it and never
 * closes it. Wake-ups need a connection of their own (in a cluster one to each master where a caller waits): a
 * duplicate, opened when a caller first waits.
 *
 * `connect({ client })` calls this itself; call it yourself only if your bundler cannot follow a dynamic import.
 * @throws {ConfigError} the client is not connected, or has a `keyPrefix` or `legacyMode`
 * @example `const client = await connect({ client: nodeRedis(await createClient({ url }).connect()) })`
 */
export function nodeRedis(client: AnyNodeRedis): RedisPort {
  const { keyPrefix, legacyMode } = ('options' in client ? (client.options ?? {}) : {}) as NodeRedisOptions
  if (legacyMode) {
    throw new ConfigError('client', undefined, 'a node-redis client without legacyMode, which returns no promises')
  }
  if (keyPrefix) {
    throw new ConfigError(
      'client',
      undefined,
      'a node-redis client without keyPrefix: Redisson would use different keys. Put the prefix into the lock names',
    )
  }
  if (!client.isOpen) {
    throw new ConfigError('client', undefined, 'a connected node-redis client: call `await client.connect()` first')
  }
  const reopen = async (signal: AbortSignal, server: string, port: RedisPort): Promise<RedisPort> => {
    // A client that its owner closed stays closed.
    if (!client.isOpen) throw new Error('the client was closed')
    const next = another(client, server, port)
    next.on('error', () => {})
    signal.addEventListener('abort', () => endWhenConnected(next), { once: true })
    await next.connect()
    return portOf(next, () => end(next))
  }
  return replaceWhenUnresponsive(
    portOf(client, async () => {}),
    reopen,
    { advice: ADVICE },
  )
}

const ADVICE =
  'give it a `pingInterval` and a longer `socket.socketTimeout` (ms), so that node-redis detects dead connections itself'

function portOf(client: AnyNodeRedis, endClient: () => Promise<void>): RedisPort {
  if ('slots' in client) return new NodeRedisClusterPort(client, endClient)
  if ('getSentinelNode' in client) return new NodeRedisSentinelPort(client as NodeRedisSentinelLike, endClient)
  return new NodeRedisPort(client as NodeRedisLike, endClient)
}

/**
 * Another client with the same settings, for the same deployment.
 * @param except  an unresponsive server of a cluster, which must not be asked for the others
 */
function another(client: AnyNodeRedis, except: string, port: RedisPort): AnyNodeRedis {
  if (port instanceof NodeRedisSentinelPort) {
    // node-redis trusts the first Sentinel that replies, which may not know of the failover yet.
    const sentinelRootNodes = port.sentinelsWithSuccessor()
    if (sentinelRootNodes?.length === 0) throw new Error('the failover is not over yet')
    return client.duplicate(sentinelRootNodes ? { sentinelRootNodes } : {}) as AnyNodeRedis
  }
  if (!('slots' in client)) return client.duplicate() as AnyNodeRedis
  // Not the initial nodes: they may be gone.
  const known = [...client.masters, ...(client.replicas ?? [])].filter(({ address }) => address !== except)
  const rootNodes = known.map(({ address }) => {
    const colon = address.lastIndexOf(':')
    return { socket: { host: address.slice(0, colon), port: Number(address.slice(colon + 1)) } }
  })
  return client.duplicate(rootNodes.length > 0 ? { rootNodes } : {}) as AnyNodeRedis
}

/** The options that Holdfast reads. */
interface NodeRedisOptions {
  readonly keyPrefix?: unknown
  readonly legacyMode?: unknown
  readonly socket?: object
}

class NodeRedisPort implements RedisPort {
  readonly #client: NodeRedisLike
  readonly #channels = new Map<string, (message: string) => void>()
  readonly #onReady = (): void => {
    this.#replicas.forget()
    this.#events?.reconnected()
  }
  readonly #queue = new ChannelQueue()
  /** Channels whose UNSUBSCRIBE failed: node-redis subscribes to them again after each reconnect. */
  readonly #notLeft = new Set<string>()
  #subscriber: Promise<NodeRedisLike> | undefined
  #opened: NodeRedisLike | undefined
  #hasSocket = false
  #isClosed = false
  #events: PortEvents | undefined

  readonly #connectionError: ConnectionError
  readonly #replicas: Replicas
  readonly #end: () => Promise<void>

  constructor(client: NodeRedisLike, endClient: () => Promise<void>) {
    this.#replicas = new Replicas((...command) => client.sendCommand(command))
    this.#client = client
    this.#connectionError = new ConnectionError(client)
    this.#end = endClient
  }

  async send(command: readonly string[]): Promise<unknown> {
    return await this.#client.sendCommand(command as string[])
  }

  acknowledge(key: string, timeoutMs: number): Promise<Acknowledgement> {
    return this.#replicas.acknowledge(key, timeoutMs)
  }

  fsynced(_key: string, timeoutMs: number): Promise<Fsync> {
    return this.#replicas.fsynced(timeoutMs)
  }

  async ping(): Promise<unknown> {
    return await this.#client.sendCommand(['PING'])
  }

  async pingListener(): Promise<unknown> {
    return await this.#opened?.ping?.()
  }

  get connectionError(): unknown {
    return this.#connectionError.last
  }

  isErrorReply(error: unknown): boolean {
    return isErrorReply(error)
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    this.#channels.set(channel, onMessage)
    this.#subscriber ??= this.#openSubscriber()
    const subscriber = await this.#subscriber
    await this.#queue.run(channel, async () => {
      // It may have been unsubscribed meanwhile.
      if (this.#channels.get(channel) === onMessage) await subscriber.subscribe(channel, onMessage)
    })
  }

  async unsubscribe(channel: string): Promise<void> {
    this.#channels.delete(channel)
    const subscriber = this.#opened
    if (!subscriber) return
    await this.#queue.run(channel, () =>
      subscriber.unsubscribe(channel).then(
        () => this.#notLeft.delete(channel),
        () => this.#notLeft.add(channel),
      ),
    )
  }

  listen(events: PortEvents): void {
    this.#events = events
    this.#client.on('ready', this.#onReady)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#client.off('ready', this.#onReady)
    this.#connectionError.close()
    if (this.#opened && this.#hasSocket) await end(this.#opened)
    await this.#end()
  }

  async #openSubscriber(): Promise<NodeRedisLike> {
    const { socket } = (this.#client.options ?? {}) as NodeRedisOptions
    const subscriber = this.#client.duplicate({
      disableOfflineQueue: false,
      // It must reconnect whatever the user's own client does, and must not be closed while its channels are silent.
      socket: {
        ...socket,
        reconnectStrategy: (attempt: number) => !this.#isClosed && Math.min(attempt * 50, 1_000),
        socketTimeout: undefined,
      },
    })
    this.#opened = subscriber
    // Without a listener an error event would end the process.
    subscriber.on('error', () => {})
    let isFirst = true
    subscriber.on('ready', () => {
      const isReconnect = !isFirst
      isFirst = false
      if (isReconnect) this.#resubscribe(subscriber)
    })
    // If a node-redis client is ended while its socket is being opened, it connects nevertheless and then can no longer
    // be ended. So it is ended as soon as it has a socket.
    subscriber.on('connect', () => {
      this.#hasSocket = true
      if (this.#isClosed) void end(subscriber)
    })
    subscriber.on('reconnecting', () => {
      this.#hasSocket = false
      for (const channel of this.#channels.keys()) this.#events?.subscriptionLost?.(channel)
    })
    try {
      await subscriber.connect()
    } catch (error) {
      this.#subscriber = undefined // the next subscription tries again
      throw error
    }
    return subscriber
  }

  /**
   * node-redis resubscribes by itself, but not to channels whose first SUBSCRIBE was lost with the connection; and also
   * to channels whose UNSUBSCRIBE was lost.
   */
  #resubscribe(subscriber: NodeRedisLike): void {
    for (const channel of this.#notLeft) if (!this.#channels.has(channel)) void this.unsubscribe(channel)
    const subscribe = (channel: string): Promise<void> =>
      this.#queue.run(channel, async () => {
        const onMessage = this.#channels.get(channel)
        if (onMessage) await subscriber.subscribe(channel, onMessage)
      })
    subscribeEach(this.#channels.keys(), subscribe, this.isErrorReply, (channel, refusal) =>
      this.#events?.resubscribed(channel, refusal),
    )
  }
}
