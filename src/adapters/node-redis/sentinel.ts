import type { Acknowledgement, Fsync, PortEvents, RedisPort } from '../port.js'
import { Replicas, type Standing } from '../replicas.js'
import { type SentinelAddress, type SentinelConnection, Sentinels } from '../sentinels.js'
import { endWhenConnected, isErrorReply, type NodeRedisBase, type NodeRedisLike, Turns } from './client.js'

/** What Holdfast uses of a node-redis sentinel (5 or later). It has a connection for channels of its own. */
export interface NodeRedisSentinelLike extends NodeRedisBase {
  sendCommand(isReadonly: boolean, args: string[]): Promise<unknown>
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>
  // biome-ignore lint/suspicious/noExplicitAny: node-redis wants one for text and buffers here
  unsubscribe(channel: string, listener?: (message: any) => void): Promise<unknown>
  /** The Sentinel that it listens to. */
  getSentinelNode(): SentinelAddress | undefined
  /** @throws {Error} it is connected to none */
  getMasterNode(): SentinelAddress | undefined
}

/** What node-redis does not document: runs `use` with the client that is connected to the master. */
interface Executing {
  _execute?<T>(isReadonly: boolean, use: (master: NodeRedisLike) => Promise<T>): Promise<T>
}

const CONNECT_MS = 1_000
/** How soon to try again whether the connection that listens is back, ms. */
const PROBE_MS = 250
/** Nothing is published here. The name is covered by the ACL rule for the channels of Redisson. */
const PROBE_CHANNEL = 'redisson_holdfast_probe'

/** A node-redis sentinel: commands and channels follow the master. */
export class NodeRedisSentinelPort implements RedisPort {
  readonly isReplicated = true
  readonly #sentinel: NodeRedisSentinelLike
  readonly #replicas: Replicas
  readonly #onChange = ({ type }: { readonly type?: string }): void => {
    // What becomes of replicas and sentinels changes nothing for us.
    if (!type?.startsWith('MASTER')) return
    this.#replicas.forget()
    this.#events?.reconnected()
    this.#listenerLost()
  }
  /** Only what concerns the connection that listens comes as it is, without the name of a server. */
  readonly #onError = (error: unknown): void => {
    if (error instanceof Error && !/^(Sentinel|Master|Replica) Client /.test(error.message)) this.#listenerLost()
  }
  readonly #turns = new Turns()
  readonly #end: () => Promise<void>
  #sentinels: Promise<Sentinels | undefined> | undefined
  #known: Sentinels | undefined
  readonly #listeners = new Map<string, (message: string) => void>()
  #probing: Promise<void> | undefined
  #isClosed = false
  #events: PortEvents | undefined

  constructor(sentinel: NodeRedisSentinelLike, endSentinel: () => Promise<void>) {
    this.#sentinel = sentinel
    this.#end = endSentinel
    this.#replicas = new Replicas((...command) => sentinel.sendCommand(false, command), {
      isReplicated: true,
      ...((sentinel as Executing)._execute ? { authority: (runId) => this.#standing(runId) } : {}),
    })
  }

  async send(command: readonly string[]): Promise<unknown> {
    return await this.#sentinel.sendCommand(false, command as string[])
  }

  acknowledge(key: string, timeoutMs: number): Promise<Acknowledgement> {
    return this.#replicas.acknowledge(key, timeoutMs)
  }

  fsynced(_key: string, timeoutMs: number): Promise<Fsync> {
    return this.#replicas.fsynced(timeoutMs)
  }

  async ping(): Promise<unknown> {
    return await this.#sentinel.sendCommand(false, ['PING'])
  }

  isErrorReply(error: unknown): boolean {
    return isErrorReply(error)
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    this.#listeners.set(channel, onMessage)
    await this.#turns.take(channel, () => this.#sentinel.subscribe(channel, onMessage))
  }

  async unsubscribe(channel: string): Promise<void> {
    // Others may listen on the same channel through the same sentinel.
    const onMessage = this.#listeners.get(channel)
    this.#listeners.delete(channel)
    await this.#turns.take(channel, () => this.#sentinel.unsubscribe(channel, onMessage)).catch(() => {})
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

  #listenerLost(): void {
    for (const channel of this.#listeners.keys()) this.#events?.subscriptionLost?.(channel)
    this.#probing ??= this.#probe().finally(() => {
      this.#probing = undefined
    })
  }

  /**
   * node-redis listens again by itself, but does not say when it does. What is sent on that connection is sent after that:
   * so another subscription is, and its end.
   */
  async #probe(): Promise<void> {
    const ignore = (): void => {}
    for (let isBack = false; !isBack; ) {
      if (this.#isClosed || this.#listeners.size === 0) return
      try {
        await this.#sentinel.subscribe(PROBE_CHANNEL, ignore)
        await this.#sentinel.unsubscribe(PROBE_CHANNEL, ignore)
        isBack = true
      } catch (error) {
        isBack = isErrorReply(error) // of a user who may not listen there
        if (!isBack) await new Promise<void>((resolve) => setTimeout(resolve, PROBE_MS).unref())
      }
    }
    for (const channel of this.#listeners.keys()) this.#events?.resubscribed(channel)
  }

  /**
   * Of the Sentinels those where node-redis would find the new master.
   * @returns undefined if the present one is not known to be replaced
   */
  whereReplaced(): SentinelAddress[] | undefined {
    return this.#known?.describingSuccessor()
  }

  async #standing(runId: string): Promise<Standing | undefined> {
    // A failure must neither stay nor be left unhandled by close(): the next grant asks again.
    this.#sentinels ??= sentinelsOf(this.#sentinel).catch(() => undefined)
    const sentinels = await this.#sentinels
    if (!sentinels) this.#sentinels = undefined
    this.#known = sentinels
    const node = this.#sentinel.getSentinelNode()
    if (node) sentinels?.add(node)
    return await sentinels?.standing(runId, addressOf(this.#sentinel))
  }
}

/** Of the master that it is connected to. For seconds after a failover Sentinels do not know its run. */
function addressOf(sentinel: NodeRedisSentinelLike): string | undefined {
  try {
    const node = sentinel.getMasterNode()
    return node && `${node.host}:${node.port}`
  } catch {
    return undefined
  }
}

/**
 * The Sentinels that it knows. Their password is not to be had of node-redis: those that want one are not asked.
 * @returns undefined if it knows none at the moment
 */
async function sentinelsOf(sentinel: NodeRedisSentinelLike): Promise<Sentinels | undefined> {
  const node = sentinel.getSentinelNode()
  // A client of the user's own copy of node-redis, to make others of.
  const master = await (sentinel as Executing)._execute?.(false, async (client) => client)
  if (!node || !master) return undefined
  return new Sentinels(undefined, [node], (address) => connectionTo(master, address), true)
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
    end: () => (hasEnded ? undefined : endWhenConnected(client)),
  }
}
