/** The part of a GlideClient or GlideClusterClient (2.5 or later) that Holdfast uses. */
export interface GlideLike {
  customCommand(args: string[], options?: { decoder?: 1; route?: Route }): Promise<unknown>
  subscribeLazy(channels: string[]): Promise<unknown>
  unsubscribeLazy(channels: string[]): Promise<unknown>
  /** Only on a cluster client. */
  ssubscribeLazy?(channels: string[]): Promise<unknown>
  sunsubscribeLazy?(channels: string[]): Promise<unknown>
  getSubscriptions(): Promise<{
    readonly actualSubscriptions: Readonly<Record<number, ReadonlySet<unknown> | undefined>>
  }>
  getPubSubMessage(): Promise<{ readonly channel: unknown; readonly message: unknown }>
  exec?(batch: object, raiseOnError: boolean, options?: { decoder?: 1; route?: KeyRoute }): Promise<unknown[] | null>
  close(): void
}

type KeyRoute = { readonly type: 'primarySlotKey'; readonly key: string }
export type Route =
  | 'allPrimaries'
  | KeyRoute
  | { readonly type: 'routeByAddress'; readonly host: string; readonly port: number }

/** The methods that send commands. */
export type Commands = Pick<GlideLike, 'customCommand' | 'exec' | 'ssubscribeLazy'>

/**
 * A client that is opened by its first command.
 * @param like  of the same kind
 */
export function openedLater(
  open: () => Promise<GlideLike>,
  like: GlideLike,
): Commands & { open(): Promise<unknown>; close(): void } {
  let opening: Promise<GlideLike> | undefined
  let isClosed = false
  const opened = async (): Promise<GlideLike> => {
    if (isClosed) throw new Error('the client was closed')
    opening ??= open()
    try {
      return await opening
    } catch (error) {
      opening = undefined // the next command tries again
      throw error
    }
  }
  return {
    open: opened,
    customCommand: async (args, options) => await (await opened()).customCommand(args, options),
    ...(like.exec ? { exec: async (...args) => (await (await opened()).exec?.(...args)) ?? null } : {}),
    ...(like.ssubscribeLazy ? { ssubscribeLazy: like.ssubscribeLazy } : {}),
    close() {
      isClosed = true
      opening?.then(
        (client) => client.close(),
        () => {},
      )
    },
  }
}

/** A value of an enum of glide. */
const DECODE_TO_STRINGS = 1

/** How often to check for new connections, ms: glide has no event for a reconnect. */
export const CHECK_MS = 500

export function isCluster(client: Pick<GlideLike, 'ssubscribeLazy'>): boolean {
  return typeof client.ssubscribeLazy === 'function'
}

/** An error reply in the words of Redis: glide rewords most of them. */
export class Refusal extends Error {
  override readonly name = 'ReplyError'
}

/** No retry makes this client able to subscribe: in the words by which `isLasting` knows that. */
export function cannotSubscribe(why: string, cause?: unknown): Refusal {
  return new Refusal(`unsupported command SUBSCRIBE: ${why}`, { cause })
}

/** Error codes that glide replaces, rather than only spelling them differently. */
const CODES: Readonly<Record<string, string>> = {
  ResponseError: 'ERR',
  ExecAbortError: 'EXECABORT',
  BusyLoadingError: 'LOADING',
  NoScriptError: 'NOSCRIPT',
  PermissionDenied: 'NOPERM',
}

/** Sends a command to the owner of `key`; undefined: to all masters. */
export async function send(client: Commands, command: readonly string[], key: string | undefined): Promise<unknown> {
  if (!isCluster(client)) return await sendTo(client, command)
  if (key === undefined) return await sendTo(client, command, 'allPrimaries')
  const route: KeyRoute = { type: 'primarySlotKey', key }
  return hasSeveralKeys(command) ? await sendAsBatch(client, command, route) : await sendTo(client, command, route)
}

function hasSeveralKeys([name = '', , keys]: readonly string[]): boolean {
  return name.startsWith('EVAL') && Number(keys) > 1
}

/**
 * While a slot is being moved, Redis may refuse a command with several keys (TRYAGAIN). Glide repeats such a command itself,
 * for seconds or until its timeout, as if there were no reply. In a batch it does not.
 */
