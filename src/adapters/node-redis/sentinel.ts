// A sentinel client of node-redis as a port.
import { threadClock } from '../../util/clock.js'
import { retry } from '../../util/retry.js'
import type { Acknowledgement, Fsync, PortEvents, RedisPort } from '../port.js'
import { type MasterStatus, Replicas } from '../replicas.js'
import { type SentinelAddress, type SentinelConnection, SentinelMasterStatus } from '../sentinel-master-status.js'
import { ChannelQueue, endingOf, isErrorReply, type NodeRedisBase, type NodeRedisLike } from './client.js'

/** The part of a node-redis sentinel (6 or later) that Holdfast uses. It has its own subscriber connection. */
export interface NodeRedisSentinelLike extends NodeRedisBase {
  sendCommand(isReadonly: boolean, args: string[]): Promise<unknown>
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>
  // biome-ignore lint/suspicious/noExplicitAny: node-redis expects a listener for text and buffers here
  unsubscribe(channel: string, listener?: (message: any) => void): Promise<unknown>
  /** The Sentinel that it is connected to. */
  getSentinelNode(): SentinelAddress | undefined
  /** @throws {Error} it is connected to no master */
  getMasterNode(): SentinelAddress | undefined
}

/** Undocumented in node-redis: runs `use` with the client that is connected to the master. */
interface Executing {
  _execute?<T>(isReadonly: boolean, use: (master: NodeRedisLike) => Promise<T>): Promise<T>
}

const CONNECT_MS = 1_000
/** How often to check whether the subscriber connection is back, ms. */
const PROBE_MS = 250
/** Nothing is published on it. The ACL rule for the channels of Redisson covers the name. */
const PROBE_CHANNEL = 'redisson_holdfast_probe'

