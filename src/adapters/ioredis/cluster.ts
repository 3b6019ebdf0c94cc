// A Cluster of ioredis as a port.
import { ConfigError } from '../../errors.js'
import { clearInterval, setInterval } from '../../util/real-time.js'
import { addressesUnknown } from '../../util/unusual-servers.js'
import { slotOf } from '../../wire/slots.js'
import { ClusterChannels, type Listener, unlessUnknown } from '../cluster-channels.js'
import { clusterMasterStatus } from '../cluster-master-status.js'
import { warnOfRefusedSignIn } from '../connection-error.js'
import type { Acknowledgement, Fsync, PortEvents, RedisPort } from '../port.js'
import { Replicas } from '../replicas.js'
import { call, type IoredisLike, isReplyError, SUBSCRIBER_OPTIONS } from './client.js'

/** The additional part of an ioredis Cluster. */
export interface IoredisClusterLike extends IoredisLike {
  /** The addresses of the servers of each slot, the master first. */
  readonly slots?: readonly (readonly string[] | undefined)[]
  nodes(role?: 'master'): IoredisNodeLike[]
  duplicate(nodes?: readonly object[], options?: object): IoredisLike
  refreshSlotsCache?(): void
  /** Decides what becomes of a command that has failed. */
  handleError?(error: Error, redirectionsLeft: object, handlers: { defaults(): void }): void
}

interface IoredisNodeLike extends IoredisLike {
  readonly options: { readonly host?: string; readonly port?: number; readonly keyPrefix?: string | undefined }
  connect(): Promise<unknown>
  ssubscribe(...channels: string[]): Promise<unknown>
  sunsubscribe(...channels: string[]): Promise<unknown>
}

/** An ioredis Cluster: commands go to the owner of their key, subscriptions to the owner of their channel. */
export class IoredisClusterPort implements RedisPort {
  readonly isCluster = true
  readonly isReplicated = true
  readonly #cluster: IoredisClusterLike
  readonly #disconnect: () => void
  readonly #channels: ClusterChannels
  /**
   * Nodes that are or were connected. The first connection to a server is opened by the first command, and is no
   * reconnect.
   */
  readonly #connected = new WeakSet<IoredisNodeLike>()
  /** Addresses whose connection was lost. */
  readonly #lost = new Set<string>()
  readonly #readiness = new Map<IoredisNodeLike, () => void>()
  readonly #onNode = (node: IoredisNodeLike): void => {
    if (node.status === 'ready') this.#connected.add(node)
    const onReady = (): void => {
      this.#connected.add(node)
      if (this.#lost.delete(addressOf(node))) this.#events?.reconnected()
    }
    this.#readiness.set(node, onReady)
    node.on('ready', onReady)
  }
  readonly #onNodeLost = (node: IoredisNodeLike): void => {
    this.#readiness.delete(node)
    if (!this.#connected.has(node)) return // nothing was sent to it
    this.#lost.add(addressOf(node))
    this.#events?.reconnected()
  }
  readonly #replicas = new WeakMap<IoredisNodeLike, Replicas>()
  readonly #refreshMs: number | undefined
  #refreshing: NodeJS.Timeout | undefined
  #events: PortEvents | undefined

