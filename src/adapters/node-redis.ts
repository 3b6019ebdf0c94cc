import { ConfigError } from '../errors.js'
import { type PortEvents, type RedisPort, subscribeEach } from './port.js'

/** What Holdfast uses of a node-redis client (4.7 or later). Declared by hand, so that no type needs it installed. */
export interface NodeRedisLike {
  readonly isOpen: boolean
  readonly options?: object | undefined
  sendCommand(args: string[]): Promise<unknown>
  duplicate(overrides?: object): NodeRedisLike
  connect(): Promise<unknown>
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>
  unsubscribe(channel: string): Promise<unknown>
  // biome-ignore lint/suspicious/noExplicitAny: each event of the real client has listeners of its own
  on(event: string, listener: (...args: any[]) => void): unknown
  // biome-ignore lint/suspicious/noExplicitAny: as above
  off(event: string, listener: (...args: any[]) => void): unknown
  /** node-redis 5 and later. */
  destroy?(): unknown
  /** node-redis 4. */
  disconnect?(): unknown
}

export function isNodeRedis(client: unknown): client is NodeRedisLike {
  const candidate = client as Partial<NodeRedisLike> | null
  return (
    typeof candidate?.sendCommand === 'function' && 'isOpen' in candidate && typeof candidate.subscribe === 'function'
  )
}

/**
 * Use a connected node-redis client that you own: Holdfast sends its commands on it, and never closes it. Wake-ups need a
 * connection of their own, a duplicate of the client that is opened when somebody first waits.
 *
 * `connect({ client })` calls this by itself; it is for bundlers that cannot follow a dynamic import.
 * @throws {ConfigError} the client is not connected, or has a `keyPrefix`
 */
export function nodeRedis(client: NodeRedisLike): RedisPort {
  return new NodeRedisPort(client)
}

interface OptionsWeRead {
  readonly keyPrefix?: unknown
  readonly legacyMode?: unknown
  readonly socket?: object
}

class NodeRedisPort implements RedisPort {
  readonly #client: NodeRedisLike
  readonly #channels = new Map<string, (message: string) => void>()
  readonly #onReady = (): void => this.#events?.reconnected()
  readonly #leaving = new Map<string, Promise<unknown>>()
  #subscriber: Promise<NodeRedisLike> | undefined
  #opened: NodeRedisLike | undefined
  #hasSocket = false
  #isClosed = false
  #events: PortEvents | undefined

  constructor(client: NodeRedisLike) {
    const { keyPrefix, legacyMode } = (client.options ?? {}) as OptionsWeRead
    if (legacyMode) {
      throw new ConfigError('client', undefined, 'a node-redis client without legacyMode, which answers no promise')
    }
    if (['masters', 'slots', 'getMasterNode'].some((member) => member in client)) {
      throw new ConfigError(
        'client',
        undefined,
        'a node-redis client of one server; Cluster and Sentinel are not supported yet',
      )
    }
    if (keyPrefix) {
      throw new ConfigError(
        'client',
        undefined,
        'a node-redis client without keyPrefix: Redisson would use other keys. Put the prefix into the lock names',
      )
    }
    if (!client.isOpen) {
      throw new ConfigError('client', undefined, 'a connected node-redis client: call `await client.connect()` before')
    }
    this.#client = client
  }

  async send(command: readonly string[]): Promise<unknown> {
    return await this.#client.sendCommand(command as string[])
  }

  isErrorReply(error: unknown): boolean {
    // By the form of the text: ErrorReply may come from any copy and version of the library, and be minified.
    return error instanceof Error && /^[A-Z]{3,} /.test(error.message)
  }

  async subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    this.#channels.set(channel, onMessage)
    this.#subscriber ??= this.#openSubscriber()
    const subscriber = await this.#subscriber
    // node-redis sends no SUBSCRIBE for a channel that it is just leaving, and forgets the new listener with the old ones.
    await this.#leaving.get(channel)
    // It may have been given up meanwhile.
    if (this.#channels.get(channel) === onMessage) await subscriber.subscribe(channel, onMessage)
  }

  async unsubscribe(channel: string): Promise<void> {
    this.#channels.delete(channel)
    const left = this.#opened?.unsubscribe(channel).catch(() => {})
    if (!left) return
    this.#leaving.set(channel, left)
    await left
    if (this.#leaving.get(channel) === left) this.#leaving.delete(channel)
  }

  listen(events: PortEvents): void {
    this.#events = events
    this.#client.on('ready', this.#onReady)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    this.#client.off('ready', this.#onReady)
    if (this.#opened && this.#hasSocket) await end(this.#opened)
  }

  async #openSubscriber(): Promise<NodeRedisLike> {
    const { socket } = (this.#client.options ?? {}) as OptionsWeRead
    const subscriber = this.#client.duplicate({
      disableOfflineQueue: false,
      // It must come back by itself whatever the user's own client does, and be left alone while its channels are silent.
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
      if (isReconnect) void this.#resubscribe(subscriber)
    })
    // While its socket is being made, a node-redis client that is ended connects all the same, and cannot be ended any
    // more: so it is ended as soon as there is a socket.
    subscriber.on('connect', () => {
      this.#hasSocket = true
      if (this.#isClosed) void end(subscriber)
    })
    subscriber.on('reconnecting', () => {
      this.#hasSocket = false
    })
    try {
      await subscriber.connect()
    } catch (error) {
      this.#subscriber = undefined // the next one to wait tries again
      throw error
    }
    return subscriber
  }

  /** node-redis subscribes again by itself, but not where the first SUBSCRIBE was lost with the connection. */
  async #resubscribe(subscriber: NodeRedisLike): Promise<void> {
    const subscribe = async (channel: string): Promise<void> => {
      const onMessage = this.#channels.get(channel)
      if (onMessage) await subscriber.subscribe(channel, onMessage)
    }
    this.#events?.resubscribed(await subscribeEach(this.#channels.keys(), subscribe, this.isErrorReply))
  }
}

async function end(client: NodeRedisLike): Promise<void> {
  if (!client.isOpen) return
  if (client.destroy) client.destroy()
  else await client.disconnect?.()
}
