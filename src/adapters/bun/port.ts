// holdfast/bun: Bun's RedisClient as a port.
import { ConfigError } from '../../errors.js'
import { within } from '../../util/timeout.js'
import type { Acknowledgement, Fsync, PortEvents, RedisPort } from '../port.js'
import { replaceWhenUnresponsive } from '../replaceable-port.js'
import { Replicas } from '../replicas.js'
import { Channels } from './channels.js'
import { type BunRedisLike, databaseOf, isErrorReply, OwnConnection, templateOf } from './connection.js'

export type { BunRedisLike }

/** How long the user's client has to tell its database, ms. */
const DATABASE_MS = 1_000

export function isBunRedis(client: unknown): client is BunRedisLike {
  const candidate = client as Partial<BunRedisLike> | null
  return (
    typeof candidate?.send === 'function' && typeof candidate.duplicate === 'function' && 'bufferedAmount' in candidate
  )
}

/**
 * Uses a `RedisClient` of Bun that you own, and never closes it. Holdfast opens connections of its own with the same
 * settings: a duplicate for its commands, and another one for wake-ups when a caller first waits. They end when you close
 * Holdfast's client: Bun does not tell when you close yours. What you do on yours, such as SELECT or a command that blocks,
 * does not concern them; Holdfast stays in the database that is selected now.
 *
 * `connect({ client })` calls this itself; call it yourself only if your bundler cannot follow a dynamic import.
 * @throws {ConfigError} it is no such client
 * @example `const client = await connect({ client: bun(new RedisClient('redis://127.0.0.1:6379')) })`
 */
export function bun(client: BunRedisLike): RedisPort {
  if (!isBunRedis(client)) throw new ConfigError('client', undefined, 'a RedisClient of Bun')
  const template = templateOf(client)
  template.catch(() => {}) // whoever needs a connection gets the error
  const database = client.connected ? within(DATABASE_MS, databaseOf(client)).catch(() => undefined) : undefined
  const first = new BunPort(template, database)
  const reopen = async (signal: AbortSignal): Promise<RedisPort> => {
    const next = new BunPort(template, database)
    signal.addEventListener('abort', () => void next.close(), { once: true })
    await next.open()
    return next
  }
  return replaceWhenUnresponsive(first, reopen, { open: () => first.open() })
}

class BunPort implements RedisPort {
  readonly #connection: OwnConnection
  readonly #channels: Channels
  readonly #replicas: Replicas
  #events: PortEvents | undefined

  /** @param database  to select, if it is known */
  constructor(template: Promise<BunRedisLike>, database: Promise<string | undefined> | undefined) {
    this.#connection = new OwnConnection(template, {
      async prepare(client) {
        const wanted = await database
        if (wanted !== undefined && wanted !== (await databaseOf(client))) await client.send('SELECT', [wanted])
      },
      opened: (_client, isFirst) => {
        if (isFirst) return
        this.#replicas.reset()
        this.#events?.reconnected()
      },
    })
    this.#channels = new Channels(template, () => this.#events)
    this.#replicas = new Replicas((...command) => this.send(command))
  }

  open(): Promise<unknown> {
    return this.#connection.ready()
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
    return this.send(['PING'])
  }

  pingListener(): Promise<unknown> {
    return this.#channels.ping()
  }

  get connectionError(): unknown {
    return this.#connection.lastError
  }

  isErrorReply(error: unknown): boolean {
    return isErrorReply(error)
  }

  subscribe(channel: string, onMessage: (message: string) => void): Promise<void> {
    return this.#channels.subscribe(channel, onMessage)
  }

  unsubscribe(channel: string): Promise<void> {
    return this.#channels.unsubscribe(channel)
  }

  listen(events: PortEvents): void {
    this.#events = events
  }

  async close(): Promise<void> {
    this.#connection.close()
    this.#channels.close()
  }
}