/** A node-redis sentinel: commands and channels follow the master. */
export class NodeRedisSentinelPort implements RedisPort {
  readonly isReplicated = true
  readonly #sentinel: NodeRedisSentinelLike
  readonly #replicas: Replicas
  readonly #onChange = ({ type }: { readonly type?: string }): void => {
    // Changes of replicas and Sentinels do not matter here.
    if (!type?.startsWith('MASTER')) return
    this.#replicas.reset()
    this.#events?.reconnected()
    this.#subscriberLost()
  }
  /** Only errors of the subscriber connection are emitted as they are, without the name of a server. */
  readonly #onError = (error: unknown): void => {
    if (error instanceof Error && !/^(Sentinel|Master|Replica) Client /.test(error.message)) this.#subscriberLost()
  }
  readonly #queue = new ChannelQueue()
  readonly #end: () => Promise<void>
  readonly #connected: () => Promise<void>
  #sentinels: Promise<SentinelMasterStatus | undefined> | undefined
  #known: SentinelMasterStatus | undefined
  readonly #listeners = new Map<string, (message: string) => void>()
  #probing: Promise<void> | undefined
  #isClosed = false
  #events: PortEvents | undefined

  /** @param connected  resolves when it is connected */
  constructor(
    sentinel: NodeRedisSentinelLike,
    endSentinel: () => Promise<void>,
    connected = async (): Promise<void> => {},
  ) {
    this.#connected = connected
    this.#sentinel = sentinel
    this.#end = endSentinel
    this.#replicas = new Replicas((...command) => this.send(command), {
      isReplicated: true,
      ...((sentinel as Executing)._execute ? { masterStatus: (runId) => this.#masterStatus(runId) } : {}),
    })
  }

  async send(command: readonly string[]): Promise<unknown> {
    await this.#connected()
    return await this.#sentinel.sendCommand(false, command as string[])
  }

  acknowledge(key: string, timeoutMs: number): Promise<Acknowledgement> {
    return this.#replicas.acknowledge(key, timeoutMs)
  }

  fsynced(_key: string, timeoutMs: number): Promise<Fsync> {
    return this.#replicas.fsynced(timeoutMs)
  }

  async ping(): Promise<unknown> {
    return await this.send(['PING'])
  }

  isErrorReply(error: unknown): boolean {
    return isErrorReply(error)
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    this.#listeners.set(channel, onMessage)
    await this.#connected()
    await this.#queue.run(channel, () => this.#sentinel.subscribe(channel, onMessage))
  }

  async unsubscribe(channel: string): Promise<void> {
    // Others may subscribe to the same channel with the same sentinel client.
    const onMessage = this.#listeners.get(channel)
    this.#listeners.delete(channel)
    await this.#queue.run(channel, () => this.#sentinel.unsubscribe(channel, onMessage)).catch(() => {})
  }

  listen(events: PortEvents): void {
    this.#events = events
    for (const event of ['topology-change', 'client-error']) this.#sentinel.on(event, this.#onChange)
    this.#sentinel.on('error', this.#onError)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const event of ['topology-change', 'client-error']) this.#sentinel.off(event, this.#onChange)
    this.#sentinel.off('error', this.#onError)
    void this.#sentinels?.then((sentinels) => sentinels?.close())
    await this.#end()
  }

  #subscriberLost(): void {
    for (const channel of this.#listeners.keys()) this.#events?.subscriptionLost?.(channel)
    this.#probing ??= this.#probe().finally(() => {
      this.#probing = undefined
    })
  }

  /**
   * node-redis resubscribes by itself, but does not report it. It sends other commands on that connection only
   * afterwards: so this subscribes to another channel, and unsubscribes from it.
   */
  async #probe(): Promise<void> {
    const ignore = (): void => {}
    const subscribeAndLeave = async (): Promise<void> => {
      await this.#sentinel.subscribe(PROBE_CHANNEL, ignore)
      await this.#sentinel.unsubscribe(PROBE_CHANNEL, ignore)
    }
    const isNeeded = (): boolean => !this.#isClosed && this.#listeners.size > 0
    await retry(async () => isNeeded() && (await subscribeAndLeave()), {
      clock: threadClock,
      keepAlive: false,
      delayMs: () => PROBE_MS,
      isRetryable: (error) => !isErrorReply(error), // an error reply: the user may not subscribe to it
    }).catch(() => {})
    if (isNeeded()) for (const channel of this.#listeners.keys()) this.#events?.resubscribed(channel)
  }

  /**
   * The Sentinels for another client like this one: node-redis waits for the first of its list, however long it is silent.
   * @returns empty if none is known to reply
   * @throws {Error} none describes the successor of a replaced master yet
   */
  async respondingSentinels(): Promise<SentinelAddress[]> {
    return (await this.#known?.responding()) ?? []
  }

  async #masterStatus(runId: string): Promise<MasterStatus | undefined> {
    if (this.#isClosed) return undefined
    // A failure must neither be kept nor be left unhandled by close(): the next grant asks again.
    this.#sentinels ??= sentinelsOf(this.#sentinel).catch(() => undefined)
    const sentinels = await this.#sentinels
    if (!sentinels) this.#sentinels = undefined
    this.#known = sentinels
    const node = this.#sentinel.getSentinelNode()
    if (node) sentinels?.add(node)
    return await sentinels?.of(runId, addressOf(this.#sentinel))
  }
}

/**
 * The address of the master that it is connected to. For seconds after a failover, Sentinels do not know its run id.
 */
function addressOf(sentinel: NodeRedisSentinelLike): string | undefined {
  try {
    const node = sentinel.getMasterNode()
    return node && `${node.host}:${node.port}`
  } catch {
    return undefined
  }
}

/**
 * Asks the Sentinels that the client knows. node-redis does not expose their password, so Sentinels that require one
 * cannot be asked.
 * @returns undefined if it currently knows none
 */
async function sentinelsOf(sentinel: NodeRedisSentinelLike): Promise<SentinelMasterStatus | undefined> {
  const node = sentinel.getSentinelNode()
  // A client from the user's own copy of node-redis, to duplicate.
  const master = await (sentinel as Executing)._execute?.(false, async (client) => client)
  if (!node || !master) return undefined
  return new SentinelMasterStatus(undefined, [node], (address) => connectionTo(master, address), true)
}

function connectionTo(master: NodeRedisLike, { host, port }: SentinelAddress): SentinelConnection {
  const { socket } = (master.options ?? {}) as { socket?: object }
  const client = master.duplicate({
    username: undefined,
    password: undefined,
    credentialsProvider: undefined,
    database: undefined,
    clientSideCache: undefined,
    pingInterval: undefined,
    disableOfflineQueue: false,
    socket: { ...socket, host, port, connectTimeout: CONNECT_MS, reconnectStrategy: false, socketTimeout: undefined },
  })
  client.on('error', () => {})
  const end = endingOf(client)
  const connected = client.connect()
  connected.catch(() => {})
  let hasEnded = false
  client.on('end', () => {
    hasEnded = true
  })
  return {
    get isOpen() {
      return !hasEnded && client.isOpen
    },
    async call(...command) {
      await connected
      return await client.sendCommand(command)
    },
    end,
  }
}
