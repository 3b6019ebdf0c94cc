/**
 * Every Redis key, channel and message shared with Redisson (its `RedissonObject.prefixName`).
 *
 * A name that contains `{` anywhere is used as it is, any other is put in braces, so that key and channel of one lock
 * share a cluster slot. The rule looks at nothing else: not at `}`, not at order, not at emptiness.
 */
function tagged(name: string): string {
  return name.includes('{') ? name : `{${name}}`
}

/** Where waiters for a plain lock listen. */
export function lockChannel(lockName: string): string {
  return `redisson_lock__channel:${tagged(lockName)}`
}

/** Lock channel message: "it was released, try again" (`LockPubSub.UNLOCK_MESSAGE`). */
export const UNLOCK_MESSAGE = '0'

/** Lock channel message: "a write lock was released, all readers try again" (`LockPubSub.READ_UNLOCK_MESSAGE`). */
export const WRITE_UNLOCK_MESSAGE = '1'

/**
 * The clients that wait for a plain lock, each under a ticket, first come first (a list). Ours alone, and unlike the channel
 * one for each lock: `a` and `{a}` have different ones.
 */
export function waitersKey(lockName: string): string {
  return `holdfast_waiters:${tagged(lockName)}${lockName.includes('{') ? ':' : ''}`
}

/** Where one client hears what is for it alone: this, followed by its id. Ours alone. */
export const INBOX_PREFIX = 'holdfast_inbox:'

/** The fair lock's waiting holders, first come first (a list). */
export function fairQueue(lockName: string): string {
  return `redisson_lock_queue:${tagged(lockName)}`
}

/** Until when each of them is believed to be alive (a sorted set, epoch ms). */
export function fairDeadlines(lockName: string): string {
  return `redisson_lock_timeout:${tagged(lockName)}`
}

/** A fair lock wakes one waiter: on this, followed by its holder. */
export function fairChannelPrefix(lockName: string): string {
  return `${lockChannel(lockName)}:`
}

/** Where waiters for a read or write lock listen. */
export function readWriteChannel(lockName: string): string {
  return `redisson_rwlock:${tagged(lockName)}`
}

/** Each read hold has a key of its own: this, the holder, `:rwlock_timeout:` and a number from 1 to its hold count. */
export function readHoldPrefix(lockName: string): string {
  return `${tagged(lockName)}:`
}

/** The counter of fencing tokens. */
export function fencingTokenKey(lockName: string): string {
  return `redisson_lock_token:${tagged(lockName)}`
}

/** Where waiters for permits listen, of both kinds of semaphores. Message: how many permits there are. */
export function semaphoreChannel(name: string): string {
  return `redisson_sc:${tagged(name)}`
}

/** Which permits are held, and until when (a sorted set, epoch ms). */
export function permitLeases(name: string): string {
  return `${tagged(name)}:timeout`
}

/** Where waiters for a latch listen. Unlike all others it has braces around any name. */
export function latchChannel(name: string): string {
  return `redisson_countdownlatch__channel__{${name}}`
}

/** Latch channel message: "it is open" (`CountDownLatchPubSub.ZERO_COUNT_MESSAGE`). */
export const LATCH_OPEN_MESSAGE = '0'

/** Latch channel message: "there is a new count" (`CountDownLatchPubSub.NEW_COUNT_MESSAGE`). */
export const LATCH_CLOSED_MESSAGE = '1'

/**
 * Which semaphore of this name it is, for those who took permits from an earlier one. Ours alone: kept for a day, or for
 * the expiry of the semaphore.
 */
export function generationKey(name: string): string {
  return `holdfast_generation:${tagged(name)}`
}

/**
 * What the operations of a client on a counter replied, for as long as a copy of them may come. Ours alone: Redisson has nothing of
 * the kind for counters.
 */
export function receiptsKey(name: string, clientId: string): string {
  return `holdfast_receipts:${tagged(name)}:${clientId}`
}
