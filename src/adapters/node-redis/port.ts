// holdfast/node-redis: a node-redis client as a port.
import { ConfigError } from '../../errors.js'
import { listenTogether } from '../../util/shared-listener.js'
import { warnOfRefusedSignIn } from '../connection-error.js'
import { type Acknowledgement, type Fsync, type PortEvents, type RedisPort, subscribeEach } from '../port.js'
import { replaceWhenUnresponsive } from '../replaceable-port.js'
import { Replicas } from '../replicas.js'
import type { SentinelAddress } from '../sentinel-master-status.js'
import { ChannelQueue, endingOf, endWhenConnected, isErrorReply, type NodeRedisLike } from './client.js'
import { endCluster, hasHost, type NodeRedisClusterLike, NodeRedisClusterPort } from './cluster.js'
import { connectsLater, databaseOf, OwnConnection } from './connection.js'
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
 * Uses a connected node-redis client, cluster or sentinel that you own, and never closes it. Holdfast opens connections of
 * its own with the same settings: a duplicate for its commands, and another one for wake-ups when a caller first waits (in
 * a cluster one to each master where a caller waits). They end when you close your client. What you do on yours, such as
 * SELECT or a command that blocks, does not concern them; Holdfast stays in the database that is selected now.
 *
 * `connect({ client })` calls this itself; call it yourself only if your bundler cannot follow a dynamic import.
 * @throws {ConfigError} the client is not connected, has a `keyPrefix` or `legacyMode`, or is a cluster or sentinel of a
 *   version before 6, which may take the reply to one command for that to another
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
  if (isSeveral(client) && !('clientUnblock' in client)) throw mixesReplies(client)
  if (!client.isOpen) {
    throw new ConfigError('client', undefined, 'a connected node-redis client: call `await client.connect()` first')
  }
  const database = isSeveral(client) ? Promise.resolve(0) : databaseOf(client as NodeRedisLike)
  const opened = new Set<Opened>()
  const open = (except = '', sentinels?: readonly SentinelAddress[]): Opened => {
    const one = isSeveral(client) ? anotherOf(client, except, sentinels) : ownOf(client as NodeRedisLike, database)
    opened.add(one)
    return one
  }
  // A client that its owner closed stays closed, and so do its duplicates.
  const onEnd = (): void => {
    if (!client.isOpen) for (const { end } of opened) void end()
  }
  const stops = ENDS.map((event) => listenTogether(client, event, onEnd))
  const first = open()
  const reopen = async (signal: AbortSignal, server: string, port: RedisPort): Promise<RedisPort> => {
    const sentinels = port instanceof NodeRedisSentinelPort ? await port.respondingSentinels() : undefined
    signal.throwIfAborted()
    const next = open(server, sentinels)
    const abort = (): void => {
      opened.delete(next) // in a long outage there are thousands
      void next.end()
    }
    signal.addEventListener('abort', abort, { once: true })
    await next.ready()
    return next.port
  }
  return replaceWhenUnresponsive(first.port, reopen, {
    isClosed: () => !client.isOpen,
    open: () => first.ready(),
    onClose() {
      for (const stop of stops) stop()
      for (const { end } of opened) void end()
    },
  })
}

/** The events of a client or sentinel, and of a cluster, when it is closed. */
const ENDS = ['end', 'disconnect']

function isSeveral(client: AnyNodeRedis): client is NodeRedisClusterLike | NodeRedisSentinelLike {
  return 'slots' in client || 'getSentinelNode' in client
}

/** Before 6.0.0 a connection that is lost at the wrong moment leaves commands behind that take the next ones' replies. */
function mixesReplies(client: AnyNodeRedis): ConfigError {
  const kind = 'slots' in client ? 'cluster' : 'sentinel'
  const allowed =
    `a ${kind} of node-redis 6 or later: earlier versions may take the reply to one command for that to another after a ` +
    'reconnect, so that a lock has two holders. Update the package redis, or use ioredis'
  return new ConfigError('client', undefined, allowed)
}

/** A connection of ours. */
interface Opened {
  readonly port: RedisPort
  /** Resolves when it is connected. */
  ready(): Promise<unknown>
  /** Ends it, without waiting. */
  end(): Promise<void>
}

function ownOf(client: NodeRedisLike, database: Promise<number>): Opened {
  const connection = new OwnConnection(client, database)
  const port = new NodeRedisPort(client, connection)
  return { port, ready: () => connection.ready(), end: async () => connection.end() }
}

