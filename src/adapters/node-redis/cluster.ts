// A cluster of node-redis as a port.
import { queueMicrotask, setTimeout } from '../../util/real-time.js'
import { addressesUnknown } from '../../util/unusual-servers.js'
import { slotOf } from '../../wire/slots.js'
import { ClusterChannels, type Listener, unlessUnknown } from '../cluster-channels.js'
import { clusterMasterStatus } from '../cluster-master-status.js'
import type { Acknowledgement, Fsync, PortEvents, RedisPort } from '../port.js'
import { Replicas } from '../replicas.js'
import { ChannelQueue, end, isErrorReply, type NodeRedisBase, type NodeRedisLike } from './client.js'

/** The part of a node-redis cluster (6 or later) that Holdfast uses. */
export interface NodeRedisClusterLike extends NodeRedisBase {
  readonly slots: readonly ({ readonly master: Master } | undefined)[]
  readonly masters: readonly Master[]
  readonly replicas?: readonly Master[]
  sendCommand(firstKey: string, isReadonly: boolean, args: string[]): Promise<unknown>
  nodeClient(node: Master): NodeRedisNodeLike | Promise<NodeRedisNodeLike>
}

interface Master {
  readonly address: string
  client?: (NodeRedisBase & { readonly isReady?: boolean }) | undefined
}

interface NodeRedisNodeLike extends NodeRedisLike {
  sSubscribe(channel: string, listener: (message: string) => void): Promise<unknown>
  sUnsubscribe(channel: string): Promise<unknown>
}

/** By then a socket that was being opened is open or has failed, ms. */
const PENDING_MS = 10_000

/** Events of a server, or of its connection, after which commands in flight may have been lost. */
const LOSSES = ['node-reconnecting', 'node-disconnect', 'node-error']

