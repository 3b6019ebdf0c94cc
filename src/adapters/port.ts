/**
 * Everything that Holdfast needs from Redis. An adapter implements it with one client library, and nothing else knows
 * that library. Adapters open connections of their own, which the user's SELECT or MULTI does not touch; only valkey-glide
 * may share the user's, and then refuses replies from another database.
 *
 * `send` may leave a promise pending forever, or send a command twice after a reconnect: callers allow for both, with
 * their own timeout and with idempotent scripts.
 */
export interface RedisPort {
  /** Whether keys are spread over several servers by their slots. Then channels are subscribed to in both ways. */
  readonly isCluster?: boolean

  /** Whether the keys of all names are certainly on one server. Absent: there may be a proxy in front of several. */
  readonly isOneServer?: boolean

  /** Whether there are messages. Absent: yes. If not, `subscribe` is never called, and who waits polls. */
  readonly hasMessages?: boolean

  /** Opens the connection, which the first command would do otherwise. Absent: it is open, or opens by itself. */
  open?(): Promise<unknown>

  /** Sends one command to the server that owns `key`. Rejects with the client's own error. */
  send(command: readonly string[], key: string): Promise<unknown>

  /**
   * Whether an error that `send` rejected with is an error reply of Redis, so that the command certainly did not run.
   */
  isErrorReply(error: unknown): boolean

  /** Whether there may be replicas, one of which takes over when the server fails. */
  readonly isReplicated?: boolean

  /**
   * Waits at most `timeoutMs` until the replicas of the server that owns `key` acknowledge the writes of our
   * connection there. Absent: they cannot be asked.
   */
  acknowledge?(key: string, timeoutMs: number): Promise<Acknowledgement>

  /**
   * Waits at most `timeoutMs` until the server that owns `key` has fsynced the writes of our connection there to
   * its AOF. Absent: it cannot be asked.
   */
  fsynced?(key: string, timeoutMs: number): Promise<Fsync>

  /**
   * Subscribes to a channel, in a cluster also as a sharded channel; at most one listener per channel. Resolves when
   * Redis has confirmed. After a reconnect the adapter subscribes again by itself, and reports by `events` that the
   * subscription was lost and that it is back.
   */
  subscribe(channel: string, onMessage: (message: string) => void): Promise<void>

  /** Sends PING to the server, in a cluster to none. Absent: it cannot be pinged. */
  ping?(): Promise<unknown>

  /** Sends PING on each subscriber connection. Absent: they cannot be pinged. */
  pingListener?(): Promise<unknown>

  /** In a cluster the server that owns `key`; undefined if that is not known yet. */
  serverOf?(key: string): string | undefined

  /** In a cluster the addresses of all masters, for `sendTo`. Absent: there is one server. */
  masters?(): Promise<readonly string[]>

  /** In a cluster sends one command to the master with this address. */
  sendTo?(master: string, command: readonly string[]): Promise<unknown>

  /** Unsubscribes. Never rejects because a connection is down. */
  unsubscribe(channel: string): Promise<void>

  /** The error because of which there is no connection right now. Absent: unknown. */
  readonly connectionError?: unknown

  /** Set once, by the client that uses this port. */
  listen(events: PortEvents): void

  /** Ends the connections that this port opened, and nothing else. */
  close(): Promise<void>
}

/** The acknowledgements of the replicas of one server. */
export interface Acknowledgement {
  /** How many were connected. */
  readonly replicas: number
  /** How many have everything that was written on our connection. */
  readonly acknowledged: number
  /** Why the server itself is not trusted. Then `acknowledged` is 0. */
  readonly why?: string
  /** The run of the server, if another one has replaced it for good: the client must leave it. */
  readonly replacedRun?: string | undefined
}

/**
 * `late`: not in time. `premature`: this server confirms writes that are not fsynced yet, so its reply is worthless.
 */
export type Fsync = 'fsynced' | 'late' | 'premature'

export interface PortEvents {
  /**
   * Whether `acknowledge` or `fsynced` may be called, so that the port must know which connection carried which
   * command; default true.
   */
  readonly confirmsGrants?: boolean | undefined
  /** The command connection was lost and is back: leases may be gone. */
  reconnected(): void
  /** The subscriber connection of this channel was lost: no messages until `resubscribed`. May be called repeatedly. */
  subscriptionLost?(channel: string): void
  /**
   * The channel is subscribed to again: messages may have been missed.
   * @param refusal  the error reply of Redis if it refuses the channel, which then stays unsubscribed
   */
  resubscribed(channel: string, refusal?: unknown): void
  /** A warning for the owner of the client. */
  warning?(warning: Error): void
}

/**
 * Subscribes to channels again after a reconnect, one by one: Redis refuses a SUBSCRIBE as a whole, so one forbidden
 * channel would prevent the subscription to all others.
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
