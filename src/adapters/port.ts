/**
 * All that Holdfast asks of Redis. An adapter maps it onto one client library; nothing else knows that library.
 *
 * `send` may leave a promise unsettled for ever or send a command twice after a reconnect: both are allowed for by the
 * callers (their own time-out, scripts that may run twice).
 */
export interface RedisPort {
  /** Whether keys are spread over several servers by their slots. Then channels are listened on both ways. */
  readonly isCluster?: boolean

  /** Send one command to the server that owns `key`. Rejects with the client's own error. */
  send(command: readonly string[], key: string): Promise<unknown>

  /** Whether an error that `send` rejected with is Redis' own reply, so that the command surely did not run. */
  isErrorReply(error: unknown): boolean

  /** Whether there may be replicas, one of which takes over when the server fails. */
  readonly isReplicated?: boolean

  /**
   * Let the replicas of the server that owns `key` acknowledge what was written there on our connection, for `timeoutMs` at
   * most. Absent: they can not be asked.
   */
  acknowledge?(key: string, timeoutMs: number): Promise<Acknowledgement>

  /**
   * Whether the server that owns `key` has fsynced to its AOF what was written there on our connection, waiting for
   * `timeoutMs` at most. Absent: it cannot be asked.
   */
  fsynced?(key: string, timeoutMs: number): Promise<Fsync>

  /**
   * Listen on a channel, in a cluster as a sharded channel, too; at most one listener a channel. Resolves when Redis confirmed. The adapter subscribes again by
   * itself after a reconnect. Until then, and when it is done, it says so by `events`.
   */
  subscribe(channel: string, onMessage: (message: string) => void): Promise<void>

  /** PING to the server, in a cluster to none. Absent: it cannot be asked for a sign of life. */
  ping?(): Promise<unknown>

  /** PING by each connection that listens. Absent: they cannot be asked. */
  pingListener?(): Promise<unknown>

  /** In a cluster the server that owns `key`; undefined if that is not known yet. */
  serverOf?(key: string): string | undefined

  /** Stop listening. Never rejects for want of a connection. */
  unsubscribe(channel: string): Promise<void>

  /** Set once, by the client that uses this port. */
  listen(events: PortEvents): void

  /** End the connections that this port opened, and nothing else. */
  close(): Promise<void>
}

/** What the replicas of one server said. */
export interface Acknowledgement {
  /** How many were connected. */
  readonly replicas: number
  /** How many have all that was written on our connection. */
  readonly acknowledged: number
  /** Why the server itself is not to be trusted. Then `acknowledged` is 0. */
  readonly why?: string
  /** Another server has taken its place for good: it is to be left. */
  readonly isReplaced?: boolean
}

/** `late`: not in time. `premature`: this server confirms what is not fsynced yet, so that its word is worth nothing. */
export type Fsync = 'fsynced' | 'late' | 'premature'

export interface PortEvents {
  /**
   * Whether `acknowledge` or `fsynced` may be called, so that the port has to know what went by which connection; default
   * true.
   */
  readonly confirmsGrants?: boolean | undefined
  /** The command connection was lost and is there again: what was held may be gone. */
  reconnected(): void
  /** The connection that listens on this channel was lost: nothing is heard until `resubscribed`. May come repeatedly. */
  subscriptionLost?(channel: string): void
  /**
   * The channel is listened on again: messages may have been missed.
   * @param refusal  what Redis replied if it refuses the channel, which then is not heard any more
   */
  resubscribed(channel: string, refusal?: unknown): void
  /** Something that the owner of the client should know. */
  warning?(warning: Error): void
}

/**
 * Subscribe to channels again after a reconnect, one by one: Redis refuses a SUBSCRIBE as a whole, and one forbidden channel
 * must not make the others deaf.
 * @param onSettled  called for each channel that Redis confirmed or refused; the others were lost with their connection
 */
export function subscribeEach(
  channels: Iterable<string>,
  subscribe: (channel: string) => Promise<unknown>,
  isErrorReply: (error: unknown) => boolean,
  onSettled: (channel: string, refusal?: unknown) => void,
): void {
  for (const channel of [...channels]) {
    subscribe(channel).then(
      () => onSettled(channel),
      (error: unknown) => {
        if (isErrorReply(error)) onSettled(channel, error)
      },
    )
  }
}
