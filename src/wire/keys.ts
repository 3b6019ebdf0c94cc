/**
 * Every Redis key, channel and message. Those of Redisson are byte for byte its own (`RedissonObject.prefixName`); those
 * of Holdfast alone begin with `holdfast_`.
 *
 * A key that contains `{` anywhere is used as it is; any other is put in braces, so that the key and the channel of a lock
 * share a cluster slot. The rule looks at nothing else: not at `}`, not at order, not at emptiness.
 */
function tagged(key: string): string {
  return key.includes('{') ? key : `{${key}}`
}

/** The channel of a plain lock's waiters. */
export function lockChannel(key: string): string {
  return `redisson_lock__channel:${tagged(key)}`
}

/** Lock channel message: "it was released, try again" (`LockPubSub.UNLOCK_MESSAGE`). */
export const UNLOCK_MESSAGE = '0'

/** Lock channel message: "a write lock was released, all readers try again" (`LockPubSub.READ_UNLOCK_MESSAGE`). */
export const WRITE_UNLOCK_MESSAGE = '1'

/** The end of the holder of a write lock (`RedissonWriteLock.getLockName`); that of a read lock has none. */
export const WRITE_SUFFIX = ':write'

/** Whether a holder of a read-write lock is a writer. */
export function isWriter(holder: string): boolean {
  return holder.endsWith(WRITE_SUFFIX)
}

/**
 * The turn queue of a lock (a list): the tickets of waiting clients, the next one first. Holdfast only. Unlike the channel
 * it differs between the locks `a` and `{a}`.
 */
export function turnQueueKey(key: string): string {
  return `holdfast_turn_queue:${tagged(key)}${key.includes('{') ? ':' : ''}`
}

/**
 * The waiters of an ordered lock, by their places (a sorted set). Holdfast only. It needs no right but those to the turn queue.
 */
export function orderedQueue(key: string): string {
  return `${turnQueueKey(key)}:places`
}

/** How many places each priority has in that set. Redis orders by numbers, so a higher priority has lower ones. */
const PLACES = 2 ** 42

/** The priority of a waiter at this place. */
export function priorityAt(place: number): number {
  return 0 - Math.floor(place / PLACES)
}

/** Until when each of their clients is believed to be alive (a sorted set, epoch ms). Holdfast only. */
export function orderedClients(key: string): string {
  return `${turnQueueKey(key)}:clients`
}

/** The keys of an ordered queue, in the order in which every script has them. */
export function queueKeys(key: string): [queue: string, clients: string] {
  return [orderedQueue(key), orderedClients(key)]
}

/** With a client's id appended, the channel on which that client receives its turns. Holdfast only. */
export const INBOX_PREFIX = 'holdfast_inbox:'

/** The fair lock's waiting holders, the next one first (a list). */
export function fairQueue(key: string): string {
  return `redisson_lock_queue:${tagged(key)}`
}

/** Until when each of them is believed to be alive (a sorted set, epoch ms). */
export function fairDeadlines(key: string): string {
  return `redisson_lock_timeout:${tagged(key)}`
}

/** With a holder appended, the channel of one waiter of a fair lock. */
export function fairChannelPrefix(key: string): string {
  return `${lockChannel(key)}:`
}

/** The channel of a read or write lock's waiters. */
export function readWriteChannel(key: string): string {
  return `redisson_rwlock:${tagged(key)}`
}

/** The key of a read hold is this, the holder, `:rwlock_timeout:` and a number from 1 to its hold count. */
export function readHoldPrefix(key: string): string {
  return `${tagged(key)}:`
}

/** The counter of fencing tokens. */
export function fencingTokenKey(key: string): string {
  return `redisson_lock_token:${tagged(key)}`
}

/** The channel of waiters for permits, of both kinds of semaphores. Message: how many permits are available. */
export function semaphoreChannel(key: string): string {
  return `redisson_sc:${tagged(key)}`
}

/** Which permits are held, and until when (a sorted set, epoch ms). */
export function permitLeases(key: string): string {
  return `${tagged(key)}:timeout`
}

/** The channel of a latch's waiters. Unlike in all others, any name is put in braces. */
export function latchChannel(key: string): string {
  return `redisson_countdownlatch__channel__{${key}}`
}

/** Latch channel message: "it is open" (`CountDownLatchPubSub.ZERO_COUNT_MESSAGE`). */
export const LATCH_OPEN_MESSAGE = '0'

/** Latch channel message: "there is a new count" (`CountDownLatchPubSub.NEW_COUNT_MESSAGE`). */
export const LATCH_CLOSED_MESSAGE = '1'

/**
 * Which semaphore of this name exists, so that permits taken from an earlier one are not returned to it. Holdfast only.
 * Kept for a day, or until the semaphore expires.
 */
export function generationKey(key: string): string {
  return `holdfast_generation:${tagged(key)}`
}

/**
 * The stored replies of a client's operations on a semaphore or latch, under their idempotency keys (a hash), for as long
 * as copies of a command may arrive. Holdfast only.
 */
export function idempotencyKey(key: string, clientId: string): string {
  return `holdfast_idempotency:${tagged(key)}:${clientId}`
}

/** With 128 random bits in hexadecimal appended, the channel on which a client receives the replies to its requests. */
export const REPLY_PREFIX = 'holdfast_reply:'

/**
 * A client that only watches a lock listens here as well as on the lock's channel, so that it is not counted as a waiter. The
 * name begins like the channels for replies, so that it needs no right of its own.
 */
export function watchChannel(channel: string): string {
  return `${REPLY_PREFIX}watch:${channel}`
}

/** How a client describes itself (JSON), with a TTL. Readers GET it by the client's id. Holdfast only. */
export function clientRecordKey(clientId: string): string {
  return CLIENT_PREFIX + clientId
}

export const CLIENT_PREFIX = 'holdfast_client:'

/** By whom and why a holder of a lock is to be interrupted (JSON), for ten minutes. Holdfast only. */
export function forcedKey(key: string, holder: string): string {
  return `holdfast_forced:${tagged(key)}:${holder}`
}

/** The newest 1,000 forced releases (a list of JSON). Holdfast only. */
export const AUDIT_KEY = 'holdfast_audit'

/** The jobs that `holdfast run` has recorded, by when their records expire (a sorted set, epoch ms). Holdfast only. */
export const JOBS_KEY = 'holdfast_jobs'

/** The last run of a job (a hash), with a TTL. All are in the slot of `JOBS_KEY`, to be written together. Holdfast only. */
export function jobKey(name: string): string {
  return `holdfast_job:{${JOBS_KEY}}:${name}`
}

/** The names of the locks of `client.locks`, by when their entries expire (a sorted set, epoch ms). Holdfast only. */
export const WEB_LOCKS_KEY = 'holdfast_web_locks'
