// A connection beside the user's client, with the same options.
import { threadClock } from '../../util/clock.js'
import { retry } from '../../util/retry.js'
import { within } from '../../util/timeout.js'
import { endingOf, type NodeRedisBase, type NodeRedisLike } from './client.js'

/** How long a connection may take to open, ms. */
const OPEN_MS = 5_000
/** How long the user's client has to tell its database, ms. */
const DATABASE_MS = 1_000

const delayMs = (failures: number): number => Math.min((failures + 1) * 50, 1_000)

interface Options {
  readonly database?: number | undefined
  readonly socket?: object
  readonly commandOptions?: object | undefined
}

/**
 * A connection of our own, with the settings of the user's client. What the user does with that one (SELECT, MULTI, a
 * command that blocks) does not concern our commands.
 *
 * When it is lost, another node-redis client takes its place, and none ever reconnects: before version 6 a client that
 * does may take replies to new commands for those to commands that were lost with the connection.
 */
export class OwnConnection {
  readonly #user: NodeRedisLike
  readonly #database: Promise<number>
  #isClosed = false
  /** Aborts an attempt to open one. */
  #opening = new AbortController()
  #client: Promise<NodeRedisLike> | undefined
  /** Ends the one that is open, or being opened. */
  #endLatest: (() => void) | undefined
  /** Called when the connection was lost and is back. */
  onReopened: (() => void) | undefined
  /** Why there is no connection, if there is none. */
  lastError: unknown

  constructor(user: NodeRedisLike, database: Promise<number>) {
    this.#user = user
    this.#database = database
  }

  /** The client that is connected now. It is opened when it is first needed; callers wait while there is none. */
  ready(): Promise<NodeRedisLike> {
    if (!this.#isWanted()) return Promise.reject(new Error('the client was closed'))
    this.#client ??= this.#open()
    return this.#client
  }

  async send(command: readonly string[]): Promise<unknown> {
    const client = await this.ready()
    return await client.sendCommand(command as string[])
  }

  /** Ends it. If the user's client is open, or once it is again, the next command opens another one. */
  end(): void {
    const endLatest = this.#endLatest
    this.#opening.abort()
    this.#opening = new AbortController()
    this.#endLatest = undefined
    this.#client = undefined
    endLatest?.()
  }

  /** Ends it for good. */
  close(): void {
    this.#isClosed = true
    this.end()
  }

  #isWanted(): boolean {
    return this.#user.isOpen && !this.#isClosed
  }

  #open(): Promise<NodeRedisLike> {
    const { signal } = this.#opening
    const opening = retry(() => this.#connect(signal), {
      clock: threadClock,
      delayMs,
      isRetryable: () => this.#user.isOpen,
      signal,
    })
    // Whoever waits for it gets the error; the next command opens another one.
    opening.catch(() => {
      if (this.#client === opening) this.#client = undefined
    })
    return opening
  }

  async #connect(signal: AbortSignal): Promise<NodeRedisLike> {
    const database = await this.#database
    if (!this.#user.isOpen || signal.aborted) throw new Error('the client was closed')
    const { socket, commandOptions } = (this.#user.options ?? {}) as Options
    const client = this.#user.duplicate({
      url: undefined, // it would take precedence over the database
      database,
      disableOfflineQueue: false,
      pingInterval: undefined,
      ...(commandOptions ? { commandOptions: { ...commandOptions, timeout: undefined } } : {}),
      socket: { ...socket, reconnectStrategy: false, socketTimeout: undefined },
    })
    let isConnected = false
    const end = endingOf(client)
    this.#endLatest = end
    try {
      const connecting = new Promise<unknown>((resolve, reject) => {
        const onLoss = (error: unknown): void => {
          this.lastError = error ?? this.lastError
          if (isConnected) this.#lost(end)
          else reject(error) // node-redis 4 may leave `connect` pending
        }
        client.on('error', onLoss)
        client.on('end', () => onLoss(undefined))
        client.connect().then(resolve, reject)
      })
      await within(OPEN_MS, connecting, signal)
    } catch (error) {
      this.lastError = error
      end()
      throw error
    }
    isConnected = true
    this.lastError = undefined
    return client
  }

  #lost(end: () => void): void {
    if (this.#endLatest !== end) return
    this.#endLatest = undefined
    end()
    this.#client = undefined
    if (!this.#isWanted()) return
    this.#client = this.#open()
    this.#client.then(this.onReopened, () => {})
  }
}

/**
 * The database that the user's client has selected, which node-redis does not tell, so Redis is asked. If it does not say
 * either, the one in its options.
 */
export async function databaseOf(user: NodeRedisLike): Promise<number> {
  const info = await within(DATABASE_MS, user.sendCommand(['CLIENT', 'INFO'])).catch(() => '')
  const [, selected] = / db=(\d+)/.exec(String(info)) ?? []
  return selected === undefined ? ((user.options ?? {}) as Options).database || 0 : Number(selected)
}

/**
 * Connects a cluster or sentinel of ours, which reconnects by itself, when it is first needed, and until that works.
 * @returns resolves when it is connected; rejects once it is not wanted any more
 */
export function connectsLater(client: NodeRedisBase, isWanted: () => boolean): () => Promise<void> {
  let connecting: Promise<unknown> | undefined
  return async () => {
    if (!isWanted()) throw new Error('the client was closed')
    const connect = async (): Promise<unknown> => {
      if (!isWanted()) throw new Error('the client was closed') // while it waited
      return await client.connect()
    }
    connecting ??= retry(connect, { clock: threadClock, delayMs, isRetryable: isWanted })
    await connecting
  }
}