function anotherOf(
  client: NodeRedisClusterLike | NodeRedisSentinelLike,
  except: string,
  sentinels?: readonly SentinelAddress[],
): Opened {
  const own = another(client, except, sentinels)
  own.on('error', () => {})
  let hasEnded = false
  const ready = connectsLater(own, () => client.isOpen && !hasEnded)
  const end = async (): Promise<void> => {
    hasEnded = true
    if ('slots' in own) endCluster(own)
    else endWhenConnected(own)
  }
  const port = 'slots' in own ? new NodeRedisClusterPort(own, end, ready) : new NodeRedisSentinelPort(own, end, ready)
  return { port, ready, end }
}

/**
 * Another client with the same settings, for the same deployment.
 * @param except  an unresponsive server of a cluster, which must not be asked for the others; empty: none
 * @param sentinels  those that reply; by default the one that the client is connected to
 */
function another(
  client: NodeRedisClusterLike | NodeRedisSentinelLike,
  except: string,
  sentinels: readonly SentinelAddress[] = [],
): NodeRedisClusterLike | NodeRedisSentinelLike {
  if (!('slots' in client)) {
    const connected = client.getSentinelNode()
    const sentinelRootNodes = sentinels.length > 0 || !connected ? sentinels : [connected]
    // WAIT covers only its own connection, and node-redis takes the connections of a pool in turn.
    return client.duplicate({
      masterPoolSize: 1,
      ...(sentinelRootNodes.length > 0 ? { sentinelRootNodes } : {}),
    }) as NodeRedisSentinelLike
  }
  // Not the initial nodes: they may be gone.
  const known = [...client.masters, ...(client.replicas ?? [])].filter(
    (node) => node.address !== except && hasHost(node),
  )
  const rootNodes = known.map(({ address }) => {
    const colon = address.lastIndexOf(':')
    return { socket: { host: address.slice(0, colon), port: Number(address.slice(colon + 1)) } }
  })
  return client.duplicate(rootNodes.length > 0 ? { rootNodes } : {}) as NodeRedisClusterLike
}

/** The options that Holdfast reads. */
interface NodeRedisOptions {
  readonly keyPrefix?: unknown
  readonly legacyMode?: unknown
  readonly socket?: object
  readonly username?: string
  readonly password?: string
}

class NodeRedisPort implements RedisPort {
  /** The user's client, which is duplicated. */
  readonly #client: NodeRedisLike
  readonly #connection: OwnConnection
  readonly #channels = new Map<string, (message: string) => void>()
  readonly #queue = new ChannelQueue()
  /** Channels whose UNSUBSCRIBE failed: node-redis subscribes to them again after each reconnect. */
  readonly #notLeft = new Set<string>()
  readonly #replicas: Replicas
  #subscriber: Promise<NodeRedisLike> | undefined
  #opened: NodeRedisLike | undefined
  #endSubscriber: (() => void) | undefined
  #isClosed = false
  #events: PortEvents | undefined

  constructor(client: NodeRedisLike, connection: OwnConnection) {
    this.#client = client
    this.#connection = connection
    this.#replicas = new Replicas((...command) => connection.send(command))
  }

  send(command: readonly string[]): Promise<unknown> {
    return this.#connection.send(command)
  }

  acknowledge(key: string, timeoutMs: number): Promise<Acknowledgement> {
    return this.#replicas.acknowledge(key, timeoutMs)
  }

  fsynced(_key: string, timeoutMs: number): Promise<Fsync> {
    return this.#replicas.fsynced(timeoutMs)
  }

  ping(): Promise<unknown> {
    return this.#connection.send(['PING'])
  }

  async pingListener(): Promise<unknown> {
    return await this.#opened?.ping?.()
  }

  get connectionError(): unknown {
    return this.#connection.lastError
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
    this.#connection.onReopened = () => {
      this.#replicas.reset()
      events.reconnected()
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#connection.close()
    this.#endSubscriber?.()
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
    this.#endSubscriber = endingOf(subscriber)
    warnOfRefusedSignIn(subscriber, (warning) => this.#events?.warning?.(warning))
    // Without a listener an error event would end the process.
    subscriber.on('error', () => {})
    let isFirst = true
    subscriber.on('ready', () => {
      const isReconnect = !isFirst
      isFirst = false
      if (isReconnect) this.#resubscribe(subscriber)
    })
    subscriber.on('reconnecting', () => {
      // Whoever renews a password sets it in the options of the client that he has: node-redis 4 has no `credentialsProvider`.
      const { username, password } = (this.#client.options ?? {}) as NodeRedisOptions
      if (subscriber.options && password !== undefined) Object.assign(subscriber.options, { username, password })
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