/** A node-redis cluster: commands go to the owner of their key, subscriptions to the owner of their channel. */
export class NodeRedisClusterPort implements RedisPort {
  readonly isCluster = true
  readonly isReplicated = true
  readonly #cluster: NodeRedisClusterLike
  readonly #channels: ClusterChannels
  /**
   * Addresses whose connection was lost. The first one to a server is opened by the first command, and is no reconnect.
   */
  readonly #lost = new Set<string>()
  readonly #onLost = (...args: readonly unknown[]): void => {
    this.#lost.add(addressOf(args))
    this.#events?.reconnected()
  }
  readonly #onReady = (...args: readonly unknown[]): void => {
    if (this.#lost.delete(addressOf(args))) this.#events?.reconnected()
  }
  readonly #replicas = new WeakMap<NodeRedisNodeLike, Replicas>()
  #events: PortEvents | undefined

  readonly #end: () => Promise<void>
  readonly #connected: () => Promise<void>

  /** @param connected  resolves when it is connected */
  constructor(
    cluster: NodeRedisClusterLike,
    endCluster: () => Promise<void>,
    connected = async (): Promise<void> => {},
  ) {
    this.#connected = connected
    this.#cluster = cluster
    this.#end = endCluster
    this.#channels = new ClusterChannels({
      ownerOf: (slot) => cluster.slots[slot]?.master.address,
      open: (address, onMessage, onChange) => this.#open(address, onMessage, onChange),
      refresh: () => {}, // node-redis learns of a move from the next redirected command
      isErrorReply,
    })
  }

  async send(command: readonly string[], key: string): Promise<unknown> {
    await this.#connected()
    return await this.#cluster.sendCommand(key, false, command as string[])
  }

  async masters(): Promise<readonly string[]> {
    await this.#connected()
    return this.#cluster.masters.map(({ address }) => address)
  }

  async sendTo(master: string, command: readonly string[]): Promise<unknown> {
    return await (await this.#nodeAt(master)).sendCommand(command as string[])
  }

  async acknowledge(key: string, timeoutMs: number): Promise<Acknowledgement> {
    return await (await this.#replicasOf(key)).acknowledge(key, timeoutMs)
  }

  async fsynced(key: string, timeoutMs: number): Promise<Fsync> {
    return await (await this.#replicasOf(key)).fsynced(timeoutMs)
  }

  serverOf(key: string): string | undefined {
    return this.#cluster.slots[slotOf(key)]?.master.address
  }

  pingListener(): Promise<unknown> {
    return this.#channels.ping()
  }

  get connectionError(): unknown {
    return this.#cluster.masters.every(hasHost) ? undefined : addressesUnknown()
  }

  isErrorReply(error: unknown): boolean {
    return isErrorReply(error)
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    await this.#connected()
    await this.#channels.subscribe(channel, onMessage)
  }

  unsubscribe(channel: string): Promise<void> {
    return this.#channels.unsubscribe(channel)
  }

  listen(events: PortEvents): void {
    this.#events = events
    this.#channels.listen(events)
    for (const loss of LOSSES) this.#cluster.on(loss, this.#onLost)
    this.#cluster.on('node-ready', this.#onReady)
  }

  async close(): Promise<void> {
    for (const loss of LOSSES) this.#cluster.off(loss, this.#onLost)
    this.#cluster.off('node-ready', this.#onReady)
    this.#channels.close()
    await this.#end()
  }

  async #replicasOf(key: string): Promise<Replicas> {
    const master = this.#cluster.slots[slotOf(key)]?.master
    if (!master) throw new Error(`no master is known for the slot of ${JSON.stringify(key)}`)
    const node = await this.#cluster.nodeClient(master)
    const present = this.#replicas.get(node)
    if (present) return present
    const replicas = new Replicas((...command) => node.sendCommand(command), {
      isReplicated: true,
      masterStatus: (_, owned) => {
        const others = this.#cluster.masters.filter((other) => other.address !== master.address)
        const calls = others.map((other) => async (...command: string[]) => {
          const client = await this.#cluster.nodeClient(other)
          return await client.sendCommand(command)
        })
        return clusterMasterStatus(
          (...command) => node.sendCommand(command),
          () => calls,
          owned,
        )
      },
    })
    this.#replicas.set(node, replicas)
    return replicas
  }

  async #nodeAt(address: string): Promise<NodeRedisNodeLike> {
    const master = this.#cluster.masters.find((node) => node.address === address)
    if (!master) throw new Error(`${address} is not a known master`)
    return await this.#cluster.nodeClient(master)
  }

  async #open(
    address: string,
    onMessage: (channel: string, message: string) => void,
    onChange: () => void,
  ): Promise<Listener> {
    const node = await this.#nodeAt(address)
    const { socket } = (node.options ?? {}) as { socket?: object }
    const client = node.duplicate({
      disableOfflineQueue: false,
      socket: { ...socket, reconnectStrategy: false, socketTimeout: undefined },
    }) as NodeRedisNodeLike
    client.on('error', onChange)
    client.on('end', onChange)
    client.on('sharded-channel-moved', onChange)
    await client.connect()
    const queue = new ChannelQueue()
    return {
      subscribe: (channel) =>
        queue.run(channel, async () => {
          const listener = (message: string): void => onMessage(channel, message)
          await client.subscribe(channel, listener)
          await unlessUnknown(client.sSubscribe(channel, listener))
        }),
      unsubscribe: (channel) =>
        queue.run(channel, async () => {
          await client.unsubscribe(channel)
          await unlessUnknown(client.sUnsubscribe(channel))
        }),
      ping: async () => await client.ping?.(),
      end: () => end(client),
    }
  }
}

/**
 * Ends a cluster of ours, again when it has connected. A node that is ended while its socket is being opened connects
 * nevertheless, and the cluster has forgotten it: such a node is ended as soon as it has a socket, or cannot open one.
 * Events tell of the nodes that a discovery under way still creates.
 */
export function endCluster(cluster: NodeRedisClusterLike): void {
  const endNodes = (): void => {
    for (const node of [...cluster.masters, ...(cluster.replicas ?? [])]) {
      if (!node.client || node.client.isReady) continue
      endConnecting(node.client)
      node.client = undefined
    }
    try {
      cluster.destroy?.()
    } catch {
      // Before 6.3 it throws at a node that is closed already.
    }
  }
  for (const event of ['connect', 'node-connect', 'node-error']) cluster.on(event, endNodes)
  endNodes()
}

function endConnecting(client: NodeRedisBase): void {
  const endSoon = (): void => queueMicrotask(() => void end(client).catch(() => {}))
  for (const event of ['connect', 'ready', 'error']) client.on(event, endSoon)
  setTimeout(endSoon, PENDING_MS).unref() // its server accepts connections, and is silent
}

/** Whether the cluster says where a node is. */
export function hasHost({ address }: Master): boolean {
  return !/^(null|undefined|\?|):\d+$/.test(address)
}

/** The address of the server that an event is about: its last argument, after the error, if there is one. */
function addressOf(args: readonly unknown[]): string {
  const { host, port } = (args.at(-1) ?? {}) as { host?: string; port?: number }
  return `${host}:${port}`
}
