/**
 * What Holdfast uses of an ioredis client (5.4 or later). Declared by structure, so that our types do not need ioredis.
 */
export interface IoredisLike {
  readonly status: string
  readonly isCluster?: boolean
  /** Not on a Cluster: `normal`, `subscriber` or `monitor`. */
  readonly mode?: string | undefined
  /** The socket. Not on a Cluster. */
  readonly stream?: { readonly errored?: Error | null }
  readonly options: {
    readonly keyPrefix?: string | undefined
    readonly sentinels?: readonly unknown[] | null | undefined
    readonly failoverDetector?: boolean | undefined
    /** Only on a Cluster, ms. */
    readonly slotsRefreshInterval?: number | undefined
  }
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

/**
 * How long ioredis waits for a connection that we end, ms. It also waits for one that is already down, and keeps the
 * process alive for as long; its default is 2 s.
 */
export const DISCONNECT_TIMEOUT_MS = 500

/**
 * For the duplicate that subscribes: it must reconnect whatever the user's own client does about reconnects, and must
 * not be closed while its channels are silent.
 */
export const SUBSCRIBER_OPTIONS = {
  lazyConnect: false,
  enableOfflineQueue: true,
  autoResubscribe: false, // we resubscribe ourselves, to know when it is done
  maxRetriesPerRequest: null,
  retryStrategy: (attempt: number) => Math.min(attempt * 50, 1_000),
  disconnectTimeout: DISCONNECT_TIMEOUT_MS,
  commandTimeout: undefined,
  socketTimeout: undefined,
  failoverDetector: false, // it can end a client for good; see `watchForEnd`
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
  client.on('connecting', onConnecting)
  client.on('close', onClose)
  return {
    hasEnded() {
      const { manuallyClosing } = client as { readonly manuallyClosing?: boolean } // by `disconnect()` or `quit()`
      return client.status === 'end' && isConnecting && !manuallyClosing
    },
    stop() {
      client.off('connecting', onConnecting)
      client.off('close', onClose)
    },
  }
}

/** Ends a client unless it has ended: a second `disconnect` would leave a timer that keeps the process alive. */
export function end(client: IoredisLike): void {
  if (client.status !== 'close' && client.status !== 'end') client.disconnect()
}

/** Also how ioredis rejects commands, which it does not send, while the user subscribes on the same client. */
const IN_SUBSCRIBER_MODE = /^Connection in subscriber mode/

export function isReplyError(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  // The name is that of its class, which may be minified: then the form of the message tells. Proxies have other forms.
  return error.name === 'ReplyError' || /^[A-Z]{3,} /.test(error.message) || IN_SUBSCRIBER_MODE.test(error.message)
}
