/** What Holdfast uses of an ioredis client (5.4 or later). Declared by hand, so that no type needs ioredis installed. */
export interface IoredisLike {
  readonly status: string
  readonly isCluster?: boolean
  readonly options: {
    readonly keyPrefix?: string | undefined
    readonly sentinels?: readonly unknown[] | null | undefined
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
 * How long ioredis waits for a connection that we end, ms. It waits for one that is down already, too, and keeps the process
 * for as long; its default is 2 s.
 */
export const DISCONNECT_TIMEOUT_MS = 500

/**
 * For the duplicate that listens: it must come back by itself whatever the user's own client does about reconnects, and
 * be left alone while nothing is said on its channels.
 */
export const SUBSCRIBER_OPTIONS = {
  lazyConnect: false,
  enableOfflineQueue: true,
  autoResubscribe: false, // we do it, to know when it is done
  maxRetriesPerRequest: null,
  retryStrategy: (attempt: number) => Math.min(attempt * 50, 1_000),
  disconnectTimeout: DISCONNECT_TIMEOUT_MS,
  commandTimeout: undefined,
  socketTimeout: undefined,
}

/** Ended twice, ioredis would leave a timer that keeps the process. */
export function end(client: IoredisLike): void {
  if (client.status !== 'close' && client.status !== 'end') client.disconnect()
}

export function isReplyError(error: unknown): boolean {
  return error instanceof Error && error.name === 'ReplyError'
}
