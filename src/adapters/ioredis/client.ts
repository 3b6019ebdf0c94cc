// Structural types of ioredis clients.
import { listenTogether } from '../../util/shared-listener.js'

/** The options by which ioredis signs in. */
interface Credentials {
  readonly username?: string | null | undefined
  readonly password?: string | null | undefined
  readonly sentinelUsername?: string | null | undefined
  readonly sentinelPassword?: string | null | undefined
}

/**
 * The part of an ioredis client (5.4 or later) that Holdfast uses. A structural type: our types do not need ioredis.
 */
export interface IoredisLike {
  readonly status: string
  readonly isCluster?: boolean
  /** Not on a Cluster: `normal`, `subscriber` or `monitor`. */
  readonly mode?: string | undefined
  /** The socket. Not on a Cluster. */
  readonly stream?: { readonly errored?: Error | null }
  readonly options: Credentials & {
    readonly keyPrefix?: string | undefined
    readonly sentinels?: readonly Node[] | null | undefined
    readonly sentinelCommandTimeout?: number | null | undefined
    readonly failoverDetector?: boolean | undefined
    readonly db?: number | undefined
    /** Only on a Cluster, ms. */
    readonly slotsRefreshInterval?: number | undefined
    /** Only on a Cluster. */
    readonly redisOptions?: Credentials | undefined
  }
  call(command: string, args: string[]): Promise<unknown>
  call(command: string, ...args: string[]): Promise<unknown>
  duplicate(override?: object): IoredisLike
  subscribe(...channels: string[]): Promise<unknown>
  unsubscribe(...channels: string[]): Promise<unknown>
  disconnect(): void
  // biome-ignore lint/suspicious/noExplicitAny: each event of the real client has listeners of its own
  on(event: string, listener: (...args: any[]) => void): unknown
  // biome-ignore lint/suspicious/noExplicitAny: as above
  off(event: string, listener: (...args: any[]) => void): unknown
}

/** Sends one command. */
export function call(client: IoredisLike, command: readonly string[]): Promise<unknown> {
  const name = command[0] as string
  // ioredis looks the name up in lower case, and converts it more than once. It copies the arguments anyway.
  return client.call(name === 'EVALSHA' ? 'evalsha' : name, command.slice(1))
}

/**
 * How long ioredis waits for a connection that we end, ms. It also waits for one that is already down, and keeps the
 * process alive for as long; its default is 2 s.
 */
export const DISCONNECT_TIMEOUT_MS = 500

/** How long a Sentinel may be silent before ioredis asks the next one, ms; without a limit forever. */
const SENTINEL_TIMEOUT_MS = 1_000

/**
 * For every duplicate: it must reconnect whatever the user's own client does about reconnects, must not be closed while it
 * is silent, and takes commands while it reconnects.
 */
const DUPLICATE_OPTIONS = {
  enableOfflineQueue: true,
  retryStrategy: (attempt: number) => Math.min(attempt * 50, 1_000),
  disconnectTimeout: DISCONNECT_TIMEOUT_MS,
  commandTimeout: undefined,
  socketTimeout: undefined,
  failoverDetector: false, // it can end a client for good; see `watchForEnd`
}

export const SUBSCRIBER_OPTIONS = {
  ...DUPLICATE_OPTIONS,
  lazyConnect: false,
  autoResubscribe: false, // we resubscribe ourselves, to know when it is done
  maxRetriesPerRequest: null,
}

/**
 * A connection of our own with the settings of the user's client. What the user does with that one (SELECT, MULTI,
 * SUBSCRIBE, a command that blocks) does not concern our commands, and ours not the user's transaction.
 * @param nodes  of a cluster, or the Sentinels that reply; empty: those that the user named
 */
export function ownConnection(client: IoredisLike, nodes: readonly Node[] = []): IoredisLike {
  const own = client.isCluster ? ownCluster(client as Cluster, nodes) : ownServer(client, nodes)
  own.on('error', () => {})
  return own
}

export interface Node {
  readonly host?: string | undefined
  readonly port?: number | undefined
}

type Cluster = IoredisLike & { duplicate(nodes: readonly object[], options: object): IoredisLike }