async function sendAsBatch(client: Commands, command: readonly string[], route: KeyRoute): Promise<unknown> {
  if (!client.exec || !ClusterBatch) return await sendTo(client, command, route)
  const batch = new ClusterBatch(false).customCommand(command as string[])
  try {
    const [reply] = (await client.exec(batch, false, { decoder: DECODE_TO_STRINGS, route })) ?? []
    if (reply instanceof Error) throw reply
    return reply
  } catch (error) {
    throw asRedisError(error)
  }
}

/** Glide's class of batches, once it is loaded. */
let ClusterBatch: typeof import('@valkey/valkey-glide').ClusterBatch | undefined

/** Called as soon as there is a cluster: commands must not wait for it, and so overtake each other. */
export async function loadBatches(): Promise<void> {
  try {
    const glide = await import('@valkey/valkey-glide')
    ClusterBatch ??= glide.ClusterBatch ?? (glide.default as unknown as typeof glide)?.ClusterBatch
  } catch {
    // A bundle may be without it; bundlers know this form.
  }
}

export async function sendTo(client: Commands, command: readonly string[], route?: Route): Promise<unknown> {
  const options: { decoder: 1; route?: Route } = { decoder: DECODE_TO_STRINGS, ...(route ? { route } : {}) }
  try {
    return await client.customCommand(command as string[], options)
  } catch (error) {
    throw asRedisError(error)
  }
}

/** An error reply as Redis sent it; any other error unchanged. */
function asRedisError(error: unknown): unknown {
  // Timeouts and lost connections are subclasses.
  if (!(error instanceof Error) || error.name !== 'RequestError') return error
  const known = /^An error was signalled by the server: - (\w+): ?(.*)$/s.exec(error.message)
  const [, word, text] = known ?? /^([A-Z][A-Z\d_]*)(?:: (.*))?$/s.exec(error.message) ?? []
  if (word === undefined) return error
  const own = known ? (CODES[word] ?? word.toUpperCase()) : word
  return new Refusal(text ? `${own} ${text}` : own, { cause: error })
}

/** The connections of a client to its masters. Redis is asked for them, because glide does not report reconnects. */
export class Connections {
  readonly #client: Commands
  #known: ReadonlySet<string> | undefined

  constructor(client: Commands) {
    this.#client = client
  }

  /** The database that is selected on the connection. Not in a cluster. */
  async database(): Promise<number> {
    const info = JSON.stringify(await send(this.#client, ['CLIENT', 'INFO'], undefined))
    return Number(/ db=(\d+)/.exec(info)?.[1] ?? 0)
  }

  /** @returns the connections that are new since the last check */
  async check(): Promise<readonly string[]> {
    const now = connectionsIn(await send(this.#client, ['CLIENT', 'INFO'], undefined))
    const before = this.#known
    this.#known = new Set(now)
    return before === undefined ? [] : now.filter((one) => !before.has(one))
  }

  /** The masters of a cluster by the addresses that glide uses, which may not be those that the servers know. */
  async masters(): Promise<readonly string[]> {
    const replies = await send(this.#client, ['CLIENT', 'INFO'], undefined)
    return (replies as readonly { readonly key: unknown }[]).map(({ key }) => String(key))
  }

  /** The connection that carries commands for `key`. */
  async of(key: string): Promise<string> {
    const [connection] = connectionsIn(await send(this.#client, ['CLIENT', 'INFO'], key))
    if (connection === undefined) throw new Refusal('CLIENT INFO does not identify this connection')
    return connection
  }

  /** Whether it is open, as far as is known. */
  has(connection: string): boolean {
    return this.#known?.has(connection) ?? true
  }

  isKnown(connection: string): boolean {
    if (this.#known?.has(connection)) return true
    this.#known = new Set(this.#known).add(connection)
    return false
  }
}

/** The connections in replies of CLIENT INFO. Not by id alone: ids are reused after a restart. */
function connectionsIn(reply: unknown): string[] {
  return JSON.stringify(reply).match(/\bid=\d+ addr=\S+ laddr=\S+/g) ?? []
}
