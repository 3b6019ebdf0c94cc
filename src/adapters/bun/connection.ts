// A connection beside the user's client of Bun, with the same settings.
import { ConfigError } from '../../errors.js'
import { threadClock } from '../../util/clock.js'
import { retry } from '../../util/retry.js'
import { within } from '../../util/timeout.js'

/** The part of Bun's `RedisClient` that Holdfast uses. A structural type: our types do not need Bun. */
export interface BunRedisLike {
  readonly connected: boolean
  readonly bufferedAmount: number
  connect(): Promise<unknown>
  close(): void
  send(command: string, args: string[]): Promise<unknown>
  /** Connected if this client is. */
  duplicate(): Promise<BunRedisLike>
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>
  /** @throws at once: there is no subscription */
  unsubscribe(channel: string): Promise<unknown>
}

/** Has one listener for each event. */
type Events = { onconnect: () => void; onclose: () => void }

/** How long a connection may take to open, ms. */
const OPEN_MS = 5_000

const delayMs = (failures: number): number => Math.min((failures + 1) * 50, 1_000)

export function isErrorReply(error: unknown): boolean {
  return Object(error).code === 'ERR_REDIS_SERVER_ERROR' || error instanceof ConfigError
}

export interface ConnectionHooks {
  /** Called before a new connection is used. */
  prepare?(client: BunRedisLike): Promise<unknown>
  /** A connection is there. @param isFirst  whether none was lost before */
  opened(client: BunRedisLike, isFirst: boolean): void
  lost?(): void
}

/**
 * A connection of our own. When it is lost, another client takes its place, and none ever reconnects: Bun's own client does
 * that without a word, without its subscriptions, in the database of its URL, and sends what it had not sent yet.
 */
export class OwnConnection {
  readonly #template: Promise<BunRedisLike>
  readonly #hooks: ConnectionHooks
  readonly #closing = new AbortController()
  /** The one that is open, or being opened. */
  #client: Promise<BunRedisLike> | undefined
  /** The one that is open. */
  current: BunRedisLike | undefined
  #wasOpen = false
  /** Why there is no connection, if there is none. */
  lastError: unknown

  /** @param template  of `templateOf` */
  constructor(template: Promise<BunRedisLike>, hooks: ConnectionHooks) {
    this.#template = template
    this.#hooks = hooks
  }

  /** It is opened when it is first needed; callers wait while there is none. */
  ready(): Promise<BunRedisLike> {
    if (this.#closing.signal.aborted) return Promise.reject(new Error('the client was closed'))
    this.check()
    this.#client ??= this.#open()
    return this.#client
  }

  async send([name, ...args]: readonly string[]): Promise<unknown> {
    const client = await this.ready()
    try {
      return await client.send(name as string, args)
    } catch (error) {
      if (client.connected && isErrorReply(error)) throw error
      this.#lost(client, error)
      // A connection that fails by an error reply rejects everything with that, also what may have run.
      throw new Error('the connection was lost', { cause: error })
    }
  }

  /** Notices a connection that was lost: Bun's client does not report that while it reconnects. */
  check(): void {
    if (this.current?.connected === false) this.#lost(this.current)
  }

  close(): void {
    this.#closing.abort(new Error('the client was closed'))
    this.current?.close()
    this.current = undefined
  }

  #open(): Promise<BunRedisLike> {
    const { signal } = this.#closing
    const isRetryable = (error: unknown): boolean => !(error instanceof ConfigError)
    const opening = retry(() => this.#connect(signal), { clock: threadClock, delayMs, isRetryable, signal })
    // Whoever waits for it gets the error; the next command opens another one.
    opening.catch(() => {
      if (this.#client === opening) this.#client = undefined
    })
    return opening
  }

  async #connect(signal: AbortSignal): Promise<BunRedisLike> {
    signal.throwIfAborted()
    const client = await (await this.#template).duplicate()
    try {
      const hello = await within(OPEN_MS, client.connect(), signal)
      refuseSeveral(hello)
      await within(OPEN_MS, this.#hooks.prepare?.(client) ?? Promise.resolve(), signal)
      if (!client.connected) throw new Error('the connection was lost again')
    } catch (error) {
      this.lastError = error
      client.close()
      throw error
    }
    const onLoss = (): void => this.#lost(client)
    Object.assign(client, { onconnect: onLoss, onclose: onLoss } satisfies Events)
    this.current = client
    this.lastError = undefined
    this.#hooks.opened(client, !this.#wasOpen)
    this.#wasOpen = true
    return client
  }

  #lost(client: BunRedisLike, error?: unknown): void {
    if (this.current !== client) return
    this.current = undefined
    this.lastError = error ?? new Error('the connection was closed')
    client.close() // before it reconnects
    this.#hooks.lost?.()
    this.#client = this.#open()
  }
}

/**
 * A client whose duplicates have the settings of the user's, and are not connected yet: so they can be ended at any time.
 */
export async function templateOf(user: BunRedisLike): Promise<BunRedisLike> {
  const template = await user.duplicate()
  template.close()
  return template
}

/** The database that a client has selected. Bun does not tell, so Redis is asked. @returns undefined if it does not say */
export async function databaseOf(client: BunRedisLike): Promise<string | undefined> {
  const info = await client.send('CLIENT', ['INFO']).catch(() => '')
  return / db=(\d+)/.exec(String(info))?.[1]
}

/** @param hello  the reply to HELLO, which is what `connect` resolves to */
function refuseSeveral(hello: unknown): void {
  const { mode } = Object(hello)
  if (mode !== 'cluster' && mode !== 'sentinel') return
  const allowed =
    mode === 'cluster'
      ? "a client that knows all servers: this one is part of a cluster, which Bun's RedisClient does not support. Use a " +
        'Cluster of ioredis'
      : "the master: this is a Sentinel, which Bun's RedisClient cannot ask for it. Use ioredis"
  throw new ConfigError('client', undefined, allowed)
}