function ownCluster(client: Cluster, nodes: readonly object[]): IoredisLike {
  const { redisOptions } = client.options
  const own = client.duplicate(nodes, {
    lazyConnect: true,
    enableOfflineQueue: true,
    slotsRefreshInterval: undefined, // see `IoredisClusterPort`
    clusterRetryStrategy: DUPLICATE_OPTIONS.retryStrategy,
    redisOptions: { ...redisOptions, commandTimeout: undefined, socketTimeout: undefined },
  })
  // The connections for the listeners and for the refresh of the slots are duplicates of nodes.
  own.on('+node', (node: IoredisLike) => {
    const { username, password } = node.options
    shareCredentials(node, () => {
      const latest = client.options.redisOptions
      return latest?.password ? latest : { username, password }
    })
  })
  return own
}

function ownServer(client: IoredisLike, responding: readonly Node[]): IoredisLike {
  const { condition } = client as { readonly condition?: { readonly select?: number } | null }
  const { options } = client
  const own = client.duplicate({
    ...DUPLICATE_OPTIONS,
    lazyConnect: true,
    db: condition?.select ?? options.db,
    ...(options.sentinels ? { sentinels: firstOf(responding, options.sentinels) } : {}),
    sentinelCommandTimeout: Math.min(options.sentinelCommandTimeout || SENTINEL_TIMEOUT_MS, SENTINEL_TIMEOUT_MS),
  })
  shareCredentials(own, () => options)
  return own
}

function firstOf(some: readonly Node[], all: readonly Node[]): Node[] {
  const isAmongThem = (node: Node): boolean => some.some(({ host, port }) => host === node.host && port === node.port)
  return [...some, ...all.filter((node) => !isAmongThem(node))]
}

/**
 * Lets a connection of ours sign in as the user's would now: whoever renews a password sets it in the options of the client
 * that he has, and a duplicate has a copy of them.
 */
export function shareCredentials(own: IoredisLike, latest: () => Credentials): void {
  for (const name of ['username', 'password', 'sentinelUsername', 'sentinelPassword'] as const) {
    Object.defineProperty(own.options, name, {
      get: () => latest()[name],
      // For a connector of the user's that fetches its own.
      set: (value) => void Object.defineProperty(own.options, name, { value, writable: true }),
      enumerable: true,
      configurable: true,
    })
  }
}

/**
 * The failover detector of ioredis disconnects the connector whatever it is doing. If it was about to connect, the
 * status of the client becomes `end`, which is final, although no caller closed it.
 *
 * Reads the private `manuallyClosing`: nothing public shows whether the owner of a client has closed it.
 * `test/adapters/ioredis-internals.test.ts` fails when ioredis changes it.
 * @returns whether that has happened, and how to stop watching for it
 */
export function watchForEnd(client: IoredisLike): { hasEnded: () => boolean; stop: () => void } {
  if (!client.options.failoverDetector) return { hasEnded: () => false, stop: () => {} }
  let isConnecting = client.status === 'connecting'
  const onConnecting = (): void => {
    isConnecting = true
  }
  const onClose = (): void => {
    isConnecting = false
  }
  const stops = [listenTogether(client, 'connecting', onConnecting), listenTogether(client, 'close', onClose)]
  return {
    hasEnded() {
      return client.status === 'end' && isConnecting && !isClosing(client)
    },
    stop() {
      for (const stop of stops) stop()
    },
  }
}

/** Whether `disconnect()` or `quit()` was called and the connection has not ended yet. Reads the private `manuallyClosing`. */
export function isClosing(client: IoredisLike): boolean {
  return (client as { readonly manuallyClosing?: boolean }).manuallyClosing === true
}

/** Ends a client unless it has ended: a second `disconnect` would leave a timer that keeps the process alive. */
export function end(client: IoredisLike): void {
  if (client.status !== 'close' && client.status !== 'end') client.disconnect()
}

export function isReplyError(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  // The name is that of its class, which may be minified: then the form of the message tells. Proxies have other forms.
  return error.name === 'ReplyError' || /^[A-Z]{3,} /.test(error.message)
}
