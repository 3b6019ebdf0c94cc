/** What Holdfast uses of a GlideClient or GlideClusterClient (2.5 or later). */
export interface GlideLike {
  customCommand(args: string[], options?: { decoder?: 1; route?: Route }): Promise<unknown>
  subscribeLazy(channels: string[]): Promise<unknown>
  unsubscribeLazy(channels: string[]): Promise<unknown>
  /** Only of a cluster. */
  ssubscribeLazy?(channels: string[]): Promise<unknown>
  sunsubscribeLazy?(channels: string[]): Promise<unknown>
  getSubscriptions(): Promise<{
    readonly actualSubscriptions: Readonly<Record<number, ReadonlySet<unknown> | undefined>>
  }>
  getPubSubMessage(): Promise<{ readonly channel: unknown; readonly message: unknown }>
  close(): void
}

export type Route =
  | 'allPrimaries'
  | { readonly type: 'primarySlotKey'; readonly key: string }
  | { readonly type: 'routeByAddress'; readonly host: string; readonly port: number }

/** Of an enum of glide. */
const DECODE_TO_STRINGS = 1

/** How often to see whether connections are other ones than before, ms: glide has no event for it. */
export const LOOK_MS = 500

export function isCluster(client: GlideLike): boolean {
  return typeof client.ssubscribeLazy === 'function'
}

/** What Redis refused, in its own words: glide has words of its own for most of them. */
export class Refusal extends Error {
  override readonly name = 'ReplyError'
}

/** Where glide's word is not Redis' one in another spelling. */
const WORDS: Readonly<Record<string, string>> = {
  ResponseError: 'ERR',
  ExecAbortError: 'EXECABORT',
  BusyLoadingError: 'LOADING',
  NoScriptError: 'NOSCRIPT',
  PermissionDenied: 'NOPERM',
}

export async function ask(client: GlideLike, command: readonly string[], key: string | undefined): Promise<unknown> {
  if (!isCluster(client)) return await askAt(client, command)
  return await askAt(client, command, key === undefined ? 'allPrimaries' : { type: 'primarySlotKey', key })
}

export async function askAt(client: GlideLike, command: readonly string[], route?: Route): Promise<unknown> {
  const options: { decoder: 1; route?: Route } = { decoder: DECODE_TO_STRINGS, ...(route ? { route } : {}) }
  try {
    return await client.customCommand(command as string[], options)
  } catch (error) {
    throw inRedisWords(error)
  }
}

/** An error reply as Redis gave it; any other error as it is. */
function inRedisWords(error: unknown): unknown {
  // Time-outs and lost connections are subclasses.
  if (!(error instanceof Error) || error.name !== 'RequestError') return error
  const known = /^An error was signalled by the server: - (\w+): ?(.*)$/s.exec(error.message)
  const [, word, text] = known ?? /^([A-Z][A-Z\d_]*)(?:: (.*))?$/s.exec(error.message) ?? []
  if (word === undefined) return error
  const own = known ? (WORDS[word] ?? word.toUpperCase()) : word
  return new Refusal(text ? `${own} ${text}` : own, { cause: error })
}

/** The connections of a client to its masters. Redis is asked: glide tells nobody when it connects again. */
export class Connections {
  readonly #client: GlideLike
  #known: ReadonlySet<string> | undefined

  constructor(client: GlideLike) {
    this.#client = client
  }

  /** @returns those that are new since the last look */
  async look(): Promise<readonly string[]> {
    const now = connectionsIn(await ask(this.#client, ['CLIENT', 'INFO'], undefined))
    const before = this.#known
    this.#known = new Set(now)
    return before === undefined ? [] : now.filter((one) => !before.has(one))
  }

  /** That by which commands for `key` go. */
  async of(key: string): Promise<string> {
    const [connection] = connectionsIn(await ask(this.#client, ['CLIENT', 'INFO'], key))
    if (connection === undefined) throw new Refusal('CLIENT INFO does not say what connection this is')
    return connection
  }

  isKnown(connection: string): boolean {
    if (this.#known?.has(connection)) return true
    this.#known = new Set(this.#known).add(connection)
    return false
  }
}

/** Of replies of CLIENT INFO. The id alone is given again after a restart. */
function connectionsIn(reply: unknown): string[] {
  return JSON.stringify(reply).match(/\bid=\d+ addr=\S+ laddr=\S+/g) ?? []
}

export function serverOf(connection: string): string {
  return /laddr=(\S+)/.exec(connection)?.[1] ?? ''
}