  /**
   * @param refreshMs  how often to ask for the slots, in place of ioredis's `slotsRefreshInterval`: a cluster that is
   *   disconnected while such a refresh is in flight continues to refresh forever (ioredis 5 and 6)
   */
  constructor(cluster: IoredisClusterLike, disconnect: () => void, refreshMs?: number) {
    if (!cluster.slots) {
      throw new ConfigError('client', undefined, 'an ioredis Cluster of version 5.4 or later')
    }
    warnOfRefusedSignIn(cluster, (warning) => this.#events?.warning?.(warning))
    this.#cluster = cluster
    rejectWhileMoving(cluster)
    this.#disconnect = disconnect
    this.#refreshMs = refreshMs
    this.#channels = new ClusterChannels({
      ownerOf: (slot) => cluster.slots?.[slot]?.[0],
      open: (address, onMessage, onChange) => this.#open(address, onMessage, onChange),
      refresh: () => cluster.refreshSlotsCache?.(),
      isErrorReply: isReplyError,
    })
  }

  send(command: readonly string[]): Promise<unknown> {
    return call(this.#cluster, command)
  }

  async masters(): Promise<readonly string[]> {
    return this.#cluster.nodes('master').map(addressOf)
  }

  async sendTo(master: string, command: readonly string[]): Promise<unknown> {
    const [name, ...args] = command as [string, ...string[]]
    return await this.#nodeAt(master).call(name, ...args)
  }

  async acknowledge(key: string, timeoutMs: number): Promise<Acknowledgement> {
    return await this.#replicasOf(key).acknowledge(key, timeoutMs)
  }

  async fsynced(key: string, timeoutMs: number): Promise<Fsync> {
    return await this.#replicasOf(key).fsynced(timeoutMs)
  }

  serverOf(key: string): string | undefined {
    return this.#cluster.slots?.[slotOf(key)]?.[0]
  }

  pingListener(): Promise<unknown> {
    return this.#channels.ping()
  }

  get connectionError(): unknown {
    // The slots have owners, but without an address.
    return this.#cluster.slots?.some((servers) => servers?.length === 0) ? addressesUnknown() : undefined
  }

  isErrorReply(error: unknown): boolean {
    return isReplyError(error)
  }

  subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    return this.#channels.subscribe(channel, onMessage)
  }

  unsubscribe(channel: string): Promise<void> {
    return this.#channels.unsubscribe(channel)
  }

  listen(events: PortEvents): void {
    this.#events = events
    this.#channels.listen(events)
    // A command in flight to a server that is gone is sent again to another one.
    this.#cluster.on('+node', this.#onNode)
    this.#cluster.on('-node', this.#onNodeLost)
    for (const node of this.#cluster.nodes()) this.#onNode(node)
    // Not in the constructor: a replacement that did not connect in time is never listened to, and never closed.
    if (this.#refreshMs)
      this.#refreshing = setInterval(() => this.#cluster.refreshSlotsCache?.(), this.#refreshMs).unref()
  }

  async close(): Promise<void> {
    this.#cluster.off('+node', this.#onNode)
    this.#cluster.off('-node', this.#onNodeLost)
    for (const [node, onReady] of this.#readiness) node.off('ready', onReady)
    clearInterval(this.#refreshing)
    this.#channels.close()
    this.#disconnect()
  }

  #replicasOf(key: string): Replicas {
    const node = this.#nodeAt(this.serverOf(key))
    const present = this.#replicas.get(node)
    if (present) return present
    type Command = [string, ...string[]]
    const replicas = new Replicas((...command) => node.call(...command), {
      isReplicated: true,
      masterStatus: (_, owned) => {
        const others = this.#cluster.nodes('master').filter((other) => addressOf(other) !== addressOf(node))
        const calls = others.map(
          (other) =>
            (...command: Command) =>
              other.call(...command),
        )
        return clusterMasterStatus(
          (...command) => node.call(...command),
          () => calls,
          owned,
        )
      },
    })
    this.#replicas.set(node, replicas)
    return replicas
  }

  #nodeAt(address: string | undefined): IoredisNodeLike {
    const node = this.#cluster.nodes('master').find((one) => addressOf(one) === address)
    if (!node) throw new Error(`${address} is not a known master`)
    return node
  }

  async #open(
    address: string,
    onMessage: (channel: string, message: string) => void,
    onChange: () => void,
  ): Promise<Listener> {
    const options = { ...SUBSCRIBER_OPTIONS, lazyConnect: true, retryStrategy: null }
    const redis = this.#nodeAt(address).duplicate(options) as IoredisNodeLike
    redis.on('error', () => {})
    redis.on('message', onMessage)
    redis.on('smessage', onMessage)
    redis.on('moved', onChange)
    redis.on('end', onChange)
    await redis.connect()
    return {
      async subscribe(channel) {
        await redis.subscribe(channel)
        await unlessUnknown(redis.ssubscribe(channel))
      },
      async unsubscribe(channel) {
        await redis.unsubscribe(channel)
        await unlessUnknown(redis.sunsubscribe(channel))
      },
      ping: () => redis.call('PING'),
      end: () => redis.disconnect(),
    }
  }
}

function addressOf({ options: { host, port } }: IoredisNodeLike): string {
  return `${host}:${port}`
}

/**
 * Rejects a command at once if its slot is being moved, as we repeat it ourselves. ioredis would send it to random servers,
 * for longer than a server may be silent, and then tell of the last redirection only.
 */
function rejectWhileMoving(cluster: IoredisClusterLike): void {
  const { handleError } = cluster
  cluster.handleError = (error, redirectionsLeft, handlers) => {
    if (error.message.startsWith('TRYAGAIN')) handlers.defaults()
    else handleError?.call(cluster, error, redirectionsLeft, handlers)
  }
}
